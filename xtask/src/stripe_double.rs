//! Runs `basalt-stripe-double` for a server of `dev` or of the browser tests, so that both accept test cards.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::run::Running;

/// The name of the package and its program, which is in the same folder as `basalt`.
pub(crate) const PROGRAM: &str = "basalt-stripe-double";

/// A Stripe double for one server.
pub(crate) struct StripeDouble {
    host: &'static str,
    port: u16,
    key: String,
    webhook_secret: String,
    running: Option<Running>,
}

impl StripeDouble {
    /// Generates the double's keys; `host` is the host name in the addresses of its pages.
    pub(crate) fn new(host: &'static str, port: u16) -> Result<Self> {
        let (key, secret) = (random_hex()?, random_hex()?);
        let (key, webhook_secret) = (format!("sk_test_{key}"), format!("whsec_{secret}"));
        Ok(Self { host, port, key, webhook_secret, running: None })
    }

    /// The server's settings for this double, as environment variables.
    pub(crate) fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("BASALT_STRIPE_API_BASE", format!("http://127.0.0.1:{}", self.port)),
            ("BASALT_STRIPE_SECRET_KEY", self.key.clone()),
            ("BASALT_STRIPE_WEBHOOK_SECRET", self.webhook_secret.clone()),
        ]
    }

    /// The double's address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}:{}", self.host, self.port)
    }

    /// Whether the double was started.
    pub(crate) fn is_started(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the double that was built with `basalt`, for the server at `server`. With `log`, its output goes to this file instead of the terminal.
    pub(crate) fn start(
        &mut self,
        basalt: &Path,
        server: &str,
        server_key: &str,
        state_file: &Path,
        log: Option<File>,
    ) -> Result<()> {
        let mut command = Command::new(basalt.with_file_name(PROGRAM));
        command
            .args(["--host", self.host, "--port", &self.port.to_string(), "--state-file"])
            .arg(state_file)
            .env("SUPABASE_URL", server)
            .env("SUPABASE_SECRET_KEY", server_key)
            .env("BASALT_STRIPE_WEBHOOK_SECRET", &self.webhook_secret);
        if let Some(log) = log {
            command.stdout(log.try_clone().context("cannot share the log")?).stderr(log);
        }
        self.running = Some(Running::spawn(&mut command)?);
        Ok(())
    }

    /// Stops the double.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }
}

fn random_hex() -> Result<String> {
    let mut bytes = [0; 24];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(hex::encode(bytes))
}
