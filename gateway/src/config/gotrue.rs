//! GoTrue's own configuration, for `--only auth`: `GOTRUE_*` variables put under our names (auth.md 3.24).
//!
//! With one of them GoTrue's defaults hold instead of ours (port 8081 on every address, at the root, no key gate, empty
//! audience and role), and the few names that GoTrue also reads without its prefix count (`DATABASE_URL`, `PORT`,
//! `API_EXTERNAL_URL`). Empty means not set. A name that there is not is warned of, because GoTrue ignores it; a value
//! that cannot be read is a fault that names the variable.
//!
//! The surprising thing: a name without a line in [`mod@names`] is looked up among our own settings (`GOTRUE_SITE_URL` is
//! `auth.site_url`, `GOTRUE_JWT_EXP` is `jwt.exp`), so that a new setting of auth needs no line here.

mod manual;
mod names;
#[cfg(test)]
mod tests;
mod translation;

use std::ffi::OsString;

use super::foreign::{self, Collected};
use basalt_core::settings::{Fault, Source};
pub(super) use manual::markdown;
use names::{DEFAULTS, PREFIX, REQUIRED, UNPREFIXED};
use translation::{Given, Translation};

/// What has to be written and is not; `is_written` looks among all sources.
pub(super) fn missing(is_written: impl Fn(&str) -> bool) -> Vec<Fault> {
    let is_missing = |names: &&(&[&str], &str)| !names.0.iter().any(|name| is_written(name));
    let fault =
        |(_, message): &(&[&str], &str)| Fault { source: Source::Default, message: (*message).to_owned() };
    REQUIRED.iter().filter(is_missing).map(fault).collect()
}

/// Reads the variables; `None` when there is none of GoTrue's own.
pub(super) fn collect(environment: &[(OsString, OsString)]) -> Option<Collected> {
    let mut collected = Collected::with_defaults(DEFAULTS, &Source::DefaultOf("GoTrue"));
    let mut given = Given::new();
    for (variable, text) in foreign::variables(environment, PREFIX, &mut collected.faults) {
        let name = variable.strip_prefix(PREFIX).unwrap_or(&variable).to_owned();
        given.insert(name, (text, variable));
    }
    if given.is_empty() && collected.faults.is_empty() {
        return None;
    }
    let lookup = |name: &str| foreign::variable(environment, name);
    for (variable, name) in UNPREFIXED {
        let text = lookup(variable).filter(|text| !text.is_empty());
        if let (Some(text), false) = (text, given.contains_key(name)) {
            given.insert(name.to_owned(), (text, variable.to_owned()));
        }
    }
    Translation { given: &given, variable: &lookup, out: &mut collected }.run();
    Some(collected)
}

/// The variables among `environment` that mean nothing without `--only auth`.
pub(super) fn stray(environment: &[(OsString, OsString)]) -> Vec<String> {
    foreign::stray(environment, PREFIX)
}
