//! Logs to standard error, as text or as JSON for log collectors, filtered by `server.log`. Each event is one line: user
//! input in a message cannot start a new line or send control sequences to a terminal.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Write as _};
use std::io::{self, IsTerminal as _};
use std::panic;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, Server};

/// Installs the subscriber of this process, and a hook that logs panics.
///
/// # Errors
/// `server.log` is not a valid filter, or a subscriber is already installed.
pub fn install(server: &Server) -> anyhow::Result<()> {
    // h2 logs warnings about invalid client input. An operator can enable them in server.log.
    let filter: EnvFilter = format!("h2=error,{}", server.log)
        .parse()
        .map_err(|error| anyhow::anyhow!("server.log is not a log filter: {error}"))?;
    let colour = io::stderr().is_terminal();
    subscriber(filter, server.log_format, colour, io::stderr)
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot initialise logging: {error}"))?;
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

fn subscriber(
    filter: EnvFilter,
    format: LogFormat,
    colour: bool,
    writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> Box<dyn Subscriber + Send + Sync> {
    // Drop lines that cannot be written: reporting the error on a closed terminal would panic.
    let builder = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false);
    match format {
        LogFormat::Json => {
            Box::new(builder.json().flatten_event(true).with_writer(EscapedJsonLines(writer)).finish())
        }
        LogFormat::Text => {
            let field = |writer: &mut Writer<'_>, field: &tracing::field::Field, value: &dyn fmt::Debug| {
                match field.name() {
                    "message" => {}
                    name if writer.has_ansi_escapes() => {
                        write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?
                    }
                    name => write!(writer, "{name}=")?,
                }
                write!(Escaping(writer), "{value:?}")
            };
            let builder = builder.fmt_fields(debug_fn(field).delimited(" "));
            Box::new(builder.with_writer(writer).with_ansi(colour).with_target(false).finish())
        }
    }
}

fn log_panic(panic: &panic::PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("(no text)");
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let thread = std::thread::current();
    tracing::error!(
        thread = thread.name(),
        location = panic.location().map(tracing::field::display),
        backtrace,
        "thread panicked: {message}"
    );
}

/// A writer that escapes control characters, and characters that change the text direction.
struct Escaping<W>(W);

impl<W: fmt::Write> fmt::Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '\n' => self.0.write_str("\\n")?,
                '\r' => self.0.write_str("\\r")?,
                '\t' => self.0.write_str("\\t")?,
                '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                    write!(self.0, "\\u{:04x}", u32::from(character))?;
                }
                _ if character.is_control() => write!(self.0, "\\u{:04x}", u32::from(character))?,
                _ => self.0.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// A writer for JSON lines. JSON escapes only control characters below U+0020; the others occur only inside strings.
struct EscapedJson<W>(W);

impl<W: io::Write> io::Write for EscapedJson<W> {
    /// `line` is one complete event with its newline, because the subscriber writes each event at once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut escaped = String::with_capacity(line.len());
        let _never = Escaping(&mut escaped).write_str(String::from_utf8_lossy(line).trim_end());
        escaped.push('\n');
        self.0.write_all(escaped.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

struct EscapedJsonLines<M>(M);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for EscapedJsonLines<M> {
    type Writer = EscapedJson<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        EscapedJson(self.0.make_writer())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, colour: bool, log: impl FnOnce()) -> String {
        let memory = Memory::default();
        let writer = memory.clone();
        let subscriber = subscriber(EnvFilter::new("trace"), format, colour, move || writer.clone());
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(memory.0.lock().unwrap().clone()).unwrap()
    }

    const FORGED: &str =
        "a\n2026-11-22T00:00:00Z ERROR forged\r\t\x1b[2J\x07\x7f\u{9b}\u{2028}\u{202e}é\u{0}";

    fn log_forged() {
        let error = io::Error::other(FORGED);
        let source: &(dyn std::error::Error + 'static) = &error;
        let span = tracing::info_span!("request", path = %FORGED);
        let _entered = span.enter();
        tracing::warn!(text = FORGED, shown = %FORGED, said = ?FORGED, source, "{FORGED}");
    }

    #[test]
    fn log_values_cannot_inject_lines_or_control_codes() {
        for (format, colour) in [(LogFormat::Text, false), (LogFormat::Text, true), (LogFormat::Json, false)]
        {
            let line = logged(format, colour, log_forged);
            assert!(line.contains("forged") && line.contains('é'), "{line:?}");
            let line = line.strip_suffix('\n').unwrap();
            let mut left = line.to_owned();
            for ours in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[33m"] {
                left = left.replace(ours, "");
            }
            let steers = |c: char| c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c);
            assert!(!left.contains(steers), "{left:?}");
            if matches!(format, LogFormat::Json) {
                let event: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(
                    [&event["message"], &event["text"], &event["shown"]],
                    [FORGED; 3],
                    "collectors receive the original text"
                );
            }
        }
    }

    #[test]
    fn panic_is_logged_as_one_line() {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(log_panic));
        let text = logged(LogFormat::Text, false, || {
            let _panicked = panic::catch_unwind(|| panic!("on purpose\nand more"));
        });
        panic::set_hook(hook);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("on purpose\\nand more") && text.contains("logging.rs"), "{text}");
    }
}
