//! Allowed MIME types of buckets (storage.md §3.3, §3.4). Only the declared type is checked, not the
//! content.

use crate::error::StorageError;

/// Maximum length of an entry.
const MAX_ENTRY: usize = 1000;

/// Validates a bucket's list; empty entries are dropped.
///
/// # Errors
/// `InvalidMimeType` for an entry that is neither `type/subtype`, optionally with a charset, nor ends with
/// `*`.
pub(super) fn check_list(entries: Vec<String>) -> Result<Vec<String>, StorageError> {
    let entries: Vec<String> = entries.into_iter().filter(|entry| !entry.is_empty()).collect();
    match entries.iter().find(|entry| !is_entry(entry)) {
        Some(entry) => Err(StorageError::invalid_mime_type(entry)),
        None => Ok(entries),
    }
}

fn is_entry(entry: &str) -> bool {
    if entry.chars().count() > MAX_ENTRY || entry.contains('\0') {
        return false;
    }
    if entry.ends_with('*') {
        return true;
    }
    let (essence, parameters) = match entry.split_once(';') {
        Some((essence, parameters)) => (essence, Some(parameters.trim())),
        None => (entry, None),
    };
    let charset = parameters.is_none_or(|text| text.strip_prefix("charset=").is_some_and(is_token));
    charset && essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Checks a declared type against a bucket's list. Without a list everything is allowed.
///
/// An entry without parameters matches its type with any parameters, ignoring case; `*` and `*/*` match
/// every type. (Upstream compares parameters and case literally, and lets neither wildcard match anything.)
///
/// # Errors
/// `InvalidMimeType` if the list does not contain the type, or it is not a MIME type.
pub(crate) fn check(allowed: Option<&[String]>, declared: &str) -> Result<(), StorageError> {
    let allowed = allowed.unwrap_or_default();
    if allowed.is_empty() {
        return Ok(());
    }
    let refused = || StorageError::invalid_mime_type(declared);
    let full_type = normalized(declared);
    let essence = full_type.split(';').next().unwrap_or_default();
    let (kind, _) = essence.split_once('/').ok_or_else(refused)?;
    let matches = |entry: &String| {
        let entry = normalized(entry);
        match entry.as_str() {
            "*" | "*/*" => true,
            with_parameters if with_parameters.contains(';') => entry == full_type,
            entry => entry == essence || entry.strip_suffix("/*") == Some(kind),
        }
    };
    if allowed.iter().any(matches) { Ok(()) } else { Err(refused()) }
}

/// Lower case, without white space.
fn normalized(mime: &str) -> String {
    mime.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_accepts_types_and_wildcards() {
        let list = |entry: &str| check_list(vec![entry.to_owned()]);
        let longest = format!("{}/*", "a".repeat(MAX_ENTRY - 2));
        for entry in [
            "image/png",
            "image/*",
            "*",
            "*/*",
            "foo*",
            "text/plain; charset=utf-8",
            "text/plain;charset=utf-8",
            "image/svg+xml",
            "application/vnd.ms-excel",
            &longest,
        ] {
            assert_eq!(list(entry), Ok(vec![entry.to_owned()]));
        }
        let longer = format!("a{longest}");
        for entry in [
            "image",
            "image/",
            "/png",
            "im age/png",
            "text/plain; foo=bar",
            "a/b/c",
            " ",
            "a/b;",
            "ä/b",
            "\0*",
            &longer,
        ] {
            assert_eq!(list(entry), Err(StorageError::invalid_mime_type(entry)));
        }
        assert_eq!(check_list(vec![String::new(), "a/b".to_owned()]), Ok(vec!["a/b".to_owned()]));
    }

    #[test]
    fn declared_type_must_match_the_list() {
        let allows = |entry: &str, declared: &str| check(Some(&[entry.to_owned()]), declared).is_ok();
        for (entry, declared) in [
            ("image/png", "image/png"),
            ("image/png", "IMAGE/PNG; x=y"),
            ("Image/PNG", "image/png"),
            ("image/*", "image/jpeg"),
            ("text/plain", "text/plain;charset=UTF-8"),
            ("text/plain; charset=utf-8", "text/plain;charset=UTF-8"),
            ("*", "a/b"),
            ("*/*", "a/b"),
        ] {
            assert!(allows(entry, declared), "{entry} {declared}");
        }
        for (entry, declared) in [
            ("image/png", "image/jpeg"),
            ("image/*", "imagery/png"),
            ("image/*", "image"),
            ("*", "image"),
            ("foo*", "foo/bar"),
            ("text/plain; charset=utf-8", "text/plain"),
            ("image/png", ""),
        ] {
            assert!(!allows(entry, declared), "{entry} {declared}");
        }
        assert_eq!(check(None, "anything"), Ok(()));
        assert_eq!(check(Some(&[]), "anything"), Ok(()));
    }
}
