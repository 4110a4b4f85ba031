//! The types a setting can have: how each is read from TOML and from plain text (a variable, an option), and how it
//! is shown again. What a value means together with others is `config/resolve.rs`'s business.

mod address;
mod email_rate;
mod listen;

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

pub use address::DatabaseUrl;
pub use basalt_http::address::{BaseUrl, IpRange, ListenHost};
pub use listen::{ListenPort, SocketMode};

/// A value as somebody wrote it.
#[derive(Clone)]
pub enum Value {
    /// From a variable or an option: its type is whatever the setting wants.
    Bare(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML array.
    List(Vec<Value>),
    /// A TOML table that is itself a value.
    Pairs(Vec<(String, Value)>),
    /// Any other TOML value, by the name of its type: nothing accepts it.
    Other(&'static str),
}

impl Value {
    /// For messages: what is written there. Never called for secrets.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Bare(text) => quote(text),
            Self::Text(text) => format!("the text {}", quote(text)),
            Self::Integer(number) => format!("the number {number}"),
            Self::Boolean(flag) => format!("{flag}"),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::describe).collect();
                format!("a list of {}", items.join(", "))
            }
            Self::Pairs(_) => "a section".to_owned(),
            Self::Other(kind) => format!("a {kind}"),
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Bare(text) | Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Boolean(_) | Self::List(_) | Self::Pairs(_) | Self::Other(_) => None,
        }
    }

    fn whole(&self) -> Option<u64> {
        match self {
            Self::Bare(text) => text.trim().replace('_', "").parse().ok(),
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::Boolean(_) | Self::List(_) | Self::Pairs(_) | Self::Other(_) => None,
        }
    }
}

/// A type that a setting can have.
pub trait Setting: Sized {
    /// Whether an empty variable means something. Where it does not, an empty variable counts as not set, because
    /// container tools pass `NAME=` for "nothing given".
    const EMPTY_MEANS: bool = false;

    /// What is expected, to follow "must be": `a whole number from 1 to 65535`.
    fn expected() -> String;

    /// Reads a value; `None` when it is not what [`Setting::expected`] says.
    fn read(value: &Value) -> Option<Self>;

    /// The value as TOML.
    fn show(&self) -> String;
}

/// Text in TOML quotes.
pub(super) fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Setting for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Boolean(flag) => Some(*flag),
            Value::Bare(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Some(true),
                "false" | "0" | "no" | "off" => Some(false),
                _ => None,
            },
            Value::Text(_) | Value::Integer(_) | Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "text".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.text().map(ToOwned::to_owned)
    }

    fn show(&self) -> String {
        quote(self)
    }
}

impl Setting for Vec<String> {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "a list of texts (in a variable: separated by commas)".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            // A comma-separated TOML string is how PostgREST and GoTrue write such lists.
            Value::Bare(text) | Value::Text(text) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(ToOwned::to_owned)
                    .collect(),
            ),
            Value::List(items) => items.iter().map(|item| item.text().map(ToOwned::to_owned)).collect(),
            Value::Integer(_) | Value::Boolean(_) | Value::Pairs(_) | Value::Other(_) => None,
        }
    }

    fn show(&self) -> String {
        show_list(self.iter())
    }
}

/// Names with values, in the order they were written.
impl Setting for Vec<(String, String)> {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "a section of names with texts (in a variable: NAME=value, separated by commas)".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bare(text) | Value::Text(text) => text
                .split(',')
                .filter(|item| !item.trim().is_empty())
                .map(|item| {
                    item.split_once('=').map(|(name, text)| (name.trim().to_owned(), text.trim().to_owned()))
                })
                .collect(),
            Value::Pairs(pairs) => {
                pairs.iter().map(|(name, text)| Some((name.clone(), text.text()?.to_owned()))).collect()
            }
            Value::Integer(_) | Value::Boolean(_) | Value::List(_) | Value::Other(_) => None,
        }
    }

    fn show(&self) -> String {
        let pairs: Vec<String> =
            self.iter().map(|(name, text)| format!("{} = {}", quote(name), quote(text))).collect();
        format!("{{ {} }}", pairs.join(", "))
    }
}

fn show_list<'a>(items: impl Iterator<Item = &'a String>) -> String {
    format!("[{}]", items.map(|item| quote(item)).collect::<Vec<_>>().join(", "))
}

impl Setting for SecretString {
    fn expected() -> String {
        "text that is not empty".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.text().filter(|text| !text.is_empty()).map(Self::from)
    }

    fn show(&self) -> String {
        "(set)".to_owned()
    }
}

impl Setting for PathBuf {
    const EMPTY_MEANS: bool = true;

    fn expected() -> String {
        "a path".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.text().filter(|text| !text.contains('\0')).map(Self::from)
    }

    fn show(&self) -> String {
        quote(&self.to_string_lossy())
    }
}

/// A whole number within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// The nearest number within the bounds.
    #[must_use]
    pub fn clamped(number: usize) -> Self {
        Self(u64::try_from(number).unwrap_or(u64::MAX).clamp(MIN, MAX))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number where 32 bits hold it, which the bounds promise.
    #[must_use]
    pub fn small(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }

    /// The number as a count or size in memory.
    #[must_use]
    pub fn count(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Setting for Whole<MIN, MAX> {
    fn expected() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(value: &Value) -> Option<Self> {
        value.whole().filter(|number| (MIN..=MAX).contains(number)).map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A TCP port.
impl Setting for u16 {
    fn expected() -> String {
        "a port, a whole number from 1 to 65535".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        value.whole().and_then(|number| Self::try_from(number).ok()).filter(|port| *port > 0)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// Time: a number of seconds, or numbers with units (`90s`, `15m`, `24h`, `7d`, `1h30m`, `250ms`).
impl Setting for Duration {
    fn expected() -> String {
        "a time such as 30 (seconds), \"250ms\", \"15m\", \"24h\" or \"7d\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        // Longer ones lead past the end of the clock when they are added to now.
        const MOST: Duration = Duration::from_secs(36_500 * 86_400);
        let time = match value.whole() {
            Some(seconds) => Self::from_secs(seconds),
            None => with_units(value.text()?.trim())?,
        };
        (time <= MOST).then_some(time)
    }

    fn show(&self) -> String {
        if self.subsec_millis() > 0 {
            return quote(&format!("{}ms", self.as_millis()));
        }
        match self.as_secs() {
            0 => "0".to_owned(),
            seconds if seconds % 86_400 == 0 => quote(&format!("{}d", seconds / 86_400)),
            seconds if seconds % 3_600 == 0 => quote(&format!("{}h", seconds / 3_600)),
            seconds if seconds % 60 == 0 => quote(&format!("{}m", seconds / 60)),
            seconds => quote(&format!("{seconds}s")),
        }
    }
}

fn with_units(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let number: u64 = digits.parse().ok()?;
        let step = match unit.trim() {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3_600)?),
            "d" => Duration::from_secs(number.checked_mul(86_400)?),
            _ => return None,
        };
        total = total.checked_add(step)?;
        rest = after;
    }
    (!text.is_empty()).then_some(total)
}

/// A size in bytes: a number, or one with a unit (`512KiB`, `50MiB`, `2GB`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(
    /// Bytes.
    pub u64,
);

impl Setting for ByteSize {
    fn expected() -> String {
        "a size such as 1048576 (bytes), \"50MiB\" or \"2GB\"".to_owned()
    }

    fn read(value: &Value) -> Option<Self> {
        if let Some(bytes) = value.whole() {
            return Some(Self(bytes));
        }
        let text = value.text()?.trim();
        let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "kb" => 1_000,
            "k" | "kib" => 1 << 10,
            "mb" => 1_000_000,
            "m" | "mib" => 1 << 20,
            "gb" => 1_000_000_000,
            "g" | "gib" => 1 << 30,
            _ => return None,
        };
        digits.parse::<u64>().ok()?.checked_mul(factor).map(Self)
    }

    fn show(&self) -> String {
        match self.0 {
            0 => "0".to_owned(),
            bytes if bytes % (1 << 30) == 0 => quote(&format!("{}GiB", bytes >> 30)),
            bytes if bytes % (1 << 20) == 0 => quote(&format!("{}MiB", bytes >> 20)),
            bytes if bytes % (1 << 10) == 0 => quote(&format!("{}KiB", bytes >> 10)),
            bytes => bytes.to_string(),
        }
    }
}

/// Defines a closed set of words as an enum that is a [`Setting`].
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// The word as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::config::value::Setting for $name {
            fn expected() -> String {
                let words: &[&str] = &[$($word),+];
                format!("one of {}", words.join(", "))
            }

            fn read(value: &$crate::config::value::Value) -> Option<Self> {
                match value {
                    $crate::config::value::Value::Bare(text) | $crate::config::value::Value::Text(text) => match text.trim() {
                        $($word => Some(Self::$variant),)+
                        _ => None,
                    },
                    _ => None,
                }
            }

            fn show(&self) -> String {
                $crate::config::value::quote(self.as_str())
            }
        }
    };
}
pub(super) use choice;
