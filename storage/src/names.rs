//! Names of buckets and objects (storage.md §3.1, §3.3, §3.4).

use percent_encoding::percent_decode_str;

use crate::error::StorageError;

/// Longest key, in bytes; upstream leaves it to the file system.
pub(crate) const MAX_KEY_BYTES: usize = 1024;
/// Longest part of a path that the router takes as one parameter, in bytes (storage.md §3.1).
const MAX_PARAMETER_BYTES: usize = 2500;
/// Suffix of the buckets that upstream makes for analytics.
const TABLE_SUFFIX: &str = "--table-s3";

/// Decodes one part of a path, once; `%2F` becomes a slash.
///
/// # Errors
/// A broken escape, or bytes that are no UTF-8.
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

/// Splits what follows a route's words into bucket and key, both decoded and not checked. `None`: there is no key, or a part
/// is longer than the router takes.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_object_path(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    Ok(decode_upload_path(rest)?.filter(|(_, key)| !key.is_empty()))
}

/// As [`decode_object_path`], for writes: their key may be empty here, and breaks its rule later.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_upload_path(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    let Some((bucket, key)) = rest.split_once('/') else { return Ok(None) };
    if bucket.is_empty() || bucket.len().max(key.len()) > MAX_PARAMETER_BYTES {
        return Ok(None);
    }
    Ok(Some((decode(bucket)?, decode(key)?)))
}

/// The one part that follows a route's words, decoded and not checked. `None`: there is none or more than one, or it is
/// longer than the router takes.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_segment(rest: &str) -> Result<Option<String>, StorageError> {
    if rest.is_empty() || rest.contains('/') || rest.len() > MAX_PARAMETER_BYTES {
        return Ok(None);
    }
    decode(rest).map(Some)
}

/// As [`decode_object_path`], with a bucket whose name follows its rule.
///
/// # Errors
/// As [`decode`]; the bucket's name breaks its rule.
pub(crate) fn bucket_and_key(rest: &str) -> Result<Option<(String, String)>, StorageError> {
    let found = decode_object_path(rest)?;
    if let Some((bucket, _)) = &found {
        check_bucket_name(bucket)?;
    }
    Ok(found)
}

/// Characters that bucket names and keys have in common.
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

/// The rule for a bucket's name and id (§3.3).
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

/// The rule for an object's name (§3.4).
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
    fn bucket_names_follow_their_rule() {
        let long = "a".repeat(101);
        for name in ["avatars", "a", "My Bucket", "a_b!c.d*e'f(g)h&i$j@k=l;m:n+o,p?q-r", "..."] {
            assert_eq!(check_bucket_name(name), Ok(()), "{name}");
        }
        for name in ["", " a", "a ", "a/b", "ä", ".", "..", "x--table-s3", "a#b", "a\0b", "a%b", &long] {
            assert_eq!(check_bucket_name(name), Err(StorageError::invalid_bucket_name()), "{name}");
        }
    }

    #[test]
    fn keys_follow_their_rule() {
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
    fn paths_are_decoded_once() {
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
