#![doc = include_str!("../README.md")]

mod browser;
mod cargo_build;
mod count;
mod dev;
mod fuzz;
mod moto;
mod nats;
mod node;

mod pebble;
mod postgres_17;
mod postgres_extras;
mod postgres_meta;
mod preflight;
mod release;
mod run;
mod server;
mod stripe_double;
mod suite;
mod ui;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
usage: cargo xtask VERB [ARGUMENTS]

  dev [-- ARGS]        install what is missing, build and start Basalt with the app, demo data and test payments;
                       ARGS go to `basalt serve`; --watch adds Vite with reload
  db [-- ARGS]         psql on the database of the server that `dev` started

  quick [NAME]         fast checks of a change, in about a minute: formatting, clippy, unit tests, plans, and the
                       service tests for the changed paths, or those whose name contains NAME
  test [--keep-going]  everything that CI runs, cheapest checks first; stops at the first failing step
                       unless --keep-going is given
  nightly              slow tests: the comparison with PostgREST, endurance, memory, several servers, the
                       browser's timings, and an hour of fuzzing

  fmt [--check]        cargo fmt, and Biome's formatter
  lint                 clippy -D warnings, tsc, Biome
  unit [-- ARGS]       Rust unit tests and doctests, without tests that start a server
  service [-- ARGS]    Rust tests that start real servers on a real PostgreSQL
  conformance [-- ARGS]  the unmodified supabase-js against a running Basalt; ARGS go to vitest
  web [-- ARGS]        the app's unit tests; ARGS go to vitest
  e2e [-- ARGS]        the app in Chromium against a running Basalt; ARGS go to Playwright
  bench [-- ARGS]      builds a release and runs basalt-bench with ARGS (default: rest)
  fuzz [TARGET] [-- ARGS]  runs a fuzz target for five minutes, on the stable compiler; ARGS go to libFuzzer;
                       without TARGET lists them
  dist [--debug] [--check]  builds the files of a release into target/dist: one executable that contains PostgreSQL,
                       a tar archive and a Debian package of it; --check also runs it on a bare root file system;
                       --debug takes the debug build
  gen-docs             regenerates the generated files in docs/
  gen-types            regenerates app/src/lib/database.types.ts from migrations/

Requires Rust and Node 20 or newer; the tests also require Python 3.10 or newer with venv.";

fn main() -> ExitCode {
    run::forward_signals();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            ui::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let root = root()?;
    let (verb, rest) = match arguments.split_first() {
        Some((verb, rest)) => (verb.as_str(), Arguments::new(rest)),
        None => ("help", Arguments::default()),
    };
    match verb {
        "dev" if rest.words.first().is_some_and(|word| word == "db") => dev::psql(&root, &rest.passed),
        "dev" => dev::dev(&root, &rest.with_flags(&["--watch"])?),
        "db" => dev::psql(&root, &rest.with_flags(&[])?.passed),
        "test" => suite::test(&root, rest.with_flags(&["--keep-going"])?.has("--keep-going")),
        "quick" => suite::quick(&root, &rest.words),
        "nightly" => rest.with_flags(&[]).and_then(|_| suite::nightly(&root)),
        "fmt" => suite::fmt(&root, rest.with_flags(&["--check"])?.has("--check")),
        "lint" => suite::lint(&root),
        "unit" => suite::unit(&root, &rest.with_flags(&[])?.passed),
        "service" => suite::service(&root, &rest.with_flags(&[])?.passed),
        "conformance" => suite::conformance(&root, &rest.with_flags(&[])?.passed),
        "web" => suite::web(&root, &rest.with_flags(&[])?.passed),
        "e2e" => suite::e2e(&root, &rest.with_flags(&[])?.passed),
        "bench" => dev::bench(&root, &rest.everything()),
        "fuzz" => fuzz::fuzz(&root, &rest),
        "dist" => release::dist(&root, &rest.with_flags(&["--debug", "--check"])?),
        "gen-docs" => dev::gen_docs(&root),
        "gen-types" => dev::gen_types(&root),
        "help" | "--help" | "-h" => {
            ui::print(HELP);
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("unknown verb `{other}`; run `cargo xtask help` for a list"),
    }
}

/// Arguments of a verb: its own flags, and arguments after `--`, which are passed on.
#[derive(Default, Clone)]
struct Arguments {
    words: Vec<String>,
    passed: Vec<String>,
}

impl Arguments {
    fn new(all: &[String]) -> Self {
        let mut sides = all.splitn(2, |word| word == "--");
        let words = sides.next().unwrap_or_default().to_vec();
        Self { words, passed: sides.next().unwrap_or_default().to_vec() }
    }

    /// Rejects unknown flags, so that a mistyped one is not ignored.
    fn with_flags(self, known: &[&str]) -> Result<Self> {
        match self.words.iter().find(|word| !known.contains(&word.as_str())) {
            Some(unknown) => {
                bail!("unknown argument `{unknown}`; put arguments for the program after `--`")
            }
            None => Ok(self),
        }
    }

    fn has(&self, flag: &str) -> bool {
        self.words.iter().any(|word| word == flag)
    }

    fn everything(&self) -> Vec<String> {
        self.words.iter().chain(&self.passed).cloned().collect()
    }
}

/// The repository's root, derived from the location of this crate's sources, so that it works from any folder below.
fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("the xtask crate has no parent folder")?;
    // If the checkout was moved with its target folder, the path from build time no longer exists.
    if root.join("Cargo.toml").is_file() {
        return Ok(root.to_path_buf());
    }
    let current = std::env::current_dir().context("the current folder no longer exists")?;
    current
        .ancestors()
        .find(|folder| folder.join("xtask/Cargo.toml").is_file())
        .map(Path::to_path_buf)
        .context("run this inside the repository")
}
