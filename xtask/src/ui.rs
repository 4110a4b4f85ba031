//! What the verbs say: one line when a step starts, one when it ends, with the seconds since the start.
//!
//! Everything a step's own program prints passes through unchanged; ours is marked by the bracket in front.

use std::io::{IsTerminal, Write};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

static START: OnceLock<Instant> = OnceLock::new();

/// Time since the first line was printed.
pub(crate) fn elapsed() -> Duration {
    START.get_or_init(Instant::now).elapsed()
}

/// Prints a line of ours as it is.
pub(crate) fn print(line: &str) {
    // A closed pipe (`| head`) is not worth failing a build for.
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}

/// Prints what is being done now.
pub(crate) fn note(line: &str) {
    let seconds = elapsed().as_secs();
    let clock = format!("[{:>2}:{:02}]", seconds / 60, seconds % 60);
    print(&if colours() { format!("\x1b[1;36m{clock}\x1b[0m {line}") } else { format!("{clock} {line}") });
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
