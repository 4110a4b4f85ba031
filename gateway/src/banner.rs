//! Terminal output: progress while the server starts, and a banner when it is ready. Written to standard error like the log;
//! `basalt keys` and `basalt config` write to standard output.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use basalt_core::keys::Keys;

use crate::config::{Config, Mode};
use crate::database_setup::Databases;
use basalt_mail::mailbox;

use crate::mail;

/// Writes messages for the operator to standard error.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    quiet: bool,
}

impl Console {
    /// With `quiet`, for JSON logs, messages are logged instead.
    #[must_use]
    pub const fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// Prints a progress message.
    pub fn progress(&self, line: &str) {
        if self.quiet {
            tracing::info!("{line}");
        } else {
            // Keep serving if standard error is closed.
            let _closed = writeln!(io::stderr(), "  … {line}");
        }
    }

    /// Prints the banner.
    pub fn banner(&self, banner: &Banner<'_>) {
        if self.quiet {
            tracing::info!(url = %banner.config.server.public_url, took_ms = banner.took.as_millis(), "ready");
        } else {
            let _closed = io::stderr().write_all(banner.text(io::stderr().is_terminal()).as_bytes());
        }
    }
}

/// The content of the banner.
pub struct Banner<'a> {
    /// For addresses, mode and folders.
    pub config: &'a Config,
    /// For the publishable key.
    pub keys: &'a Keys,
    /// For the data folder; `None` with `--only rest`, which prepares no database.
    pub databases: Option<&'a Databases>,
    /// Time since the process started.
    pub took: Duration,
}

impl Banner<'_> {
    fn text(&self, colour: bool) -> String {
        let config = self.config;
        let (bold, plain) = if colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let mode = match config.mode {
            Mode::Development => "development",
            Mode::Production => "production",
        };
        let mut lines = vec![
            String::new(),
            format!(
                "  {bold}Basalt {}{plain} is ready ({mode}, {:.2} s)",
                env!("CARGO_PKG_VERSION"),
                self.took.as_secs_f64()
            ),
            String::new(),
        ];
        let mut row = |name: &str, value: String| lines.push(format!("  {name:<10}{value}"));
        let url = config.server.public_url.to_string();
        if config.only.is_none() {
            let built = config.server.app_dir.as_ref().is_some_and(|dir| dir.join("index.html").is_file());
            if built {
                row("App", format!("{bold}{url}{plain}"));
            }
            row("API", format!("{url}/rest/v1  /auth/v1"));
            row("Anon key", self.keys.api_keys().publishable.clone());
        } else {
            let socket = config.server.unix_socket.as_ref().map(|path| path.display().to_string());
            row(
                "Listening",
                socket.unwrap_or_else(|| format!("http://{}:{}", config.server.host, config.server.port)),
            );
        }
        if mail::has_mailbox(config) {
            row("Mailbox", format!("{url}{}", mailbox::PATH));
        }
        if let Some(databases) = self.databases {
            match &databases.embedded {
                Some(embedded) => {
                    row(
                        "Database",
                        format!(
                            "PostgreSQL {} on 127.0.0.1:{}, data in {}",
                            embedded.version(),
                            embedded.port(),
                            embedded.data_dir().display()
                        ),
                    );
                    for notice in embedded.notices() {
                        row("", notice.clone());
                    }
                }
                None => row("Database", databases.admin.describe()),
            }
        }
        if let Some(demo) = demo_line(config).filter(|_| config.is_development() && config.only.is_none()) {
            row("Demo", demo);
        }
        if config.is_development() && config.only.is_none() {
            for step in next_steps(config) {
                row("Next", step.to_owned());
            }
        }
        // A PostgREST has no API keys.
        let next = if config.is_postgrest { "" } else { "`basalt keys` prints all keys, " };
        row("Help", format!("{next}`basalt doctor` checks this machine; Ctrl-C stops"));
        lines.push(String::new());
        lines.join("\n") + "\n"
    }
}

/// What a developer does next in this project.
fn next_steps(config: &Config) -> Vec<&'static str> {
    let has = |name: &str| config.project.dir.join(name).exists();
    if !["basalt.toml", "migrations", "supabase"].into_iter().any(has) {
        return vec!["`basalt init NAME --template todo` makes a project with a table, policies and a page"];
    }
    let has_files = |folder: &str| {
        std::fs::read_dir(config.project.dir.join(folder)).is_ok_and(|mut entries| entries.next().is_some())
    };
    let mut steps = Vec::new();
    if !has_files("migrations") && !has_files("supabase/migrations") {
        steps.push("`basalt migration new NAME` makes the first table; a saved file is applied at once");
    }
    if has_files("policies/tests") {
        steps.push("`basalt policies test` shows who may do what");
    }
    steps
}

/// The project's note on its demo data: `-- demo: …` in the first lines of `seed.sql`.
fn demo_line(config: &Config) -> Option<String> {
    let seed = std::fs::read_to_string(config.project.dir.join("seed.sql")).ok()?;
    seed.lines().take(10).find_map(|line| line.strip_prefix("-- demo: ")).map(str::to_owned)
}
