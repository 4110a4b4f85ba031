//! The address that a browser is sent to: an allowed target with our answer in its fragment, in its query, or in both.
//! Upstream escapes `%` twice in some fragments; here everything is escaped once.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use url::form_urlencoded;

/// A target on its way to become a `Location`.
pub(crate) struct Location {
    /// Without fragment: whatever stood there, ours takes its place.
    target: String,
}

impl Location {
    /// `target` was allowed, so it is plain ASCII.
    pub(crate) fn new(target: &str) -> Self {
        Self { target: target.split('#').next().unwrap_or_default().to_owned() }
    }

    /// Adds parameters to the query; those of the same name give way, the others stay. Sorted by name.
    #[must_use]
    pub(crate) fn with_query(self, pairs: &[(&str, String)]) -> Self {
        let (base, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut all: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| !pairs.iter().any(|(ours, _)| ours == name))
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self { target: format!("{base}?{}", encode(all)) }
    }

    /// Sets the fragment, sorted by name; an empty `sb` marks it as ours.
    #[must_use]
    pub(crate) fn with_fragment(self, pairs: &[(&str, String)]) -> Self {
        let mut all: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        all.push(("sb".to_owned(), String::new()));
        Self { target: format!("{}#{}", self.target, encode(all)) }
    }

    /// 303, so that the browser goes there with GET.
    pub(crate) fn see_other(self) -> Response {
        let location = HeaderValue::from_str(&self.target).unwrap_or(HeaderValue::from_static("/"));
        (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
    }
}

fn encode(mut pairs: Vec<(String, String)>) -> String {
    pairs.sort_by(|left, right| left.0.cmp(&right.0));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs<'a>(list: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
        list.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
    }

    #[test]
    fn fragments_are_sorted_form_encoded_and_marked() {
        let location = Location::new("https://app.test/cb?x=1#old").with_fragment(&pairs(&[
            ("type", "recovery"),
            ("error_description", "a b & 100%"),
            ("access_token", "a.b-c_d"),
        ]));
        assert_eq!(
            location.target,
            "https://app.test/cb?x=1#access_token=a.b-c_d&error_description=a+b+%26+100%25&sb=&type=recovery"
        );
    }

    #[test]
    fn queries_keep_what_is_not_ours() {
        let location = Location::new("https://app.test/cb?x=1&code=old&sb_flow_id=f#part")
            .with_query(&pairs(&[("code", "new")]));
        assert_eq!(location.target, "https://app.test/cb?code=new&sb_flow_id=f&x=1");
        let location = Location::new("http://localhost:3000").with_query(&pairs(&[("code", "c")]));
        assert_eq!(location.target, "http://localhost:3000?code=c");
    }
}
