//! `auth.users`, `auth.identities` and `auth.mfa_factors` as rows: how they are read here, how they are written in
//! [`mod@write`]. What a change means for sessions is [`crate::sessions`]; what of it a client sees is [`crate::wire`].
//!
//! Rows are also written by people: seeds leave token columns and metadata NULL, which reads as `''` and `{}` here
//! (auth.md §4.1), and triggers change what we have just inserted, so a new row is read again before it is shown.

mod write;

use basalt_core::pool::Tx;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use uuid::Uuid;

use crate::error::AuthError;
use crate::pagination::{Direction, Page};
pub(crate) use write::{
    NewUser, confirm_email, confirm_phone, confirmation_sent, insert, insert_identity, merge_app_metadata,
    merge_user_metadata, provider_metadata, request_email_change, set_email, set_password, set_phone,
    sign_up_data,
};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The columns of [`User`], of `auth.users` as `u`. `banned_until` may be `infinity`, which no clock can hold.
macro_rules! user_columns {
    () => {
        "u.id, coalesce(u.aud, '') as aud, coalesce(u.role, '') as role, \
         coalesce(u.email, '') as email, coalesce(u.phone, '') as phone, u.encrypted_password, \
         u.email_confirmed_at, u.phone_confirmed_at, u.confirmed_at, u.invited_at, u.confirmation_sent_at, \
         u.recovery_sent_at, coalesce(u.email_change, '') as email_change, u.email_change_sent_at, \
         coalesce(u.phone_change, '') as phone_change, u.phone_change_sent_at, \
         coalesce(u.reauthentication_token, '') as reauthentication_token, u.reauthentication_sent_at, \
         u.last_sign_in_at, u.raw_app_meta_data, u.raw_user_meta_data, u.created_at, u.updated_at, \
         case when isfinite(u.banned_until) then u.banned_until \
         when u.banned_until = 'infinity' then timestamptz '9999-12-01' end as banned_until, u.deleted_at, u.is_sso_user, \
         u.is_anonymous"
    };
}
pub(crate) use user_columns;

/// Which users a list shows: `$1` audience, `$2` a LIKE pattern or null.
macro_rules! listed {
    () => {
        "coalesce(u.aud, '') = $1 and ($2::text is null or u.email like $2 \
         or u.raw_user_meta_data ->> 'full_name' ilike $2)"
    };
}

/// A row of `auth.users`, as far as anything reads it.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) aud: String,
    pub(crate) role: String,
    /// `""` for none, like `phone`.
    pub(crate) email: String,
    pub(crate) phone: String,
    /// `None` for none; an empty column counts as none.
    pub(crate) encrypted_password: Option<String>,
    pub(crate) email_confirmed_at: Option<Timestamp>,
    pub(crate) phone_confirmed_at: Option<Timestamp>,
    pub(crate) confirmed_at: Option<Timestamp>,
    pub(crate) invited_at: Option<Timestamp>,
    pub(crate) confirmation_sent_at: Option<Timestamp>,
    pub(crate) recovery_sent_at: Option<Timestamp>,
    pub(crate) email_change: String,
    pub(crate) email_change_sent_at: Option<Timestamp>,
    pub(crate) phone_change: String,
    pub(crate) phone_change_sent_at: Option<Timestamp>,
    pub(crate) reauthentication_token: String,
    pub(crate) reauthentication_sent_at: Option<Timestamp>,
    pub(crate) last_sign_in_at: Option<Timestamp>,
    pub(crate) app_metadata: Object,
    pub(crate) user_metadata: Object,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) banned_until: Option<Timestamp>,
    pub(crate) deleted_at: Option<Timestamp>,
    pub(crate) is_sso_user: bool,
    pub(crate) is_anonymous: bool,
}

impl User {
    pub(crate) fn from_row(row: &Row) -> Result<Self, AuthError> {
        let password: Option<String> = column(row, "encrypted_password")?;
        Ok(Self {
            id: column(row, "id")?,
            aud: column(row, "aud")?,
            role: column(row, "role")?,
            email: column(row, "email")?,
            phone: column(row, "phone")?,
            encrypted_password: password.filter(|hash| !hash.is_empty()),
            email_confirmed_at: column(row, "email_confirmed_at")?,
            phone_confirmed_at: column(row, "phone_confirmed_at")?,
            confirmed_at: column(row, "confirmed_at")?,
            invited_at: column(row, "invited_at")?,
            confirmation_sent_at: column(row, "confirmation_sent_at")?,
            recovery_sent_at: column(row, "recovery_sent_at")?,
            email_change: column(row, "email_change")?,
            email_change_sent_at: column(row, "email_change_sent_at")?,
            phone_change: column(row, "phone_change")?,
            phone_change_sent_at: column(row, "phone_change_sent_at")?,
            reauthentication_token: column(row, "reauthentication_token")?,
            reauthentication_sent_at: column(row, "reauthentication_sent_at")?,
            last_sign_in_at: column(row, "last_sign_in_at")?,
            app_metadata: object(column(row, "raw_app_meta_data")?),
            user_metadata: object(column(row, "raw_user_meta_data")?),
            created_at: column(row, "created_at")?,
            updated_at: column(row, "updated_at")?,
            banned_until: column(row, "banned_until")?,
            deleted_at: column(row, "deleted_at")?,
            is_sso_user: column(row, "is_sso_user")?,
            is_anonymous: column(row, "is_anonymous")?,
        })
    }

    /// A user of nothing but an id.
    pub(crate) fn blank(id: Uuid, now: Timestamp) -> Self {
        Self {
            id,
            aud: String::new(),
            role: String::new(),
            email: String::new(),
            phone: String::new(),
            encrypted_password: None,
            email_confirmed_at: None,
            phone_confirmed_at: None,
            confirmed_at: None,
            invited_at: None,
            confirmation_sent_at: None,
            recovery_sent_at: None,
            email_change: String::new(),
            email_change_sent_at: None,
            phone_change: String::new(),
            phone_change_sent_at: None,
            reauthentication_token: String::new(),
            reauthentication_sent_at: None,
            last_sign_in_at: None,
            app_metadata: Object::new(),
            user_metadata: Object::new(),
            created_at: Some(now),
            updated_at: Some(now),
            banned_until: None,
            deleted_at: None,
            is_sso_user: false,
            is_anonymous: false,
        }
    }

    pub(crate) fn is_banned(&self, now: Timestamp) -> bool {
        self.banned_until.is_some_and(|until| until > now)
    }
}

/// A row of `auth.identities`.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) id: Uuid,
    pub(crate) provider_id: String,
    pub(crate) user_id: Uuid,
    pub(crate) identity_data: Object,
    pub(crate) provider: String,
    pub(crate) last_sign_in_at: Option<Timestamp>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) email: Option<String>,
}

/// A row of `auth.mfa_factors`, without its secret.
#[derive(Debug, Clone)]
pub(crate) struct Factor {
    pub(crate) id: Uuid,
    pub(crate) friendly_name: Option<String>,
    pub(crate) factor_type: String,
    pub(crate) status: String,
    pub(crate) phone: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// A user with what the API shows of them.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) identities: Vec<Identity>,
    pub(crate) factors: Vec<Factor>,
}

impl Account {
    pub(crate) fn has_verified_factor(&self) -> bool {
        self.factors.iter().any(|factor| factor.status == "verified")
    }
}

const BY_ID: &str = concat!("select ", user_columns!(), " from auth.users u where u.id = $1");

// Seeds insert addresses in any case; should two rows differ in nothing else, the exact one is meant.
const BY_EMAIL: &str = concat!(
    "select ",
    user_columns!(),
    " from auth.users u where lower(u.email) = $1 and u.is_sso_user = false and coalesce(u.aud, '') = $2 \
     order by u.email = $1 desc limit 1"
);

const BY_PHONE: &str = concat!(
    "select ",
    user_columns!(),
    " from auth.users u where u.phone = $1 and u.is_sso_user = false and coalesce(u.aud, '') = $2"
);

const IDENTITIES: &str = "\
select i.id, i.provider_id, i.user_id, i.identity_data, i.provider, i.last_sign_in_at, i.created_at, i.updated_at, i.email
from auth.identities i
where i.user_id = any($1)
order by i.created_at, i.id";

const FACTORS: &str = "\
select f.id, f.friendly_name, f.factor_type::text as factor_type, f.status::text as status, f.phone, f.created_at,
  f.updated_at
from auth.mfa_factors f
where f.user_id = $1
order by f.created_at, f.id";

pub(crate) async fn find(tx: &Tx, id: Uuid) -> Result<Option<User>, AuthError> {
    let row = tx.query_opt(BY_ID, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// The user of an e-mail address within an audience; users of single sign-on have no part in this.
pub(crate) async fn find_by_email(tx: &Tx, email: &str, audience: &str) -> Result<Option<User>, AuthError> {
    let email = email.to_lowercase();
    let row = tx.query_opt(BY_EMAIL, &[&email, &audience]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// The user of a phone number (digits only) within an audience.
pub(crate) async fn find_by_phone(tx: &Tx, phone: &str, audience: &str) -> Result<Option<User>, AuthError> {
    let row = tx.query_opt(BY_PHONE, &[&phone, &audience]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// A user's identities and factors, asked for together.
pub(crate) async fn complete(tx: &Tx, user: User) -> Result<Account, AuthError> {
    let (identities, factors) = tokio::try_join!(identities(tx, user.id), factors(tx, user.id))?;
    Ok(Account { user, identities, factors })
}

/// The whole account of an id.
pub(crate) async fn account(tx: &Tx, id: Uuid) -> Result<Option<Account>, AuthError> {
    let (user, identities, factors) = tokio::try_join!(find(tx, id), identities(tx, id), factors(tx, id))?;
    Ok(user.map(|user| Account { user, identities, factors }))
}

/// One page of an audience's users, with how many there are.
pub(crate) async fn list(
    tx: &Tx,
    audience: &str,
    filter: Option<&str>,
    page: &Page,
    direction: Direction,
) -> Result<(Vec<Account>, i64), AuthError> {
    const NEWEST: &str = concat!(
        "select ",
        user_columns!(),
        " from auth.users u where ",
        listed!(),
        " order by u.created_at desc nulls last, u.id limit $3 offset $4"
    );
    const OLDEST: &str = concat!(
        "select ",
        user_columns!(),
        " from auth.users u where ",
        listed!(),
        " order by u.created_at asc nulls last, u.id limit $3 offset $4"
    );
    const COUNT: &str = concat!("select count(*) as total from auth.users u where ", listed!());
    let statement = match direction {
        Direction::Ascending => OLDEST,
        Direction::Descending => NEWEST,
    };
    let rows = tx
        .query(statement, &[&audience, &filter, &page.limit(), &page.offset()])
        .await
        .map_err(AuthError::querying)?;
    let users = rows.iter().map(User::from_row).collect::<Result<Vec<_>, _>>()?;
    let count = tx.query_one(COUNT, &[&audience, &filter]).await.map_err(AuthError::querying)?;
    let ids: Vec<Uuid> = users.iter().map(|user| user.id).collect();
    let identities = identities_of(tx, &ids).await?;
    let accounts = users
        .into_iter()
        .map(|user| {
            let own = identities.iter().filter(|identity| identity.user_id == user.id).cloned().collect();
            Account { user, identities: own, factors: Vec::new() }
        })
        .collect();
    Ok((accounts, column(&count, "total")?))
}

async fn identities(tx: &Tx, user_id: Uuid) -> Result<Vec<Identity>, AuthError> {
    identities_of(tx, &[user_id]).await
}

async fn identities_of(tx: &Tx, user_ids: &[Uuid]) -> Result<Vec<Identity>, AuthError> {
    let rows = tx.query(IDENTITIES, &[&user_ids]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            Ok(Identity {
                id: column(row, "id")?,
                provider_id: column(row, "provider_id")?,
                user_id: column(row, "user_id")?,
                identity_data: object(column(row, "identity_data")?),
                provider: column(row, "provider")?,
                last_sign_in_at: column(row, "last_sign_in_at")?,
                created_at: column(row, "created_at")?,
                updated_at: column(row, "updated_at")?,
                email: column(row, "email")?,
            })
        })
        .collect()
}

async fn factors(tx: &Tx, user_id: Uuid) -> Result<Vec<Factor>, AuthError> {
    let rows = tx.query(FACTORS, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            Ok(Factor {
                id: column(row, "id")?,
                friendly_name: column(row, "friendly_name")?,
                factor_type: column(row, "factor_type")?,
                status: column(row, "status")?,
                phone: column(row, "phone")?,
                created_at: column(row, "created_at")?,
                updated_at: column(row, "updated_at")?,
            })
        })
        .collect()
}

/// One column of a row.
///
/// # Errors
/// The table is not as our migrations make it.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, AuthError> {
    row.try_get(name).map_err(|error| AuthError::Internal(format!("column {name}: {error}")))
}

fn object(value: Option<Value>) -> Object {
    match value {
        Some(Value::Object(object)) => object,
        Some(_) | None => Object::new(),
    }
}
