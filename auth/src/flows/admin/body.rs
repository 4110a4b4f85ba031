//! The body of admin requests and its validation, except for checks that need the database.

use basalt_core::random;
use jiff::Timestamp;
use serde::Deserialize;
use uuid::Uuid;

use crate::error::AuthError;
use crate::fields::filled;
use crate::go_duration;
use crate::passwords::hasher;
use crate::passwords::policy;
use crate::users::Object;
use crate::users::address;

/// Body of a create or change request.
#[derive(Default, Deserialize)]
pub(crate) struct AdminUserBody {
    id: Option<String>,
    pub(super) email: Option<String>,
    pub(super) phone: Option<String>,
    password: Option<String>,
    password_hash: Option<String>,
    pub(super) email_confirm: Option<bool>,
    pub(super) phone_confirm: Option<bool>,
    pub(super) user_metadata: Option<Object>,
    pub(super) app_metadata: Option<Object>,
    pub(super) role: Option<String>,
    pub(super) aud: Option<String>,
    ban_duration: Option<String>,
}

/// Validated addresses and ban.
pub(super) struct CheckedFields {
    pub(super) email: Option<String>,
    pub(super) phone: Option<String>,
    pub(super) ban: Option<Ban>,
    pub(super) now: Timestamp,
}

#[derive(Clone, Copy)]
pub(super) enum Ban {
    Lift,
    Until(Timestamp),
}

impl Ban {
    /// The column's value.
    pub(super) const fn until(self) -> Option<Timestamp> {
        match self {
            Self::Lift => None,
            Self::Until(until) => Some(until),
        }
    }
}

/// The password or hash in a body.
pub(super) enum Secret<'a> {
    Password(&'a str),
    Hash(&'a str),
}

impl AdminUserBody {
    /// The normalised address.
    pub(super) fn email(&self) -> Result<Option<String>, AuthError> {
        filled(&self.email).map(address::email).transpose()
    }

    /// The normalised number.
    pub(super) fn phone(&self) -> Result<Option<String>, AuthError> {
        filled(&self.phone).map(address::phone).transpose()
    }

    pub(super) fn ban(&self, now: Timestamp) -> Result<Option<Ban>, AuthError> {
        match filled(&self.ban_duration) {
            None => Ok(None),
            Some("none") => Ok(Some(Ban::Lift)),
            Some(text) => {
                let until = go_duration::parse(text).and_then(|duration| now.checked_add(duration).ok());
                let until = until.ok_or_else(|| {
                    let reason = format!("invalid format for ban duration: time: invalid duration {text:?}");
                    AuthError::Validation(reason.into())
                })?;
                Ok(Some(Ban::Until(until)))
            }
        }
    }

    /// The account's id; imports set it to keep an existing one.
    pub(super) fn id(&self) -> Result<Uuid, AuthError> {
        let Some(text) = filled(&self.id) else { return Ok(random::uuid()) };
        let id = Uuid::try_parse(text)
            .map_err(|_error| AuthError::validation("ID must conform to the uuid v4 format"))?;
        if id.is_nil() { Err(AuthError::validation("ID cannot be a nil uuid")) } else { Ok(id) }
    }

    /// `None` if there is no password. Even an empty password conflicts with a hash.
    pub(super) fn secret(&self) -> Result<Option<Secret<'_>>, AuthError> {
        match (self.password.as_deref(), filled(&self.password_hash)) {
            (Some(_), Some(_)) => {
                Err(AuthError::validation("Only a password or a password hash should be provided"))
            }
            (None, Some(hash)) => {
                hasher::check_imported(hash).map_err(|_error| AuthError::CreatingUser)?;
                Ok(Some(Secret::Hash(hash)))
            }
            (Some(password), None) => {
                policy::check_length(password)?;
                Ok(Some(Secret::Password(password)))
            }
            (None, None) => Ok(None),
        }
    }
}
