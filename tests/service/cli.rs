//! `basalt user …`, `keys …`, `mail …` and `storage …`: the real program, next to a running server, on an external database, and
//! without a server.

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's helpers fail it by panicking"
)]

mod doctor;
mod keys;
mod mail;
mod row_security;
mod schema;
mod storage;
mod supabase_folder;
mod user;

use std::io::Write;
use std::process::{Output, Stdio};

use basalt_testkit::{Basalt, Cluster};
use serde_json::Value;

/// Exit code and output of a command.
struct CliOutput {
    code: i32,
    out: String,
    err: String,
}

impl CliOutput {
    fn from_output(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// Checks that the command failed with a message that starts with the program's name.
    #[track_caller]
    fn failed(self, expected: &str) -> Self {
        assert_eq!(self.code, 1, "{}{}", self.out, self.err);
        assert!(self.err.contains("basalt: ") && self.err.contains(expected), "{}", self.err);
        assert_eq!(self.out, "");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.out))
    }
}

/// Runs the program with the settings and state of `server`; `input` goes to its standard input.
fn basalt_with(server: &Basalt, arguments: &[&str], input: &str) -> CliOutput {
    let mut command = server.same_settings();
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails early has closed its input.
    let _closed = child.stdin.take().unwrap().write_all(input.as_bytes());
    CliOutput::from_output(&child.wait_with_output().unwrap())
}

fn basalt(server: &Basalt, arguments: &[&str]) -> CliOutput {
    basalt_with(server, arguments, "")
}

/// Runs the program on an embedded PostgreSQL in `dir` that is not running.
async fn alone(dir: &std::path::Path, arguments: &[&str]) -> CliOutput {
    let bin_dir = Cluster::get().await.bin_dir().display().to_string();
    let output = Basalt::command(dir)
        .env("BASALT_DATABASE_BIN_DIR", bin_dir)
        .args(["--data", "state"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    CliOutput::from_output(&output)
}
