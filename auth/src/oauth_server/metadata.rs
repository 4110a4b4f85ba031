//! What a client registers (RFC 7591) and an admin changes, checked before it is stored.

use serde::Deserialize;
use url::{Host, Url};

use crate::error::AuthError;
use crate::fields::filled;
use crate::oauth_server::clients::{ClientAuth, OAuthClient, Registration};
use crate::redirects;

const MAX_REDIRECT_URIS: usize = 10;
const MAX_NAME_CHARACTERS: usize = 1024;
const MAX_URI_CHARACTERS: usize = 2048;

pub(crate) const GRANT_TYPES: [&str; 2] = ["authorization_code", "refresh_token"];

/// The fields of a registration or change. Others are ignored, as RFC 7591 §2 requires.
#[derive(Default, Deserialize)]
pub(crate) struct ClientFields {
    client_name: Option<String>,
    client_uri: Option<String>,
    logo_uri: Option<String>,
    redirect_uris: Option<Vec<String>>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    token_endpoint_auth_method: Option<String>,
}

impl ClientFields {
    /// A new client, without an id or a secret.
    pub(crate) fn into_client(self, registration: Registration) -> Result<OAuthClient, AuthError> {
        if filled(&self.client_name).is_none() {
            return Err(AuthError::validation("client_name is required"));
        }
        if self.redirect_uris.as_ref().is_none_or(Vec::is_empty) {
            return Err(AuthError::validation("redirect_uris is required"));
        }
        let mut client = OAuthClient::blank(registration);
        client.grant_types = GRANT_TYPES.map(str::to_owned).to_vec();
        self.apply(&mut client)?;
        Ok(client)
    }

    /// Changes the fields that are present.
    pub(crate) fn apply(self, client: &mut OAuthClient) -> Result<(), AuthError> {
        if let Some(name) = self.client_name {
            if name.is_empty() || name.chars().count() > MAX_NAME_CHARACTERS {
                return Err(AuthError::validation("client_name must have 1 to 1024 characters"));
            }
            client.name = name;
        }
        if let Some(uris) = self.redirect_uris {
            if uris.is_empty() || uris.len() > MAX_REDIRECT_URIS {
                return Err(AuthError::validation("redirect_uris must have 1 to 10 entries"));
            }
            for uri in &uris {
                check_redirect_uri(uri)?;
            }
            client.redirect_uris = uris;
        }
        if let Some(types) = self.grant_types {
            let is_known = types.iter().all(|grant| GRANT_TYPES.contains(&grant.as_str()));
            if !is_known || !types.iter().any(|grant| grant == "authorization_code") {
                return Err(AuthError::validation(
                    "grant_types must contain authorization_code, and may contain refresh_token",
                ));
            }
            client.grant_types = types;
        }
        if self.response_types.is_some_and(|types| types.iter().any(|kind| kind != "code")) {
            return Err(AuthError::validation("response_types must be code"));
        }
        if let Some(method) = self.token_endpoint_auth_method {
            let method = ClientAuth::parse(&method).ok_or(AuthError::validation(
                "token_endpoint_auth_method must be none, client_secret_basic or client_secret_post",
            ))?;
            client.auth = method;
        }
        for (value, name, uri) in [
            (self.client_uri, "client_uri", &mut client.uri),
            (self.logo_uri, "logo_uri", &mut client.logo_uri),
        ] {
            if let Some(value) = value {
                if !value.is_empty() && !is_page(&value) {
                    let text = format!("{name} must be an http or https URL of at most 2048 characters");
                    return Err(AuthError::Validation(text.into()));
                }
                *uri = value;
            }
        }
        Ok(())
    }
}

/// A page or image that the consent page may link to.
fn is_page(text: &str) -> bool {
    text.chars().count() <= MAX_URI_CHARACTERS
        && redirects::is_unambiguous(text)
        && Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// `https`, `http` on this machine, or the scheme of an app. A comma would separate entries of the column.
fn check_redirect_uri(text: &str) -> Result<(), AuthError> {
    let invalid = |reason: &str| {
        let shown: String = text.chars().take(200).collect();
        Err(AuthError::Validation(format!("invalid redirect_uri {shown:?}: {reason}").into()))
    };
    if text.len() > MAX_URI_CHARACTERS {
        return invalid("at most 2048 characters");
    }
    let Some(url) = Url::parse(text).ok().filter(|_url| redirects::is_unambiguous(text)) else {
        return invalid("not an absolute URL");
    };
    if text.contains('#') {
        return invalid("must not have a fragment");
    }
    if text.contains(',') {
        return invalid("must not have a comma; write %2C");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return invalid("must not have a user name");
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return invalid("must use https, unless it is on localhost");
    }
    Ok(())
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Whether a request may be answered at `asked`: it is registered verbatim, or is a registered loopback address with another port,
/// which native apps choose at the start (RFC 8252 §7.3).
pub(crate) fn is_registered(registered: &[String], asked: &str) -> bool {
    let without_port = |text: &str| {
        let mut url = Url::parse(text).ok()?;
        let is_literal = matches!(url.host(), Some(Host::Ipv4(_) | Host::Ipv6(_))) && is_loopback(&url);
        (is_literal && url.scheme() == "http" && url.set_port(None).is_ok()).then(|| url.to_string())
    };
    let is_loopback_match = || {
        redirects::is_unambiguous(asked)
            && !asked.contains('#')
            && without_port(asked)
                .is_some_and(|asked| registered.iter().any(|uri| without_port(uri).as_ref() == Some(&asked)))
    };
    registered.iter().any(|uri| uri == asked) || is_loopback_match()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn registered(changes: &Value) -> Result<OAuthClient, String> {
        let mut body = json!({ "client_name": "app", "redirect_uris": ["https://app.test/cb"] });
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        let fields: ClientFields = serde_json::from_value(body).unwrap();
        fields.into_client(Registration::Dynamic).map_err(|error| error.to_string())
    }

    #[test]
    fn redirect_uris_are_https_loopback_or_of_an_app() {
        for uri in [
            "https://app.test/cb?x=1",
            "http://localhost:3000/cb",
            "http://127.0.0.1/cb",
            "http://[::1]:9/cb",
            "cursor://anysphere/cb",
        ] {
            assert!(registered(&json!({ "redirect_uris": [uri] })).is_ok(), "{uri}");
        }
        for uri in [
            "http://app.test/cb",
            "https://app.test/cb#f",
            "https://ada@app.test/cb",
            "https://app.test/a,b",
            "/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://app.test\\@evil.test/",
            "https://2130706433/",
            "",
        ] {
            let error = registered(&json!({ "redirect_uris": [uri] })).err();
            assert!(error.is_some_and(|text| text.starts_with("invalid redirect_uri")), "{uri}");
        }
    }

    #[test]
    fn other_fields_are_checked() {
        for changes in [
            json!({ "client_name": "" }),
            json!({ "redirect_uris": [] }),
            json!({ "redirect_uris": vec!["https://app.test/cb"; 11] }),
            json!({ "grant_types": ["password"] }),
            json!({ "grant_types": ["refresh_token"] }),
            json!({ "response_types": ["token"] }),
            json!({ "token_endpoint_auth_method": "private_key_jwt" }),
            json!({ "logo_uri": "javascript:alert(1)" }),
            json!({ "client_uri": format!("https://app.test/{}", "x".repeat(2048)) }),
        ] {
            assert!(registered(&changes).is_err(), "{changes}");
        }
        let public = registered(&json!({ "token_endpoint_auth_method": "none", "software_id": 7 })).unwrap();
        assert!(public.is_public());
        assert_eq!(public.grant_types, GRANT_TYPES);
    }

    #[test]
    fn only_the_port_of_loopback_addresses_may_differ() {
        let registered =
            ["https://app.test/cb", "http://127.0.0.1:1/cb", "http://localhost:1/cb"].map(str::to_owned);
        for (uri, expected) in [
            ("https://app.test/cb", true),
            ("https://app.test/cb/", false),
            ("https://app.test/cb?x=1", false),
            ("https://app.test:444/cb", false),
            ("http://127.0.0.1:5001/cb", true),
            ("http://127.0.0.1:5001/other", false),
            ("http://127.0.0.1:5001/cb#f", false),
            ("http://127.0.0.2:1/cb", false),
            ("http://localhost:2/cb", false),
        ] {
            assert_eq!(is_registered(&registered, uri), expected, "{uri}");
        }
    }
}
