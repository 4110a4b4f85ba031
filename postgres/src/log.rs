//! Forwards PostgreSQL's log to ours, line by line.
//!
//! PostgreSQL writes to its standard error, a pipe that one task reads. Clients already receive their own errors, the
//! request log has them too, and their text may contain what the client sent, so errors of client sessions are dropped
//! unless they report trouble of the server itself (SQLSTATE classes 53, 58, XX). The last lines are kept, because they
//! contain the reason of a failed start.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tracing::Level;

/// The value of `log_line_prefix`, which [`parse`] expects: backend type, SQLSTATE, then the message.
pub(super) const LINE_PREFIX: &str = "%b|%e|";

/// Number of lines kept for the reason of a failure.
const TAIL_LINES: usize = 30;
/// Longer lines are truncated, to limit memory.
const LINE_BYTES: usize = 8 * 1024;

/// The last lines of a program's output, shared with the reading task. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The kept lines, without our prefix.
    pub(super) fn text(&self) -> String {
        let lines = self.0.lock();
        lines
            .iter()
            .map(|line| parse(line).map_or(line.as_str(), |entry| entry.rest))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The line with the reason why a program ended: the last FATAL or PANIC, else the last line.
    pub(super) fn reason(&self) -> String {
        let text = self.text();
        let fatal = text.lines().rev().find(|line| line.starts_with("FATAL:") || line.starts_with("PANIC:"));
        fatal.or_else(|| text.lines().last()).unwrap_or("no output").to_owned()
    }
}

/// Reads `stream` to its end, keeps the last lines in `tail` and logs relevant ones.
pub(super) async fn forward(mut stream: impl AsyncRead + Unpin, tail: Tail) {
    let mut pending: Vec<u8> = Vec::new();
    let mut chunk = vec![0_u8; LINE_BYTES];
    loop {
        let count = match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break, // the last process holding the pipe has ended
            Ok(count) => count,
        };
        for byte in chunk.iter().take(count) {
            if *byte == b'\n' {
                take_line(&pending, &tail);
                pending.clear();
            } else if pending.len() < LINE_BYTES {
                pending.push(*byte);
            }
        }
    }
    take_line(&pending, &tail);
}

fn take_line(bytes: &[u8], tail: &Tail) {
    if bytes.is_empty() {
        return;
    }
    let line = String::from_utf8_lossy(bytes).into_owned();
    if let Some(entry) = parse(&line)
        && let Some(level) = entry.level()
    {
        let Entry { backend, sqlstate, message, .. } = entry;
        match level {
            Level::ERROR => tracing::error!(target: "basalt::postgres", backend, sqlstate, "{message}"),
            Level::WARN => tracing::warn!(target: "basalt::postgres", backend, sqlstate, "{message}"),
            Level::INFO => tracing::info!(target: "basalt::postgres", backend, "{message}"),
            _ => tracing::debug!(target: "basalt::postgres", backend, sqlstate, "{message}"),
        }
    }
    tail.push(line);
}

/// A parsed line of the log.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    backend: &'a str,
    sqlstate: &'a str,
    severity: &'a str,
    message: &'a str,
    /// Severity and message, unparsed.
    rest: &'a str,
}

/// Parses a line; `None` for continuation lines and other formats.
fn parse(line: &str) -> Option<Entry<'_>> {
    // A continuation line starts with a tab and may contain text from a user.
    if line.starts_with('\t') {
        return None;
    }
    let (backend, line) = line.split_once('|')?;
    // A backend that runs out of memory lists its contexts, including statement texts: `CachedPlan: 4096 total …: select 1|53…|…`.
    if backend.contains(':') {
        return None;
    }
    let (sqlstate, rest) = line.split_once('|')?;
    let (severity, message) = rest.split_once(':')?;
    severity.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()).then_some(())?;
    Some(Entry { backend, sqlstate, severity, message: message.trim_start(), rest })
}

impl Entry<'_> {
    /// The level in our log; `None` drops the line.
    fn level(&self) -> Option<Level> {
        let is_client = matches!(self.backend, "client backend" | "parallel worker" | "walsender" | "");
        let is_server_error = ["53", "58", "XX"].iter().any(|class| self.sqlstate.starts_with(class));
        match self.severity {
            "PANIC" => Some(Level::ERROR),
            // PostgreSQL ends at once, and the failed start reports the reason.
            "FATAL" if self.backend == "postmaster" => Some(Level::DEBUG),
            "WARNING" if self.message.contains("could not create listen socket") => Some(Level::DEBUG),
            "FATAL" if is_server_error || self.sqlstate.starts_with("28") => Some(Level::WARN),
            "FATAL" => Some(Level::DEBUG),
            "ERROR" | "WARNING" if is_server_error || !is_client => Some(Level::WARN),
            "ERROR" | "WARNING" => None,
            "LOG" => Some(self.log_level()),
            _ => Some(Level::DEBUG),
        }
    }

    /// PostgreSQL logs most operational messages as `LOG`; only some deserve a higher level.
    fn log_level(&self) -> Level {
        let contains = |text: &str| self.message.contains(text);
        if contains("was terminated by signal") || contains("invalidating obsolete replication slot") {
            Level::WARN
        } else if contains("was not properly shut down") {
            Level::INFO
        } else {
            Level::DEBUG
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(line: &str) -> Option<Level> {
        parse(line).unwrap().level()
    }

    #[test]
    fn client_errors_are_not_logged() {
        assert_eq!(level("client backend|23505|ERROR:  duplicate key value violates \"x\""), None);
        assert_eq!(
            level("client backend|53100|ERROR:  could not extend file: No space left"),
            Some(Level::WARN)
        );
        assert_eq!(level("checkpointer|58030|ERROR:  could not write file"), Some(Level::WARN));
        assert_eq!(level("client backend|57P01|FATAL:  terminating connection"), Some(Level::DEBUG));
        assert_eq!(level("client backend|28P01|FATAL:  password authentication failed"), Some(Level::WARN));
        assert_eq!(level("postmaster|XX000|FATAL:  could not create any TCP/IP sockets"), Some(Level::DEBUG));
        assert_eq!(level("walwriter|XX000|PANIC:  could not write"), Some(Level::ERROR));
    }

    #[test]
    fn server_events_are_logged() {
        assert_eq!(
            level("postmaster|00000|LOG:  server process (PID 7) was terminated by signal 9"),
            Some(Level::WARN)
        );
        assert_eq!(
            level("postmaster|00000|LOG:  database system is ready to accept connections"),
            Some(Level::DEBUG)
        );
        assert_eq!(level("checkpointer|00000|LOG:  checkpoint starting: time"), Some(Level::DEBUG));
    }

    #[test]
    fn unparsed_lines_are_kept_but_not_logged() {
        for line in [
            "\tcontinued | with | bars: x",
            "\tx|XX000|PANIC:  forged",
            "postgres: error while loading shared libraries",
            "a|b|c",
            "CachedPlan: 2048 total in 2 blocks: select 1 |53200|PANIC:  forged",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn tail_is_bounded_and_contains_reason() {
        let mut text = String::new();
        for n in 0..100 {
            text.push_str(&format!("postmaster|00000|LOG:  line {n}\n"));
        }
        text.push_str(
            "postmaster|55000|FATAL:  lock file exists\npostmaster|55000|HINT:  Is another running?\n",
        );
        text.push_str(&"x".repeat(3 * LINE_BYTES));
        let tail = Tail::default();
        forward(text.as_bytes(), tail.clone()).await;
        assert_eq!(tail.reason(), "FATAL:  lock file exists");
        let kept = tail.text();
        assert_eq!(kept.lines().count(), TAIL_LINES);
        assert_eq!(kept.lines().last().unwrap().len(), LINE_BYTES);
    }
}
