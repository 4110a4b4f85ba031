//! `basalt user list|delete|reset-password|…`. The rules are those of the routes; the audit log names the command line as actor.

use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_mail::Outbox;
use basalt_pg::pool::{ServicePool, Tx};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_postgres::Row;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::LIMIT;
use crate::audit::{self, Action};
use crate::codes::one_time::{self, CodeSettings, FlowType, TokenType};
use crate::config::AuthConfig;
use crate::database;
use crate::database::column;
use crate::error::AuthError;
use crate::flows::{admin, code_emails};
use crate::origin::Origin;
use crate::sessions::{self, Scope};
use crate::state::{Auth, Dependencies};
use crate::templates::kind::EmailKind;
use crate::users::address;
use crate::users::{self, User};

/// An account in the operator's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSummary {
    /// `auth.uid()`.
    pub id: Uuid,
    /// Empty if there is none.
    pub email: String,
    /// Digits; empty if there is none.
    pub phone: String,
    /// Creation time.
    pub created_at: Option<Timestamp>,
    /// Time of the first confirmation.
    pub confirmed_at: Option<Timestamp>,
    /// Time of the last sign-in.
    pub last_sign_in_at: Option<Timestamp>,
    /// End of the ban.
    pub banned_until: Option<Timestamp>,
    /// Whether it has neither address nor password.
    pub is_anonymous: bool,
    /// Number of sessions.
    pub sessions: i64,
}

/// Which accounts to list.
#[derive(Debug, Clone, Copy)]
pub struct ListAccounts<'a> {
    /// Substring of an address, phone number or full name.
    pub search: Option<&'a str>,
    /// Maximum number of accounts, newest first.
    pub limit: i64,
    /// Number of accounts to skip.
    pub offset: i64,
}

/// The operator's commands.
pub struct Operator(Box<Auth>);

macro_rules! summary {
    ($rest:literal) => {
        concat!(
            "select u.id, coalesce(u.email, '') as email, coalesce(u.phone, '') as phone, u.created_at, u.confirmed_at, \
             u.last_sign_in_at, case when isfinite(u.banned_until) then u.banned_until \
             when u.banned_until = 'infinity' then timestamptz '9999-12-01' end as banned_until, u.is_anonymous, \
             (select count(*) from auth.sessions s where s.user_id = u.id) as sessions \
             from auth.users u ",
            $rest
        )
    };
}

impl Operator {
    /// `pool` must act as `supabase_auth_admin`.
    ///
    /// # Errors
    /// The settings of password hashing are invalid.
    pub fn new(
        config: AuthConfig,
        pool: ServicePool,
        keys: Arc<Keys>,
        clock: Clock,
        outbox: Outbox,
    ) -> Result<Self, AuthError> {
        let (tracker, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let dependencies = Dependencies { pool, keys, clock, outbox, tracker, shutdown, development: false };
        Ok(Self(Box::new(Auth::new(config, dependencies)?)))
    }

    /// Accounts, newest first, and the total number.
    ///
    /// # Errors
    /// The database failed.
    pub async fn list(&self, wanted: &ListAccounts<'_>) -> Result<(Vec<AccountSummary>, i64), AuthError> {
        const LIST: &str = summary!(
            "where u.deleted_at is null and ($1::text is null or u.email ilike $1 or u.phone like $1 \
             or u.raw_user_meta_data ->> 'full_name' ilike $1) \
             order by u.created_at desc nulls last, u.id limit $2 offset $3"
        );
        const COUNT: &str = "
            select count(*) as total from auth.users u
            where u.deleted_at is null and ($1::text is null or u.email ilike $1 or u.phone like $1
              or u.raw_user_meta_data ->> 'full_name' ilike $1)";
        let pattern = wanted
            .search
            .map(|part| format!("%{}%", part.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")));
        let tx = self.begin().await?;
        let listed = async {
            let rows = tx.query(LIST, &[&pattern, &wanted.limit, &wanted.offset]).await?;
            let total = tx.query_one(COUNT, &[&pattern]).await?;
            let accounts = rows.iter().map(summary).collect::<Result<Vec<_>, _>>()?;
            Ok((accounts, column(&total, "total")?))
        };
        let listed = listed.await;
        database::finish(tx, listed).await
    }

    /// The account with an id or e-mail address.
    ///
    /// # Errors
    /// There is none, or the database failed.
    pub async fn find(&self, who: &str) -> Result<AccountSummary, AuthError> {
        const FIND: &str = summary!("where u.id = $1");
        let tx = self.begin().await?;
        let found = async {
            let user = self.user(&tx, who).await?;
            summary(&tx.query_one(FIND, &[&user.id]).await?)
        };
        let found = found.await;
        database::finish(tx, found).await
    }

    /// Deletes the account and everything that belongs to it.
    ///
    /// # Errors
    /// There is none, a foreign key in the project's schema prevents it, or the database failed.
    pub async fn delete(&self, who: &str) -> Result<AccountSummary, AuthError> {
        let account = self.find(who).await?;
        let user = self.load(account.id).await?;
        admin::delete(&self.0, &Origin::local(LIMIT), &self.actor(), &user, false).await?;
        Ok(account)
    }

    /// Sets the password, ends all sessions and voids all pending codes, so that an intruder loses access.
    ///
    /// # Errors
    /// The account does not exist, the password breaks the policy, or the database failed.
    pub async fn set_password(&self, who: &str, password: &str) -> Result<AccountSummary, AuthError> {
        let account = self.find(who).await?;
        self.0.password_rules.check(password).await?;
        let hash = self.0.hasher.hash(password).await?;
        let now = self.0.now();
        let tx = self.begin().await?;
        let set = async {
            let user = users::lock(&tx, account.id).await?.ok_or(AuthError::UserNotFound)?;
            users::set_password(&tx, user.id, Some(&hash), now).await?;
            sessions::end(&tx, user.id, Scope::Global).await?;
            self.record(&tx, &user, Action::UserUpdatedPassword, now).await
        };
        let set = set.await;
        database::finish(tx, set).await?;
        Ok(account)
    }

    /// Creates a recovery link. It voids a pending one.
    ///
    /// # Errors
    /// The account does not exist, it has no e-mail address, or the database failed.
    pub async fn recovery_link(&self, who: &str) -> Result<String, AuthError> {
        let now = self.0.now();
        let tx = self.begin().await?;
        let made = async {
            let user = self.user(&tx, who).await?;
            let user = users::lock(&tx, user.id).await?.ok_or(AuthError::UserNotFound)?;
            if user.email.is_empty() {
                return Err(AuthError::validation(
                    "the account has no e-mail address: set a password instead",
                ));
            }
            let kind = TokenType::Recovery;
            let settings = CodeSettings::new(&self.0.config);
            let issued =
                one_time::issue(&tx, settings, user.id, kind, &user.email, FlowType::Implicit, now).await?;
            let site_url = &self.0.config.site_url;
            let email =
                code_emails::email_with_code(EmailKind::Recovery, &user, &user.email, &issued, site_url);
            let link = self.0.mailer.link(&email).unwrap_or_default();
            self.record(&tx, &user, Action::UserRecoveryRequested, now).await?;
            Ok(link)
        };
        let made = made.await;
        database::finish(tx, made).await
    }

    /// Ends all sessions of the account and returns their number. Access tokens remain valid until they expire.
    ///
    /// # Errors
    /// The account does not exist, or the database failed.
    pub async fn end_sessions(&self, who: &str) -> Result<(AccountSummary, u64), AuthError> {
        let account = self.find(who).await?;
        let now = self.0.now();
        let tx = self.begin().await?;
        let ended = async {
            let user = users::find(&tx, account.id).await?.ok_or(AuthError::UserNotFound)?;
            let ended = sessions::end(&tx, account.id, Scope::Global).await?;
            self.record(&tx, &user, Action::Logout, now).await?;
            Ok(ended)
        };
        let ended = ended.await;
        let ended = database::finish(tx, ended).await?;
        Ok((account, ended))
    }

    async fn begin(&self) -> Result<Tx, AuthError> {
        Ok(self.0.pool.begin(Instant::now() + LIMIT).await?)
    }

    async fn user(&self, tx: &Tx, who: &str) -> Result<User, AuthError> {
        let found = match Uuid::try_parse(who) {
            Ok(id) => users::find(tx, id).await?,
            Err(_not_an_id) => {
                let email = address::email(who)?;
                users::find_by_email(tx, &email, &self.0.config.jwt.aud).await?
            }
        };
        found.ok_or(AuthError::UserNotFound)
    }

    async fn load(&self, id: Uuid) -> Result<User, AuthError> {
        let tx = self.begin().await?;
        let found = users::find(&tx, id).await;
        database::finish(tx, found).await?.ok_or(AuthError::UserNotFound)
    }

    /// The audit log's actor.
    fn actor(&self) -> User {
        const NAME: &str = "basalt user";
        User { email: NAME.to_owned(), ..User::blank(Uuid::nil(), self.0.now()) }
    }

    async fn record(&self, tx: &Tx, user: &User, action: Action, now: Timestamp) -> Result<(), AuthError> {
        let traits = audit::about(user);
        let audit_log = self.0.audit_log(&Origin::local(LIMIT).client);
        audit_log.record(tx, &self.actor(), action, traits, now).await
    }
}

fn summary(row: &Row) -> Result<AccountSummary, AuthError> {
    Ok(AccountSummary {
        id: column(row, "id")?,
        email: column(row, "email")?,
        phone: column(row, "phone")?,
        created_at: column(row, "created_at")?,
        confirmed_at: column(row, "confirmed_at")?,
        last_sign_in_at: column(row, "last_sign_in_at")?,
        banned_until: column(row, "banned_until")?,
        is_anonymous: column(row, "is_anonymous")?,
        sessions: column(row, "sessions")?,
    })
}
