//! PostgREST's own configuration, for `--only rest`: `PGRST_*` variables and a `postgrest.conf`, put under our names.
//!
//! With either of them PostgREST's defaults hold instead of ours (port 3000 on every IPv4 address, at the root, no key
//! gate, nobody anonymous, no cap). A variable wins over the file, and a name over its older alias, as they do there;
//! settings in the database win over both and are the REST service's business. Empty means not set. A name that there
//! is not is only warned of, because PostgREST ignores it; a value that cannot be read is a fault.
//!
//! To add one of PostgREST's settings, add its line to `names`.

mod file;
mod given;
pub(super) mod libpq;
mod manual;
mod names;
mod print;
#[cfg(test)]
mod tests;
mod translation;

use std::ffi::OsString;
use std::path::Path;

use super::foreign::{self, Collected};
use basalt_core::settings::Source;
use given::Given;
pub(super) use manual::markdown;
use names::{DEFAULTS, PREFIX};
pub use print::print;
use translation::Translation;

/// Where to look.
pub(super) struct Origin<'a> {
    /// The file named on the command line.
    pub(super) file: Option<&'a Path>,
    /// The environment, whole.
    pub(super) environment: &'a [(OsString, OsString)],
    /// Relative paths start here.
    pub(super) working_dir: &'a Path,
}

/// Reads file and variables; `None` when there is neither.
pub(super) fn collect(origin: &Origin<'_>) -> Option<Collected> {
    let lookup = |name: &str| foreign::variable(origin.environment, name);
    let mut collected = Collected::with_defaults(&DEFAULTS, &Source::DefaultOf("PostgREST"));
    let mut entries = Vec::new();
    if let Some(file) = origin.file {
        let shown = |path: &Path| path.strip_prefix(origin.working_dir).unwrap_or(path).to_path_buf();
        (entries, collected.faults) = file::read(&origin.working_dir.join(file), &shown, &lookup);
    }
    let variables = foreign::variables(origin.environment, PREFIX, &mut collected.faults);
    if origin.file.is_none() && variables.is_empty() && collected.faults.is_empty() {
        return None;
    }
    let given = Given { entries, variables };
    given.warn_of_unknown(&mut collected.warnings);
    Translation { given: &given, origin, variable: &lookup, out: &mut collected }.run();
    Some(collected)
}

/// The variables among `environment` that mean nothing without `--only rest`.
pub(super) fn stray(environment: &[(OsString, OsString)]) -> Vec<String> {
    foreign::stray(environment, PREFIX)
}
