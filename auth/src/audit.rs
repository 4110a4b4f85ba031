//! `auth.audit_log_entries` (auth.md §3.13). Entries are written in the transaction of the action they record.

use std::net::IpAddr;

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::database::{Window, column};
use crate::error::AuthError;
use crate::users::User;

/// The recorded action. Names and groups are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Login,
    Logout,
    UserSignedUp,
    UserRepeatedSignUp,
    UserConfirmationRequested,
    UserRecoveryRequested,
    UserReauthenticateRequested,
    UserInvited,
    UserDeleted,
    IdentityLinked,
    IdentityUnlinked,
    UserModified,
    UserUpdatedPassword,
    TokenRefreshed,
    TokenRevoked,
    FactorInProgress,
    FactorUnenrolled,
    ChallengeCreated,
    VerificationAttempted,
    FactorDeleted,
    FactorUpdated,
    RecoveryCodesGenerated,
    PasskeyCreated,
    PasskeyUpdated,
    PasskeyDeleted,
}

impl Action {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Login => ("login", "account"),
            Self::Logout => ("logout", "account"),
            Self::UserSignedUp => ("user_signedup", "team"),
            Self::UserRepeatedSignUp => ("user_repeated_signup", "user"),
            Self::UserConfirmationRequested => ("user_confirmation_requested", "user"),
            Self::UserRecoveryRequested => ("user_recovery_requested", "user"),
            Self::UserReauthenticateRequested => ("user_reauthenticate_requested", "user"),
            Self::UserInvited => ("user_invited", "team"),
            Self::UserDeleted => ("user_deleted", "team"),
            Self::IdentityLinked => ("identity_linked", "user"),
            Self::IdentityUnlinked => ("identity_unlinked", "user"),
            Self::UserModified => ("user_modified", "user"),
            Self::UserUpdatedPassword => ("user_updated_password", "user"),
            Self::TokenRefreshed => ("token_refreshed", "token"),
            Self::TokenRevoked => ("token_revoked", "token"),
            Self::FactorInProgress => ("factor_in_progress", "factor"),
            Self::FactorUnenrolled => ("factor_unenrolled", "factor"),
            Self::ChallengeCreated => ("challenge_created", "factor"),
            Self::VerificationAttempted => ("verification_attempted", "factor"),
            Self::FactorDeleted => ("factor_deleted", "factor"),
            Self::FactorUpdated => ("factor_updated", "factor"),
            Self::RecoveryCodesGenerated => ("generate_recovery_codes", "factor"),
            Self::PasskeyCreated => ("passkey_created", "user"),
            Self::PasskeyUpdated => ("passkey_updated", "user"),
            Self::PasskeyDeleted => ("passkey_deleted", "user"),
        }
    }
}

/// The log, as one request writes to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditLog {
    is_enabled: bool,
    address: IpAddr,
}

impl AuditLog {
    /// `address` is the client's, which each row holds.
    pub(crate) const fn new(config: &AuthConfig, address: IpAddr) -> Self {
        Self { is_enabled: !config.audit_log_disable_postgres, address }
    }

    /// The payload of a row, for statements that write it together with something else; `None` when the log is off.
    pub(crate) fn payload(self, actor: &User, action: Action, traits: Option<Value>) -> Option<Value> {
        self.is_enabled.then(|| payload(actor, action, traits))
    }

    /// Writes a row, unless the log is off.
    pub(crate) async fn record(
        self,
        tx: &Tx,
        actor: &User,
        action: Action,
        traits: Option<Value>,
        now: Timestamp,
    ) -> Result<(), AuthError> {
        const INSERT: &str = "\
insert into auth.audit_log_entries (instance_id, id, payload, created_at, ip_address)
values ('00000000-0000-0000-0000-000000000000', $1, $2, $3, $4)";
        let Some(payload) = self.payload(actor, action, traits) else { return Ok(()) };
        tx.execute(INSERT, &[&random::uuid(), &payload, &now, &self.address.to_string()]).await?;
        Ok(())
    }
}

fn payload(actor: &User, action: Action, traits: Option<Value>) -> Value {
    let (name, log_type) = action.names();
    let username = if actor.email.is_empty() { &actor.phone } else { &actor.email };
    let mut payload = Map::new();
    payload.insert("action".to_owned(), name.into());
    payload.insert("actor_id".to_owned(), actor.id.to_string().into());
    if let Some(full_name) = actor.user_metadata.get("full_name").and_then(Value::as_str) {
        payload.insert("actor_name".to_owned(), full_name.into());
    }
    payload.insert("actor_username".to_owned(), username.as_str().into());
    payload.insert("actor_via_sso".to_owned(), actor.is_sso_user.into());
    payload.insert("log_type".to_owned(), log_type.into());
    if let Some(traits) = traits {
        payload.insert("traits".to_owned(), traits);
    }
    Value::Object(payload)
}

/// The field that a search of the log matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// E-mail, phone or name of the actor.
    Author,
    /// The action's name.
    Action,
    /// The group of actions.
    Type,
}

/// A row of the log.
pub(crate) struct Entry {
    pub(crate) id: Uuid,
    pub(crate) payload: Value,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) ip_address: String,
}

/// One page of the log, newest first, and the total number of rows. `query` is a field and a LIKE pattern.
pub(crate) async fn list(
    tx: &Tx,
    query: Option<(Field, &str)>,
    window: Window,
) -> Result<(Vec<Entry>, i64), AuthError> {
    macro_rules! found {
        () => {
            "from auth.audit_log_entries a where $1::text is null or case $2 \
             when 'author' then a.payload ->> 'actor_username' ilike $1 or a.payload ->> 'actor_name' ilike $1 \
             when 'action' then a.payload ->> 'action' ilike $1 else a.payload ->> 'log_type' ilike $1 end"
        };
    }
    const PAGE: &str = concat!(
        "select a.id, a.payload, a.created_at, a.ip_address ",
        found!(),
        " order by a.created_at desc, a.ctid desc limit $3 offset $4"
    );
    const COUNT: &str = concat!("select count(*) as total ", found!());
    let pattern = query.map(|(_field, pattern)| pattern);
    let field = match query {
        None | Some((Field::Type, _)) => "type",
        Some((Field::Author, _)) => "author",
        Some((Field::Action, _)) => "action",
    };
    let Window { limit, offset } = window;
    let (rows, count) =
        tokio::try_join!(async { tx.query(PAGE, &[&pattern, &field, &limit, &offset]).await }, async {
            tx.query_one(COUNT, &[&pattern, &field]).await
        })?;
    let entries = rows.iter().map(|row| {
        let payload: Option<Value> = column(row, "payload")?;
        Ok(Entry {
            id: column(row, "id")?,
            payload: payload.unwrap_or_default(),
            created_at: column(row, "created_at")?,
            ip_address: column(row, "ip_address")?,
        })
    });
    Ok((entries.collect::<Result<_, AuthError>>()?, column(&count, "total")?))
}

/// Traits of an action on another user's account.
pub(crate) fn about(user: &User) -> Option<Value> {
    Some(json!({ "user_id": user.id, "user_email": user.email }))
}

/// Trait of sign-up and sign-in entries.
pub(crate) fn provider(provider: &str) -> Option<Value> {
    Some(json!({ "provider": provider }))
}
