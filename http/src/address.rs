//! Listen addresses and proxy address ranges, with their kinds of settings.

use std::fmt::{self, Display};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::str::FromStr;

use basalt_core::settings::kinds::quote;
use basalt_core::settings::{InvalidValue, Kind, Value};

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenHost {
    /// A single address; `0.0.0.0` means all IPv4 addresses.
    Address(IpAddr),
    /// All addresses of the machine, IPv4 and IPv6.
    Everywhere,
    /// All IPv6 addresses, but no IPv4 ones.
    EveryIpv6,
    /// The addresses that a host name resolves to.
    Name(String),
}

impl ListenHost {
    /// Whether it is certain that only this machine can connect.
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

impl Kind<Self> for ListenHost {
    fn expected() -> String {
        "an address (127.0.0.1, 0.0.0.0, ::1 …), a host name, `*` for every address, `!4` or `!6` for every one of IPv4 or IPv6"
            .to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let text = value.text().ok_or(InvalidValue::Kind)?.trim();
        let address = || text.trim_start_matches('[').trim_end_matches(']').parse().ok().map(Self::Address);
        let name = || {
            let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
                && text.chars().any(|c| c.is_ascii_alphabetic());
            is_name.then(|| Self::Name(text.to_owned()))
        };
        let host = match text {
            "localhost" => Self::Address(Ipv4Addr::LOCALHOST.into()),
            "!4" => Self::Address(Ipv4Addr::UNSPECIFIED.into()),
            "!6" => Self::EveryIpv6,
            "*" | "*4" | "*6" => Self::Everywhere,
            _ => address().or_else(name).ok_or(InvalidValue::Kind)?,
        };
        let shown = quote(&host.to_string());
        Ok((host, shown))
    }
}

/// An address, or a block of addresses (`10.0.0.0/8`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpRange {
    base: IpAddr,
    bits: u8,
}

impl IpRange {
    /// Whether `address` is in the block; an IPv4-mapped IPv6 address counts as IPv4.
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

/// Kind of settings that hold a list of addresses and blocks.
#[derive(Debug)]
pub struct IpRanges;

impl Kind<Vec<IpRange>> for IpRanges {
    fn expected() -> String {
        "a list of addresses or blocks such as 10.0.0.0/8".to_owned()
    }

    fn read(value: &Value, base: &Path) -> Result<(Vec<IpRange>, String), InvalidValue> {
        let (items, _) = <Vec<String>>::read(value, base)?;
        let ranges: Option<Vec<IpRange>> = items.iter().map(|item| item.parse().ok()).collect();
        let ranges = ranges.ok_or(InvalidValue::Kind)?;
        let shown = ranges.iter().map(|range| quote(&range.to_string()));
        let shown = format!("[{}]", shown.collect::<Vec<_>>().join(", "));
        Ok((ranges, shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_block_contains_its_addresses() {
        let contains = |block: &str, address: &str| {
            block.parse::<IpRange>().unwrap().contains(address.parse::<IpAddr>().unwrap())
        };
        assert!(contains("10.0.0.0/8", "10.255.1.2") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "2001::1"));
        assert!(contains("127.0.0.1", "::ffff:127.0.0.1"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
    }
}
