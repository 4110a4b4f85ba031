//! [`BaseUrl`]: an HTTP address to which paths are appended.

use std::fmt::{self, Debug, Display};
use std::path::Path;
use std::str::FromStr;

use url::{Host, Url};

use super::kinds::{InvalidValue, Kind, Value, fits, quote};

/// An `http` or `https` URL without query, fragment or credentials, to which paths are appended.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    text: String,
}

impl BaseUrl {
    /// The URL without a trailing slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parsed URL.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether the host is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }
}

impl FromStr for BaseUrl {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let url = Url::parse(text.trim()).map_err(|_| ())?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        let text = url.as_str().trim_end_matches('/').to_owned();
        if plain { Ok(Self { url, text }) } else { Err(()) }
    }
}

impl Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Kind<Self> for BaseUrl {
    fn expected() -> String {
        "a URL such as https://example.org, without query or password".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        fits(value.text().and_then(|text| text.parse().ok()), |url: &Self| quote(&url.text))
    }
}

/// The URL as text, for a service that only prints it.
impl Kind<String> for BaseUrl {
    fn expected() -> String {
        <Self as Kind<Self>>::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(String, String), InvalidValue> {
        <Self as Kind<Self>>::read(value, base).map(|(url, shown)| (url.text, shown))
    }
}
