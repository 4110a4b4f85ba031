//! `multipart/form-data`, as browsers send forms with files.

use bytes::Bytes;

use super::Request;

const BOUNDARY: &str = "basalt-testkit-boundary";

/// One part of a form.
#[derive(Clone, Debug)]
pub struct Part {
    disposition: String,
    content_type: Option<String>,
    body: Bytes,
}

impl Part {
    /// A field.
    #[must_use]
    pub fn field(name: &str, value: &str) -> Self {
        let disposition = format!("form-data; name=\"{name}\"");
        Self { disposition, content_type: None, body: Bytes::copy_from_slice(value.as_bytes()) }
    }

    /// A file.
    #[must_use]
    pub fn file(name: &str, file_name: &str, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            disposition: format!("form-data; name=\"{name}\"; filename=\"{file_name}\""),
            content_type: Some(content_type.to_owned()),
            body: body.into(),
        }
    }
}

impl Request {
    /// A form with its content type.
    pub fn multipart(self, parts: &[Part]) -> Self {
        let mut body = Vec::new();
        for part in parts {
            let mut head = format!("--{BOUNDARY}\r\nContent-Disposition: {}\r\n", part.disposition);
            if let Some(content_type) = &part.content_type {
                head.push_str(&format!("Content-Type: {content_type}\r\n"));
            }
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(b"\r\n");
            body.extend_from_slice(&part.body);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        self.header("content-type", &format!("multipart/form-data; boundary={BOUNDARY}")).body(body)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn form_is_encoded_as_in_rfc_7578() {
        let parts = [Part::field("cacheControl", "3600"), Part::file("", "a.txt", "text/plain", "some text")];
        let request = Request::new(Method::POST, "http://localhost/").multipart(&parts);
        assert_eq!(request.headers["content-type"], "multipart/form-data; boundary=basalt-testkit-boundary");
        let written = "--basalt-testkit-boundary\r\n\
                       Content-Disposition: form-data; name=\"cacheControl\"\r\n\r\n3600\r\n\
                       --basalt-testkit-boundary\r\n\
                       Content-Disposition: form-data; name=\"\"; filename=\"a.txt\"\r\n\
                       Content-Type: text/plain\r\n\r\nsome text\r\n\
                       --basalt-testkit-boundary--\r\n";
        assert_eq!(request.body, written);
    }
}
