//! What a transaction runs under: access, isolation and settings (rest.md §3.16).

use std::borrow::Cow;

use basalt_core::session::Scope;
use http::HeaderMap;
use http::header::COOKIE;
use serde_json::{Map, Value};

use super::ExecuteContext;
use crate::config::{RequestSetting, RestConfig};
use crate::plan::{self, Common};
use crate::request::Action;

/// Access, isolation and settings, in the order of rest.md §3.16: what the role brings along is set before it is taken
/// on, because it may not be allowed to set it itself.
pub(super) fn scope(context: &ExecuteContext<'_>, common: &Common) -> Scope {
    let caller = context.caller;
    let role = context.snapshot.cache.role(&caller.role);
    let isolation = common
        .isolation
        .or_else(|| role.and_then(|role| role.isolation.as_deref()).map(plan::isolation))
        .unwrap_or_default();
    let mut settings: Vec<(Cow<'static, str>, String)> = Vec::with_capacity(12);
    settings.push(("search_path".into(), search_path(&context.api.schema, &context.snapshot.config)));
    for (name, value) in role.into_iter().flat_map(|role| &role.settings) {
        settings.push((name.clone().into(), value.clone()));
    }
    settings.push(("role".into(), caller.role.clone()));
    settings.push(("request.jwt.claims".into(), caller.claims.clone()));
    // Empty it says nothing, and nobody else's is there either.
    settings.push(("request.jwt.claim.sub".into(), subject(context).unwrap_or_default().to_owned()));
    for what in &context.snapshot.config.request_settings {
        settings.push(match what {
            RequestSetting::Method => ("request.method".into(), context.api.method.as_str().to_owned()),
            RequestSetting::Path => ("request.path".into(), context.api.path.clone()),
            RequestSetting::Headers => ("request.headers".into(), headers_json(context.headers)),
            RequestSetting::Cookies => ("request.cookies".into(), cookies_json(context.headers)),
        });
    }
    if let Some(zone) = &context.api.prefer.timezone {
        settings.push(("timezone".into(), zone.clone()));
    }
    for (name, value) in &common.settings {
        settings.push((name.clone().into(), value.clone()));
    }
    for (name, value) in &context.snapshot.config.app_settings {
        settings.push((format!("app.settings.{name}").into(), value.clone()));
    }
    let calls = matches!(context.api.action, Action::Call { .. });
    Scope { access: common.access, isolation, settings, calls, deadline: context.deadline }
}

/// What `auth.uid()` looks at before it parses the claims, which as a column's default it does for every row.
///
/// Where other claims may be put in the place of the caller's, `sub` must come from those: by the function that a request
/// calls, by the one before each request, or by any that is known to do so.
fn subject<'a>(context: &'a ExecuteContext<'_>) -> Option<&'a str> {
    let is_relation = matches!(context.api.action, Action::Relation { .. });
    let subject = context.caller.subject.as_deref()?;
    let may_change = context.snapshot.config.pre_request.is_some() || context.snapshot.cache.rewrites_claims;
    (is_relation && !may_change && !subject.contains('\0')).then_some(subject)
}

fn search_path(schema: &str, config: &RestConfig) -> String {
    let mut path = String::new();
    for name in std::iter::once(schema).chain(config.extra_search_path.iter().map(String::as_str)) {
        if !path.is_empty() {
            path.push_str(", ");
        }
        basalt_core::sql::push_quoted(&mut path, name, '"');
    }
    path
}

/// All headers but cookies; of repeated ones the values joined.
fn headers_json(headers: &HeaderMap) -> String {
    let mut json = String::with_capacity(1024);
    json.push('{');
    let mut before = None;
    // Values of one name come one after the other.
    for (name, value) in headers {
        if *name == COOKIE {
            continue;
        }
        if before == Some(name) {
            json.pop();
            json.push_str(", ");
        } else {
            json.push_str(if before.is_some() { ",\"" } else { "\"" });
            // A header's name has no character that JSON would escape.
            json.push_str(name.as_str());
            json.push_str("\":\"");
        }
        push_json_text(&mut json, value.as_bytes());
        json.push('"');
        before = Some(name);
    }
    json.push('}');
    json
}

/// The inside of a JSON string. Most headers are plain, and then they are looked at in one go.
fn push_json_text(json: &mut String, bytes: &[u8]) {
    let is_special = |found, byte: &u8| found | (*byte < 0x20) | (*byte == b'"') | (*byte == b'\\');
    match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.iter().fold(false, is_special) => json.push_str(text),
        _ => {
            let quoted = Value::from(String::from_utf8_lossy(bytes)).to_string();
            let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            json.push_str(inside.unwrap_or_default());
        }
    }
}

fn cookies_json(headers: &HeaderMap) -> String {
    if !headers.contains_key(COOKIE) {
        return "{}".to_owned();
    }
    let mut shown = Map::new();
    for header in headers.get_all(COOKIE) {
        let text = String::from_utf8_lossy(header.as_bytes());
        for pair in text.split(';').map(str::trim_start).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            shown.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    }
    Value::Object(shown).to_string()
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn headers_are_one_object_whatever_is_in_them() {
        let pairs: [(&str, &[u8]); 8] = [
            ("accept", b"*/*"),
            ("x-a", b""),
            ("x-a", b"say \"hi\"\\"),
            ("cookie", b"a=b"),
            ("x-b", "\u{fc}\t".as_bytes()),
            ("x-c", b"\xff"),
            ("x-c", b"b"),
            ("x-c", b"\""),
        ];
        let headers: HeaderMap = pairs
            .into_iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).unwrap()))
            .collect();
        let read: Value = serde_json::from_str(&headers_json(&headers)).unwrap();
        let expected = serde_json::json!({
            "accept": "*/*", "x-a": ", say \"hi\"\\", "x-b": "\u{fc}\t", "x-c": "\u{fffd}, b, \"",
        });
        assert_eq!(read, expected);
        assert_eq!(headers_json(&HeaderMap::new()), "{}");
    }
}
