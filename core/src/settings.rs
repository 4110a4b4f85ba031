//! Settings: a service declares a table next to its configuration type with [`settings!`](crate::settings!), and
//! fills the type from a [`Reader`] that the gateway provides. The gateway collects all tables, detects unknown keys,
//! and generates `basalt config` and docs/CONFIG.md from them. Only the gateway knows where values come from.

pub mod kinds;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use kinds::{InvalidValue, Kind, Value};
pub use url::BaseUrl;

/// The value of a setting that is not configured.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// This text, parsed like an environment variable.
    Is(&'static str),
    /// No value, or one that the gateway derives from other settings, as this description says.
    By(&'static str),
    /// A value that the gateway derives from other settings, as the description says; the second text if it derives
    /// none.
    ByOr(&'static str, &'static str),
}

/// Description of one setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `section.key`.
    pub key: &'static str,
    /// The value if the setting is not configured.
    pub fallback: Fallback,
    /// One sentence of help, as in docs/CONFIG.md.
    pub help: &'static str,
    /// Whether the value must never be shown.
    pub is_secret: bool,
    /// Whether the setting is validated but not used by this release.
    pub is_reserved: bool,
    /// See [`Kind::expected`].
    pub expected: fn() -> String,
    /// Formats a value as TOML; `None` if it is invalid.
    pub show: fn(&Value) -> Option<String>,
}

impl Setting {
    /// Describes a setting of type `T` in the notation `K`.
    #[must_use]
    pub const fn new<T, K: Kind<T>>(key: &'static str, fallback: Fallback, help: &'static str) -> Self {
        Self {
            key,
            fallback,
            help,
            is_secret: false,
            is_reserved: false,
            expected: K::expected,
            show: |value| K::read(value, Path::new("")).ok().map(|(_, shown)| shown),
        }
    }

    /// Marks the setting as secret: its value is never shown.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Marks the setting as validated but not used by this release.
    #[must_use]
    pub const fn reserved(mut self) -> Self {
        self.is_reserved = true;
        self
    }

    /// Name of the environment variable: `BASALT_SECTION_KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("BASALT_{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }

    /// Whether an empty environment variable is a valid value. Otherwise it counts as unset, because container tools
    /// pass `NAME=` for an absent value.
    #[must_use]
    pub fn may_be_empty(&self) -> bool {
        (self.show)(&Value::Bare(String::new())).is_some()
    }
}

/// Where a value comes from, in order of increasing precedence: default, file, environment variable, command-line
/// option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The setting is not configured.
    Default,
    /// The setting is not configured, and this server replaces the named one, whose default applies.
    DefaultOf(&'static str),
    /// A line of a configuration file.
    File {
        /// Path, as it is shown to the user.
        path: PathBuf,
        /// One-based line number.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line option.
    Flag(&'static str),
}

impl Source {
    /// Whether the value is a default.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        matches!(self, Self::Default | Self::DefaultOf(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::DefaultOf(server) => write!(f, "{server}'s default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// An error in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where the offending value comes from.
    pub source: Source,
    /// What is wrong and how to fix it. Never contains a secret.
    pub message: String,
}

/// The raw value of a setting, and where it comes from.
#[derive(Clone)]
pub struct Written {
    /// The value, not yet validated.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
}

/// Converts raw values to typed ones, and records errors and effective values.
#[derive(Default)]
pub struct Reader {
    written: BTreeMap<&'static str, Written>,
    derived: BTreeMap<&'static str, Value>,
    shown: BTreeMap<&'static str, Option<String>>,
    project_dir: PathBuf,
    working_dir: PathBuf,
    faults: Vec<Fault>,
    warnings: Vec<String>,
}

impl Reader {
    /// Creates a reader of `written`. Relative paths start at the project folder; those in command-line options at
    /// the working directory.
    #[must_use]
    pub fn new(
        written: BTreeMap<&'static str, Written>,
        project_dir: PathBuf,
        working_dir: PathBuf,
        faults: Vec<Fault>,
        warnings: Vec<String>,
    ) -> Self {
        Self { written, project_dir, working_dir, faults, warnings, ..Self::default() }
    }

    /// The value of a setting: the configured one, else the derived one, else its fallback.
    #[expect(clippy::expect_used, reason = "a test parses every default of every table")]
    pub fn get<T, K: Kind<T>>(&mut self, setting: &Setting) -> T {
        if let Some(written) = self.written.get(setting.key) {
            let base = match written.source {
                Source::Flag(_) => &self.working_dir,
                Source::Default | Source::DefaultOf(_) | Source::File { .. } | Source::Variable(_) => {
                    &self.project_dir
                }
            };
            match K::read(&written.value, base) {
                Ok((value, shown)) => {
                    let shown = if setting.is_secret { "(set)".to_owned() } else { shown };
                    let hidden = setting.is_secret && written.source.is_default();
                    self.shown.insert(setting.key, Some(shown).filter(|_| !hidden));
                    return value;
                }
                Err(InvalidValue::Because(sentence)) => self.fault(setting.key, &sentence),
                Err(InvalidValue::Kind) => {
                    let found = if setting.is_secret || K::HOLDS_SECRET {
                        String::new()
                    } else {
                        format!(", not {}", written.value.describe())
                    };
                    self.fault(setting.key, &format!("must be {}{found}", K::expected()));
                }
            }
        }
        let text = match setting.fallback {
            Fallback::Is(text) | Fallback::ByOr(_, text) => Some(Value::Bare(text.to_owned())),
            Fallback::By(_) => None,
        };
        let derived = self.derived.get(setting.key).cloned();
        let read = |value: Value| K::read(&value, &self.project_dir).ok();
        match derived.and_then(read).or_else(|| text.and_then(read)) {
            Some((value, shown)) => {
                self.shown.insert(setting.key, Some(shown).filter(|_| !setting.is_secret));
                value
            }
            None => {
                self.shown.insert(setting.key, None);
                K::unset().expect("every setting has a valid default")
            }
        }
    }

    /// Sets the value of `key` for when it is not configured, derived from other settings. Invalid text is ignored,
    /// because the setting it derives from is reported.
    pub fn derive(&mut self, key: &'static str, text: impl Into<String>) {
        self.derived.insert(key, Value::Bare(text.into()));
    }

    /// Shows a value that was computed after reading.
    pub fn show(&mut self, key: &'static str, text: &str) {
        self.shown.insert(key, Some(kinds::quote(text)));
    }

    /// The raw text configured for `key`, if it is text or a number.
    #[must_use]
    pub fn written_text(&self, key: &str) -> Option<String> {
        match &self.written.get(key)?.value {
            Value::Bare(text) | Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Boolean(_) | Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
        }
    }

    /// Whether the setting is configured explicitly; defaults of other servers do not count.
    #[must_use]
    pub fn is_written(&self, key: &str) -> bool {
        self.written.get(key).is_some_and(|written| !written.source.is_default())
    }

    /// Where the value of `key` comes from.
    #[must_use]
    pub fn source(&self, key: &str) -> Source {
        self.written.get(key).map_or(Source::Default, |written| written.source.clone())
    }

    /// The folder at which relative paths in the file start.
    #[must_use]
    pub fn project_dir(&self) -> &Path {
        &self.project_dir
    }

    /// Records an error for `key`; the sentence continues after the key's name.
    pub fn fault(&mut self, key: &str, sentence: &str) {
        self.faults.push(Fault { source: self.source(key), message: format!("{key} {sentence}") });
    }

    /// Records an error that concerns no particular setting.
    pub fn general_fault(&mut self, message: &str) {
        self.faults.push(Fault { source: Source::Default, message: message.to_owned() });
    }

    /// Records a warning about something valid but probably unintended.
    pub fn warn(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    /// The effective value of a setting, for display: `None` if it was never read, `Some(None)` if it has no value.
    #[must_use]
    pub fn shown(&self, key: &str) -> Option<Option<String>> {
        self.shown.get(key).cloned()
    }

    /// Returns the errors, grouped by source (the file by line, then variables, then options), and the warnings.
    #[must_use]
    pub fn finish(mut self) -> (Vec<Fault>, Vec<String>) {
        self.faults.sort_by_key(|fault| match &fault.source {
            Source::File { line, .. } => (0, *line, String::new()),
            Source::Variable(name) => (1, 0, name.clone()),
            Source::Flag(flag) => (2, 0, (*flag).to_owned()),
            Source::Default | Source::DefaultOf(_) => (3, 0, String::new()),
        });
        (self.faults, self.warnings)
    }
}

/// Declares a section: the struct, its table `SETTINGS`, `read` and `Default`. See the [module](mod@crate::settings).
///
/// The doc comment of a field is its help text. `as` names a [`Kind`] if the notation differs from the field's type.
/// `also` declares fields that are not settings.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident in $section:literal with $r:ident {$(
            $(#[doc = $help:literal])+
            $field:ident : $type:ty $(as $kind:ty)? = $fallback:expr $(, $flag:ident)*;
        )*}
        $(also {$(
            $(#[doc = $also_help:literal])+
            $also:ident : $also_type:ty = $value:expr;
        )*})?
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[doc = $help])+ pub $field: $type,)*
            $($($(#[doc = $also_help])+ pub $also: $also_type,)*)?
        }

        impl $name {
            /// The settings, in the order they are documented.
            pub const SETTINGS: [$crate::settings::Setting; [$(stringify!($field)),*].len()] = [$(
                $crate::settings::Setting::new::<$type, $crate::settings!(@kind $type $(as $kind)?)>(
                    concat!($section, ".", stringify!($field)), $fallback, concat!($($help),+)
                )$(.$flag())*,
            )*];

            /// Sets one value by its key. On error nothing changes.
            ///
            /// # Errors
            /// The value is invalid, or there is no such key; the message has no subject.
            pub fn set(
                &mut self,
                key: &str,
                value: &$crate::settings::Value,
            ) -> Result<(), String> {
                $(if key == concat!($section, ".", stringify!($field)) {
                    self.$field = $crate::settings::kinds::read_as::<
                        $type,
                        $crate::settings!(@kind $type $(as $kind)?),
                    >(value)?;
                    return Ok(());
                })*
                Err("is not a setting".to_owned())
            }

            /// Reads every setting once.
            pub fn read($r: &mut $crate::settings::Reader) -> Self {
                let [$($field),*] = &Self::SETTINGS;
                Self {
                    $($field: $r.get::<$type, $crate::settings!(@kind $type $(as $kind)?)>($field),)*
                    $($($also: $value,)*)?
                }
            }
        }

        impl Default for $name {
            /// The values when nothing is configured.
            fn default() -> Self {
                Self::read(&mut $crate::settings::Reader::default())
            }
        }
    };
    (@kind $type:ty) => { $type };
    (@kind $type:ty as $kind:ty) => { $kind };
}
