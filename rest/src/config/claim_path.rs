//! Where the role is found in the claims (`rest.role_claim`, rest.md §3.15).
//!
//! Two spellings. The old one is PostgREST's own JSPath: `.app.roles[0]`, `."x-y"`, `.roles[?(@ ^== "web_")]`, and a
//! slice of the text at the end, `.groups[0][1:]`. The new one is JSONPath as RFC 9535 writes it, of which the part
//! that can name a role is read: members, positions, wildcards, slices of arrays, and filters by `==`, `!=`,
//! `search()` or existence. Of several values found the first counts.
//!
//! The surprise: a claim that is no text still names a role, by its JSON text. That role will hardly exist, and
//! PostgreSQL says so; to take the caller for a visitor instead would hide a broken token.

mod read;

use std::borrow::Cow;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// Where a value is found in the claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimPath {
    steps: Vec<Step>,
    /// Of the text found, these characters; the old spelling only.
    slice: Option<Slice>,
}

/// One step of a [`ClaimPath`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    /// Negative ones count from the end.
    Index(i64),
    Each,
    Slice(Slice),
    Filter(Filter),
}

/// From one position up to another; negative ones count from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
}

/// A test of each element; its path starts at the element.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Filter {
    path: Vec<Step>,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Equals(Value),
    Differs(Value),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Search(Pattern),
}

#[derive(Debug, Clone)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl Default for ClaimPath {
    fn default() -> Self {
        Self { steps: vec![Step::Key("role".to_owned())], slice: None }
    }
}

impl ClaimPath {
    /// The role that the claims name; `None` where the path leads nowhere.
    #[must_use]
    pub fn role<'a>(&self, claims: &'a Map<String, Value>) -> Option<Cow<'a, str>> {
        let (first, rest) = self.steps.split_first()?;
        let found = match first {
            Step::Key(key) => walk(rest, claims.get(key)?),
            Step::Each => claims.values().find_map(|value| walk(rest, value)),
            Step::Index(_) | Step::Slice(_) | Step::Filter(_) => None,
        }?;
        let text = found.as_str().map_or_else(|| Cow::Owned(found.to_string()), Cow::Borrowed);
        match self.slice {
            None => Some(text),
            Some(slice) => Some(slice.of_text(&text)).filter(|part| !part.is_empty()).map(Cow::Owned),
        }
    }
}

/// The first value that the steps lead to.
fn walk<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match (step, value) {
        (Step::Key(key), Value::Object(members)) => walk(rest, members.get(key)?),
        (Step::Index(index), Value::Array(elements)) => {
            walk(rest, elements.get(position(*index, elements.len())?)?)
        }
        (Step::Each, Value::Array(elements)) => elements.iter().find_map(|element| walk(rest, element)),
        (Step::Each, Value::Object(members)) => members.values().find_map(|member| walk(rest, member)),
        (Step::Slice(slice), Value::Array(elements)) => {
            let (from, to) = slice.bounds(elements.len());
            elements.get(from..to)?.iter().find_map(|element| walk(rest, element))
        }
        (Step::Filter(filter), Value::Array(elements)) => {
            elements.iter().filter(|element| filter.passes(element)).find_map(|element| walk(rest, element))
        }
        _ => None,
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    match usize::try_from(index) {
        Ok(index) => Some(index),
        Err(_negative) => length.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

impl Slice {
    /// Both ends within the length, the first not after the second.
    fn bounds(self, length: usize) -> (usize, usize) {
        let within = |index: i64| position(index, length).unwrap_or(0).min(length);
        let to = self.to.map_or(length, within);
        (self.from.map_or(0, within).min(to), to)
    }

    fn of_text(self, text: &str) -> String {
        let (from, to) = self.bounds(text.chars().count());
        text.chars().skip(from).take(to - from).collect()
    }
}

impl Filter {
    fn passes(&self, element: &Value) -> bool {
        let Some(found) = walk(&self.path, element) else { return false };
        let text = || found.as_str();
        match &self.test {
            Test::Exists => true,
            Test::Equals(wanted) => found == wanted,
            Test::Differs(wanted) => found != wanted,
            Test::StartsWith(part) => text().is_some_and(|text| text.starts_with(part)),
            Test::EndsWith(part) => text().is_some_and(|text| text.ends_with(part)),
            Test::Contains(part) => text().is_some_and(|text| text.contains(part)),
            Test::Search(Pattern(pattern)) => text().is_some_and(|text| pattern.is_match(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(path: &str) -> Option<String> {
        let claims = json!({
            "role": "a", "$x@1": "odd", "https://x/role": {"key": "author"}, "n": 7, "nothing": null, "empty": "",
            "app": {"my roles": ["x", "y"], "roles": ["other", "web_author", "web_editor"], "groups": ["/ä/", "b"]},
            "grants": [{"name": "one", "ok": false}, {"name": "two", "ok": true}],
        });
        let path: ClaimPath = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        path.role(claims.as_object().unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn both_spellings_find_the_role() {
        for (path, found) in [
            (".role", "a"),
            ("$.role", "a"),
            ("$['role']", "a"),
            (".$x@1", "odd"),
            (".\"https://x/role\".key", "author"),
            ("$['https://x/role'].key", "author"),
            (".app.\"my roles\"[1]", "y"),
            ("$.app['my roles'][0]", "x"),
            ("$.app.roles[-1]", "web_editor"),
            ("$.app.roles[1:]", "web_author"),
            ("$.app.roles[*]", "other"),
            ("$.grants[*].name", "one"),
        ] {
            assert_eq!(role(path).as_deref(), Some(found), "{path}");
        }
    }

    #[test]
    fn filters_choose_the_first_that_passes() {
        for (path, found) in [
            (r#".app.roles[?(@ == "web_author")]"#, "web_author"),
            (r#".app.roles[?(@ != "other")]"#, "web_author"),
            (r#".app.roles[?(@ ^== "web_")]"#, "web_author"),
            (r#".app.roles[?(@ ==^ "editor")]"#, "web_editor"),
            (r#".app.roles[?(@ *== "b_e")]"#, "web_editor"),
            ("$.app.roles[?(@ == 'web_editor')]", "web_editor"),
            ("$.app.roles[?@ != 'other']", "web_author"),
            ("$.app.roles[?search(@, '^web.*r$')]", "web_author"),
            ("$.app.roles[?(search(@, '\\w_e'))]", "web_editor"),
            ("$.grants[?@.ok == true].name", "two"),
            ("$.grants[?@.name].name", "one"),
        ] {
            assert_eq!(role(path).as_deref(), Some(found), "{path}");
        }
        assert_eq!(role(r#".app.roles[?(@ == "none")]"#), None);
        assert_eq!(role(r#".role[?(@ == "a")]"#), None, "of an array only");
    }

    #[test]
    fn the_old_spelling_can_cut_the_text() {
        for (path, found) in [
            (".app.groups[0][1:]", Some("ä/")),
            (".app.groups[0][1:-1]", Some("ä")),
            (".app.groups[0][:1]", Some("/")),
            (".app.groups[0][:]", Some("/ä/")),
            (".role[0:9]", Some("a")),
            (".app.groups[0][2:1]", None),
            (".app.groups[1][-5:]", Some("b")),
        ] {
            assert_eq!(role(path).as_deref(), found, "{path}");
        }
    }

    #[test]
    fn what_is_no_text_is_told_as_json() {
        assert_eq!(role(".n").as_deref(), Some("7"));
        assert_eq!(role(".nothing").as_deref(), Some("null"));
        assert_eq!(role(".empty").as_deref(), Some(""));
        assert_eq!(role(".app.\"my roles\"").as_deref(), Some(r#"["x","y"]"#));
        assert_eq!(role(".gone"), None);
        assert_eq!(role(".role.deeper"), None);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for wrong in [
            "role",
            "",
            ".",
            "$",
            ".a..b",
            "[0]",
            "$[0]",
            ".a[x]",
            ".x-y",
            ".a[0",
            ".a[?(@ == \"x\"]",
            ".a[?(@ = \"x\")]",
            ".a[?search(@, '(')]",
            ".\"a",
            ".a[1:2][0]",
            "$$.role",
        ] {
            assert!(wrong.parse::<ClaimPath>().is_err(), "{wrong}");
        }
    }
}
