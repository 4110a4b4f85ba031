//! `cargo xtask fuzz`: builds the engine and our crates with coverage, runs one target, and stores new inputs.
//!
//! Needs neither nightly nor cargo-fuzz: see `tests/fuzz/README.md`.

use std::fs;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::{Arguments, dev, run, ui};

/// Longer inputs only slow down the search.
const MAX_INPUT_BYTES: u32 = 400;

pub(crate) fn fuzz(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let target = match arguments.words.as_slice() {
        [] => {
            run::run(&mut corpus(root, &[]))?;
            return Ok(ExitCode::SUCCESS);
        }
        [target] => target,
        _ => bail!("specify one target; put arguments for the engine after `--`"),
    };
    one(root, target, Duration::from_secs(300), &arguments.passed)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs every target, each for an equal share of `time`, one target per core at once: the engine has one thread.
/// A finding does not stop the others.
pub(crate) fn all(root: &Path, time: Duration) -> Result<()> {
    let listed = run::output(&mut corpus(root, &[])).context("cannot list the fuzz targets")?;
    let targets: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let share = time / u32::try_from(targets.len().max(1))?;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = one(root, target, share, &[]) {
                failed.push(format!("{target}: {error:#}"));
            }
        }
        failed
    };
    let failed: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

fn one(root: &Path, target: &str, time: Duration, arguments: &[String]) -> Result<()> {
    let home = dev::target(root).join("fuzz").join(target);
    let (all, small) = (home.join("all"), home.join("small"));
    for folder in [&all, &small] {
        let _absent = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let (all, small) = (all.display().to_string(), small.display().to_string());
    run::run(&mut corpus(root, &["unpack", target, &all]))?;

    ui::note("building the fuzzer");
    let mut build = Command::new("cargo");
    build.current_dir(root).args(["build", "-p", "basalt-fuzz", "--features", "libfuzzer", "--bin", "fuzz"]);
    run::run(build.env("RUSTC_WORKSPACE_WRAPPER", root.join("tests/fuzz/instrument.sh")))?;

    let engine = || {
        let mut engine = Command::new(dev::target(root).join("debug/fuzz"));
        engine.env("FUZZ_TARGET", target).current_dir(&home);
        engine.arg(format!("-max_len={MAX_INPUT_BYTES}")).args(["-timeout=10", "-print_final_stats=1"]);
        engine.arg(format!("-dict={}", root.join("tests/fuzz/words.dict").display()));
        engine
    };
    // libFuzzer uses the last value, so `arguments` may override it.
    let time = format!("-max_total_time={}", time.as_secs());
    run::run(engine().arg(time).args(arguments).arg(&all))
        .with_context(|| format!("the finding is in {}", home.display()))?;
    run::run(engine().args(["-merge=1", &small, &all]))?;
    run::run(&mut corpus(root, &["pack", target, &small]))?;
    ui::note(&format!("stored in tests/fuzz/corpus/{target}.txt"));
    Ok(())
}

/// The tool that unpacks `tests/fuzz/corpus` into files and packs it again.
fn corpus(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "--quiet", "-p", "basalt-fuzz", "--bin", "corpus", "--"]);
    command.args(arguments);
    command
}
