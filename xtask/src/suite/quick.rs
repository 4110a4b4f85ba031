//! `quick`: fast checks of a change, in about a minute.
//!
//! Cargo determines what to rebuild: all targets of the workspace are named, and unchanged ones are not built again. Naming only
//! the changed crate would select other features and build half the tree a second time. Unit tests and plans all run, in
//! seconds. Only service tests, which take minutes, are selected by path.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Result;

use super::steps::{Kind, Suite};
use super::{NO_ARGUMENTS, biome, clippy, rust_tests, rustfmt, typecheck, vitest};
use crate::{moto, node, postgres_extras, run, ui};

/// Service tests by changed folder. All tests of a service take longer than a minute, so these are the ones most likely to
/// fail; `quick NAME` runs others.
const TESTS: [(&str, &[&str]); 16] = [
    ("postgres/", &["extensions::"]),
    ("extensions/", &["extensions::"]),
    ("core/", &["http::keys::"]),
    ("pg/", &["pg::"]),
    ("http/", &["http::gateway::"]),
    ("gateway/", &["http::gateway::"]),
    ("mail/", &["mail::templates::", "mail::mailbox::"]),
    ("rest/", &["rest::reads::", "rest::calls::"]),
    ("auth/", &["auth::sign_up::", "auth::sign_in::"]),
    ("storage/", &["storage::buckets::", "storage::lists::"]),
    ("images/", &["storage::images::"]),
    ("realtime/", &["realtime::handshake::", "realtime::channels::"]),
    ("functions/", &["functions::routing::"]),
    ("planning/", &["functions::routing::", "functions::subscription_life::"]),
    ("project/", &["project::schemas::", "project::project_files::"]),
    ("policies/", &["project::policies::"]),
];

/// Checks the changes since `main`, and runs the service tests whose name contains one of `names`, or those for the changes.
pub(crate) fn quick(root: &Path, names: &[String]) -> Result<ExitCode> {
    let changed = changed(root);
    let is_changed = |folder: &str| changed.iter().any(|path| path.starts_with(folder));
    let filters = if names.is_empty() { filters(&changed) } else { names.to_vec() };
    let mut suite = Suite::new(root, false)?;
    suite.step("rustfmt", rustfmt);
    suite.step("clippy", clippy);
    suite.counted("unit tests", |root, tallies| {
        let what = ["--workspace", "--lib", "--bins", "--test", "plans", "--test", "corpus"];
        rust_tests(root, tallies, &what, NO_ARGUMENTS)
    });
    if !filters.is_empty() {
        suite.step("npm ci", |root| node::install(root, None));
        ui::note(&format!("service tests for this change: {}", filters.join(" ")));
        suite.step("S3 server", moto::install);
        suite.step("pgvector", postgres_extras::install);
        suite.counted("service tests", |root, tallies| {
            rust_tests(root, tallies, &["--workspace", "--test", "service"], &filters)
        });
    }
    if is_changed("app/") || is_changed("tests/conformance/") {
        suite.step("npm ci", |root| node::install(root, None));
        suite.step("tsc", typecheck);
        suite.step("biome", biome);
        suite.counted("app unit tests", |root, tallies| vitest(root, tallies, Kind::App, "app", None, &[]));
    }
    suite.finish()
}

/// Paths that differ from the merge base with `main`, including new files.
fn changed(root: &Path) -> Vec<String> {
    let git = |arguments: &[&str]| run::output(Command::new("git").current_dir(root).args(arguments));
    let base = git(&["merge-base", "HEAD", "main"]).unwrap_or_else(|| "HEAD".to_owned());
    let tracked = git(&["diff", "--name-only", &base]).unwrap_or_default();
    let new = git(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
    tracked.lines().chain(new.lines()).map(str::to_owned).collect()
}

/// The service tests for changed paths.
fn filters(changed: &[String]) -> Vec<String> {
    let mut filters: Vec<String> = changed
        .iter()
        .flat_map(|path| match path.strip_prefix("tests/service/") {
            Some(test) => module(test).into_iter().collect(),
            None => for_folder(path),
        })
        .collect();
    filters.sort();
    filters.dedup();
    filters
}

fn for_folder(path: &str) -> Vec<String> {
    let tests = TESTS.iter().find(|(folder, _)| path.starts_with(folder)).map_or(&[][..], |(_, tests)| tests);
    tests.iter().map(|test| (*test).to_owned()).collect()
}

/// The module of a test file: `rest/reads.rs` and `rest/reads/embeds.txt` give `rest::reads::`. `faults/` is a separate, slow executable.
fn module(path: &str) -> Option<String> {
    let path = path.split_once('.').map_or(path, |(stem, _)| stem);
    let parts: Vec<&str> = path.split('/').take(2).collect();
    (!matches!(parts.as_slice(), ["faults" | "main", ..])).then(|| parts.join("::") + "::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_service_tests_by_changed_path() {
        let chosen =
            |paths: &[&str]| filters(&paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>());
        assert_eq!(chosen(&["pg/src/sql.rs", "core/src/claims.rs"]), ["http::keys::", "pg::"]);
        assert_eq!(chosen(&["tests/service/rest/reads/embeds.txt"]), ["rest::reads::"]);
        assert_eq!(chosen(&["tests/service/realtime.rs", "README.md"]), ["realtime::"]);
        assert_eq!(chosen(&["tests/service/faults/link.rs", "xtask/src/main.rs"]), [""; 0]);
    }

    /// Guards against renamed modules, which would silently select no test.
    #[test]
    fn selected_modules_exist() {
        let service = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/service");
        for (folder, tests) in TESTS {
            for test in tests {
                let path = test.trim_end_matches("::").replace("::", "/");
                assert!(service.join(format!("{path}.rs")).is_file(), "{folder} {test}");
            }
        }
    }
}
