//! Where something is reached: public URLs, PostgreSQL, blocks of IP addresses.

use std::fmt::{self, Debug, Display};
use std::net::IpAddr;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use url::{Host, Url};

use super::{Setting, Value, quote, show_list};

/// An `http(s)` address under which something is reached; paths are appended to it.
#[derive(Clone, PartialEq, Eq)]
pub struct BaseUrl {
    url: Url,
    text: String,
}

impl BaseUrl {
    /// The URL without a slash at its end.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parsed URL.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// Whether browsers reach it over TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Whether it names this machine only.
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

impl Setting for BaseUrl {
    fn expected() -> String {
        "a URL such as https://example.org, without query or password".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.text()?.parse().ok()
    }

    fn show(&self) -> String {
        quote(&self.text)
    }
}

/// How to reach a PostgreSQL; holds a password.
#[derive(Clone)]
pub struct DatabaseUrl(SecretString);

impl DatabaseUrl {
    /// The whole URL, password included.
    #[must_use]
    pub fn expose_secret(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

impl DatabaseUrl {
    fn driver(&self) -> Option<tokio_postgres::Config> {
        self.expose_secret().parse().ok()
    }
}

impl Setting for DatabaseUrl {
    fn expected() -> String {
        "a URL such as postgresql://user:password@host:5432/database (special characters in the password as %XX)"
            .to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let url = Self(SecretString::from(value.text()?.trim()));
        let names_a_host = url.driver().is_some_and(|driver| !driver.get_hosts().is_empty());
        names_a_host.then_some(url)
    }

    // Built anew from the parts that are no secret, so that no spelling of a password can slip through.
    fn show(&self) -> String {
        let Some(driver) = self.driver() else {
            return "(set)".to_owned();
        };
        let host = match driver.get_hosts().first() {
            Some(tokio_postgres::config::Host::Tcp(name)) => name.clone(),
            Some(tokio_postgres::config::Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = driver.get_ports().first().copied().unwrap_or(5432);
        let user = driver.get_user().unwrap_or_default();
        let password = if driver.get_password().is_some() { ":(set)" } else { "" };
        let database = driver.get_dbname().unwrap_or(user);
        quote(&format!("postgresql://{user}{password}@{host}:{port}/{database}"))
    }
}

/// An address or a block of them (`10.0.0.0/8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    base: IpAddr,
    bits: u8,
}

impl IpRange {
    /// Whether `address` lies in the block; an IPv4 address written in IPv6 form counts as the IPv4 one.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let mask =
            |width: u32| u128::MAX.checked_shl(width.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        match (self.base.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                (u128::from(u32::from(base)) ^ u128::from(u32::from(address))) & mask(32) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                (u128::from(base) ^ u128::from(address)) & mask(128) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for IpRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (base, bits) =
            text.trim().split_once('/').map_or((text.trim(), None), |(base, bits)| (base, Some(bits)));
        let base: IpAddr = base.parse().map_err(|_| ())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(width), |bits| bits.parse::<u8>().map_err(|_| ()))?;
        if bits <= width { Ok(Self { base, bits }) } else { Err(()) }
    }
}

impl Setting for Vec<IpRange> {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "a list of addresses or blocks such as 10.0.0.0/8".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        Vec::<String>::read(value)?.iter().map(|item| item.parse().ok()).collect()
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(|range| format!("{}/{}", range.base, range.bits)).collect();
        show_list(items.iter())
    }
}
