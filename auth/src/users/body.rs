//! Users and factors as clients and hooks see them (auth.md §3.2).

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use uuid::Uuid;

use super::{Account, Factor, Identity, Object};
use crate::database;

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

/// Upstream's value for a NULL time that must not be omitted.
const YEAR_ONE: Timestamp = Timestamp::constant(-62_135_596_800, 0);

/// RFC 3339 in UTC with `Z`, in PostgreSQL's microseconds, without trailing zeros.
#[derive(Clone, Copy)]
pub(crate) struct Time(pub(crate) Timestamp);

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
