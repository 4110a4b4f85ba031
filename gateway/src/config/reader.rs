//! [`Reader`]: one written value after the other, typed, with what is wrong and what is in force noted on the way.
//! Which settings there are and what they mean together is [`super::resolve`]'s.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::Effective;
use super::fault::{Fault, Source};
use super::keys::{self, Fallback, Key, Row};
use super::raw::RawConfig;
use super::value::{ByteSize, Setting, Value};

/// The secrets' least length: PostgREST refuses shorter ones, and a guessable secret signs for everybody.
const MIN_SECRET: usize = 32;

/// Reads settings by key; keeps what is wrong and what is in force.
pub(super) struct Reader {
    pub(super) raw: RawConfig,
    faults: Vec<Fault>,
    warnings: Vec<String>,
    effective: BTreeMap<&'static str, Option<String>>,
}

impl Reader {
    pub(super) fn new(mut raw: RawConfig) -> Self {
        let faults = raw.take_faults();
        let warnings = std::mem::take(&mut raw.warnings);
        Self { raw, faults, warnings, effective: BTreeMap::new() }
    }

    /// Whether anybody asked for the setting.
    #[cfg(test)]
    pub(super) fn has_read(&self, name: &str) -> bool {
        self.effective.contains_key(name)
    }

    /// The value of a setting that has a default of its own.
    #[expect(clippy::expect_used, reason = "a test reads every default of the table")]
    pub(super) fn get<T: Setting>(&mut self, key: &Key<T>) -> T {
        self.or(key, || default_of(key).expect("a default that fits its type"))
    }

    /// The value, or what other settings make of it.
    pub(super) fn or<T: Setting>(&mut self, key: &Key<T>, derive: impl FnOnce() -> T) -> T {
        let value = self.read(key).unwrap_or_else(derive);
        self.show(&key.row, Some(value.show()));
        value
    }

    /// The value if there is one.
    pub(super) fn given<T: Setting>(&mut self, key: &Key<T>) -> Option<T> {
        let value = self.read(key);
        self.show(&key.row, value.as_ref().map(Setting::show));
        value
    }

    /// Text that a service has its own type for.
    pub(super) fn parsed<T: FromStr<Err: Display>>(&mut self, key: &Key<String>) -> Option<T> {
        let text = match key.row.fallback {
            Fallback::Is(_) => Some(self.get(key)),
            Fallback::By(_) => self.given(key),
        };
        let text = text.filter(|text| !text.is_empty())?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(&key.row, &format!("does not fit: {error}"));
                None
            }
        }
    }

    /// Whole seconds: what is less than one is one, as 0 means something else.
    pub(super) fn seconds(&mut self, key: &Key<Duration>) -> u64 {
        let time = self.get(key);
        time.as_secs() + u64::from(time.subsec_nanos() > 0)
    }

    /// A time without which nothing would work.
    pub(super) fn time(&mut self, key: &Key<Duration>, least: Duration) -> Duration {
        let time = self.get(key);
        if time < least {
            self.fault(&key.row, &format!("must be at least {}", least.show().trim_matches('"')));
        }
        time
    }

    /// A number of bytes without which nothing would work.
    pub(super) fn bytes(&mut self, key: &Key<ByteSize>, least: ByteSize) -> usize {
        let size = self.get(key);
        if size.0 < least.0 {
            self.fault(&key.row, &format!("must be at least {}", least.show().trim_matches('"')));
        }
        usize::try_from(size.0).unwrap_or(usize::MAX)
    }

    /// An absolute path; `None` when unset or empty. Relative ones start where the person who wrote them stands: in
    /// the project folder, but for an option in the working folder. The caller shows it.
    pub(super) fn path(&mut self, key: &Key<PathBuf>) -> Option<PathBuf> {
        let base = match self.raw.get(key.row.name).map(|written| &written.source) {
            Some(Source::Flag(_)) => self.raw.working_dir.clone(),
            _ => self.raw.project_dir.clone(),
        };
        self.read(key).filter(|path| !path.as_os_str().is_empty()).map(|path| absolute(&base.join(path)))
    }

    /// A key that is a JWT; its signature is checked where the keys are.
    pub(super) fn legacy_key(&mut self, key: &Key<SecretString>) -> Option<SecretString> {
        let value = self.given(key)?;
        if value.expose_secret().split('.').filter(|part| !part.is_empty()).count() != 3 {
            self.fault(&key.row, "is no JWT: copy the whole key, three parts with dots between");
        }
        Some(value)
    }

    pub(super) fn opaque_key(&mut self, key: &Key<SecretString>, prefix: &str) -> Option<SecretString> {
        let value = self.given(key)?;
        let long_enough = value.expose_secret().strip_prefix(prefix).is_some_and(|rest| rest.len() >= 16);
        if !long_enough {
            self.fault(&key.row, &format!("must start with {prefix} and go on with at least 16 characters"));
        }
        Some(value)
    }

    fn read<T: Setting>(&mut self, key: &Key<T>) -> Option<T> {
        let written = self.raw.get(key.row.name)?;
        let value = T::read(&written.value);
        if value.is_none() {
            let found = if key.row.secret || holds_password(&key.row) {
                String::new()
            } else {
                format!(", not {}", written.value.describe())
            };
            let source = written.source.clone();
            self.faults.push(Fault {
                source,
                message: format!("{} must be {}{found}", key.row.name, T::expected()),
            });
        }
        value
    }

    /// Whether somebody wrote it; the defaults of PostgREST and GoTrue nobody wrote.
    pub(super) fn is_written(&self, row: &Row) -> bool {
        self.raw
            .get(row.name)
            .is_some_and(|written| !matches!(written.source, Source::Postgrest | Source::Gotrue))
    }

    pub(super) fn show(&mut self, row: &Row, value: Option<String>) {
        let value = match value {
            Some(_) if row.secret => self.is_written(row).then(|| "(set)".to_owned()),
            value => value,
        };
        self.effective.insert(row.name, value);
    }

    pub(super) fn source(&self, name: &str) -> Source {
        self.raw.get(name).map_or(Source::Default, |written| written.source.clone())
    }

    pub(super) fn fault(&mut self, row: &Row, sentence: &str) {
        self.fault_of(row.name, sentence);
    }

    pub(super) fn fault_of(&mut self, name: &str, sentence: &str) {
        self.faults.push(Fault { source: self.source(name), message: format!("{name} {sentence}") });
    }

    /// A fault that lies in what nobody wrote.
    pub(super) fn general(&mut self, message: &str) {
        self.faults.push(Fault { source: Source::Default, message: message.to_owned() });
    }

    pub(super) fn warn(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    pub(super) fn check_length(&mut self, row: &Row, length: usize) {
        if length < MIN_SECRET {
            self.fault(
                row,
                &format!("has {length} characters and needs at least {MIN_SECRET}: make one with `openssl rand -base64 48`"),
            );
        }
    }

    /// Every setting in the table's order.
    pub(super) fn finish(mut self) -> (Vec<Effective>, Vec<Fault>, Vec<String>) {
        let effective = keys::TABLE
            .iter()
            .map(|row| Effective {
                name: row.name,
                value: self.effective.remove(row.name).flatten(),
                source: self.source(row.name),
            })
            .collect();
        self.faults.sort_by_key(|fault| order(&fault.source));
        (effective, self.faults, self.warnings)
    }
}

/// Faults of one place stand together: the file by line, then variables, then options.
fn order(source: &Source) -> (u8, usize, String) {
    match source {
        Source::File { line, .. } => (0, *line, String::new()),
        Source::Variable(name) => (1, 0, name.clone()),
        Source::Flag(flag) => (2, 0, (*flag).to_owned()),
        Source::Default | Source::Postgrest | Source::Gotrue => (3, 0, String::new()),
    }
}

fn holds_password(row: &Row) -> bool {
    [
        keys::DATABASE_URL.row.name,
        keys::DATABASE_AUTHENTICATOR_URL.row.name,
        keys::DATABASE_REPLICA_URL.row.name,
    ]
    .contains(&row.name)
}

/// The default that stands in the table, if it stands there.
fn default_of<T: Setting>(key: &Key<T>) -> Option<T> {
    match key.row.fallback {
        Fallback::Is(text) => T::read(&Value::Bare(text.to_owned())),
        Fallback::By(_) => None,
    }
}

pub(super) fn absolute(path: &Path) -> PathBuf {
    // Without touching the disk: the folder may not exist yet. `a/./b` and a trailing `.` go.
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).components().collect()
}
