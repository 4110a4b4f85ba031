//! A cargo build with one progress line: the number of built crates, the current crates, and the elapsed time.
//!
//! The counts come from cargo's progress bar, which cargo is configured to print to a pipe; it has no stable interface for
//! the total. Compiler warnings and errors are printed unchanged.

use std::io::{BufReader, PipeReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::{self, Running};
use crate::suite::cargo_command;
use crate::ui;

/// Interval of progress lines where they cannot be rewritten in place.
const LINE_INTERVAL: Duration = Duration::from_secs(15);

/// Cargo's status words, whose lines the progress line replaces.
const STATUS_WORDS: [&str; 9] = [
    "Adding",
    "Blocking",
    "Compiling",
    "Downloaded",
    "Downloading",
    "Finished",
    "Fresh",
    "Locking",
    "Updating",
];

/// A running build, stopped on drop.
pub(crate) struct CargoBuild {
    running: Running,
    reader: Option<JoinHandle<()>>,
    line: String,
}

impl CargoBuild {
    /// Starts `cargo ARGUMENTS`; `what` describes it in the progress line.
    ///
    /// # Errors
    /// Cargo cannot be started.
    pub(crate) fn start(root: &Path, what: &'static str, arguments: &[&str]) -> Result<Self> {
        let mut command = cargo_command(root);
        command.args(arguments);
        command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "200");
        command.env("CARGO_TERM_COLOR", if ui::colours() { "always" } else { "never" });
        let (reader, writer) = std::io::pipe().context("cannot create a pipe")?;
        command.stdout(Stdio::null()).stderr(writer);
        let running = Running::spawn(&mut command)?;
        // Drop the command's copy of the writing end; otherwise the reader would never reach the end.
        command.stderr(Stdio::null());
        let reader = std::thread::spawn(move || show(reader, what));
        Ok(Self { running, reader: Some(reader), line: run::line(&command) })
    }

    /// Whether the build has ended.
    ///
    /// # Errors
    /// The build failed; its messages have been printed.
    pub(crate) fn is_done(&mut self) -> Result<bool> {
        let Some(status) = self.running.try_wait()? else { return Ok(false) };
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        if !status.success() {
            bail!("`{}` failed ({status})", self.line);
        }
        Ok(true)
    }
}

/// Reads cargo's output to its end.
fn show(pipe: PipeReader, what: &str) {
    let mut line = Vec::new();
    let mut last_shown: Option<Instant> = None;
    for byte in BufReader::new(pipe).bytes().map_while(Result::ok) {
        if !matches!(byte, b'\r' | b'\n') {
            line.push(byte);
            continue;
        }
        let coloured = String::from_utf8_lossy(&line);
        let plain = run::without_colours(&coloured);
        if let Some(progress) = Progress::parse(&plain) {
            let is_due = last_shown.is_none_or(|shown| shown.elapsed() >= LINE_INTERVAL);
            if ui::colours() || is_due {
                ui::progress(&format!("{what}: {progress}"));
                last_shown = Some(Instant::now());
            }
        } else if byte == b'\n' && !is_status(&plain) {
            ui::print(&coloured);
        }
        line.clear();
    }
    ui::end_progress();
}

fn is_status(line: &str) -> bool {
    line.split_whitespace().next().is_none_or(|word| STATUS_WORDS.contains(&word))
        && !line.starts_with(char::is_alphabetic)
}

/// A state of cargo's progress bar.
#[derive(Debug, PartialEq, Eq)]
struct Progress<'a> {
    built: u32,
    total: u32,
    /// The crates being built, as cargo lists them.
    current: &'a str,
}

impl<'a> Progress<'a> {
    /// Parses `    Building [====>    ] 112/409: tokio, hyper(build)`.
    fn parse(line: &'a str) -> Option<Self> {
        let (head, rest) = line.split_once("] ")?;
        if !head.trim_start().starts_with("Building [") {
            return None;
        }
        let (counts, current) = rest.split_once(": ").unwrap_or((rest, ""));
        let (built, total) = counts.trim_end_matches(':').split_once('/')?;
        Some(Self { built: built.parse().ok()?, total: total.parse().ok()?, current: current.trim_end() })
    }
}

impl std::fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} crates", self.built, self.total)?;
        if self.current.is_empty() { Ok(()) } else { write!(f, " · {}", self.current) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cargo_progress_bar() {
        let bar = "    Building [=======>      ] 112/409: tokio, hyper(build)";
        let progress = Progress::parse(bar).unwrap();
        assert_eq!(progress, Progress { built: 112, total: 409, current: "tokio, hyper(build)" });
        assert_eq!(progress.to_string(), "112 of 409 crates · tokio, hyper(build)");
        assert_eq!(Progress::parse("   Compiling tokio v1.54.0"), None);
        assert_eq!(Progress::parse("warning: unused [x] 1/2: y"), None);
    }

    #[test]
    fn only_status_lines_are_replaced() {
        assert!(is_status("   Compiling tokio v1.54.0"));
        assert!(is_status("    Finished `dev` profile in 1.2s"));
        assert!(!is_status("error[E0308]: mismatched types"));
        assert!(!is_status("  --> src/main.rs:1:1"));
        assert!(!is_status("Compiling by hand"));
    }
}
