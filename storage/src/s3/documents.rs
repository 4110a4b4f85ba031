//! XML documents sent by clients: the parts of a multipart upload, and objects to delete.

use super::error::S3Error;
use super::operation::ONLY_VERSION;
use super::xml::{self, MalformedXml};

/// Most parts of an object.
pub(crate) const MAX_PARTS: usize = 10_000;
/// Most objects of one DeleteObjects request.
const MAX_OBJECTS: usize = 1000;

/// A part listed in CompleteMultipartUpload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompletedPart {
    /// 1 to 10,000.
    pub(crate) number: u32,
    /// Without quotes.
    pub(crate) etag: String,
}

/// Parses CompleteMultipartUpload: at least one part, in ascending order.
///
/// # Errors
/// The document is malformed or the order is wrong.
pub(crate) fn completed_parts(document: &[u8]) -> Result<Vec<CompletedPart>, S3Error> {
    let mut parts: Vec<CompletedPart> = Vec::new();
    let (mut number, mut etag) = (None, None);
    xml::read(document, |path, text| {
        match path {
            ["CompleteMultipartUpload", "Part", "PartNumber"] => {
                number = Some(part_number(text).ok_or(MalformedXml)?);
            }
            ["CompleteMultipartUpload", "Part", "ETag"] => etag = Some(unquoted(text).to_owned()),
            ["CompleteMultipartUpload", "Part"] if parts.len() < MAX_PARTS => {
                let number = number.take().ok_or(MalformedXml)?;
                parts.push(CompletedPart { number, etag: etag.take().ok_or(MalformedXml)? });
            }
            ["CompleteMultipartUpload", "Part"] => return Err(MalformedXml),
            [root, ..] if *root != "CompleteMultipartUpload" => return Err(MalformedXml),
            _ => {}
        }
        Ok(())
    })?;
    if parts.is_empty() {
        return Err(MalformedXml.into());
    }
    let is_ordered = parts.windows(2).all(|pair| matches!(pair, [one, two] if one.number < two.number));
    if !is_ordered {
        let message = "The list of parts was not in ascending order. Parts must be ordered by part number.";
        return Err(S3Error::bad_request("InvalidPartOrder", message));
    }
    Ok(parts)
}

/// A DeleteObjects request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Keys as sent.
    pub(crate) keys: Vec<String>,
    /// Whether to report errors only.
    pub(crate) is_quiet: bool,
}

/// Parses DeleteObjects, with at most 1000 objects.
///
/// # Errors
/// The document is malformed, or refers to versions or conditions, which are not supported.
pub(crate) fn deletion(document: &[u8]) -> Result<Deletion, S3Error> {
    let mut deletion = Deletion { keys: Vec::new(), is_quiet: false };
    let mut key = None;
    let mut names_version = false;
    xml::read(document, |path, text| {
        match path {
            ["Delete", "Quiet"] => deletion.is_quiet = text == "true",
            ["Delete", "Object", "Key"] => key = Some(text.to_owned()),
            ["Delete", "Object", "VersionId"] if text == ONLY_VERSION => {}
            ["Delete", "Object", "VersionId" | "ETag" | "LastModifiedTime" | "Size"] => names_version = true,
            ["Delete", "Object"] if deletion.keys.len() < MAX_OBJECTS => {
                deletion.keys.push(key.take().ok_or(MalformedXml)?);
            }
            ["Delete", "Object"] => return Err(MalformedXml),
            [root, ..] if *root != "Delete" => return Err(MalformedXml),
            _ => {}
        }
        Ok(())
    })?;
    if names_version {
        return Err(S3Error::not_implemented());
    }
    if deletion.keys.is_empty() {
        return Err(MalformedXml.into());
    }
    Ok(deletion)
}

/// Parses a part number, 1 to 10,000.
pub(crate) fn part_number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| (1..=10_000).contains(number))
}

/// ETags are sent with and without quotes.
pub(crate) fn unquoted(etag: &str) -> &str {
    let etag = etag.trim();
    etag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(etag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(inner: &str) -> Result<Vec<(u32, String)>, &'static str> {
        let document = format!("<CompleteMultipartUpload xmlns=\"urn:x\">{inner}</CompleteMultipartUpload>");
        completed_parts(document.as_bytes())
            .map(|parts| parts.into_iter().map(|part| (part.number, part.etag)).collect())
            .map_err(|error| error.code())
    }

    fn part(number: &str, etag: &str) -> String {
        format!(
            "<Part><ETag>{etag}</ETag><PartNumber>{number}</PartNumber><ChecksumCRC32>x</ChecksumCRC32></Part>"
        )
    }

    #[test]
    fn parts_must_ascend() {
        let two = part("1", "&quot;a&quot;") + &part("10000", "b");
        assert_eq!(parts(&two).unwrap(), [(1, "a".to_owned()), (10_000, "b".to_owned())]);
        for (inner, code) in [
            (part("2", "a") + &part("1", "b"), "InvalidPartOrder"),
            (part("2", "a") + &part("2", "b"), "InvalidPartOrder"),
            (part("0", "a"), "MalformedXML"),
            (part("10001", "a"), "MalformedXML"),
            (part("x", "a"), "MalformedXML"),
            ("<Part><PartNumber>1</PartNumber></Part>".to_owned(), "MalformedXML"),
            ("<Part><ETag>1</ETag></Part>".to_owned(), "MalformedXML"),
            (String::new(), "MalformedXML"),
        ] {
            assert_eq!(parts(&inner), Err(code), "{inner}");
        }
        assert_eq!(completed_parts(b"<Other/>").unwrap_err().code(), "MalformedXML");
    }

    #[test]
    fn parses_delete_documents() {
        let read = |inner: &str| deletion(format!("<Delete>{inner}</Delete>").as_bytes());
        let sent = "<Quiet>true</Quiet><Object><Key> a &amp; b</Key></Object>\
                    <Object><Key>c</Key><VersionId>null</VersionId></Object>";
        let expected = Deletion { keys: vec![" a & b".to_owned(), "c".to_owned()], is_quiet: true };
        assert_eq!(read(sent), Ok(expected));
        let thousand = "<Object><Key>k</Key></Object>".repeat(1000);
        assert_eq!(read(&thousand).unwrap().keys.len(), 1000);
        let more = format!("{thousand}<Object><Key>k</Key></Object>");
        for (inner, code) in [
            ("", "MalformedXML"),
            ("<Object></Object>", "MalformedXML"),
            (more.as_str(), "MalformedXML"),
            ("<Object><Key>k</Key><VersionId>1</VersionId></Object>", "NotImplemented"),
        ] {
            assert_eq!(read(inner).unwrap_err().code(), code);
        }
    }
}
