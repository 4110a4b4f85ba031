//! Requests and their notation.
//!
//! ```text
//! # A comment.
//! GET /ships?select=id        the request line: blanks and letters outside ASCII are percent-encoded, `%` is not
//!   Prefer: count=exact       headers, indented
//!   = {"id": 1}               the body, a line each; JSON unless a Content-Type says otherwise
//! ```
//!
//! Two headers are not sent as they stand. `As: ROLE [SUB]` is a valid token with these claims. `Token:` makes one by
//! hand: `claims JSON`, `header JSON JSON` (with that header), `forged JSON` (another secret), `lower JSON` (scheme in
//! lower case), or `bearer` (an empty one).

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::servers::SECRET;

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Where it is written: `select:12`, or `generated:7`.
    pub(crate) place: String,
    /// The schema of requests that name none.
    pub(crate) schema: &'static str,
    pub(crate) method: String,
    /// As it was written, without the indents.
    pub(crate) written: String,
    /// Path and query, encoded.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
}

impl Case {
    /// A read of `target`, which is encoded here.
    pub(crate) fn get(place: String, target: &str) -> Self {
        let written = format!("GET {target}");
        Self {
            place,
            written,
            schema: "harbour",
            method: "GET".to_owned(),
            target: encode(target),
            headers: Vec::new(),
            body: None,
        }
    }

    /// Whether it may change anything, even only a sequence.
    pub(crate) fn is_write(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH" | "DELETE")
    }

    /// The first header of that name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether a `Prefer` holds this text.
    pub(crate) fn prefers(&self, text: &str) -> bool {
        self.headers.iter().any(|(name, value)| name.eq_ignore_ascii_case("Prefer") && value.contains(text))
    }

    /// The path, without the query.
    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }

    /// The query, decoded as a form would be; empty when there is none.
    pub(crate) fn query(&self) -> String {
        let query = self.target.split_once('?').map_or("", |(_, query)| query).replace('+', " ");
        percent_encoding::percent_decode_str(&query).decode_utf8_lossy().into_owned()
    }

    /// The query's parameters, decoded.
    pub(crate) fn parameters(&self) -> Vec<(String, String)> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
    }

    /// In readable form.
    pub(crate) fn shown(&self) -> String {
        let mut text = format!(
            "{} {}",
            self.method,
            percent_encoding::percent_decode_str(&self.target).decode_utf8_lossy()
        );
        for (name, value) in &self.headers {
            let value: String = value.chars().take(100).collect();
            text.push_str(&format!("\n  {name}: {value}"));
        }
        if let Some(body) = &self.body {
            text.push_str(&format!("\n  = {body}"));
        }
        text
    }
}

/// Reads request files; each has a name for [`Case::place`].
pub(crate) fn read_all(files: &[(&str, &str)]) -> Vec<Case> {
    files.iter().flat_map(|(name, text)| read(name, text)).collect()
}

fn read(name: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", index + 1);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(line) = line.strip_prefix("  ") else {
            let (method, target) =
                line.split_once(' ').unwrap_or_else(|| panic!("{place} is not a request line"));
            cases.push(Case {
                method: method.to_owned(),
                written: line.to_owned(),
                ..Case::get(place, target)
            });
            continue;
        };
        let case = cases.last_mut().unwrap_or_else(|| panic!("{place} belongs to no request"));
        case.written.push('\n');
        case.written.push_str(line);
        if let Some(text) = line.strip_prefix("= ").or_else(|| line.strip_prefix('=')) {
            match &mut case.body {
                Some(body) => {
                    body.push('\n');
                    body.push_str(text);
                }
                None => case.body = Some(text.to_owned()),
            }
            continue;
        }
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{place} is not a header"));
        let value = value.trim();
        case.headers.push(match key {
            "As" => ("Authorization".to_owned(), as_role(value)),
            "Token" => ("Authorization".to_owned(), made_token(value)),
            _ => (key.to_owned(), value.to_owned()),
        });
    }
    for case in &mut cases {
        if case.body.is_some() && case.header("Content-Type").is_none() {
            case.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
        }
    }
    cases
}

/// What has to be encoded in a request line, and nothing more: `%` stays as written.
fn encode(target: &str) -> String {
    let mut encoded = String::new();
    for byte in target.bytes() {
        if byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

pub(crate) fn as_role(words: &str) -> String {
    let mut words = words.split(' ').filter(|word| !word.is_empty());
    let mut claims = serde_json::Map::new();
    for name in ["role", "sub"] {
        if let Some(word) = words.next() {
            let _new = claims.insert(name.to_owned(), word.into());
        }
    }
    let claims = serde_json::Value::Object(claims).to_string();
    format!("Bearer {}", token(HEADER, &claims, SECRET))
}

fn made_token(text: &str) -> String {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    match kind {
        "bearer" => "Bearer ".to_owned(),
        "claims" => format!("Bearer {}", token(HEADER, rest, SECRET)),
        "forged" => {
            format!("Bearer {}", token(HEADER, rest, "another secret, also of thirty-two characters"))
        }
        "lower" => format!("bearer {}", token(HEADER, rest, SECRET)),
        "header" => {
            let (header, claims) = rest.split_once("} ").expect("a header and claims");
            format!("Bearer {}", token(&format!("{header}}}"), claims, SECRET))
        }
        other => panic!("no such kind of token: {other}"),
    }
}

fn token(header: &str, claims: &str, secret: &str) -> String {
    let algorithm = if header.contains("HS512") { hmac::HMAC_SHA512 } else { hmac::HMAC_SHA256 };
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}
