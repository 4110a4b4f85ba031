//! Which addresses may receive mail (`auth.external_email_authorized_addresses`).

use crate::error::AuthError;

/// Checks an address against the list; an empty list allows all. Call it before looking up the address's account, so
/// that a rejection does not reveal whether there is one.
pub(crate) fn check(address: &str, authorized: &[String]) -> Result<(), AuthError> {
    if authorized.is_empty() || is_authorized(address, authorized) {
        Ok(())
    } else {
        Err(AuthError::EmailNotAuthorized(address.to_owned()))
    }
}

/// `ada+test@example.org` counts as `ada@example.org`.
fn is_authorized(address: &str, authorized: &[String]) -> bool {
    let plain = match address.rsplit_once('@') {
        Some((local, host)) => format!("{}@{host}", local.split('+').next().unwrap_or_default()),
        None => address.to_owned(),
    };
    authorized.iter().any(|entry| entry.eq_ignore_ascii_case(address) || entry.eq_ignore_ascii_case(&plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_make_another_address() {
        let authorized = ["Ada@example.org".to_owned(), "ops+alerts@example.org".to_owned()];
        for address in ["ada@example.org", "ada+1@example.org", "ops+alerts@example.org"] {
            assert!(is_authorized(address, &authorized), "{address}");
        }
        for address in ["eve@example.org", "ops@example.org", "ada@example.com", "ops+x@example.org"] {
            assert!(!is_authorized(address, &authorized), "{address}");
        }
    }
}
