//! Validation and decoding of bucket names and keys (storage.md §3.1, §3.3, §3.4).

use percent_encoding::percent_decode_str;

use crate::error::StorageError;

/// Maximum length of a key in bytes; upstream leaves this to the file system.
pub(crate) const MAX_KEY_BYTES: usize = 1024;
/// Maximum length of a path segment the router accepts as a parameter, in bytes (storage.md §3.1).
const MAX_PARAMETER_BYTES: usize = 2500;
/// Suffix of the buckets upstream creates for analytics.
const TABLE_SUFFIX: &str = "--table-s3";

/// Decodes a path segment once; `%2F` becomes a slash.
///
/// # Errors
/// Invalid percent-encoding, or bytes that are not UTF-8.
pub(crate) fn decode(raw: &str) -> Result<String, StorageError> {
    let bytes = raw.as_bytes();
    let is_broken = bytes.iter().enumerate().any(|(at, byte)| {
        *byte == b'%' && !bytes.get(at + 1..at + 3).is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit))
    });
    let bad_url = || StorageError::bad_url(raw);
    if is_broken {
        return Err(bad_url());
    }
    Ok(percent_decode_str(raw).decode_utf8().map_err(|_| bad_url())?.into_owned())
}

/// Splits the path after a route's prefix into bucket and key, decoded but not validated. `None` if there is
/// no key, or a part exceeds the router's limit.
///
/// # Errors
/// As for [`decode`].
pub(crate) fn decode_object_path(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    Ok(decode_upload_path(rest)?.filter(|(_, key)| !key.is_empty()))
}

/// Like [`decode_object_path`], for writes: an empty key is accepted here and rejected by validation later.
///
/// # Errors
/// As for [`decode`].
pub(crate) fn decode_upload_path(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    let Some((bucket, key)) = rest.split_once('/') else { return Ok(None) };
    if bucket.is_empty() || bucket.len().max(key.len()) > MAX_PARAMETER_BYTES {
        return Ok(None);
    }
    Ok(Some((decode(bucket)?, decode(key)?)))
}

/// The only segment after a route's prefix, decoded but not validated. `None` if there is not exactly one,
/// or it exceeds the router's limit.
///
/// # Errors
/// As for [`decode`].
pub(crate) fn decode_segment(rest: &str) -> Result<Option<String>, StorageError> {
    if rest.is_empty() || rest.contains('/') || rest.len() > MAX_PARAMETER_BYTES {
        return Ok(None);
    }
    decode(rest).map(Some)
}

/// Like [`decode_object_path`], and validates the bucket name.
///
/// # Errors
/// As for [`decode`], or `InvalidBucketName`.
pub(crate) fn bucket_and_key(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    let found = decode_object_path(rest)?;
    if let Some((bucket, _)) = &found {
        check_bucket_name(bucket)?;
    }
    Ok(found)
}

/// Characters allowed in both bucket names and keys.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'_' | b'!'
                | b'.'
                | b'*'
                | b'\''
                | b'('
                | b')'
                | b'&'
                | b'$'
                | b'@'
                | b'='
                | b';'
                | b':'
                | b'+'
                | b','
                | b'?'
                | b'-'
                | b' '
        )
}

/// Validates a bucket's name or id (§3.3).
///
/// # Errors
/// `InvalidBucketName`.
pub(crate) fn check_bucket_name(name: &str) -> Result<(), StorageError> {
    let is_valid = (1..=100).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.trim() == name
        && name != "."
        && name != ".."
        && !name.ends_with(TABLE_SUFFIX);
    if is_valid { Ok(()) } else { Err(StorageError::invalid_bucket_name()) }
}

/// Validates an object's name (§3.4).
///
/// # Errors
/// `InvalidKey`.
pub(crate) fn check_key(key: &str) -> Result<(), StorageError> {
    let is_valid = (1..=MAX_KEY_BYTES).contains(&key.len())
        && key.bytes().all(|byte| is_plain(byte) || byte == b'/')
        && !key.split('/').any(|segment| matches!(segment, "." | ".."));
    if is_valid { Ok(()) } else { Err(StorageError::invalid_key(key)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_bucket_names() {
        let long = "a".repeat(101);
        for name in ["avatars", "a", "My Bucket", "a_b!c.d*e'f(g)h&i$j@k=l;m:n+o,p?q-r", "..."] {
            assert_eq!(check_bucket_name(name), Ok(()), "{name}");
        }
        for name in ["", " a", "a ", "a/b", "ä", ".", "..", "x--table-s3", "a#b", "a\0b", "a%b", &long] {
            assert_eq!(check_bucket_name(name), Err(StorageError::invalid_bucket_name()), "{name}");
        }
    }

    #[test]
    fn validates_keys() {
        let longest = "k".repeat(MAX_KEY_BYTES);
        for key in ["a.txt", "a//b", "dir/", "/lead", " a ", "...", "a/...", "?", &longest] {
            assert_eq!(check_key(key), Ok(()), "{key}");
        }
        let longer = format!("{longest}k");
        let refused = [
            "", "a#b", "a%b", "a[b", "a]", "a~", "a^", "a|", "a\\b", "a\"", "<", ">", "{", "}", "`", "a\nb",
            "a\0", "é", "..", "a/../b", "./a", "a/.", &longer,
        ];
        for key in refused {
            assert_eq!(check_key(key), Err(StorageError::invalid_key(key)), "{key}");
        }
    }

    #[test]
    fn decodes_paths_once() {
        let decoded = |rest: &str| {
            bucket_and_key(rest).map(|found| found.map(|(bucket, key)| format!("{bucket}|{key}")))
        };
        for (rest, expected) in [
            ("b/a%20b.txt", Some("b|a b.txt")),
            ("b/a%252Fb", Some("b|a%2Fb")),
            ("b/a%2Fb//c/", Some("b|a/b//c/")),
            ("b//lead", Some("b|/lead")),
            ("b", None),
            ("b/", None),
            ("/a", None),
        ] {
            assert_eq!(decoded(rest), Ok(expected.map(str::to_owned)), "{rest}");
        }
        for rest in ["b/a%2", "b/%zz", "b/%ff", "b/%"] {
            assert!(decoded(rest).is_err(), "{rest}");
        }
        assert_eq!(decoded("b%23/a"), Err(StorageError::invalid_bucket_name()));
        assert_eq!(decoded(&format!("b/{}", "a".repeat(2501))), Ok(None));
    }
}
