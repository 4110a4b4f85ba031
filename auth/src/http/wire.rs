//! Bodies of success responses: tokens (auth.md §3.2), sessions, audit log entries.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::audit::Entry;
use crate::passwords::policy::{WeakReason, Weakness};
use crate::sessions::access_token::{AccessToken, Granted};
use crate::sessions::{Amr, SessionEntry, aal};
pub(crate) use crate::users::body::{FactorBody, Time, UserBody};

/// A session in a list (docs/decisions/0013).
#[derive(Serialize)]
pub(crate) struct SessionBody<'a> {
    id: Uuid,
    created_at: Option<Time>,
    updated_at: Option<Time>,
    /// Null before the first refresh.
    refreshed_at: Option<Time>,
    not_after: Option<Time>,
    aal: &'static str,
    amr: &'a [Amr],
    user_agent: Option<&'a str>,
    ip: Option<&'a str>,
    tag: Option<&'a str>,
    /// Whether it is the session of the caller's token.
    is_current: bool,
}

impl<'a> SessionBody<'a> {
    pub(crate) fn new(listed: &'a SessionEntry, current: Option<Uuid>) -> Self {
        let session = &listed.session;
        Self {
            id: session.id,
            created_at: session.created_at.map(Time),
            updated_at: listed.updated_at.map(Time),
            refreshed_at: session.refreshed_at.map(Time),
            not_after: session.not_after.map(Time),
            aal: aal(&listed.amr),
            amr: &listed.amr,
            user_agent: listed.user_agent.as_deref(),
            ip: listed.ip.as_deref(),
            tag: session.tag.as_deref(),
            is_current: current == Some(session.id),
        }
    }
}

/// An entry of the audit log.
#[derive(Serialize)]
pub(crate) struct AuditBody {
    id: Uuid,
    payload: Value,
    created_at: Time,
    ip_address: String,
}

impl From<Entry> for AuditBody {
    fn from(entry: Entry) -> Self {
        let Entry { id, payload, created_at, ip_address } = entry;
        Self { id, payload, created_at: created_at.into(), ip_address }
    }
}

/// The response of every grant.
#[derive(Serialize)]
pub(crate) struct TokenBody<'a> {
    pub(crate) access_token: String,
    pub(crate) token_type: &'static str,
    pub(crate) expires_in: i64,
    pub(crate) expires_at: i64,
    pub(crate) refresh_token: &'a str,
    /// Only for a sign-in with an external provider, as the next field.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider_refresh_token: Option<&'a str>,
    user: UserBody<'a>,
    /// Only for the password grant; `null` if the password is strong.
    #[serde(skip_serializing_if = "Option::is_none")]
    weak_password: Option<Option<WeakPasswordBody<'a>>>,
}

impl<'a> TokenBody<'a> {
    pub(crate) fn new(granted: &'a Granted, token: AccessToken) -> Self {
        let AccessToken { text, expires_in, expires_at } = token;
        let weak_password = granted.weak_password.as_ref();
        let tokens = granted.provider_tokens.as_ref();
        Self {
            access_token: text,
            token_type: "bearer",
            expires_in,
            expires_at,
            refresh_token: &granted.refresh_token,
            provider_token: tokens.map(|tokens| tokens.access_token.as_str()),
            provider_refresh_token: tokens.and_then(|tokens| tokens.refresh_token.as_deref()),
            user: UserBody::from(&granted.account),
            weak_password: weak_password.map(|weakness| weakness.as_ref().map(WeakPasswordBody::from)),
        }
    }
}

#[derive(Serialize)]
struct WeakPasswordBody<'a> {
    message: &'a str,
    reasons: &'a [WeakReason],
}

impl<'a> From<&'a Weakness> for WeakPasswordBody<'a> {
    fn from(weakness: &'a Weakness) -> Self {
        Self { message: &weakness.message, reasons: &weakness.reasons }
    }
}
