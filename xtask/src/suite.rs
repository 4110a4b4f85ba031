//! The checks, individually and all together.
//!
//! `test` runs the cheapest checks first. One debug build of the server is shared by the Rust, conformance and browser tests:
//! on two cores a second build would take longer than all tests.

mod quick;
mod steps;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub(crate) use self::quick::quick;
use self::steps::{Kind, Suite, Tallies};
use crate::count::{self, CargoTest};
use crate::server::Server;
use crate::stripe_double::PROGRAM as STRIPE_DOUBLE;
use crate::{
    browser, dev, fuzz, moto, nats, node, pebble, postgres_17, postgres_extras, postgres_meta, preflight,
    release, run, ui,
};

const NO_ARGUMENTS: &[&str] = &[];

/// Time for all fuzz targets together in a nightly run; the cores share it.
const FUZZ_TIME: Duration = Duration::from_secs(60 * 60);

/// Runs everything that CI runs.
pub(crate) fn test(root: &Path, keep_going: bool) -> Result<ExitCode> {
    let mut suite = Suite::new(root, keep_going)?;
    // Steps that need the network come first, so that their failure does not follow a long build.
    suite.step("tools", check_tools);
    suite.step("npm ci", |root| node::install(root, None));
    suite.step("S3 server", moto::install);
    suite.step("pgvector", postgres_extras::install);
    suite.step("postgres-meta", postgres_meta::install);
    suite.step("NATS", nats::install);
    suite.step("rustfmt", rustfmt);
    suite.step("tsc", typecheck);
    suite.step("biome", biome);
    suite.step("clippy", clippy);
    suite.counted("Rust tests", |root, tallies| rust_tests(root, tallies, &["--workspace"], NO_ARGUMENTS));
    suite.step("cargo deny", |root| {
        optional_tool(root, "cargo-deny", &["deny", "check", "bans", "licenses", "sources"])
    });
    suite.step("cargo machete", |root| optional_tool(root, "cargo-machete", &["machete"]));
    suite.counted("app unit tests", |root, tallies| vitest(root, tallies, Kind::App, "app", None, &[]));
    suite.step("app build", |root| dev::build_app(root, None));
    suite.counted("conformance", |root, tallies| conformance_tests(root, tallies, Build::WithTests, &[]));
    suite
        .counted("browser tests", |root, tallies| browser_tests(root, tallies, Build::WithTests, "e2e", &[]));
    suite.finish()
}

/// Runs what is too slow for every change or measures time: the oracle, ignored tests, every screen in every theme and width, browser timings,
/// and fuzzing.
pub(crate) fn nightly(root: &Path) -> Result<ExitCode> {
    let mut suite = Suite::new(root, true)?;
    suite.step("npm ci", |root| node::install(root, None));
    suite.step("cargo doc", docs);
    suite.step("oracle's lints", |root| lint_targets(root, &["--workspace", "--test", "oracle"]));
    suite.counted("oracle", |root, tallies| {
        rust_tests(root, tallies, &["--workspace", "--test", "oracle"], &["--nocapture"])
    });
    // One at a time, because they measure memory and endurance uses both cores.
    suite.step("S3 server", moto::install);
    suite.step("pgvector", postgres_extras::install);
    suite.step("NATS", nats::install);
    suite.step("PostgreSQL 17", postgres_17::install);
    suite.step("Pebble", pebble::install);
    suite.counted("long tests", |root, tallies| {
        let arguments = ["--ignored", "--nocapture", "--test-threads=1"];
        rust_tests(
            root,
            tallies,
            &["--workspace", "--test", "service", "--test", "faults", "--test", "changes"],
            &arguments,
        )
    });
    suite.counted("large uploads by S3", |root, tallies| {
        conformance_tests(
            root,
            tallies,
            Build::Alone,
            &["--mode".to_owned(), "nightly".to_owned(), "tests/s3.test.ts".to_owned()],
        )
    });
    suite.counted("storage on S3", storage_on_s3);
    suite.step("app build", |root| dev::build_app(root, None));
    suite.counted("themes and widths", |root, tallies| {
        browser_tests(root, tallies, Build::Alone, "looks", &[])
    });
    suite.counted("browser timings", |root, tallies| {
        browser_tests(root, tallies, Build::Alone, "performance", &[])
    });
    suite.step("one file", |root| release::build(root, true, true).map(drop));
    suite.step("fuzzing", |root| fuzz::all(root, FUZZ_TIME));
    suite.finish()
}

pub(crate) fn fmt(root: &Path, check: bool) -> Result<ExitCode> {
    let mut suite = Suite::new(root, true)?;
    if check {
        suite.step("rustfmt", rustfmt);
        suite.step("biome", |root| node::install(root, None).and_then(|()| biome(root)));
    } else {
        suite.step("rustfmt", |root| cargo(root, &["fmt", "--all"]));
        suite.step("biome", |root| {
            node::install(root, None)?;
            run::run(&mut node::npm(root, &["run", "--silent", "--workspaces", "--if-present", "format"]))
        });
    }
    suite.finish()
}

pub(crate) fn lint(root: &Path) -> Result<ExitCode> {
    let mut suite = Suite::new(root, true)?;
    suite.step("clippy", clippy);
    suite.step("npm ci", |root| node::install(root, None));
    suite.step("tsc", typecheck);
    suite.step("biome", biome);
    suite.finish()
}

pub(crate) fn unit(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut suite = Suite::new(root, true)?;
    suite.counted("unit tests", |root, tallies| {
        rust_tests(root, tallies, &["--workspace", "--lib", "--bins"], arguments)
    });
    suite
        .counted("doctests", |root, tallies| rust_tests(root, tallies, &["--workspace", "--doc"], arguments));
    suite.finish()
}

pub(crate) fn service(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut suite = Suite::new(root, false)?;
    // npm installs PostgreSQL.
    suite.step("npm ci", |root| node::install(root, None));
    suite.step("S3 server", moto::install);
    suite.step("pgvector", postgres_extras::install);
    suite.step("postgres-meta", postgres_meta::install);
    suite.step("NATS", nats::install);
    suite.counted("service tests", |root, tallies| {
        rust_tests(root, tallies, &["--workspace", "--test", "*"], arguments)
    });
    suite.finish()
}

pub(crate) fn conformance(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut suite = Suite::new(root, false)?;
    suite.step("npm ci", |root| node::install(root, None));
    suite.counted("conformance", |root, tallies| conformance_tests(root, tallies, Build::Alone, arguments));
    suite.finish()
}

pub(crate) fn web(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut suite = Suite::new(root, false)?;
    suite.step("npm ci", |root| node::install(root, None));
    suite.counted("app unit tests", |root, tallies| vitest(root, tallies, Kind::App, "app", None, arguments));
    suite.finish()
}

pub(crate) fn e2e(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    let mut suite = Suite::new(root, false)?;
    suite.step("tools", |_| browser::chromium().map(drop));
    suite.step("npm ci", |root| node::install(root, None));
    suite.step("app build", |root| dev::build_app(root, None));
    suite.counted("browser tests", |root, tallies| {
        browser_tests(root, tallies, Build::Alone, "e2e", arguments)
    });
    suite.finish()
}

// --- single checks -------------------------------------------------------------------------------------------------------------------------------

/// Checks for everything that would make a later step fail.
fn check_tools(root: &Path) -> Result<()> {
    preflight::check(root, preflight::Build::Tests)?;
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if run::output(cargo_command(root).args([tool, "--version"])).is_none() {
            ui::note(&format!("rustup component add {component}"));
            run::run(Command::new("rustup").args(["component", "add", component])).with_context(|| {
                format!("`cargo {tool}` is missing: run `rustup component add {component}`")
            })?;
        }
    }
    let chromium = browser::chromium()?;
    ui::note(&format!("Chromium: {}", chromium.display()));
    Ok(())
}

fn rustfmt(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"]).context("run `cargo xtask fmt` to format the code")
}

/// Lints and compiles everything that the Rust, conformance and browser tests run, in one pass:
/// `cargo clippy` would check every dependency and crate a second time. A warning fails only this step, so
/// that the tests still run.
fn clippy(root: &Path) -> Result<()> {
    lint_targets(root, &["--workspace"])?;
    // The platform without the app's server half; only `gateway` is compiled again.
    lint_targets(root, &["--workspace", "--no-default-features", "--bin", "basalt"])
}

/// Compiles test targets with clippy's driver and fails on a warning.
fn lint_targets(root: &Path, targets: &[&str]) -> Result<()> {
    let mut command = test_command(root);
    command.arg("--no-run").args(targets);
    let mut warnings = 0_u32;
    let success = run::run_reading(&mut command, |line| {
        // Cargo prints a summary line per crate with warnings, even if the crate was compiled earlier.
        warnings += u32::from(line.starts_with("warning: `") && line.contains("generated"));
    })?;
    match (success, warnings) {
        (false, _) => bail!("the code does not compile, or violates a lint that `Cargo.toml` denies"),
        (true, 0) => Ok(()),
        (true, _) => {
            bail!("there are compiler or clippy warnings: fix them, or add `#[expect]` with a reason")
        }
    }
}

fn typecheck(root: &Path) -> Result<()> {
    run::run(&mut node::npm(root, &["run", "--silent", "--workspaces", "--if-present", "typecheck"]))
}

fn biome(root: &Path) -> Result<()> {
    run::run(&mut node::npm(root, &["run", "--silent", "--workspaces", "--if-present", "lint"]))
        .context("run `cargo xtask fmt` to fix formatting")
}

fn docs(root: &Path) -> Result<()> {
    let mut command = cargo_command(root);
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    run::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs an optional tool; prints how to install it if it is missing.
fn optional_tool(root: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    if run::output(Command::new(program).arg("--version")).is_none() {
        ui::note(&format!(
            "{program} is not installed, so this check is skipped; to install it, run `cargo install --locked {program}`"
        ));
        return Ok(());
    }
    cargo(root, arguments)
}

fn rust_tests(root: &Path, tallies: &Tallies, what: &[&str], arguments: &[impl AsRef<OsStr>]) -> Result<()> {
    let mut command = test_command(root);
    command.arg("--no-fail-fast").args(what).arg("--").args(arguments);
    let mut count = CargoTest::default();
    let success = run::run_reading(&mut command, |line| {
        count.read(line);
        tallies.read(line);
    })?;
    tallies.add(Kind::Rust, count.rust);
    tallies.add(Kind::Policies, count.policies);
    if success {
        return Ok(());
    }
    bail!("`{}` failed; to run a single test, use `cargo test -p CRATE NAME`", run::line(&command))
}

/// How to build the debug version of the server.
#[derive(Clone, Copy)]
enum Build {
    /// On its own.
    Alone,
    /// Together with the Rust tests: building it alone could select other features and recompile half the tree.
    WithTests,
}

impl Build {
    fn run(self, root: &Path) -> Result<PathBuf> {
        match self {
            Self::Alone => cargo(root, &["build", "-p", "basalt", "-p", STRIPE_DOUBLE])?,
            Self::WithTests => run::run(test_command(root).args(["--quiet", "--workspace", "--no-run"]))?,
        }
        Ok(dev::target(root).join("debug/basalt"))
    }
}

fn conformance_tests(root: &Path, tallies: &Tallies, build: Build, arguments: &[String]) -> Result<()> {
    conformance_with(root, tallies, build, arguments, &[])
}

/// Runs the conformance tests of storage on servers with an S3-compatible store.
fn storage_on_s3(root: &Path, tallies: &Tallies) -> Result<()> {
    let moto = moto::Moto::start(root)?;
    let settings = moto.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let arguments = ["storage", "s3"].map(str::to_owned);
    conformance_with(root, tallies, Build::Alone, &arguments, &settings)
}

fn conformance_with(
    root: &Path,
    tallies: &Tallies,
    build: Build,
    arguments: &[String],
    settings: &[(&str, &str)],
) -> Result<()> {
    let project = root.join("tests/conformance/project");
    let servers = Servers::start(root, &build.run(root)?, &project, "conformance", settings)?;
    let result = vitest(root, tallies, Kind::Conformance, "conformance", Some(&servers), arguments);
    servers.explain(result)
}

/// The two servers for external tests, which differ in their sign-up settings.
struct Servers {
    /// The server's program, for tests that start their own server.
    program: PathBuf,
    plain: Server,
    /// Requires confirmation of addresses by mail.
    confirming: Server,
}

impl Servers {
    fn start(
        root: &Path,
        basalt: &Path,
        project: &Path,
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let confirm = [
            ("BASALT_AUTH_MAILER_AUTOCONFIRM", "false"),
            ("BASALT_AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED", "true"),
            ("BASALT_AUTH_RATE_LIMIT_EMAIL_SENT", "0"),
            ("BASALT_AUTH_RATE_LIMIT_ANONYMOUS_USERS", "0"),
            ("BASALT_MAIL_MAX_FREQUENCY", "1"),
        ];
        // Only the app's own project has plans to sell.
        let sells = project == root;
        let plain = Server::launch(root, basalt, project, name, settings, sells)?;
        let confirming = Server::launch(
            root,
            basalt,
            project,
            &format!("{name}-confirming"),
            &[settings, &confirm].concat(),
            sells,
        )?;
        Ok(Self { program: basalt.to_owned(), plain: plain.ready()?, confirming: confirming.ready()? })
    }

    fn describe_to(&self, command: &mut Command) {
        command.env("BASALT_PROGRAM", &self.program);
        self.plain.describe_to(command, "BASALT");
        self.confirming.describe_to(command, "BASALT_CONFIRMING");
    }

    /// On failure, prints the ends of the servers' logs, which often show the cause.
    fn explain(&self, result: Result<()>) -> Result<()> {
        result.inspect_err(|_| {
            for server in [&self.plain, &self.confirming] {
                ui::print(&format!("the end of a server's log:\n{}", server.log_end()));
            }
        })
    }
}

/// Runs a Node test program.
fn node_tests(tallies: &Tallies, command: &mut Command) -> Result<()> {
    if ui::colours() {
        command.env("FORCE_COLOR", "1");
    }
    if run::run_reading(command, |line| tallies.read(line))? {
        return Ok(());
    }
    bail!("`{}` failed", run::line(command))
}

fn vitest(
    root: &Path,
    tallies: &Tallies,
    kind: Kind,
    workspace: &str,
    servers: Option<&Servers>,
    arguments: &[String],
) -> Result<()> {
    let report = report(root, workspace)?;
    let mut flags = vec!["--reporter=default".to_owned(), "--reporter=json".to_owned()];
    flags.push(format!("--outputFile.json={}", report.display()));
    flags.extend_from_slice(arguments);
    let mut command = node::script(root, workspace, "test", &flags);
    if let Some(servers) = servers {
        servers.describe_to(&mut command);
    }
    let result = node_tests(tallies, &mut command);
    tallies.add(kind, count::vitest(&report).unwrap_or_default());
    result
}

/// Runs a Playwright script of the app's `package.json`.
fn browser_tests(
    root: &Path,
    tallies: &Tallies,
    build: Build,
    script: &str,
    arguments: &[String],
) -> Result<()> {
    let chromium = browser::chromium()?;
    let servers = Servers::start(root, &build.run(root)?, root, "e2e", &[])?;
    let report = report(root, "e2e")?;
    let mut flags = vec!["--reporter=list,json".to_owned()];
    flags.extend_from_slice(arguments);
    let mut command = node::script(root, "app", script, &flags);
    command.env("CHROMIUM", chromium).env("PLAYWRIGHT_JSON_OUTPUT_FILE", &report);
    servers.describe_to(&mut command);
    let result = node_tests(tallies, &mut command);
    tallies.add(Kind::Browser, count::playwright(&report).unwrap_or_default());
    servers.explain(result)
}

/// The path of a JSON report. Removes an old report, so that it is not mistaken for a new one.
fn report(root: &Path, name: &str) -> Result<PathBuf> {
    let folder = root.join("target/xtask");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let report = folder.join(format!("{name}.json"));
    match std::fs::remove_file(&report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", report.display()))
        }
        _ => Ok(report),
    }
}

/// A command for the cargo that runs this program, in the repository's root.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root);
    command
}

/// `cargo test` with clippy's driver as compiler for our crates. All steps share its artifacts, which are separate from
/// those of a plain `cargo test`.
fn test_command(root: &Path) -> Command {
    let mut command = cargo_command(root);
    command.arg("test").env("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");
    if ui::colours() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    command
}

pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    run::run(cargo_command(root).args(arguments))
}
