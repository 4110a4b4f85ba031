//! Settings: a service declares its table beside its configuration type with [`settings!`](crate::settings!), and
//! reads it with a [`Reader`] that the gateway fills. The gateway collects the tables, looks for unknown keys, and
//! prints `basalt config` and docs/CONFIG.md from them; where values come from is its business alone.
//!
//! ```
//! use basalt_core::settings;
//! use basalt_core::settings::Fallback::Is;
//! use basalt_core::settings::kinds::{Bytes, Whole};
//!
//! settings! {
//!     /// `[uploads]`.
//!     #[derive(Debug, Clone)]
//!     pub struct Uploads in "uploads" with r {
//!         /// Largest upload.
//!         max_file_size: u64 as Bytes = Is("50MiB");
//!         /// Uploads at once.
//!         concurrency: u32 as Whole<1, 100> = Is("4");
//!     }
//! }
//! assert_eq!(Uploads::default().max_file_size, 50 << 20);
//! assert_eq!(Uploads::SETTINGS[1].key, "uploads.concurrency");
//! ```

pub mod kinds;
mod url;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

pub use kinds::{InvalidValue, Kind, Value};
pub use url::BaseUrl;

/// What holds while a setting is not written.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// This text, read like a variable.
    Is(&'static str),
    /// Nothing, or what the gateway derives from other settings; in words.
    By(&'static str),
    /// What the gateway derives from other settings, in words; this text where it derives nothing.
    ByOr(&'static str, &'static str),
}

/// One line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `section.key`.
    pub key: &'static str,
    /// What holds while it is not written.
    pub fallback: Fallback,
    /// One sentence, as in docs/CONFIG.md.
    pub help: &'static str,
    /// Never shown.
    pub is_secret: bool,
    /// Checked, but no part of this release reads it yet.
    pub is_reserved: bool,
    /// See [`Kind::expected`].
    pub expected: fn() -> String,
    /// The value as TOML, or `None` when it does not fit.
    pub show: fn(&Value) -> Option<String>,
}

impl Setting {
    /// A line for a value of type `T`, written as `K` says.
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

    /// Never shown.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Checked, but not read yet.
    #[must_use]
    pub const fn reserved(mut self) -> Self {
        self.is_reserved = true;
        self
    }

    /// `BASALT_SECTION_KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("BASALT_{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }

    /// Whether an empty variable means something. Elsewhere it counts as not set, because container tools pass `NAME=`
    /// for "nothing given".
    #[must_use]
    pub fn may_be_empty(&self) -> bool {
        (self.show)(&Value::Bare(String::new())).is_some()
    }
}

/// Where a value comes from. Later ones win: default, file, variable, option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It is not written.
    Default,
    /// It is not written, and the server stands in for this one.
    DefaultOf(&'static str),
    /// A line of a file, from 1.
    File {
        /// As the reader would name it.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line option.
    Flag(&'static str),
}

impl Source {
    /// Whether it is a default.
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

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was made.
    pub source: Source,
    /// What is wrong and what to do; never holds a secret.
    pub message: String,
}

/// What was written for one setting, and where.
#[derive(Clone)]
pub struct Written {
    /// The value, not yet checked.
    pub value: Value,
    /// Where it stands.
    pub source: Source,
}

/// Hands out written values, typed; notes what is wrong and what is in force.
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
    /// Reads `written`. Relative paths start in the project folder; those of options in the working folder.
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

    /// The value of a setting: what is written, else what was derived, else its fallback.
    #[expect(clippy::expect_used, reason = "a test reads every default of every table")]
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
                K::unset().expect("a default that fits its type")
            }
        }
    }

    /// What holds for `key` where it is not written, worked out from other settings. Text that does not fit counts as
    /// nothing: its own setting is reported.
    pub fn derive(&mut self, key: &'static str, text: impl Into<String>) {
        self.derived.insert(key, Value::Bare(text.into()));
    }

    /// Shows a value that was worked out after reading.
    pub fn show(&mut self, key: &'static str, text: &str) {
        self.shown.insert(key, Some(kinds::quote(text)));
    }

    /// The text that is written for `key`, unread, if it is text or a number.
    #[must_use]
    pub fn written_text(&self, key: &str) -> Option<String> {
        match &self.written.get(key)?.value {
            Value::Bare(text) | Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Boolean(_) | Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
        }
    }

    /// Whether a person wrote it; the defaults of other servers do not count.
    #[must_use]
    pub fn is_written(&self, key: &str) -> bool {
        self.written.get(key).is_some_and(|written| !written.source.is_default())
    }

    /// Where the value of `key` comes from.
    #[must_use]
    pub fn source(&self, key: &str) -> Source {
        self.written.get(key).map_or(Source::Default, |written| written.source.clone())
    }

    /// Where relative paths of the file start.
    #[must_use]
    pub fn project_dir(&self) -> &Path {
        &self.project_dir
    }

    /// Something is wrong with `key`; the sentence goes on after its name.
    pub fn fault(&mut self, key: &str, sentence: &str) {
        self.faults.push(Fault { source: self.source(key), message: format!("{key} {sentence}") });
    }

    /// Something is wrong that is not written anywhere.
    pub fn general_fault(&mut self, message: &str) {
        self.faults.push(Fault { source: Source::Default, message: message.to_owned() });
    }

    /// Something works but is probably not meant.
    pub fn warn(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    /// What was noted for a setting: `None` where it was never read, `Some(None)` where it is not set.
    #[must_use]
    pub fn shown(&self, key: &str) -> Option<Option<String>> {
        self.shown.get(key).cloned()
    }

    /// Faults, those of one place together (the file by line, then variables, then options), and warnings.
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
/// The doc comment of a field is its help. `as` names the [`Kind`] where the value is written otherwise than its type
/// says. `also` holds what is no setting.
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

            /// Sets one value by its key; on an error nothing has changed.
            ///
            /// # Errors
            /// The value does not fit, or there is no such key; a sentence without its subject.
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
                Err("is no setting".to_owned())
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
            /// What holds while nothing is written.
            fn default() -> Self {
                Self::read(&mut $crate::settings::Reader::default())
            }
        }
    };
    (@kind $type:ty) => { $type };
    (@kind $type:ty as $kind:ty) => { $kind };
}
