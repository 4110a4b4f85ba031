//! What a worker prints: reports of the bootstrap script, messages of `console`, and plain text. All of it is bounded; messages
//! become log events with the function's name.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, sleep_until, timeout};
use uuid::Uuid;

use super::command::{MESSAGE_CHARS, MESSAGE_WINDOW_MS, MESSAGES};
use super::journal::Journal;
use crate::metrics;

/// Starts each report.
const MARK: u8 = 0x1e;
/// The longest line; a message has at most four bytes for each character, and twice that in JSON.
const LINE_BYTES: usize = MESSAGE_CHARS * 8 + 1024;
/// Bytes read from a worker in one second: beyond, its writes wait.
const BYTES_PER_SECOND: usize = 8 << 20;
/// Lines of standard error that follow each other within this time are one message: a stack trace, for example.
const PAUSE: Duration = Duration::from_millis(30);

/// A report of the bootstrap script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The function accepts requests.
    Listening,
    /// The number of promises given to `EdgeRuntime.waitUntil` that have not settled.
    Pending(usize),
}

/// A level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Writes the messages of one worker to the log.
#[derive(Clone)]
pub(crate) struct Logger {
    pub(crate) function: Arc<str>,
    pub(crate) id: Uuid,
    pub(crate) journal: Journal,
    budget: Arc<parking_lot::Mutex<Budget>>,
    /// The last message of standard error, for the report of a failed start.
    last_error: Arc<parking_lot::Mutex<String>>,
}

/// Messages left in the current window of time.
struct Budget {
    window_end: Instant,
    left: u32,
    dropped: u64,
}

impl Logger {
    pub(crate) fn new(function: Arc<str>, id: Uuid, journal: Journal) -> Self {
        let budget = Budget { window_end: Instant::now(), left: 0, dropped: 0 };
        Self { function, id, journal, budget: Arc::new(budget.into()), last_error: Arc::default() }
    }

    /// The last message of standard error.
    pub(crate) fn last_error(&self) -> String {
        self.last_error.lock().clone()
    }

    /// Logs a message, or counts it as dropped.
    pub(crate) fn log(&self, level: Level, request_id: Option<&str>, message: &str) {
        let dropped = {
            let mut budget = self.budget.lock();
            let mut dropped = 0;
            if Instant::now() >= budget.window_end {
                dropped = std::mem::take(&mut budget.dropped);
                *budget = Budget {
                    window_end: Instant::now() + Duration::from_millis(MESSAGE_WINDOW_MS.into()),
                    left: MESSAGES,
                    dropped: 0,
                };
            }
            if budget.left == 0 {
                budget.dropped += 1;
                metrics::dropped_messages(&self.function, 1);
                return;
            }
            budget.left -= 1;
            dropped
        };
        if dropped > 0 {
            self.report_dropped(dropped);
        }
        let message: String = message.chars().take(MESSAGE_CHARS).collect();
        let (function, execution_id) = (&*self.function, self.id);
        let request_id = request_id.unwrap_or("-");
        self.journal.add(function, level, request_id, &message);
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    target: "basalt::functions", function, %execution_id, function_request_id = request_id, "{message}"
                )
            };
        }
        match level {
            Level::Debug => event!(debug),
            Level::Info => event!(info),
            Level::Warn => event!(warn),
            Level::Error => event!(error),
        }
    }

    fn report_dropped(&self, count: u64) {
        let (function, execution_id) = (&*self.function, self.id);
        tracing::warn!(
            target: "basalt::functions", function, %execution_id,
            "dropped {count} messages: a worker may log {MESSAGES} in {} s", MESSAGE_WINDOW_MS / 1000
        );
    }

    /// Handles a line of standard output; returns reports for the supervisor.
    fn line(&self, line: &[u8]) -> Option<Report> {
        let Some((&MARK, json)) = line.split_first() else {
            if !line.is_empty() {
                self.log(Level::Info, None, &String::from_utf8_lossy(line));
            }
            return None;
        };
        let fields: Vec<Value> = serde_json::from_slice(json).ok()?;
        let text = |index: usize| fields.get(index).and_then(Value::as_str);
        let number = |index: usize| fields.get(index).and_then(Value::as_u64);
        match text(0)? {
            "listening" => Some(Report::Listening),
            "pending" => Some(Report::Pending(usize::try_from(number(1)?).ok()?)),
            "dropped" => {
                metrics::dropped_messages(&self.function, number(1)?);
                self.report_dropped(number(1)?);
                None
            }
            "log" => {
                let level = match text(1)? {
                    "debug" => Level::Debug,
                    "warn" => Level::Warn,
                    "error" => Level::Error,
                    _ => Level::Info,
                };
                self.log(level, text(2), text(3)?);
                None
            }
            _ => None,
        }
    }
}

/// Reads standard output to its end and calls `report` for each report.
pub(crate) async fn read_output(
    mut pipe: impl AsyncRead + Unpin,
    logger: Logger,
    report: impl Fn(Report) + Send,
) {
    let mut line = Vec::new();
    let mut pace = Pace::new();
    let mut buffer = vec![0_u8; 16 * 1024];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        for byte in buffer.iter().take(count) {
            if *byte == b'\n' {
                if let Some(reported) = logger.line(&line) {
                    report(reported);
                }
                line.clear();
            } else if line.len() < LINE_BYTES {
                line.push(*byte);
            }
        }
        pace.wait(count).await;
    }
    let _rest = logger.line(&line);
}

/// Reads standard error to its end: what Deno itself prints, mostly uncaught errors.
pub(crate) async fn read_errors(mut pipe: impl AsyncRead + Unpin, logger: Logger) {
    let mut text: Vec<u8> = Vec::new();
    let mut pace = Pace::new();
    let mut buffer = vec![0_u8; 16 * 1024];
    loop {
        let read = if text.is_empty() {
            pipe.read(&mut buffer).await
        } else {
            match timeout(PAUSE, pipe.read(&mut buffer)).await {
                Ok(read) => read,
                Err(_pause) => {
                    logger.stderr(&std::mem::take(&mut text));
                    continue;
                }
            }
        };
        let Ok(count @ 1..) = read else { break };
        let room = (MESSAGE_CHARS * 4).saturating_sub(text.len());
        text.extend(buffer.iter().take(count.min(room)));
        pace.wait(count).await;
    }
    logger.stderr(&text);
}

impl Logger {
    fn stderr(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        // Deno's hint for `export default { fetch }`, and its progress of downloads.
        let is_noise = |line: &&str| !(line.starts_with("Download ") || line.contains("deno serve"));
        let text = text.lines().filter(is_noise).collect::<Vec<_>>().join("\n");
        let text = text.trim();
        if !text.is_empty() {
            text.clone_into(&mut self.last_error.lock());
            self.log(Level::Error, None, text);
        }
    }
}

/// Slows reading down to [`BYTES_PER_SECOND`].
struct Pace {
    second_ends: Instant,
    bytes: usize,
}

impl Pace {
    fn new() -> Self {
        Self { second_ends: Instant::now() + Duration::from_secs(1), bytes: 0 }
    }

    async fn wait(&mut self, count: usize) {
        self.bytes += count;
        if self.bytes > BYTES_PER_SECOND {
            sleep_until(self.second_ends).await;
        }
        if Instant::now() >= self.second_ends {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logger() -> Logger {
        Logger::new("hello".into(), Uuid::nil(), Journal::disabled())
    }

    #[test]
    fn reads_reports_and_ignores_other_lines() {
        let logger = logger();
        assert_eq!(logger.line(b"\x1e[\"listening\"]"), Some(Report::Listening));
        assert_eq!(logger.line(b"\x1e[\"pending\",3]"), Some(Report::Pending(3)));
        for other in
            [&b"listening"[..], b"", b"\x1e", b"\x1e[]", b"\x1e[\"pending\",-1]", b"\x1e[\"log\"]", b"\xff"]
        {
            assert_eq!(logger.line(other), None, "{other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn messages_beyond_the_limit_are_dropped_until_the_window_ends() {
        let logger = logger();
        for _ in 0..MESSAGES + 5 {
            logger.log(Level::Info, None, "x");
        }
        assert_eq!(logger.budget.lock().dropped, 5);
        tokio::time::advance(Duration::from_millis(MESSAGE_WINDOW_MS.into())).await;
        logger.log(Level::Info, None, "x");
        let budget = logger.budget.lock();
        assert_eq!((budget.left, budget.dropped), (MESSAGES - 1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn long_lines_are_cut_and_reading_is_paced() {
        let text = "x".repeat(2 * BYTES_PER_SECOND);
        let input = format!("{text}\n\x1e[\"listening\"]\n");
        let (reports, mut received) = tokio::sync::mpsc::channel(1);
        let started = Instant::now();
        read_output(input.as_bytes(), logger(), move |report| {
            let _ = reports.try_send(report);
        })
        .await;
        assert_eq!(received.recv().await, Some(Report::Listening));
        assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn lines_of_standard_error_are_one_message() {
        let logger = logger();
        let input =
            "Download https://example.org/a.ts\nerror: Uncaught Error: boom\n    at file:///a.ts:1:7\n";
        read_errors(input.as_bytes(), logger.clone()).await;
        assert_eq!(logger.last_error(), "error: Uncaught Error: boom\n    at file:///a.ts:1:7");
        assert_eq!(logger.budget.lock().left, MESSAGES - 1);
    }
}
