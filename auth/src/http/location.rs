//! Redirect URLs: an allowed target with the result in its fragment, its query, or both. Unlike upstream, which escapes `%` twice
//! in some fragments, everything is escaped once.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{HeaderValue, LOCATION};
use url::form_urlencoded;

/// A `Location` under construction.
pub(crate) struct Location {
    /// Without the fragment.
    target: String,
    /// Without `#`. Apps with hash routing have their page here.
    fragment: Option<String>,
}

impl Location {
    /// `target` must be allowed, so it is plain ASCII.
    pub(crate) fn new(target: &str) -> Self {
        match target.split_once('#') {
            Some((target, fragment)) => {
                Self { target: target.to_owned(), fragment: Some(fragment.to_owned()) }
            }
            None => Self { target: target.to_owned(), fragment: None },
        }
    }

    /// Adds parameters to the query, replacing those of the same name. Sorts by name.
    #[must_use]
    pub(crate) fn with_query(self, pairs: &[(&str, String)]) -> Self {
        let (base, query) = self.target.split_once('?').unwrap_or((&self.target, ""));
        let mut all: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| !pairs.iter().any(|(ours, _)| ours == name))
            .map(|(name, value)| (name.into_owned(), value.into_owned()))
            .collect();
        all.extend(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        Self { target: format!("{base}?{}", encode(all)), ..self }
    }

    /// Replaces the fragment by these parameters, sorted by name. An empty `sb` marks it as ours.
    #[must_use]
    pub(crate) fn with_fragment(self, pairs: &[(&str, String)]) -> Self {
        let mut all: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        all.push(("sb".to_owned(), String::new()));
        Self { fragment: Some(encode(all)), ..self }
    }

    pub(crate) fn url(&self) -> String {
        match &self.fragment {
            Some(fragment) => format!("{}#{fragment}", self.target),
            None => self.target.clone(),
        }
    }

    /// A 303 response, so that the browser follows with GET.
    pub(crate) fn see_other(self) -> Response {
        self.response(StatusCode::SEE_OTHER)
    }

    /// A 302 response.
    pub(crate) fn found(self) -> Response {
        self.response(StatusCode::FOUND)
    }

    fn response(self, status: StatusCode) -> Response {
        let location = HeaderValue::from_str(&self.url()).unwrap_or(HeaderValue::from_static("/"));
        (status, [(LOCATION, location)]).into_response()
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
    fn fragment_is_sorted_encoded_and_marked() {
        let location = Location::new("https://app.test/cb?x=1#old").with_fragment(&pairs(&[
            ("type", "recovery"),
            ("error_description", "a b & 100%"),
            ("access_token", "a.b-c_d"),
        ]));
        assert_eq!(
            location.url(),
            "https://app.test/cb?x=1#access_token=a.b-c_d&error_description=a+b+%26+100%25&sb=&type=recovery"
        );
    }

    #[test]
    fn query_keeps_other_parameters() {
        let location = Location::new("https://app.test/cb?x=1&code=old&sb_flow_id=f#part")
            .with_query(&pairs(&[("code", "new")]));
        assert_eq!(location.url(), "https://app.test/cb?code=new&sb_flow_id=f&x=1#part");
        let location = Location::new("http://localhost:3000").with_query(&pairs(&[("code", "c")]));
        assert_eq!(location.url(), "http://localhost:3000?code=c");
    }

    #[test]
    fn query_precedes_the_fragment() {
        let to = |target: &str| Location::new(target).with_query(&pairs(&[("code", "c")])).url();
        assert_eq!(to("https://app.test/guide#/route"), "https://app.test/guide?code=c#/route");
        assert_eq!(
            to("https://app.test/guide?a=1#/route?b=2"),
            "https://app.test/guide?a=1&code=c#/route?b=2"
        );
        assert_eq!(to("https://app.test/#"), "https://app.test/?code=c#");
        let failed = Location::new("https://app.test/guide#/route")
            .with_query(&pairs(&[("error", "x")]))
            .with_fragment(&pairs(&[("error", "x")]));
        assert_eq!(failed.url(), "https://app.test/guide?error=x#error=x&sb=");
    }
}
