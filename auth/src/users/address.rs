//! Validation and normalisation of e-mail addresses and phone numbers (auth.md §3.2).

use crate::error::AuthError;

const MAX_EMAIL_BYTES: usize = 255;

/// Validates an e-mail address and returns it in lower case.
///
/// # Errors
/// Empty, too long, or not of the form `local@host`.
pub(crate) fn email(text: &str) -> Result<String, AuthError> {
    if text.is_empty() {
        return Err(AuthError::validation("An email address is required"));
    }
    if text.len() > MAX_EMAIL_BYTES {
        return Err(AuthError::validation("An email address is too long"));
    }
    let is_valid = text.rsplit_once('@').is_some_and(|(local, host)| {
        !local.is_empty()
            && local
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&byte))
            && host.split('.').all(is_host_label)
    });
    if is_valid {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(AuthError::validation("Unable to validate email address: invalid format"))
    }
}

fn is_host_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Validates a phone number and returns its digits.
///
/// # Errors
/// Not E.164.
pub(crate) fn phone(text: &str) -> Result<String, AuthError> {
    let digits: String = text.trim_start_matches('+').chars().filter(|character| *character != ' ').collect();
    let is_valid = (2..=15).contains(&digits.len())
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_valid {
        Ok(digits)
    } else {
        Err(AuthError::validation("Invalid phone number format (E.164 required)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn email_is_lower_cased() {
        assert_eq!(email("Ada.Lovelace+x@Example.ORG").unwrap(), "ada.lovelace+x@example.org");
        assert_eq!(email("root@localhost").unwrap(), "root@localhost");
    }

    #[test]
    fn rejects_malformed_email() {
        for text in
            ["a", "@b.org", "a@", "a b@c.org", "a@-b.org", "a@b..org", "a@b_c.org", "ä@b.org", "a@b@c,org"]
        {
            assert_eq!(
                email(text).unwrap_err().to_string(),
                "Unable to validate email address: invalid format",
                "{text}"
            );
        }
        assert_eq!(email("").unwrap_err().to_string(), "An email address is required");
        assert_eq!(
            email(&format!("{}@b.org", "a".repeat(250))).unwrap_err().to_string(),
            "An email address is too long"
        );
    }

    #[test]
    fn phone_is_reduced_to_digits() {
        assert_eq!(phone("+49 151 2345").unwrap(), "491512345");
        for text in ["", "+", "0123", "12a", "1234567890123456"] {
            assert!(phone(text).is_err(), "{text}");
        }
    }
}
