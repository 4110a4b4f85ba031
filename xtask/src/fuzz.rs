//! `cargo xtask fuzz`: builds the engine and our crates with coverage, runs one target, keeps what it found.
//!
//! No nightly and no cargo-fuzz: see `tests/fuzz/README.md`.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::{Arguments, dev, run, ui};

/// Longer inputs find nothing that shorter ones do not, only slower.
const MAX_INPUT_BYTES: u32 = 400;

pub(crate) fn fuzz(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    let target = match arguments.words.as_slice() {
        [] => {
            run::run(&mut corpus(root, &[]))?;
            return Ok(ExitCode::SUCCESS);
        }
        [target] => target,
        _ => bail!("one target at a time; arguments for the engine follow a `--`"),
    };
    let home = dev::target(root).join("fuzz").join(target);
    let (all, small) = (home.join("all"), home.join("small"));
    for folder in [&all, &small] {
        let _absent = fs::remove_dir_all(folder);
        fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
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
    // Of two the last counts.
    run::run(engine().arg("-max_total_time=300").args(&arguments.passed).arg(&all))
        .with_context(|| format!("the finding is in {}", home.display()))?;
    run::run(engine().args(["-merge=1", &small, &all]))?;
    run::run(&mut corpus(root, &["pack", target, &small]))?;
    ui::note(&format!("kept in tests/fuzz/corpus/{target}.txt"));
    Ok(ExitCode::SUCCESS)
}

/// The tool that turns `tests/fuzz/corpus` into files and back.
fn corpus(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["run", "--quiet", "-p", "basalt-fuzz", "--bin", "corpus", "--"]);
    command.args(arguments);
    command
}
