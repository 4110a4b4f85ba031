//! XML parsing, with limits, of what S3 clients send, and writing of responses.

use std::fmt::Display;

use quick_xml::Reader;
use quick_xml::escape::{escape, resolve_predefined_entity};
use quick_xml::events::Event;

/// Namespace of all S3 responses.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";
/// Start of every document.
pub(crate) const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
/// Maximum nesting depth.
const MAX_DEPTH: usize = 8;
/// Maximum length of a value.
const MAX_TEXT: usize = 4096;

/// The document is malformed or exceeds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("The XML you provided was not well-formed or did not validate against our published schema")]
pub(crate) struct MalformedXml;

/// Calls `visit` at the end of each element with its path, such as `["Delete", "Object", "Key"]`, and its
/// text. Rejects document types, and thereby custom entities.
///
/// # Errors
/// The document is malformed or exceeds a limit, or `visit` rejects it.
pub(crate) fn read(
    document: &[u8],
    mut visit: impl FnMut(&[&str], &str) -> Result<(), MalformedXml>,
) -> Result<(), MalformedXml> {
    let text = std::str::from_utf8(document).map_err(|_| MalformedXml)?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut open: Vec<(String, String)> = Vec::new();
    let mut has_root = false;
    let append = |open: &mut Vec<(String, String)>, more: &str| match open.last_mut() {
        Some((_, text)) if text.len() + more.len() <= MAX_TEXT => {
            text.push_str(more);
            Ok(())
        }
        Some(_) => Err(MalformedXml),
        None if more.trim().is_empty() => Ok(()),
        None => Err(MalformedXml),
    };
    loop {
        match reader.read_event().map_err(|_| MalformedXml)? {
            Event::Start(start) => {
                if open.len() >= MAX_DEPTH || (open.is_empty() && has_root) {
                    return Err(MalformedXml);
                }
                has_root = true;
                // Values are in elements without children, so text before a child is indentation.
                if let Some((_, text)) = open.last_mut() {
                    text.clear();
                }
                let name = std::str::from_utf8(start.local_name().into_inner())
                    .map_err(|_| MalformedXml)?
                    .to_owned();
                open.push((name, String::new()));
            }
            // The reader has verified that this closes the open element.
            Event::End(_) => {
                let path: Vec<&str> = open.iter().map(|(name, _)| name.as_str()).collect();
                let text = open.last().map(|(_, text)| text.as_str()).ok_or(MalformedXml)?;
                visit(&path, text)?;
                open.pop();
            }
            Event::Text(text) => append(&mut open, &text.decode().map_err(|_| MalformedXml)?)?,
            Event::CData(text) => append(&mut open, &text.decode().map_err(|_| MalformedXml)?)?,
            Event::GeneralRef(reference) => {
                if let Some(character) = reference.resolve_char_ref().map_err(|_| MalformedXml)? {
                    append(&mut open, character.encode_utf8(&mut [0; 4]))?;
                } else {
                    let name = reference.decode().map_err(|_| MalformedXml)?;
                    append(&mut open, resolve_predefined_entity(&name).ok_or(MalformedXml)?)?;
                }
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
            Event::DocType(_) | Event::Empty(_) => return Err(MalformedXml),
            Event::Eof if open.is_empty() && has_root => return Ok(()),
            Event::Eof => return Err(MalformedXml),
        }
    }
}

/// Writes a document. Values are escaped; names are trusted.
pub(crate) struct Writer {
    out: String,
}

impl Writer {
    /// Starts a document with this root element in S3's namespace.
    #[must_use]
    pub(crate) fn new(root: &'static str) -> Self {
        Self { out: format!("{DECLARATION}<{root} xmlns=\"{NAMESPACE}\">") }
    }

    /// Starts a document without a namespace: an error's root has none, which clients such as botocore rely
    /// on.
    #[must_use]
    pub(crate) fn without_namespace(root: &'static str) -> Self {
        Self { out: format!("{DECLARATION}<{root}>") }
    }

    /// Adds an element with text.
    pub(crate) fn text(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        let value = value.to_string();
        self.open(name);
        self.out.push_str(&escape(value.as_str()));
        self.close(name)
    }

    /// Adds an element with text, if there is a value.
    pub(crate) fn optional(&mut self, name: &'static str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    /// Adds an element with child elements.
    pub(crate) fn element(&mut self, name: &'static str, content: impl FnOnce(&mut Self)) -> &mut Self {
        self.open(name);
        content(self);
        self.close(name)
    }

    /// Adds text to the current element.
    pub(crate) fn content(&mut self, value: &str) -> &mut Self {
        self.out.push_str(&escape(value));
        self
    }

    /// Closes the root element and returns the document.
    #[must_use]
    pub(crate) fn finish(mut self, root: &'static str) -> String {
        self.close(root);
        self.out
    }

    fn open(&mut self, name: &str) {
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
    }

    fn close(&mut self, name: &str) -> &mut Self {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(document: &str) -> Result<Vec<String>, MalformedXml> {
        let mut values = Vec::new();
        read(document.as_bytes(), |path, text| {
            values.push(format!("{}={text}", path.join("/")));
            Ok(())
        })?;
        Ok(values)
    }

    #[test]
    fn reads_elements_with_path_and_text() {
        let indented = "<?xml version=\"1.0\"?>\n<a xmlns=\"urn:x\">\n  <b>1 &amp; &#x32;&#51;</b>\n  <c><![CDATA[<d>]]></c>\n  <e/>\n</a>\n";
        assert_eq!(values(indented).unwrap(), ["a/b=1 & 23", "a/c=<d>", "a/e=", "a=\n"]);
        assert_eq!(values("<a> </a>").unwrap(), ["a= "]);
    }

    #[test]
    fn rejects_malformed_and_excessive_documents() {
        let deep = format!("{}{}", "<a>".repeat(9), "</a>".repeat(9));
        let long = format!("<a>{}</a>", "x".repeat(4097));
        let laughing = "<!DOCTYPE a [<!ENTITY b \"bbbb\">]><a>&b;</a>";
        for bad in [
            "",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a/>b",
            "b<a/>",
            "<a>&b;</a>",
            "<a>&#0;</a>",
            laughing,
            &deep,
            &long,
        ] {
            assert_eq!(values(bad), Err(MalformedXml), "{bad}");
        }
        assert_eq!(read(b"<a>\xff</a>", |_, _| Ok(())), Err(MalformedXml));
        assert_eq!(read(b"<a/>", |_, _| Err(MalformedXml)), Err(MalformedXml));
    }

    #[test]
    fn written_documents_are_escaped_and_round_trip() {
        let mut out = Writer::new("Error");
        out.text("Code", "a<b>&\"c'").element("Inner", |inner| {
            inner.text("Number", 3).optional("None", None::<u8>);
        });
        let document = out.finish("Error");
        let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Code>a&lt;b&gt;";
        assert!(document.starts_with(start), "{document}");
        let expected = ["Error/Code=a<b>&\"c'", "Error/Inner/Number=3", "Error/Inner=", "Error="];
        assert_eq!(values(&document).unwrap(), expected);
    }
}
