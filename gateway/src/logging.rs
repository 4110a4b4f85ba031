//! Where log lines go: standard error, as text for people or JSON for collectors, filtered by `server.log`.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::config::{LogFormat, Server};

/// Installs the process's subscriber.
///
/// # Errors
/// `server.log` is no filter, or a subscriber is installed already.
pub fn install(server: &Server) -> anyhow::Result<()> {
    // The HTTP/2 library warns about what any client sends. An operator who wants to read that names it in server.log.
    let filter: EnvFilter = format!("h2=error,{}", server.log)
        .parse()
        .map_err(|error| anyhow::anyhow!("server.log is not a log filter: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_span_events(FmtSpan::NONE);
    let installed = match server.log_format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => {
            builder.with_ansi(io::IsTerminal::is_terminal(&io::stderr())).with_target(false).try_init()
        }
    };
    installed.map_err(|error| anyhow::anyhow!("logging could not be set up: {error}"))
}
