//! Bodies of success responses: users and tokens (auth.md §3.2), sessions, audit log entries.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

use crate::audit::Entry;
use crate::database;
use crate::passwords::policy::{WeakReason, Weakness};
use crate::sessions::access_token::{AccessToken, Granted};
use crate::sessions::{Amr, SessionEntry, aal};
use crate::users::{Account, Factor, Identity, Object};

/// A user. Absent times and pending changes are omitted; all other fields are always present, because apps rely on them.
#[derive(Serialize)]
pub(crate) struct UserBody<'a> {
    id: Uuid,
    aud: &'a str,
    role: &'a str,
    email: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_confirmed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    invited_at: Option<Time>,
    phone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_confirmed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmation_sent_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery_sent_at: Option<Time>,
    #[serde(skip_serializing_if = "str::is_empty")]
    new_email: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    email_change_sent_at: Option<Time>,
    #[serde(skip_serializing_if = "str::is_empty")]
    new_phone: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_change_sent_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reauthentication_sent_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sign_in_at: Option<Time>,
    app_metadata: &'a Object,
    user_metadata: &'a Object,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    factors: Vec<FactorBody<'a>>,
    identities: Vec<IdentityBody<'a>>,
    created_at: Time,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    banned_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted_at: Option<Time>,
    is_anonymous: bool,
}

impl<'a> From<&'a Account> for UserBody<'a> {
    fn from(account: &'a Account) -> Self {
        let user = &account.user;
        let time = |at: Option<Timestamp>| at.map(Time);
        Self {
            id: user.id,
            aud: &user.aud,
            role: &user.role,
            email: &user.email,
            email_confirmed_at: time(user.email_confirmed_at),
            invited_at: time(user.invited_at),
            phone: &user.phone,
            phone_confirmed_at: time(user.phone_confirmed_at),
            confirmation_sent_at: time(user.confirmation_sent_at),
            confirmed_at: time(user.confirmed_at),
            recovery_sent_at: time(user.recovery_sent_at),
            new_email: &user.email_change,
            email_change_sent_at: time(user.email_change_sent_at),
            new_phone: &user.phone_change,
            phone_change_sent_at: time(user.phone_change_sent_at),
            reauthentication_sent_at: time(user.reauthentication_sent_at),
            last_sign_in_at: time(user.last_sign_in_at),
            app_metadata: &user.app_metadata,
            user_metadata: &user.user_metadata,
            factors: account.factors.iter().map(FactorBody::from).collect(),
            identities: account.identities.iter().map(IdentityBody::from).collect(),
            created_at: Time::from(user.created_at),
            updated_at: Time::from(user.updated_at),
            banned_until: time(user.banned_until),
            deleted_at: time(user.deleted_at),
            is_anonymous: user.is_anonymous,
        }
    }
}

#[derive(Serialize)]
struct IdentityBody<'a> {
    identity_id: Uuid,
    id: &'a str,
    user_id: Uuid,
    #[serde(skip_serializing_if = "Object::is_empty")]
    identity_data: &'a Object,
    provider: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_sign_in_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<&'a str>,
}

impl<'a> From<&'a Identity> for IdentityBody<'a> {
    fn from(identity: &'a Identity) -> Self {
        Self {
            identity_id: identity.id,
            id: &identity.provider_id,
            user_id: identity.user_id,
            identity_data: &identity.identity_data,
            provider: &identity.provider,
            last_sign_in_at: identity.last_sign_in_at.map(Time),
            created_at: Time::from(identity.created_at),
            updated_at: Time::from(identity.updated_at),
            email: identity.email.as_deref().filter(|email| !email.is_empty()),
        }
    }
}

/// A factor, without its secret.
#[derive(Serialize)]
pub(crate) struct FactorBody<'a> {
    id: Uuid,
    created_at: Time,
    updated_at: Time,
    status: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    friendly_name: Option<&'a str>,
    factor_type: &'a str,
    phone: &'a str,
    last_challenged_at: Option<Time>,
}

impl<'a> From<&'a Factor> for FactorBody<'a> {
    fn from(factor: &'a Factor) -> Self {
        Self {
            id: factor.id,
            created_at: Time(factor.created_at),
            updated_at: Time(factor.updated_at),
            status: &factor.status,
            friendly_name: factor.friendly_name.as_deref().filter(|name| !name.is_empty()),
            factor_type: &factor.factor_type,
            phone: factor.phone.as_deref().unwrap_or_default(),
            last_challenged_at: factor.last_challenged_at.map(Time),
        }
    }
}

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

/// Upstream's value for a NULL time that must not be omitted.
const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// RFC 3339 in UTC with `Z`, in PostgreSQL's microseconds, without trailing zeros.
#[derive(Clone, Copy)]
pub(crate) struct Time(Timestamp);

impl From<Option<Timestamp>> for Time {
    fn from(at: Option<Timestamp>) -> Self {
        Self(at.unwrap_or(YEAR_ONE))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&database::in_microseconds(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc_without_trailing_zeros() {
        let text = |at: &str| serde_json::to_string(&Time(at.parse().unwrap())).unwrap();
        assert_eq!(text("2026-01-02T03:04:05.678Z"), r#""2026-01-02T03:04:05.678Z""#);
        assert_eq!(text("2026-01-02T03:04:05Z"), r#""2026-01-02T03:04:05Z""#);
        assert_eq!(text("2026-01-02T03:04:05.1234567Z"), r#""2026-01-02T03:04:05.123456Z""#);
        assert_eq!(serde_json::to_string(&Time(YEAR_ONE)).unwrap(), r#""0001-01-01T00:00:00Z""#);
    }
}
