//! A server's log, and its unexpected lines.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;
use serde_json::Value;

/// One line of a server's log.
#[derive(Clone, Debug)]
pub struct LogLine {
    /// `INFO`, `WARN`, …; empty if the line is not JSON, such as a panic.
    pub level: String,
    /// The event's message.
    pub message: String,
    /// All fields; null if the line is not JSON.
    pub fields: Value,
    /// The raw line.
    pub raw: String,
}

impl LogLine {
    fn new(raw: String) -> Self {
        let fields: Value = serde_json::from_str(&raw).unwrap_or_default();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { level: text("level"), message: text("message"), fields, raw }
    }

    /// Whether the line is a warning or error, or not a log line at all.
    fn is_trouble(&self) -> bool {
        matches!(self.level.as_str(), "WARN" | "ERROR" | "")
    }
}

/// Collects lines in a thread until the writer closes.
#[derive(Debug)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<LogLine>>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    pub(crate) fn read(stream: impl Read + Send + 'static) -> Self {
        let lines: Arc<Mutex<Vec<LogLine>>> = Arc::default();
        let collected = Arc::clone(&lines);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok).filter(|line| !line.is_empty()) {
                collected.lock().push(LogLine::new(line));
            }
        });
        Self { lines, reader: Some(reader) }
    }

    pub(crate) fn lines(&self) -> Vec<LogLine> {
        self.lines.lock().clone()
    }

    /// Waits until the writer closes.
    pub(crate) fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("reading a log does not panic");
        }
    }

    /// Warnings and errors that contain none of `expected`, except the advice after a request without a grant, which many tests send.
    pub(crate) fn unexpected(&self, expected: &[String]) -> Vec<String> {
        const GRANT_ADVICE: &str = "; if it should have access, run: ";
        let is_trouble = |line: &LogLine| line.is_trouble() && !line.raw.contains(GRANT_ADVICE);
        let lines = self.lines().into_iter().filter(is_trouble);
        lines.map(|line| line.raw).filter(|raw| !expected.iter().any(|text| raw.contains(text))).collect()
    }

    /// The whole log, for the output of a failed test.
    pub(crate) fn text(&self) -> String {
        self.lines().into_iter().map(|line| line.raw + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_non_json_lines_are_unexpected() {
        let text = "{\"level\":\"INFO\",\"message\":\"fine\"}\n\
                    {\"level\":\"WARN\",\"message\":\"PostgreSQL ended\"}\n\nthread 'x' panicked at y\n";
        let mut log = Log::read(text.as_bytes());
        log.finish();
        assert_eq!(log.lines().len(), 3);
        assert_eq!(log.unexpected(&[]).len(), 2);
        assert_eq!(log.unexpected(&["PostgreSQL ended".to_owned()]), ["thread 'x' panicked at y"]);
    }
}
