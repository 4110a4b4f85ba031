//! What the configurations of others have in common ([`super::postgrest`], [`super::gotrue`]): variables with a prefix of
//! theirs, whose values are put under our names.

use std::ffi::OsString;

use super::postgrest::libpq::Connection;
use basalt_core::settings::Value;
use basalt_core::settings::Written;
use basalt_core::settings::{Fault, Source};

/// What others' names say, under ours.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) written: Vec<(&'static str, Written)>,
    /// To be used where nothing else is written.
    pub(super) defaults: Vec<(&'static str, Written)>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Collected {
    /// With their defaults, where those differ from ours.
    pub(super) fn with_defaults(defaults: &[(&'static str, &str)], source: &Source) -> Self {
        let written = |text: &str| Written { value: Value::Bare(text.to_owned()), source: source.clone() };
        let defaults = defaults.iter().map(|(key, text)| (*key, written(text))).collect();
        Self { defaults, ..Self::default() }
    }

    pub(super) fn write(&mut self, key: &'static str, text: String, source: Source) {
        self.written.push((key, Written { value: Value::Bare(text), source }));
    }

    pub(super) fn fault(&mut self, source: Source, message: String) {
        self.faults.push(Fault { source, message });
    }

    /// The database's URL, after what else its connection string says.
    pub(super) fn database_url(&mut self, connection: Connection, source: Source) -> Written {
        for warning in connection.warnings {
            self.warnings.push(format!("{source}: {warning}"));
        }
        if connection.verifies {
            self.write("database.verify_certificate", "true".to_owned(), source.clone());
        }
        Written { value: Value::Bare(connection.text), source }
    }
}

/// The variables with this prefix that are not empty, in the order of their names; others are faults.
pub(super) fn variables(
    environment: &[(OsString, OsString)],
    prefix: &str,
    faults: &mut Vec<Fault>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, text) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(prefix)) else { continue };
        match text.to_str() {
            Some("") => {}
            Some(text) => found.push((name.to_owned(), text.to_owned())),
            None => faults.push(Fault {
                source: Source::Variable(name.to_owned()),
                message: "its value is not UTF-8 text".to_owned(),
            }),
        }
    }
    found.sort();
    found
}

/// One variable's text.
pub(super) fn variable(environment: &[(OsString, OsString)], name: &str) -> Option<String> {
    let found = environment.iter().find(|(known, _)| known == name);
    found.and_then(|(_, text)| text.to_str()).map(ToOwned::to_owned)
}

/// The names with this prefix, for a warning that nobody reads them.
pub(super) fn stray(environment: &[(OsString, OsString)], prefix: &str) -> Vec<String> {
    let names = environment.iter().filter_map(|(name, _)| name.to_str());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with(prefix)).map(ToOwned::to_owned).collect();
    names.sort_unstable();
    names
}
