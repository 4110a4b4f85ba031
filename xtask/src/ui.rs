//! What the verbs say: one line when a step starts, one when it ends, with the seconds since the start.
//!
//! Everything a step's own program prints passes through unchanged; ours is marked by the bracket in front.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Returns to the start of the line and clears it.
const ERASE_LINE: &str = "\r\x1b[K";

/// Fits a terminal of 80 columns beside the clock.
const PROGRESS_CHARACTERS: usize = 70;

/// Whether the terminal's last line is a progress line, to be replaced by what is printed next.
static HAS_PROGRESS_LINE: AtomicBool = AtomicBool::new(false);

/// Time since the first line was printed.
pub(crate) fn elapsed() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// Prints a line of ours as it is.
pub(crate) fn print(line: &str) {
    // A closed pipe (`| head`) is not worth failing a build for.
    let mut out = std::io::stdout().lock();
    let erase = if HAS_PROGRESS_LINE.swap(false, Ordering::Relaxed) { ERASE_LINE } else { "" };
    drop(writeln!(out, "{erase}{line}").and_then(|()| out.flush()));
}

/// Prints what is being done now.
pub(crate) fn note(line: &str) {
    print(&with_clock(line));
}

/// Shows how far a step is: on a terminal in place of the previous such line.
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

/// Prints what went wrong, on standard error.
pub(crate) fn error(line: &str) {
    let mut err = std::io::stderr().lock();
    let word = if std::io::stderr().is_terminal() { "\x1b[1;31merror:\x1b[0m" } else { "error:" };
    drop(writeln!(err, "{word} {line}"));
}

/// Whether the person reads this on a terminal.
pub(crate) fn colours() -> bool {
    std::io::stdout().is_terminal()
}

/// `12.3 s` or `4 min 05 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {:02} s", seconds / 60, seconds % 60)
    }
}
