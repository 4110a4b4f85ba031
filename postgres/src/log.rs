//! PostgreSQL's log, line by line into ours.
//!
//! PostgreSQL writes to its standard error, a pipe that one task of ours reads. What a client did wrong is the
//! client's to see and already in the request log, and its text may hold what the client sent, so errors of client
//! sessions are dropped unless they tell of the server's own trouble (SQLSTATE classes 53, 58, XX). The last lines
//! are kept: they are the reason when a start fails.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tracing::Level;

/// What `log_line_prefix` is set to; [`parse`] relies on it: backend type, SQLSTATE, then the message.
pub(super) const LINE_PREFIX: &str = "%b|%e|";

/// Lines kept for the reason of a failure.
const TAIL_LINES: usize = 30;
/// A longer line is cut: the reader's memory has a bound.
const LINE_BYTES: usize = 8 * 1024;

/// The last lines of a program's output; cheap to clone, shared with the reading task.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The kept lines, without our prefix.
    pub(super) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .iter()
            .map(|line| parse(line).map_or(line.as_str(), |entry| entry.rest))
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// The line that says why a program ended: the last FATAL or PANIC with its hint, else the last line.
    pub(super) fn reason(&self) -> String {
        let text = self.text();
        let fatal = text.lines().rev().find(|line| line.starts_with("FATAL:") || line.starts_with("PANIC:"));
        fatal.or_else(|| text.lines().last()).unwrap_or("it wrote nothing").to_owned()
    }
}

/// Reads `stream` to its end, keeps the last lines in `tail` and logs what is worth it.
pub(super) async fn forward(mut stream: impl AsyncRead + Unpin, tail: Tail) {
    let mut pending: Vec<u8> = Vec::new();
    let mut chunk = vec![0_u8; LINE_BYTES];
    loop {
        let count = match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break, // the pipe ends with the last process that holds it
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

/// One line of the log.
#[derive(Debug, PartialEq, Eq)]
struct Entry<'a> {
    backend: &'a str,
    sqlstate: &'a str,
    severity: &'a str,
    message: &'a str,
    /// Severity and message as written.
    rest: &'a str,
}

/// Takes a line apart; `None` for continuation lines and for what is not in our format.
fn parse(line: &str) -> Option<Entry<'_>> {
    // PostgreSQL begins a continuation line with a tab. Its text may be a user's.
    if line.starts_with('\t') {
        return None;
    }
    let (backend, line) = line.split_once('|')?;
    // A backend out of memory lists what it holds, texts of statements among it: `CachedPlan: 4096 total …: select 1|53…|…`.
    if backend.contains(':') {
        return None;
    }
    let (sqlstate, rest) = line.split_once('|')?;
    let (severity, message) = rest.split_once(':')?;
    severity.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()).then_some(())?;
    Some(Entry { backend, sqlstate, severity, message: message.trim_start(), rest })
}

impl Entry<'_> {
    /// The level for our log; `None` is not logged at all.
    fn level(&self) -> Option<Level> {
        let of_client = matches!(self.backend, "client backend" | "parallel worker" | "walsender" | "");
        let server_trouble = ["53", "58", "XX"].iter().any(|class| self.sqlstate.starts_with(class));
        match self.severity {
            "PANIC" => Some(Level::ERROR),
            // PostgreSQL ends at once, and the start that fails reports the reason.
            "FATAL" if self.backend == "postmaster" => Some(Level::DEBUG),
            "WARNING" if self.message.contains("could not create listen socket") => Some(Level::DEBUG),
            "FATAL" if server_trouble || self.sqlstate.starts_with("28") => Some(Level::WARN),
            "FATAL" => Some(Level::DEBUG),
            "ERROR" | "WARNING" if server_trouble || !of_client => Some(Level::WARN),
            "ERROR" | "WARNING" => None,
            "LOG" => Some(self.log_level()),
            _ => Some(Level::DEBUG),
        }
    }

    /// `LOG` is PostgreSQL's word for anything the operator may want; a few of them someone should read.
    fn log_level(&self) -> Level {
        let says = |text: &str| self.message.contains(text);
        if says("was terminated by signal") || says("invalidating obsolete replication slot") {
            Level::WARN
        } else if says("was not properly shut down") {
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
    fn a_clients_own_error_is_not_ours_to_log() {
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
    fn what_happens_to_the_server_is_told() {
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
    fn lines_of_another_shape_are_kept_but_not_logged() {
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
    async fn the_tail_holds_the_reason_and_has_a_bound() {
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
