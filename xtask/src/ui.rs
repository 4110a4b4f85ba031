//! Terminal output: one line when a step starts and one when it ends, with the elapsed time.
//!
//! The output of a step's own programs is printed unchanged; our lines start with the time in brackets.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Returns to the start of the line and clears it.
const ERASE_LINE: &str = "\r\x1b[K";

/// Fits an 80-column terminal together with the time.
const PROGRESS_CHARACTERS: usize = 70;

/// Whether the terminal's last line is a progress line, which the next output replaces.
static HAS_PROGRESS_LINE: AtomicBool = AtomicBool::new(false);

/// Time since the first line was printed.
pub(crate) fn elapsed() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// Prints a line unchanged.
pub(crate) fn print(line: &str) {
    // Ignore a closed pipe (`| head`).
    let mut out = std::io::stdout().lock();
    let erase = if HAS_PROGRESS_LINE.swap(false, Ordering::Relaxed) { ERASE_LINE } else { "" };
    drop(writeln!(out, "{erase}{line}").and_then(|()| out.flush()));
}

/// Prints a line with the elapsed time.
pub(crate) fn note(line: &str) {
    print(&with_clock(line));
}

/// Prints the progress of a step; on a terminal it replaces the previous progress line.
pub(crate) fn progress(line: &str) {
    if !colours() {
        note(line);
        return;
    }
    // A longer line would wrap, and only its last row could be replaced.
    let line: String = line.chars().take(PROGRESS_CHARACTERS).collect();
    let mut out = std::io::stdout().lock();
    HAS_PROGRESS_LINE.store(true, Ordering::Relaxed);
    drop(write!(out, "{ERASE_LINE}{}", with_clock(&line)).and_then(|()| out.flush()));
}

/// Removes the progress line.
pub(crate) fn end_progress() {
    let mut out = std::io::stdout().lock();
    if HAS_PROGRESS_LINE.swap(false, Ordering::Relaxed) {
        drop(write!(out, "{ERASE_LINE}").and_then(|()| out.flush()));
    }
}

fn with_clock(line: &str) -> String {
    let seconds = elapsed().as_secs();
    let clock = format!("[{:>2}:{:02}]", seconds / 60, seconds % 60);
    if colours() { format!("\x1b[1;36m{clock}\x1b[0m {line}") } else { format!("{clock} {line}") }
}

/// Prints an error to standard error.
pub(crate) fn error(line: &str) {
    let mut err = std::io::stderr().lock();
    let word = if std::io::stderr().is_terminal() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    drop(writeln!(err, "{word} {line}"));
}

/// Whether standard output is a terminal.
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal()
}

/// Formats a duration as `12.3 s` or `4 min 05 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}
