//! The notations of setting values, in TOML and in plain text (environment variables, options).

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

/// A raw value.
#[derive(Clone)]
pub enum Value {
    /// Plain text from a variable or an option; the setting determines its type.
    Bare(String),
    /// A TOML string.
    Text(String),
    /// A TOML integer.
    Integer(i64),
    /// A TOML boolean.
    Boolean(bool),
    /// A TOML array.
    List(Vec<Value>),
    /// A TOML table used as a value.
    Pairs(Vec<(String, Value)>),
    /// Any other TOML value, which no setting accepts; contains the name of its type.
    Other(&'static str),
}

impl Value {
    /// Describes the value for error messages. Never called for secrets.
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

    /// The value as text, if it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Bare(text) | Self::Text(text) => Some(text),
            Self::Integer(_) | Self::Boolean(_) | Self::List(_) | Self::Pairs(_) | Self::Other(_) => None,
        }
    }

    /// The value as a number, if it is a non-negative integer.
    #[must_use]
    pub fn whole(&self) -> Option<u64> {
        match self {
            Self::Bare(text) => text.trim().replace('_', "").parse().ok(),
            Self::Integer(number) => u64::try_from(*number).ok(),
            Self::Text(_) | Self::Boolean(_) | Self::List(_) | Self::Pairs(_) | Self::Other(_) => None,
        }
    }
}

/// Why a value is invalid.
#[derive(Debug)]
pub enum InvalidValue {
    /// The value does not match [`Kind::expected`].
    Kind,
    /// This sentence, which continues after the setting's name.
    Because(String),
}

/// The notation of a `T`.
pub trait Kind<T> {
    /// Whether error messages must not quote the value.
    const HOLDS_SECRET: bool = false;
    /// Whether empty text means `None` for an optional setting.
    const EMPTY_IS_NONE: bool = false;

    /// The expected notation, to follow "must be": `a whole number from 1 to 65535`.
    fn expected() -> String;

    /// Parses a value, and formats it as TOML. Relative paths start at `base`.
    ///
    /// # Errors
    /// The value is invalid.
    fn read(value: &Value, base: &Path) -> Result<(T, String), InvalidValue>;

    /// The value if there is neither text nor a default.
    #[must_use]
    fn unset() -> Option<T> {
        None
    }
}

/// Builds the result of [`Kind::read`] from an optional value.
///
/// # Errors
/// `value` is `None`.
pub fn fits<T>(value: Option<T>, show: impl FnOnce(&T) -> String) -> Result<(T, String), InvalidValue> {
    let value = value.ok_or(InvalidValue::Kind)?;
    let shown = show(&value);
    Ok((value, shown))
}

/// Parses a value without a [`Reader`](super::Reader).
///
/// # Errors
/// The value is invalid; the message has no subject.
pub fn read_as<T, K: Kind<T>>(value: &Value) -> Result<T, String> {
    K::read(value, Path::new("")).map(|(value, _)| value).map_err(|invalid| match invalid {
        InvalidValue::Because(sentence) => sentence,
        InvalidValue::Kind => format!("must be {}", K::expected()),
    })
}

/// Quotes text for TOML, whose escapes include JSON's.
#[must_use]
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn show_list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| quote(item)).collect::<Vec<_>>().join(", "))
}

impl<T, K: Kind<T>> Kind<Option<T>> for Option<K> {
    const HOLDS_SECRET: bool = K::HOLDS_SECRET;

    fn expected() -> String {
        K::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Option<T>, String), InvalidValue> {
        if K::EMPTY_IS_NONE && value.text() == Some("") {
            return Ok((None, quote("")));
        }
        K::read(value, base).map(|(value, shown)| (Some(value), shown))
    }

    fn unset() -> Option<Option<T>> {
        Some(None)
    }
}

impl Kind<Self> for bool {
    fn expected() -> String {
        "true or false".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let flag = match value {
            Value::Boolean(flag) => Some(*flag),
            Value::Bare(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "t" | "1" | "yes" | "on" => Some(true),
                "false" | "f" | "0" | "no" | "off" => Some(false),
                _ => None,
            },
            Value::Text(_) | Value::Integer(_) | Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
        };
        fits(flag, Self::to_string)
    }
}

impl Kind<Self> for String {
    const EMPTY_IS_NONE: bool = true;

    fn expected() -> String {
        "text".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        fits(value.text().map(ToOwned::to_owned), |text| quote(text))
    }
}

/// Text that is parsed by the type's `FromStr`.
#[derive(Debug)]
pub struct Parsed;

impl<T: FromStr<Err: Display>> Kind<T> for Parsed {
    const EMPTY_IS_NONE: bool = true;

    fn expected() -> String {
        "text".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(T, String), InvalidValue> {
        let text = value.text().ok_or(InvalidValue::Kind)?;
        let parsed = text.parse().map_err(|error| InvalidValue::Because(format!("is invalid: {error}")))?;
        Ok((parsed, quote(text)))
    }
}

impl Kind<Self> for Vec<String> {
    fn expected() -> String {
        "a list of strings (in a variable: separated by commas)".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let items: Option<Self> = match value {
            // PostgREST and GoTrue accept a comma-separated string for such lists.
            Value::Bare(text) | Value::Text(text) => Some(
                text.split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty())
                    .map(ToOwned::to_owned)
                    .collect(),
            ),
            Value::List(items) => items.iter().map(|item| item.text().map(ToOwned::to_owned)).collect(),
            Value::Integer(_) | Value::Boolean(_) | Value::Pairs(_) | Value::Other(_) => None,
        };
        fits(items, |items| show_list(items))
    }
}

/// A list whose items are parsed by the type's `FromStr`; duplicates are dropped.
#[derive(Debug)]
pub struct ParsedList;

impl<T: FromStr<Err: Display> + PartialEq> Kind<Vec<T>> for ParsedList {
    fn expected() -> String {
        <Vec<String> as Kind<Vec<String>>>::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Vec<T>, String), InvalidValue> {
        let (items, shown) = <Vec<String>>::read(value, base)?;
        let mut parsed = Vec::new();
        for item in items {
            let item = item.parse().map_err(|error| InvalidValue::Because(format!("is invalid: {error}")))?;
            if !parsed.contains(&item) {
                parsed.push(item);
            }
        }
        Ok((parsed, shown))
    }
}

/// Name-value pairs, in the order they are written.
impl Kind<Self> for Vec<(String, String)> {
    fn expected() -> String {
        "a section of names with string values (in a variable: NAME=value, separated by commas)".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let pairs: Option<Self> = match value {
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
        };
        fits(pairs, |pairs| {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, text)| format!("{} = {}", quote(name), quote(text))).collect();
            format!("{{ {} }}", pairs.join(", "))
        })
    }
}

impl Kind<Self> for SecretString {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        "non-empty text".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let text = value.text().filter(|text| !text.is_empty());
        fits(text.map(Self::from), |_| "(set)".to_owned())
    }
}

/// A secret of at least [`LongSecret::LEAST`] characters.
#[derive(Debug)]
pub struct LongSecret;

impl LongSecret {
    /// Minimum length, the same as in PostgREST: with a guessable secret anyone can sign tokens.
    pub const LEAST: usize = 32;

    /// The error for a secret of this length, if it is too short.
    #[must_use]
    pub fn fault(length: usize) -> Option<String> {
        (length < Self::LEAST).then(|| {
            let least = Self::LEAST;
            format!(
                "has {length} characters but needs at least {least}: generate one with `openssl rand -base64 48`"
            )
        })
    }
}

impl Kind<SecretString> for LongSecret {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        SecretString::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(SecretString, String), InvalidValue> {
        let (secret, shown) = SecretString::read(value, base)?;
        let fault = Self::fault(secret.expose_secret().len());
        fault.map_or(Ok((secret, shown)), |fault| Err(InvalidValue::Because(fault)))
    }
}

/// An absolute path. It need not exist yet, so the file system is not consulted.
impl Kind<Self> for PathBuf {
    const EMPTY_IS_NONE: bool = true;

    fn expected() -> String {
        "a path".to_owned()
    }

    fn read(value: &Value, base: &Path) -> Result<(Self, String), InvalidValue> {
        let text = value.text().filter(|text| !text.is_empty() && !text.contains('\0'));
        let absolute = |text: &str| {
            let path = base.join(text);
            // Removes `.` components, such as in `a/./b`.
            std::path::absolute(&path).unwrap_or(path).components().collect()
        };
        fits(text.map(absolute), |path: &Self| quote(&path.to_string_lossy()))
    }
}

/// An integer within bounds.
#[derive(Debug)]
pub struct Whole<const MIN: u64, const MAX: u64>;

impl<T: TryFrom<u64>, const MIN: u64, const MAX: u64> Kind<T> for Whole<MIN, MAX> {
    fn expected() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }

    fn read(value: &Value, _: &Path) -> Result<(T, String), InvalidValue> {
        let number = value.whole().filter(|number| (MIN..=MAX).contains(number)).ok_or(InvalidValue::Kind)?;
        Ok((T::try_from(number).map_err(|_| InvalidValue::Kind)?, number.to_string()))
    }
}

/// A limit; 0 means unlimited.
#[derive(Debug)]
pub struct Cap<const MAX: u64>;

impl<const MAX: u64> Kind<Option<u64>> for Cap<MAX> {
    fn expected() -> String {
        <Whole<0, MAX> as Kind<u64>>::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(Option<u64>, String), InvalidValue> {
        let (number, shown): (u64, _) = <Whole<0, MAX>>::read(value, base)?;
        Ok((Some(number).filter(|number| *number > 0), shown))
    }
}

/// A TCP port.
impl Kind<Self> for u16 {
    fn expected() -> String {
        "a port, a whole number from 1 to 65535".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Self, String), InvalidValue> {
        let port = value.whole().and_then(|number| Self::try_from(number).ok());
        fits(port.filter(|port| *port > 0), Self::to_string)
    }
}

/// A port to listen on; 0 means any free port.
#[derive(Debug)]
pub struct ListenPort;

impl Kind<u16> for ListenPort {
    fn expected() -> String {
        "a port, a whole number from 1 to 65535 (0: any free port)".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(u16, String), InvalidValue> {
        fits(value.whole().and_then(|number| u16::try_from(number).ok()), u16::to_string)
    }
}

/// A duration: seconds, or numbers with units (`90s`, `15m`, `24h`, `7d`, `1h30m`, `250ms`); at least `LEAST_MS`
/// milliseconds.
#[derive(Debug)]
pub struct Time<const LEAST_MS: u64 = 0>;

impl<const LEAST_MS: u64> Kind<Duration> for Time<LEAST_MS> {
    fn expected() -> String {
        "a time such as 30 (seconds), \"250ms\", \"15m\", \"24h\" or \"7d\"".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(Duration, String), InvalidValue> {
        let time = read_time(value).ok_or(InvalidValue::Kind)?;
        let least = Duration::from_millis(LEAST_MS);
        if time < least {
            return Err(InvalidValue::Because(format!(
                "must be at least {}",
                show_time(least).trim_matches('"')
            )));
        }
        Ok((time, show_time(time)))
    }
}

/// A duration rounded up to whole seconds, because 0 often has a special meaning; at least `LEAST` seconds.
#[derive(Debug)]
pub struct Seconds<const LEAST: u64 = 0>;

impl<T: TryFrom<u64>, const LEAST: u64> Kind<T> for Seconds<LEAST> {
    fn expected() -> String {
        <Time>::expected()
    }

    fn read(value: &Value, _: &Path) -> Result<(T, String), InvalidValue> {
        let time = read_time(value).ok_or(InvalidValue::Kind)?;
        if time < Duration::from_secs(LEAST) {
            let least = show_time(Duration::from_secs(LEAST));
            return Err(InvalidValue::Because(format!("must be at least {}", least.trim_matches('"'))));
        }
        let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        Ok((T::try_from(seconds).map_err(|_| InvalidValue::Kind)?, show_time(time)))
    }
}

/// Parses a duration in the notation of [`Time`].
#[must_use]
pub fn read_time(value: &Value) -> Option<Duration> {
    // Adding more to the current time could overflow.
    const MOST: Duration = Duration::from_secs(36_500 * 86_400);
    let time = match value.whole() {
        Some(seconds) => Duration::from_secs(seconds),
        None => with_units(value.text()?.trim())?,
    };
    (time <= MOST).then_some(time)
}

fn show_time(time: Duration) -> String {
    if time.subsec_millis() > 0 {
        return quote(&format!("{}ms", time.as_millis()));
    }
    match time.as_secs() {
        0 => "0".to_owned(),
        seconds if seconds % 86_400 == 0 => quote(&format!("{}d", seconds / 86_400)),
        seconds if seconds % 3_600 == 0 => quote(&format!("{}h", seconds / 3_600)),
        seconds if seconds % 60 == 0 => quote(&format!("{}m", seconds / 60)),
        seconds => quote(&format!("{seconds}s")),
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

/// A size in bytes: a number, optionally with a unit (`512KiB`, `50MiB`, `2GB`), within bounds.
#[derive(Debug)]
pub struct Bytes<const LEAST: u64 = 0, const MOST: u64 = { u64::MAX }>;

impl<T: TryFrom<u64>, const LEAST: u64, const MOST: u64> Kind<T> for Bytes<LEAST, MOST> {
    fn expected() -> String {
        "a size such as 1048576 (bytes), \"50MiB\" or \"2GB\"".to_owned()
    }

    fn read(value: &Value, _: &Path) -> Result<(T, String), InvalidValue> {
        let bytes = read_bytes(value).ok_or(InvalidValue::Kind)?;
        if !(LEAST..=MOST).contains(&bytes) {
            let (least, most) = (show_bytes(LEAST), show_bytes(MOST));
            let (least, most) = (least.trim_matches('"'), most.trim_matches('"'));
            return Err(InvalidValue::Because(if MOST == u64::MAX {
                format!("must be at least {least}")
            } else {
                format!("must be from {least} to {most}")
            }));
        }
        Ok((T::try_from(bytes).map_err(|_| InvalidValue::Kind)?, show_bytes(bytes)))
    }
}

fn read_bytes(value: &Value) -> Option<u64> {
    if let Some(bytes) = value.whole() {
        return Some(bytes);
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
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn show_bytes(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        bytes if bytes % (1 << 30) == 0 => quote(&format!("{}GiB", bytes >> 30)),
        bytes if bytes % (1 << 20) == 0 => quote(&format!("{}MiB", bytes >> 20)),
        bytes if bytes % (1 << 10) == 0 => quote(&format!("{}KiB", bytes >> 10)),
        bytes => bytes.to_string(),
    }
}

/// Defines an enum of words that is its own [`Kind`].
#[macro_export]
macro_rules! choice {
    ($(#[$doc:meta])* pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// The word, as it is written in the configuration.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl $crate::settings::Kind<Self> for $name {
            fn expected() -> String {
                let words: &[&str] = &[$($word),+];
                format!("one of {}", words.join(", "))
            }

            fn read(
                value: &$crate::settings::Value,
                _: &std::path::Path,
            ) -> Result<(Self, String), $crate::settings::InvalidValue> {
                let word = match value.text().map(str::trim) {
                    $(Some($word) => Some(Self::$variant),)+
                    _ => None,
                };
                $crate::settings::kinds::fits(word, |word| $crate::settings::kinds::quote(word.as_str()))
            }
        }
    };
}
