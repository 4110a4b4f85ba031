//! Why keys were not read or changed, in sentences for the person at the command line.

use basalt_core::keys::KeyError;

use crate::error::SessionError;

/// Why keys were not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// The database does not answer, or refuses.
    #[error("the database failed: {0}")]
    Database(#[from] SessionError),
    /// Key material that cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// An active key has the name.
    #[error(
        "there is a {kind} key with the name {name} already: choose another with --name, or replace it with `basalt keys rotate`"
    )]
    NameTaken {
        /// Publishable or secret.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// The role cannot be what requests act as.
    #[error(
        "the role {0} does not exist, or the login authenticator may not take it: create it, and grant it to authenticator"
    )]
    NoSuchRole(String),
    /// A change that the key's state does not allow.
    #[error("the signing key {kid} is {status}: {remedy}")]
    Status {
        /// Its name.
        kid: String,
        /// Its status in words.
        status: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// `jwt.keys` is the whole truth.
    #[error(
        "the signing keys are configured (jwt.keys): change them there. Add the new key to verify only, start every server with it, \
         then move \"sign\" to it, and take the old one out when its tokens have expired"
    )]
    Configured,
    /// A row is not what we wrote.
    #[error("a row of basalt.{table} cannot be read ({problem})")]
    Row {
        /// Which table.
        table: &'static str,
        /// What is wrong.
        problem: String,
    },
}
