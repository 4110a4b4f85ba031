//! Sets the passwords of the login roles. PostgreSQL receives SCRAM verifiers computed here, so that no password
//! appears in a statement or in the server's log. A superuser can read the stored verifiers and usually has nothing
//! to write; any other login sets the passwords at each start, which costs one round trip.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use postgres_protocol::password::scram_sha_256;
use secrecy::{ExposeSecret, SecretString};
use std::num::NonZeroU32;
use tokio_postgres::Client;

use super::{MigrationError, execute_with_retries};
use crate::sql::Sql;

const ROLES_AS_SUPERUSER: &str = "
select rolname::text, rolpassword from pg_catalog.pg_authid
where rolname = any ($1) and not rolsuper and rolname <> current_user";

// `pg_roles` shows eight asterisks for every password, which match no verifier.
const ROLES_AS_OTHERS: &str = "
select rolname::text, rolpassword from pg_catalog.pg_roles
where rolname = any ($1) and not rolsuper and rolname <> current_user";

/// The result of [`set_passwords`].
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Roles whose password was changed.
    pub(super) set: Vec<&'static str>,
    /// Whether PostgreSQL refused a change: versions 16 and later require ADMIN on the role.
    pub(super) is_refused: bool,
}

/// Sets the passwords that differ from the stored ones.
pub(super) async fn set_passwords(
    client: &Client,
    passwords: &[(&'static str, SecretString)],
    is_superuser: bool,
) -> Result<Outcome, MigrationError> {
    let mut outcome = Outcome::default();
    if passwords.is_empty() {
        return Ok(outcome);
    }
    let names: Vec<&str> = passwords.iter().map(|(role, _)| *role).collect();
    let query = if is_superuser { ROLES_AS_SUPERUSER } else { ROLES_AS_OTHERS };
    for row in client.query(query, &[&names]).await? {
        let (name, stored): (String, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
        let Some((role, password)) = passwords.iter().find(|(role, _)| *role == name) else { continue };
        let password = password.expose_secret().as_bytes();
        if stored.is_some_and(|verifier| matches(&verifier, password)) {
            continue;
        }
        let verifier = scram_sha_256(password);
        let (statement, _) = Sql::text("alter role ")
            .then(Sql::ident(role))
            .then(Sql::text(" password "))
            .then(Sql::literal(&verifier))
            .render();
        match execute_with_retries(client, &statement).await {
            Ok(()) => outcome.set.push(role),
            Err(MigrationError::Postgres(error)) if error.code == "42501" => outcome.is_refused = true,
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

/// Whether a stored verifier `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>` (RFC 5803) belongs to this
/// password. Any other format, MD5 included, does not match and is replaced.
fn matches(verifier: &str, password: &[u8]) -> bool {
    fn parse(verifier: &str) -> Option<(NonZeroU32, Vec<u8>, Vec<u8>)> {
        let (parameters, keys) = verifier.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = parameters.split_once(':')?;
        let (stored_key, _) = keys.split_once(':')?;
        Some((iterations.parse().ok()?, BASE64.decode(salt).ok()?, BASE64.decode(stored_key).ok()?))
    }
    let Some((iterations, salt, stored_key)) = parse(verifier) else { return false };
    // The count is not an attacker's choice, but another tool may have stored one that takes minutes.
    if iterations.get() > 100_000 {
        return false;
    }
    let mut salted = [0_u8; digest::SHA256_OUTPUT_LEN];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, password, &mut salted);
    let client_key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salted), b"Client Key");
    let expected = digest::digest(&digest::SHA256, client_key.as_ref());
    verify_slices_are_equal(expected.as_ref(), &stored_key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_matches_its_password_only() {
        let verifier = scram_sha_256(b"correct horse");
        assert!(matches(&verifier, b"correct horse"));
        assert!(!matches(&verifier, b"correct horsf"));
    }

    #[test]
    fn other_verifier_formats_match_no_password() {
        for stored in [
            "",
            "********",
            "md5abc",
            "SCRAM-SHA-256$",
            "SCRAM-SHA-256$0:AA==$AA==:AA==",
            "SCRAM-SHA-256$4096:AA==$AA==",
        ] {
            assert!(!matches(stored, b""), "{stored}");
        }
    }
}
