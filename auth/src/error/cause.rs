//! Conversions from errors of the database, keys and passwords. PostgreSQL's error decides between "retry", "address taken" and
//! the endpoint's own message.

use basalt_core::keys::{KeyError, TokenError};
use basalt_pg::pg_error::PgError;
use basalt_pg::session::SessionError;

use super::AuthError;
use crate::passwords::hasher::HashError;
use crate::passwords::policy::PasswordError;

/// The kind of address that belongs to another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenAddress {
    Email,
    Phone,
}

impl AuthError {
    /// Inserting a user failed: usually in the project's trigger.
    pub(crate) fn saving(error: SessionError) -> Self {
        Self::from_database(error, Self::SavingUser)
    }

    /// Replaces the message of a failed insert by that of the admin endpoint.
    pub(crate) fn creating(self) -> Self {
        let Self::SavingUser(error) = self else { return self };
        Self::InsertingUser(error)
    }

    /// Replaces the message of a failed update by that of the sign-up it was part of.
    pub(crate) fn signing_up(self) -> Self {
        let Self::UpdatingUser(error) = self else { return self };
        Self::SavingUser(error)
    }

    /// Deleting a user failed.
    pub(crate) fn deleting(error: SessionError) -> Self {
        Self::from_database(error, Self::DeletingUser)
    }

    /// Updating a user failed.
    pub(crate) fn updating(error: SessionError) -> Self {
        Self::from_database(error, Self::UpdatingUser)
    }

    /// Querying a user failed.
    pub(crate) fn querying(error: SessionError) -> Self {
        Self::from_database(error, Self::Querying)
    }

    fn from_database(error: SessionError, refused: impl FnOnce(Box<PgError>) -> Self) -> Self {
        match error {
            SessionError::Deadline => Self::Timeout,
            SessionError::Postgres(error) if error.code == "57014" => Self::Timeout,
            SessionError::Postgres(error) if is_too_long(&error) => {
                Self::validation("A value is longer than the database takes")
            }
            SessionError::Postgres(error) if !error.is_unavailable() => refused(error),
            SessionError::Postgres(_)
            | SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Unavailable(_) => Self::DatabaseUnavailable(error),
        }
    }

    /// Whether the connection broke. A connection that died while idle fails at its first statement.
    pub(crate) fn is_lost_connection(&self) -> bool {
        let Self::DatabaseUnavailable(error) = self else { return false };
        match error {
            SessionError::Postgres(error) => error.is_fatal,
            SessionError::Unavailable(_) => true,
            SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Deadline => false,
        }
    }

    /// The underlying error of PostgreSQL.
    pub(super) fn postgres(&self) -> Option<&PgError> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these carry one")]
        match self {
            Self::SavingUser(error)
            | Self::InsertingUser(error)
            | Self::DeletingUser(error)
            | Self::UpdatingUser(error)
            | Self::Querying(error)
            | Self::Database(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of address that violated a unique constraint, as in concurrent sign-ups.
    pub(crate) fn taken_address(&self) -> Option<TakenAddress> {
        match self.postgres()?.constraint.as_deref()? {
            "users_email_partial_key" => Some(TakenAddress::Email),
            "users_phone_key" => Some(TakenAddress::Phone),
            _ => None,
        }
    }

    /// Whether an address violated a unique constraint.
    pub(crate) fn is_taken_address(&self) -> bool {
        self.taken_address().is_some()
    }

    /// Replaces the error by `taken` if an address violated a unique constraint.
    pub(crate) fn map_taken_address(self, taken: Self) -> Self {
        if self.is_taken_address() { taken } else { self }
    }
}

impl From<SessionError> for AuthError {
    fn from(error: SessionError) -> Self {
        Self::from_database(error, Self::Database)
    }
}

impl From<HashError> for AuthError {
    fn from(error: HashError) -> Self {
        match error {
            HashError::Overloaded => Self::Overloaded,
            HashError::Unsupported | HashError::Failed => Self::Internal(error.to_string()),
        }
    }
}

impl From<KeyError> for AuthError {
    fn from(error: KeyError) -> Self {
        Self::Signing(error)
    }
}

impl From<PasswordError> for AuthError {
    fn from(error: PasswordError) -> Self {
        match error {
            PasswordError::TooLong => Self::validation("Password cannot be longer than 72 characters"),
            PasswordError::Weak(weakness) => Self::WeakPassword(weakness),
        }
    }
}

/// Whether a value of the request is too long for its column. Errors raised by the project's triggers stay server errors
/// (auth.md §3.1).
fn is_too_long(error: &PgError) -> bool {
    error.code == "22001" && !error.is_nested
}

/// An invalid token, with the messages of upstream's JWT library.
impl From<TokenError> for AuthError {
    fn from(error: TokenError) -> Self {
        Self::BadJwt(match error {
            TokenError::Empty | TokenError::Parts(_) => {
                "token is malformed: token contains an invalid number of segments".to_owned()
            }
            TokenError::BadHeader => "token is malformed: could not base64 decode header".to_owned(),
            TokenError::Encrypted => "token is unverifiable: encrypted tokens are not supported".to_owned(),
            TokenError::Unsupported { alg } => {
                format!("token signature is invalid: signing method {alg} is invalid")
            }
            // Upstream checks the algorithm before it looks up the key.
            TokenError::NoKey { alg, is_configured: false, .. } => {
                format!("token signature is invalid: signing method {alg} is invalid")
            }
            TokenError::NoKey { alg, kid, is_configured: true } => format!(
                "token is unverifiable: error while executing keyfunc: unrecognized JWT kid {} for algorithm {alg}",
                kid.unwrap_or_else(|| "<nil>".to_owned())
            ),
            TokenError::BadSignature => "token signature is invalid: signature is invalid".to_owned(),
            TokenError::IdToken => "token is unverifiable: it is an ID token".to_owned(),
            TokenError::ClaimsNotObject => "token is malformed: could not JSON decode claim".to_owned(),
        })
    }
}
