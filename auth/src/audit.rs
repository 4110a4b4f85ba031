//! Rows of `auth.audit_log_entries` (auth.md §3.13), written in the transaction of what they tell of.

use basalt_core::pool::Tx;
use basalt_core::random;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::request::RequestContext;
use crate::users::User;

/// What happened. Names and groups are upstream's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Login,
    Logout,
    UserSignedUp,
    UserRepeatedSignUp,
    UserConfirmationRequested,
    UserDeleted,
    UserModified,
    UserUpdatedPassword,
    TokenRefreshed,
    TokenRevoked,
}

impl Action {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Login => ("login", "account"),
            Self::Logout => ("logout", "account"),
            Self::UserSignedUp => ("user_signedup", "team"),
            Self::UserRepeatedSignUp => ("user_repeated_signup", "user"),
            Self::UserConfirmationRequested => ("user_confirmation_requested", "user"),
            Self::UserDeleted => ("user_deleted", "team"),
            Self::UserModified => ("user_modified", "user"),
            Self::UserUpdatedPassword => ("user_updated_password", "user"),
            Self::TokenRefreshed => ("token_refreshed", "token"),
            Self::TokenRevoked => ("token_revoked", "token"),
        }
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

/// Writes a row, unless switched off.
pub(crate) async fn record(
    tx: &Tx,
    config: &AuthConfig,
    request: &RequestContext,
    actor: &User,
    action: Action,
    traits: Option<Value>,
    now: Timestamp,
) -> Result<(), AuthError> {
    const INSERT: &str = "\
insert into auth.audit_log_entries (instance_id, id, payload, created_at, ip_address)
values ('00000000-0000-0000-0000-000000000000', $1, $2, $3, $4)";
    if config.audit_log_disable_postgres {
        return Ok(());
    }
    let payload = payload(actor, action, traits);
    let address = request.address.to_string();
    tx.execute(INSERT, &[&random::uuid(), &payload, &now, &address]).await?;
    Ok(())
}

/// The trait that sign-up and sign-in rows carry.
pub(crate) fn provider(provider: &str) -> Option<Value> {
    Some(json!({ "provider": provider }))
}
