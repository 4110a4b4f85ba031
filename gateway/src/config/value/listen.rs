//! Where to listen: addresses, PostgREST's words for all of them, names.

use std::net::Ipv4Addr;

use basalt_http::address::ListenHost;

use super::{Setting, Value, quote};

impl Setting for ListenHost {
    fn expected() -> String {
        "an address (127.0.0.1, 0.0.0.0, ::1 …), a host name, `*` for every address, `!4` or `!6` for every one of IPv4 or IPv6"
            .to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let text = value.text()?.trim();
        match text {
            "localhost" => return Some(Self::Address(Ipv4Addr::LOCALHOST.into())),
            "!4" => return Some(Self::Address(Ipv4Addr::UNSPECIFIED.into())),
            "!6" => return Some(Self::EveryIpv6),
            "*" | "*4" | "*6" => return Some(Self::Everywhere),
            _ => {}
        }
        if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
            return Some(Self::Address(address));
        }
        let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
            && text.chars().any(|c| c.is_ascii_alphabetic());
        is_name.then(|| Self::Name(text.to_owned()))
    }

    fn show(&self) -> String {
        quote(&self.to_string())
    }
}

/// A port to listen on; 0 is any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenPort(
    /// The number.
    pub u16,
);

impl Setting for ListenPort {
    fn expected() -> String {
        "a port, a whole number from 1 to 65535 (0: any free one)".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.whole().and_then(|number| u16::try_from(number).ok()).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// Permissions of a socket, in octal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMode(
    /// The bits.
    pub u32,
);

impl Setting for SocketMode {
    fn expected() -> String {
        "an octal number from 600 to 777, as a text: \"660\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        let mode = u32::from_str_radix(value.text()?.trim(), 8).ok()?;
        (0o600..=0o777).contains(&mode).then_some(Self(mode))
    }

    fn show(&self) -> String {
        quote(&format!("{:o}", self.0))
    }
}
