//! The API key gate (DESIGN §12, rest.md §3.20): checks `apikey`, rewrites `Authorization`, and removes the key from
//! the request. User tokens are not verified here; each service does that in its own order and format.

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::service::WithoutSecretKeys;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, StatusCode};

const APIKEY: HeaderName = HeaderName::from_static("apikey");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which requests of a service need an API key.
#[derive(Debug, Clone, Copy)]
pub enum Gate {
    /// All requests.
    Closed,
    /// All requests except those whose method and path, without the prefix, this function declares open (auth.md
    /// §1.1).
    OpenFor(fn(&Method, &str) -> bool),
    /// None; a key is still converted to a bearer token and removed.
    Rewrite,
    /// None; like `Rewrite`, but the service also sees the key (functions).
    RewriteAndKeep,
    /// The service checks the key and sees the request unchanged; requests from browsers get [`WithoutSecretKeys`]
    /// (realtime).
    Untouched,
}

/// Checks API keys.
pub struct KeyGate {
    keys: Arc<Keys>,
    clock: Clock,
    required: bool,
    browsers: SecretKeysInBrowsers,
}

/// Handling of secret keys sent by browsers. A secret key bypasses every policy, and any visitor of the page can read
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKeysInBrowsers {
    /// Reject the request.
    Refused,
    /// Accept the key.
    Accepted,
}

impl SecretKeysInBrowsers {
    /// Response for a request with a secret key, if a browser sent it and that is not allowed.
    #[must_use]
    pub fn refusal(self, request: &Request<Body>) -> Option<Response> {
        (self == Self::Refused && is_browser(request)).then(|| refusal(&SECRET_IN_BROWSER))
    }
}

impl KeyGate {
    /// Creates the gate; `required` is `server.require_apikey`. Without it no request needs a key, but one with a
    /// known key is rewritten all the same. Clients of PostgREST may filter by a column named `apikey`.
    #[must_use]
    pub const fn new(keys: Arc<Keys>, clock: Clock, required: bool, browsers: SecretKeysInBrowsers) -> Self {
        Self { keys, clock, required, browsers }
    }

    /// Keys that verify tokens.
    #[must_use]
    pub const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Admits the request and sets its bearer token, or returns the response to send instead.
    ///
    /// # Errors
    /// The key is missing or unknown, or is a secret key sent by a browser (401).
    pub fn admit(&self, gate: Gate, request: &mut Request<Body>) -> Result<(), Box<Response>> {
        if matches!(gate, Gate::Untouched) {
            if self.browsers == SecretKeysInBrowsers::Refused && is_browser(request) {
                request.extensions_mut().insert(WithoutSecretKeys);
            }
            return Ok(());
        }
        let sent = sent_key(request);
        let key = sent.as_deref().and_then(|key| self.keys.api_key(key, self.clock.unix_seconds()));
        if !self.required && key.is_none() && !matches!(gate, Gate::RewriteAndKeep) {
            return Ok(());
        }
        let needs_key = match gate {
            Gate::Closed => true,
            Gate::OpenFor(is_open) => !is_open(request.method(), request.uri().path()),
            Gate::Rewrite | Gate::RewriteAndKeep | Gate::Untouched => false,
        };
        if needs_key {
            match (&sent, &key) {
                (None, _) => return Err(Box::new(refusal(&NO_KEY))),
                (Some(_), None) => return Err(Box::new(refusal(&UNKNOWN_KEY))),
                (Some(_), Some(_)) => {}
            }
        }
        // Checked first, so that the bearer token is examined only for browsers.
        if let Some(refusal) = self.browsers.refusal(request)
            && (key.as_ref().is_some_and(|key| key.is_secret) || self.is_secret_bearer(request))
        {
            return Err(Box::new(refusal));
        }
        if !matches!(gate, Gate::RewriteAndKeep) {
            remove_key(request);
        }
        let brings_bearer = request
            .headers()
            .get(AUTHORIZATION)
            .is_some_and(|value| !is_project_key_bearer(value.as_bytes()));
        if brings_bearer {
            return Ok(());
        }
        let headers = request.headers_mut();
        match (key, gate, sent) {
            (Some(key), ..) => {
                headers.insert(AUTHORIZATION, key.authorization);
            }
            // The function validates what it receives (functions.md §3.1).
            (None, Gate::RewriteAndKeep, Some(sent)) => {
                if let Ok(bearer) = HeaderValue::try_from(format!("Bearer {sent}")) {
                    headers.insert(AUTHORIZATION, bearer);
                }
            }
            (None, Gate::RewriteAndKeep, None) => {}
            // `Bearer sb_…` without a known key does not identify a caller.
            (None, Gate::Closed | Gate::OpenFor(_) | Gate::Rewrite | Gate::Untouched, _) => {
                headers.remove(AUTHORIZATION);
            }
        }
        Ok(())
    }

    /// Whether the bearer token is a secret key: the legacy service_role key works as bearer token alongside any API
    /// key.
    fn is_secret_bearer(&self, request: &Request<Body>) -> bool {
        let sent = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = sent.and_then(|sent| sent.split_once(' ')).map(|(_scheme, token)| token.trim());
        let key = token.and_then(|token| self.keys.api_key(token, self.clock.unix_seconds()));
        key.is_some_and(|key| key.is_secret)
    }
}

fn sent_key(request: &Request<Body>) -> Option<String> {
    if let Some(value) = request.headers().get(APIKEY) {
        return value.to_str().ok().map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned);
    }
    let query = request.uri().query()?;
    let pair = query.split('&').find_map(|pair| pair.strip_prefix("apikey="))?;
    let key = percent_encoding::percent_decode_str(pair).decode_utf8().ok()?;
    (!key.is_empty()).then(|| key.into_owned())
}

/// Whether `Authorization` is `Bearer sb_…`, which the client sends with an opaque key; it is not a user's token.
fn is_project_key_bearer(value: &[u8]) -> bool {
    let Some((scheme, token)) = value.split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && token.trim_ascii_start().starts_with(b"sb_")
}

/// Whether a browser sent the request. Browsers identify as Mozilla unless the page or an extension overrides it, and
/// a page cannot suppress `Sec-Fetch-Site`. Node sends `Sec-Fetch-Mode` and some servers send `Origin`, so those
/// prove nothing (decision 0053).
fn is_browser(request: &Request<Body>) -> bool {
    let headers = request.headers();
    headers.contains_key(SEC_FETCH_SITE)
        || headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/"))
}

/// Removes the key from headers and query, as well as parameters without a name (`&=x`).
fn remove_key(request: &mut Request<Body>) {
    request.headers_mut().remove(APIKEY);
    let Some(query) = request.uri().query() else { return };
    let unwanted = |pair: &&str| pair.starts_with("apikey=") || *pair == "apikey" || pair.starts_with('=');
    if !query.split('&').any(|pair| unwanted(&pair)) {
        return;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !unwanted(pair)).collect();
    let path = request.uri().path();
    let rebuilt = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    // A shorter query with the same characters is still a valid URI.
    if let Ok(uri) = rebuilt.parse() {
        *request.uri_mut() = uri;
    }
}

struct Refusal {
    message: &'static str,
    hint: &'static str,
}

const NO_KEY: Refusal = Refusal {
    message: "No API key found in request",
    hint: "No `apikey` request header or url param was found.",
};
const UNKNOWN_KEY: Refusal = Refusal { message: "Invalid API key", hint: "Double check your API key." };

const SECRET_IN_BROWSER: Refusal = Refusal {
    message: "Forbidden use of secret API key in browser",
    hint: "A secret key bypasses every policy: use the publishable key here, and replace this one, which others may have read.",
};

fn refusal(refusal: &Refusal) -> Response {
    let body = serde_json::json!({ "message": refusal.message, "hint": refusal.hint }).to_string();
    (StatusCode::UNAUTHORIZED, [(CONTENT_TYPE, "application/json; charset=utf-8")], body).into_response()
}

#[cfg(test)]
mod tests {
    use basalt_core::keys::{ApiKeys, KeyMaterial, legacy_key};
    use secrecy::{ExposeSecret, SecretSlice};

    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn gate() -> (KeyGate, ApiKeys) {
        let secret = SecretSlice::from(b"a-secret-of-more-than-thirty-two-bytes!".to_vec());
        let key = |role| legacy_key(&secret, None, role, NOW).unwrap();
        let api_keys = ApiKeys {
            anon: key("anon"),
            service: key("service_role").into(),
            publishable: "sb_publishable_a".to_owned(),
            secret: "sb_secret_b".into(),
        };
        let material = KeyMaterial {
            jwks: Vec::new(),
            secret: Some(secret),
            secret_kid: None,
            strict_kid: false,
            rotates: true,
            api_keys: api_keys.clone(),
        };
        let keys = Arc::new(Keys::new(material).unwrap());
        (KeyGate::new(keys, Clock::fixed(NOW), true, SecretKeysInBrowsers::Refused), api_keys)
    }

    fn request(uri: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let mut builder = Request::builder().uri(uri);
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(Body::empty()).unwrap()
    }

    fn bearer(request: &Request<Body>) -> Option<String> {
        request.headers().get(AUTHORIZATION).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn every_kind_of_key_becomes_bearer_token() {
        let (gate, keys) = gate();
        let service = keys.service.expose_secret();
        for (key, expected) in
            [("sb_publishable_a", keys.anon.as_str()), ("sb_secret_b", service), (service, service)]
        {
            let mut request = request("/t", &[("apikey", key), ("authorization", "Bearer sb_publishable_a")]);
            gate.admit(Gate::Closed, &mut request).unwrap();
            assert_eq!(bearer(&request), Some(format!("Bearer {expected}")));
            assert!(!request.headers().contains_key("apikey"));
        }
    }

    #[test]
    fn user_token_takes_precedence_over_key() {
        let (gate, _) = gate();
        let mut request =
            request("/t", &[("apikey", "sb_secret_b"), ("authorization", "Bearer user.token.x")]);
        gate.admit(Gate::Closed, &mut request).unwrap();
        assert_eq!(bearer(&request).as_deref(), Some("Bearer user.token.x"));
    }

    #[test]
    fn key_in_query_is_accepted_and_removed() {
        let (gate, keys) = gate();
        let mut request = request("/t?select=id&apikey=sb_publishable_a&=x&a=eq.1", &[]);
        gate.admit(Gate::Closed, &mut request).unwrap();
        assert_eq!(request.uri(), "/t?select=id&a=eq.1");
        assert_eq!(bearer(&request), Some(format!("Bearer {}", keys.anon)));
    }

    #[test]
    fn missing_and_unknown_keys_are_rejected() {
        let (gate, _) = gate();
        for headers in
            [&[][..], &[("authorization", "Bearer user.token.x")], &[("apikey", "sb_publishable_other")]]
        {
            let refused = gate.admit(Gate::Closed, &mut request("/t", headers)).unwrap_err();
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        }
    }

    #[test]
    fn open_path_drops_bearer_that_is_only_a_key() {
        let (gate, _) = gate();
        let open = Gate::OpenFor(|method, path| method == Method::GET && path == "/health");
        let mut health = request("/health", &[("authorization", "Bearer sb_publishable_other")]);
        gate.admit(open, &mut health).unwrap();
        assert_eq!(bearer(&health), None);
        assert!(gate.admit(open, &mut request("/user", &[])).is_err());
        let mut posted = request("/health", &[]);
        *posted.method_mut() = Method::POST;
        assert!(gate.admit(open, &mut posted).is_err(), "only GET is open");
    }

    #[test]
    fn functions_receive_key_and_bearer_unchanged() {
        let (gate, keys) = gate();
        let anon = format!("Bearer {}", keys.anon);
        for (headers, expected) in [
            (&[("authorization", "Bearer sb_publishable_a")][..], Some("Bearer sb_publishable_a")),
            (&[("authorization", "Bearer sb_x"), ("apikey", "sb_publishable_a")], Some(anon.as_str())),
            (&[("authorization", "Bearer sb_x"), ("apikey", "other")], Some("Bearer other")),
            (&[("authorization", "Bearer user.token.x"), ("apikey", "other")], Some("Bearer user.token.x")),
            (&[], None),
        ] {
            let mut sent = request("/f?x=y", headers);
            gate.admit(Gate::RewriteAndKeep, &mut sent).unwrap();
            assert_eq!(bearer(&sent).as_deref(), expected, "{headers:?}");
        }
        let mut in_query = request("/f?apikey=sb_publishable_a", &[]);
        gate.admit(Gate::RewriteAndKeep, &mut in_query).unwrap();
        assert_eq!(
            (bearer(&in_query), in_query.uri().query()),
            (Some(anon), Some("apikey=sb_publishable_a"))
        );
        let mut dropped = request("/o", &[("authorization", "Bearer sb_publishable_a")]);
        gate.admit(Gate::Rewrite, &mut dropped).unwrap();
        assert_eq!(bearer(&dropped), None);
    }

    #[test]
    fn known_key_is_rewritten_even_if_not_required() {
        let (strict, keys) = gate();
        let gate = KeyGate::new(strict.keys, Clock::fixed(NOW), false, SecretKeysInBrowsers::Refused);
        let mut known = request("/t?a=eq.1&apikey=sb_publishable_a", &[]);
        gate.admit(Gate::Closed, &mut known).unwrap();
        assert_eq!(bearer(&known), Some(format!("Bearer {}", keys.anon)));
        assert_eq!(known.uri(), "/t?a=eq.1");
        let mut filter = request("/t?apikey=eq.1", &[("authorization", "Bearer sb_x")]);
        gate.admit(Gate::Closed, &mut filter).unwrap();
        assert_eq!(bearer(&filter).as_deref(), Some("Bearer sb_x"));
        assert_eq!(filter.uri(), "/t?apikey=eq.1");
        let mut function = request("/f", &[("apikey", "other")]);
        gate.admit(Gate::RewriteAndKeep, &mut function).unwrap();
        assert_eq!(bearer(&function).as_deref(), Some("Bearer other"));
    }

    #[test]
    fn secret_key_from_browser_is_rejected() {
        const FIREFOX: (&str, &str) =
            ("user-agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0");
        let browsers: [&[(&str, &str)]; 4] = [
            &[FIREFOX],
            &[("sec-fetch-site", "cross-site"), ("user-agent", "my-app/1.0")],
            &[
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-mode", "cors"),
                ("origin", "https://app.example"),
            ],
            &[("sec-fetch-site", "none")],
        ];
        // Headers of Node's fetch, alone and behind SvelteKit; of Deno; of a library; and none.
        let servers: [&[(&str, &str)]; 5] = [
            &[("sec-fetch-mode", "cors"), ("user-agent", "node"), ("accept-language", "*")],
            &[("sec-fetch-mode", "cors"), ("user-agent", "node"), ("origin", "https://app.example")],
            &[("user-agent", "Deno/2.1.4"), ("accept-language", "*")],
            &[("user-agent", "supabase-py/2.0")],
            &[],
        ];
        let (gate, keys) = gate();
        let service = keys.service.expose_secret();
        let service_bearer = format!("Bearer {service}");
        let secret: [&[(&str, &str)]; 4] = [
            &[("apikey", "sb_secret_b")],
            &[("apikey", service)],
            &[("apikey", "sb_publishable_a"), ("authorization", &service_bearer)],
            &[("apikey", &keys.anon), ("authorization", &service_bearer)],
        ];
        let anon_bearer = format!("Bearer {}", keys.anon);
        let public: [&[(&str, &str)]; 3] = [
            &[("apikey", "sb_publishable_a")],
            &[("apikey", &keys.anon), ("authorization", &anon_bearer)],
            &[("apikey", "sb_publishable_a"), ("authorization", "Bearer user.token.x")],
        ];
        let lenient =
            KeyGate::new(Arc::clone(&gate.keys), Clock::fixed(NOW), true, SecretKeysInBrowsers::Accepted);
        let admits = |by: &KeyGate, gated, key: &[_], from: &[_]| {
            by.admit(gated, &mut request("/t", &[key, from].concat())).is_ok()
        };
        for gated in [Gate::Closed, Gate::OpenFor(|_, _| true), Gate::Rewrite, Gate::RewriteAndKeep] {
            for key in secret {
                for from in browsers {
                    assert!(!admits(&gate, gated, key, from), "{gated:?} {key:?} {from:?}");
                    assert!(admits(&lenient, gated, key, from), "{gated:?} {key:?} {from:?}");
                }
                for from in servers {
                    assert!(admits(&gate, gated, key, from), "{gated:?} {key:?} {from:?}");
                }
            }
            for (key, from) in public.iter().flat_map(|key| browsers.map(|from| (key, from))) {
                assert!(admits(&gate, gated, key, from), "{gated:?} {key:?} {from:?}");
            }
        }
        for gated in [Gate::Rewrite, Gate::RewriteAndKeep] {
            let key = [("authorization", service_bearer.as_str())];
            assert!(!admits(&gate, gated, &key, &[FIREFOX]), "{gated:?}: bearer token only");
        }
    }
}
