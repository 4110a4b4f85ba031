//! Rows of `auth.users`, `auth.identities` and `auth.mfa_factors`: read here, paginated in [`mod@list`], written in
//! [`mod@write`], created in [`mod@create`].
//!
//! Users write these tables, too. Seeds leave token columns and metadata NULL, which is read as `''` and `{}` (auth.md §4.1).
//! Triggers change rows on insert, so a new row is read again before it is returned.

pub(crate) mod address;
pub(crate) mod body;
pub(crate) mod create;
pub(crate) mod list;
mod write;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::database::{column, json_column};
use crate::emails::mailer::Profile;
use crate::error::AuthError;
pub(crate) use write::{
    Metadata, add_provider, clear_unconfirmed, confirm_email, confirm_phone, find_identity, insert_identity,
    merge_metadata, prove_email, request_email_change, request_phone_change, set_email, set_first_email,
    set_invited, set_password, set_phone, unlink, update_identity,
};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// The columns of [`User`], from `auth.users` as `u`. `banned_until` may be `infinity`, which `Timestamp` cannot represent.
macro_rules! user_columns {
    () => {
        "u.id, coalesce(u.aud, '') as aud, coalesce(u.role, '') as role, \
         coalesce(u.email, '') as email, coalesce(u.phone, '') as phone, u.encrypted_password, \
         u.email_confirmed_at, u.phone_confirmed_at, u.confirmed_at, u.invited_at, u.confirmation_sent_at, \
         u.recovery_sent_at, coalesce(u.email_change, '') as email_change, u.email_change_sent_at, \
         coalesce(u.phone_change, '') as phone_change, u.phone_change_sent_at, \
         u.reauthentication_sent_at, \
         u.last_sign_in_at, u.raw_app_meta_data, u.raw_user_meta_data, u.created_at, u.updated_at, \
         case when isfinite(u.banned_until) then u.banned_until \
         when u.banned_until = 'infinity' then timestamptz '9999-12-01' end as banned_until, u.deleted_at, u.is_sso_user, \
         u.is_anonymous"
    };
}
pub(crate) use user_columns;

/// Identities and factors of the user `u` as JSON, so that one statement reads a whole account.
macro_rules! belongings {
    () => {
        "(select coalesce(json_agg(json_build_object('id', i.id, 'provider_id', i.provider_id, 'user_id', i.user_id, \
         'identity_data', i.identity_data, 'provider', i.provider, 'last_sign_in_at', i.last_sign_in_at, \
         'created_at', i.created_at, 'updated_at', i.updated_at, 'email', i.email) order by i.created_at, i.id), '[]') \
         from auth.identities i where i.user_id = u.id) as identities, \
         (select coalesce(json_agg(json_build_object('id', f.id, 'friendly_name', f.friendly_name, \
         'factor_type', f.factor_type, 'status', f.status, 'phone', f.phone, 'created_at', f.created_at, \
         'updated_at', f.updated_at, 'last_challenged_at', f.last_challenged_at) order by f.created_at, f.id), '[]') \
         from auth.mfa_factors f where f.user_id = u.id) as factors"
    };
}
pub(crate) use belongings;

/// A row of `auth.users`, without unused columns. No `Debug`, so that no log can show the password hash.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) id: Uuid,
    pub(crate) aud: String,
    pub(crate) role: String,
    /// `""` if there is none, like `phone`.
    pub(crate) email: String,
    pub(crate) phone: String,
    /// An empty column is read as `None`.
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

    /// A user with only an id.
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

    /// The data that e-mails to this user can contain.
    pub(crate) fn profile(&self) -> Profile<'_> {
        Profile { email: &self.email, phone: &self.phone, metadata: &self.user_metadata }
    }

    pub(crate) fn is_banned(&self, now: Timestamp) -> bool {
        self.banned_until.is_some_and(|until| until > now)
    }
}

/// A row of `auth.identities`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Identity {
    pub(crate) id: Uuid,
    pub(crate) provider_id: String,
    pub(crate) user_id: Uuid,
    #[serde(deserialize_with = "object_or_empty")]
    pub(crate) identity_data: Object,
    pub(crate) provider: String,
    pub(crate) last_sign_in_at: Option<Timestamp>,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) email: Option<String>,
}

/// A row of `auth.mfa_factors`, without its secret.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Factor {
    pub(crate) id: Uuid,
    pub(crate) friendly_name: Option<String>,
    pub(crate) factor_type: String,
    pub(crate) status: String,
    pub(crate) phone: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) last_challenged_at: Option<Timestamp>,
}

impl Factor {
    pub(crate) fn is_verified(&self) -> bool {
        self.status == "verified"
    }
}

/// A user with identities and factors.
#[derive(Clone)]
pub(crate) struct Account {
    pub(crate) user: User,
    pub(crate) identities: Vec<Identity>,
    pub(crate) factors: Vec<Factor>,
}

impl Account {
    /// From a row with `user_columns!` and `belongings!`.
    pub(crate) fn from_row(row: &Row) -> Result<Self, AuthError> {
        Self::with_user(User::from_row(row)?, row)
    }

    fn with_user(user: User, row: &Row) -> Result<Self, AuthError> {
        Ok(Self { user, identities: json_column(row, "identities")?, factors: json_column(row, "factors")? })
    }

    pub(crate) fn has_verified_factor(&self) -> bool {
        self.factors.iter().any(Factor::is_verified)
    }
}

const BY_ID: &str = concat!("select ", user_columns!(), " from auth.users u where u.id = $1");

const ACCOUNT: &str =
    concat!("select ", user_columns!(), ", ", belongings!(), " from auth.users u where u.id = $1");

// Seeds insert addresses in any case. If rows differ only in case, prefer the exact match.
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

/// Reads a row that this transaction has written.
pub(crate) async fn read_back(tx: &Tx, id: Uuid) -> Result<User, AuthError> {
    find(tx, id).await?.ok_or_else(row_missing)
}

pub(crate) fn row_missing() -> AuthError {
    AuthError::Internal(
        "the user row just written does not exist: a trigger on auth.users discards rows".to_owned(),
    )
}

pub(crate) async fn find(tx: &Tx, id: Uuid) -> Result<Option<User>, AuthError> {
    let row = tx.query_opt(BY_ID, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// Finds a user and locks the row until the transaction ends.
pub(crate) async fn lock(tx: &Tx, id: Uuid) -> Result<Option<User>, AuthError> {
    const LOCK: &str =
        concat!("select ", user_columns!(), " from auth.users u where u.id = $1 for no key update");
    let row = tx.query_opt(LOCK, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// As [`find_by_email`], and locks the row until the transaction ends.
pub(crate) async fn lock_by_email(tx: &Tx, email: &str, audience: &str) -> Result<Option<User>, AuthError> {
    match find_by_email(tx, email, audience).await? {
        // Read again: the previous holder of the lock may have changed the row.
        Some(user) => lock(tx, user.id).await,
        None => Ok(None),
    }
}

/// The user with an e-mail address within an audience. Excludes single sign-on users.
pub(crate) async fn find_by_email(tx: &Tx, email: &str, audience: &str) -> Result<Option<User>, AuthError> {
    let email = email.to_lowercase();
    let row = tx.query_opt(BY_EMAIL, &[&email, &audience]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// All users with an e-mail address within an audience, at most two. Seeds can insert addresses that differ only in case.
pub(crate) async fn lock_all_by_email(tx: &Tx, email: &str, audience: &str) -> Result<Vec<User>, AuthError> {
    const LOCK: &str = concat!(
        "select ",
        user_columns!(),
        " from auth.users u where lower(u.email) = $1 and u.is_sso_user = false and coalesce(u.aud, '') = $2 \
         limit 2 for no key update"
    );
    let email = email.to_lowercase();
    let rows = tx.query(LOCK, &[&email, &audience]).await.map_err(AuthError::querying)?;
    rows.iter().map(User::from_row).collect()
}

/// The user with a phone number (digits only) within an audience.
pub(crate) async fn find_by_phone(tx: &Tx, phone: &str, audience: &str) -> Result<Option<User>, AuthError> {
    let row = tx.query_opt(BY_PHONE, &[&phone, &audience]).await.map_err(AuthError::querying)?;
    row.as_ref().map(User::from_row).transpose()
}

/// As [`find_by_phone`], and locks the row until the transaction ends.
pub(crate) async fn lock_by_phone(tx: &Tx, phone: &str, audience: &str) -> Result<Option<User>, AuthError> {
    match find_by_phone(tx, phone, audience).await? {
        // Read again: the previous holder of the lock may have changed the row.
        Some(user) => lock(tx, user.id).await,
        None => Ok(None),
    }
}

/// Loads the identities and factors of a user.
pub(crate) async fn complete(tx: &Tx, user: User) -> Result<Account, AuthError> {
    const BELONGINGS: &str = concat!("select ", belongings!(), " from (select $1::uuid as id) u");
    let row = tx.query_one(BELONGINGS, &[&user.id]).await.map_err(AuthError::querying)?;
    Account::with_user(user, &row)
}

/// The account with an id.
pub(crate) async fn account(tx: &Tx, id: Uuid) -> Result<Option<Account>, AuthError> {
    let row = tx.query_opt(ACCOUNT, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(Account::from_row).transpose()
}

fn object_or_empty<'de, D: Deserializer<'de>>(value: D) -> Result<Object, D::Error> {
    Option::deserialize(value).map(object)
}

fn object(value: Option<Value>) -> Object {
    match value {
        Some(Value::Object(object)) => object,
        Some(_) | None => Object::new(),
    }
}
