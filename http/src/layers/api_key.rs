//! The API-key gate (DESIGN §12, rest.md §3.20): checks `apikey`, rewrites `Authorization`, and takes the key out
//! of what the service sees. It never judges a user's bearer; the service does, in its own order and shape.

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

/// Which requests of a service need a key.
#[derive(Debug, Clone, Copy)]
pub enum Gate {
    /// All of them.
    Closed,
    /// All but those of a method and a path, without the prefix, that this says are open (auth.md §1.1).
    OpenFor(fn(&Method, &str) -> bool),
    /// None; a key is still turned into a bearer and taken out.
    Rewrite,
    /// None; as `Rewrite`, but the service keeps seeing the key (functions).
    RewriteAndKeep,
    /// The service checks by itself and sees everything as sent, and [`WithoutSecretKeys`] from a browser (realtime).
    Untouched,
}

/// The gate.
pub struct KeyGate {
    keys: Arc<Keys>,
    clock: Clock,
    required: bool,
    browsers: SecretKeysInBrowsers,
}

/// What becomes of a secret key that a browser brings: it bypasses every policy, and each visitor of the page can read
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretKeysInBrowsers {
    /// It is refused.
    Refused,
    /// It counts.
    Accepted,
}

impl SecretKeysInBrowsers {
    /// The 401 for a request with a secret key, when a browser sends it and that is refused.
    #[must_use]
    pub fn refusal(self, request: &Request<Body>) -> Option<Response> {
        (self == Self::Refused && is_browser(request)).then(|| refusal(&SECRET_IN_BROWSER))
    }
}

impl KeyGate {
    /// `required` is `server.require_apikey`. Without it no request needs a key, and one with a key that we know is
    /// rewritten all the same; PostgREST's clients may filter by a column `apikey`.
    #[must_use]
    pub const fn new(keys: Arc<Keys>, clock: Clock, required: bool, browsers: SecretKeysInBrowsers) -> Self {
        Self { keys, clock, required, browsers }
    }

    /// What verifies tokens.
    #[must_use]
    pub const fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// Lets the request in, with its bearer set, or answers for the service.
    ///
    /// # Errors
    /// The 401 of a missing or unknown key, or of a secret one in a browser.
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
        // Asked first: only a browser's bearer is looked at here.
        if let Some(refusal) = self.browsers.refusal(request)
            && (key.as_ref().is_some_and(|key| key.is_secret) || self.is_secret_bearer(request))
        {
            return Err(Box::new(refusal));
        }
        if !matches!(gate, Gate::RewriteAndKeep) {
            take_key_out(request);
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
            // functions.md §3.1: the function judges what it is sent.
            (None, Gate::RewriteAndKeep, Some(sent)) => {
                if let Ok(bearer) = HeaderValue::try_from(format!("Bearer {sent}")) {
                    headers.insert(AUTHORIZATION, bearer);
                }
            }
            (None, Gate::RewriteAndKeep, None) => {}
            // A `Bearer sb_…` without a key that we know says nothing about who is calling.
            (None, Gate::Closed | Gate::OpenFor(_) | Gate::Rewrite | Gate::Untouched, _) => {
                headers.remove(AUTHORIZATION);
            }
        }
        Ok(())
    }

    /// The legacy service_role key works as bearer beside any API key.
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

/// The client sends `Bearer sb_…` beside an opaque key; it is no user's token.
fn is_project_key_bearer(value: &[u8]) -> bool {
    let Some((scheme, token)) = value.split_at_checked(7) else { return false };
    scheme.eq_ignore_ascii_case(b"bearer ") && token.trim_ascii_start().starts_with(b"sb_")
}

/// Every browser calls itself Mozilla unless its page or an extension says otherwise, and no page can keep
/// `Sec-Fetch-Site` from being sent. Node sends `Sec-Fetch-Mode` and some servers send `Origin`, so those are no evidence
/// (decision 0053).
fn is_browser(request: &Request<Body>) -> bool {
    let headers = request.headers();
    headers.contains_key(SEC_FETCH_SITE)
        || headers.get(USER_AGENT).is_some_and(|agent| agent.as_bytes().starts_with(b"Mozilla/"))
}

/// Removes the key, and parameters without a name (`&=x`), from headers and query.
fn take_key_out(request: &mut Request<Body>) {
    request.headers_mut().remove(APIKEY);
    let Some(query) = request.uri().query() else { return };
    let unwanted = |pair: &&str| pair.starts_with("apikey=") || *pair == "apikey" || pair.starts_with('=');
    if !query.split('&').any(|pair| unwanted(&pair)) {
        return;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !unwanted(pair)).collect();
    let path = request.uri().path();
    let rebuilt = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    // A shorter query of the same characters is still a URI.
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
    fn each_kind_of_key_becomes_its_bearer() {
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
    fn a_users_token_wins_over_the_key() {
        let (gate, _) = gate();
        let mut request =
            request("/t", &[("apikey", "sb_secret_b"), ("authorization", "Bearer user.token.x")]);
        gate.admit(Gate::Closed, &mut request).unwrap();
        assert_eq!(bearer(&request).as_deref(), Some("Bearer user.token.x"));
    }

    #[test]
    fn the_key_may_come_in_the_query_and_leaves_it() {
        let (gate, keys) = gate();
        let mut request = request("/t?select=id&apikey=sb_publishable_a&=x&a=eq.1", &[]);
        gate.admit(Gate::Closed, &mut request).unwrap();
        assert_eq!(request.uri(), "/t?select=id&a=eq.1");
        assert_eq!(bearer(&request), Some(format!("Bearer {}", keys.anon)));
    }

    #[test]
    fn missing_and_unknown_keys_are_refused_even_with_a_users_token() {
        let (gate, _) = gate();
        for headers in
            [&[][..], &[("authorization", "Bearer user.token.x")], &[("apikey", "sb_publishable_other")]]
        {
            let refused = gate.admit(Gate::Closed, &mut request("/t", headers)).unwrap_err();
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
        }
    }

    #[test]
    fn an_open_path_needs_no_key_but_a_bearer_that_is_only_a_key_is_dropped() {
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
    fn functions_keep_what_they_are_sent() {
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
    fn where_no_key_is_required_a_known_one_still_counts() {
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
    fn a_browser_may_not_bring_a_secret_key() {
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
        // What Node's fetch sends, alone and behind SvelteKit; Deno's; a library's; nothing.
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
            assert!(!admits(&gate, gated, &key, &[FIREFOX]), "{gated:?}: a bearer alone");
        }
    }
}
