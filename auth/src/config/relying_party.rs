//! The relying party of WebAuthn: whom passkeys and WebAuthn factors belong to (auth.md §3.22).

use url::{Host, Url};

use super::AuthConfig;

/// The relying party of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelyingPartySettings {
    /// A domain.
    pub(crate) id: String,
    pub(crate) name: String,
    /// At least one, each on the domain or below it.
    pub(crate) origins: Vec<Url>,
}

impl AuthConfig {
    /// The relying party; `None` while no feature needs one.
    ///
    /// # Errors
    /// The setting that is invalid, and why.
    pub(crate) fn relying_party(&self) -> Result<Option<RelyingPartySettings>, (&'static str, String)> {
        const ID: &str = "auth.webauthn_rp_id";
        const ORIGINS: &str = "auth.webauthn_rp_origins";
        if !(self.passkey_enabled || self.mfa_web_authn_enroll_enabled || self.mfa_web_authn_verify_enabled) {
            return Ok(None);
        }
        let site = Url::parse(&self.site_url).ok().map(at_localhost);
        let site_host = site.as_ref().and_then(Url::host_str).unwrap_or_default().to_owned();
        let id = self.webauthn_rp_id.clone().unwrap_or(site_host);
        let origins: Vec<Url> = if self.webauthn_rp_origins.is_empty() {
            site.into_iter().collect()
        } else {
            let parsed = self.webauthn_rp_origins.iter().map(|origin| Url::parse(origin));
            let parsed: Result<_, _> = parsed.collect();
            parsed.map_err(|error| (ORIGINS, format!("must contain URLs: {error}")))?
        };
        // An IP address cannot be a relying party.
        let is_below = |origin: &Url| {
            origin.domain().is_some_and(|host| host == id || host.ends_with(&format!(".{id}")))
        };
        if origins.is_empty() || !origins.iter().all(is_below) {
            let text = "must be the host name of each origin in auth.webauthn_rp_origins (by default, of \
                        auth.site_url), or a parent domain of it";
            return Err((ID, text.to_owned()));
        }
        let is_secure = |origin: &Url| origin.scheme() == "https" || origin.domain() == Some("localhost");
        if !origins.iter().all(is_secure) {
            return Err((ORIGINS, "must be https URLs, except on localhost".to_owned()));
        }
        let name = self.webauthn_rp_display_name.clone().unwrap_or_else(|| id.clone());
        Ok(Some(RelyingPartySettings { id, name, origins }))
    }
}

/// The URL with `localhost` in place of a loopback address, which browsers do not accept as a relying party.
fn at_localhost(mut url: Url) -> Url {
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    };
    if is_loopback && url.set_host(Some("localhost")).is_err() {
        tracing::debug!("{url} does not accept another host");
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn party(changes: impl FnOnce(&mut AuthConfig)) -> Result<Option<String>, &'static str> {
        let mut config = AuthConfig { passkey_enabled: true, ..AuthConfig::default() };
        config.site_url = "https://app.example.org".to_owned();
        changes(&mut config);
        let party = config.relying_party().map_err(|(key, _text)| key)?;
        Ok(party.map(|party| party.id))
    }

    #[test]
    fn relying_party_is_that_of_the_site() {
        assert_eq!(party(|_config| {}), Ok(Some("app.example.org".to_owned())));
        assert_eq!(party(|config| config.passkey_enabled = false), Ok(None));
        let parent = party(|config| config.webauthn_rp_id = Some("example.org".to_owned()));
        assert_eq!(parent, Ok(Some("example.org".to_owned())));
        for loopback in ["http://127.0.0.1:8000", "http://[::1]:8000"] {
            let local = party(|config| config.site_url = loopback.to_owned());
            assert_eq!(local, Ok(Some("localhost".to_owned())), "{loopback}");
        }
    }

    #[test]
    fn origins_must_be_secure_and_below_the_id() {
        let id = Some("auth.webauthn_rp_id");
        assert_eq!(party(|config| config.webauthn_rp_id = Some("other.org".to_owned())).err(), id);
        assert_eq!(party(|config| config.site_url = "http://192.168.1.5:3000".to_owned()).err(), id);
        let origins = |list: &[&str]| {
            let list = list.iter().map(|origin| (*origin).to_owned()).collect();
            party(|config| config.webauthn_rp_origins = list).err()
        };
        assert_eq!(origins(&["https://app.example.org", "https://a.app.example.org"]), None);
        assert_eq!(origins(&["https://app.example.org", "https://evil.test"]), id);
        assert_eq!(origins(&["http://app.example.org"]), Some("auth.webauthn_rp_origins"));
        assert_eq!(origins(&["nowhere"]), Some("auth.webauthn_rp_origins"));
    }
}
