//! Errors of the key store, worded for someone at the command line.

use basalt_core::keys::KeyError;

use crate::error::SessionError;

/// Why keys could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The database is unreachable or returned an error.
    #[error("the database failed: {0}")]
    Database(#[from] SessionError),
    /// The key material cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An active key already has the name.
    #[error(
        "a {kind} key named {name} already exists: choose another name with --name, or replace the key with `basalt keys rotate`"
    )]
    NameTaken {
        /// `publishable` or `secret`.
        kind: &'static str,
        /// The name that is taken.
        name: String,
    },
    /// No request can act as the role.
    #[error(
        "the role {0} does not exist, or the login authenticator may not assume it: create the role and grant it to authenticator"
    )]
    NoSuchRole(String),
    /// The key's status does not allow the change.
    #[error("the signing key {kid} is {status}: {remedy}")]
    Status {
        /// Key id.
        kid: String,
        /// Current status, in words.
        status: &'static str,
        /// Advice to the user.
        remedy: &'static str,
    },
    /// The signing keys come from `jwt.keys` and cannot be changed in the database.
    #[error(
        "the signing keys are configured in jwt.keys: change them there. Add the new key for verification only, restart every server, \
         then move \"sign\" to it, and remove the old key once its tokens have expired"
    )]
    Configured,
    /// A row has an unexpected form.
    #[error("a row of basalt.{table} cannot be read ({problem})")]
    Row {
        /// The row's table.
        table: &'static str,
        /// What could not be decoded.
        problem: String,
    },
}
