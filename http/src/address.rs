//! Where a server listens, under which URL clients reach it, and which peers are proxies. Types only: how they are
//! written in the configuration is the gateway's.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;

use url::{Host, Url};

/// What to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenHost {
    /// One address; `0.0.0.0` is every IPv4 one.
    Address(IpAddr),
    /// Every address of the machine, IPv4 and IPv6.
    Everywhere,
    /// Every IPv6 address, and no IPv4 one.
    EveryIpv6,
    /// Whatever this name stands for.
    Name(String),
}

impl ListenHost {
    /// Whether only this machine can reach it, as far as the text tells.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Everywhere | Self::EveryIpv6 | Self::Name(_) => false,
        }
    }
}

impl Display for ListenHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Everywhere => f.write_str("*"),
            Self::EveryIpv6 => f.write_str("!6"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

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

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
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

impl Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}
