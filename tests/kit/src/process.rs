//! Locates and runs the `basalt` program.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The build directory, such as `target/debug`: two levels above the test executable.
pub(crate) fn build_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own path");
    let deps = exe.parent().expect("a file has a folder");
    if deps.ends_with("deps") { deps.parent().unwrap_or(deps) } else { deps }.to_path_buf()
}

/// The checkout in which the kit was built.
pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command of the real binary in `project`, without environment variables that would configure it.
///
/// Cargo builds the binary with the tests of its package; for other packages it must be built first.
pub(crate) fn basalt(project: &Path) -> Command {
    let program = build_dir().join("basalt");
    assert!(program.is_file(), "{} is missing: run `cargo build -p basalt`", program.display());
    let mut command = Command::new(program);
    command.env_clear().current_dir(project).args(["--project", "."]);
    for name in ["PATH", "HOME", "TMPDIR", "LLVM_PROFILE_FILE"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Sets the settings as variables.
pub(crate) fn configure<'a>(
    command: &'a mut Command,
    settings: &BTreeMap<String, String>,
) -> &'a mut Command {
    let variables = settings.iter().map(|(key, value)| {
        let name = key.to_ascii_uppercase().replace('.', "_");
        (format!("BASALT_{name}"), value)
    });
    command.envs(variables)
}

/// The output of a command that must succeed.
pub(crate) fn succeeded(what: &str, output: io::Result<Output>) -> Output {
    let output = output.unwrap_or_else(|error| panic!("{what}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed ({}):\n{stderr}", output.status);
    output
}
