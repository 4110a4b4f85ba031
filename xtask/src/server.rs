//! A Basalt server for tests, with its own data folder and free ports; stopped and removed on drop.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::run::{self, Running};
use crate::stripe_double::StripeDouble;
use crate::ui;

/// Initialising and migrating PostgreSQL takes seconds, and longer on a busy machine with two cores.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A running server with its own database.
pub(crate) struct Server {
    running: Running,
    folder: PathBuf,
    log: PathBuf,
    port: u16,
    keys: Keys,
    double: Option<StripeDouble>,
}

impl Server {
    /// Starts `basalt serve` on the project. `name` names its log in `target/xtask`; `settings` are additional environment variables. If
    /// the project sells plans, also prepares a Stripe double.
    pub(crate) fn launch(
        root: &Path,
        basalt: &Path,
        project: &Path,
        name: &str,
        settings: &[(&str, &str)],
        sells: bool,
    ) -> Result<Launched> {
        let folder = root.join(format!("target/xtask/{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let log = root.join(format!("target/xtask/{name}.log"));
        let file = run::private_file(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let port = free_port()?;
        let mut command = Command::new(basalt);
        command.current_dir(root).arg("serve").arg("--project").arg(project).arg("--data").arg(&folder);
        command.args(["--port", &port.to_string(), "--db-port", &free_port()?.to_string()]);
        command.env("BASALT_SERVER_PUBLIC_URL", format!("http://127.0.0.1:{port}"));
        // Tests sign up dozens of users from one address within seconds. 0 disables a limit.
        for limit in ["OTP", "TOKEN_REFRESH", "VERIFY"] {
            command.env(format!("BASALT_AUTH_RATE_LIMIT_{limit}"), "0");
        }
        command.envs(settings.iter().copied());
        let double = if sells { Some(StripeDouble::new("127.0.0.1", free_port()?)?) } else { None };
        if let Some(double) = &double {
            command.envs(double.settings());
        }
        command.stdout(file.try_clone()?).stderr(file);
        ui::note(&format!("starting {} (log: {})", run::line(&command), log.display()));
        let running = Running::spawn(&mut command)?;
        let mut keys = Command::new(basalt);
        keys.current_dir(root).arg("keys").arg("--project").arg(project).arg("--data").arg(&folder);
        let server = Self { running, folder, log, port, keys: Keys::default(), double };
        Ok(Launched { server, keys, basalt: basalt.to_owned() })
    }

    /// Passes the address and keys to a test program, as environment variables that start with `prefix`.
    pub(crate) fn describe_to(&self, command: &mut Command, prefix: &str) {
        command
            .env(format!("{prefix}_URL"), format!("http://127.0.0.1:{}", self.port))
            .env(format!("{prefix}_ANON_KEY"), &self.keys.anon)
            .env(format!("{prefix}_SERVICE_KEY"), &self.keys.service)
            .env(format!("{prefix}_PUBLISHABLE_KEY"), &self.keys.publishable)
            .env(format!("{prefix}_SECRET_KEY"), &self.keys.secret);
        if let Some(double) = &self.double {
            command.env(format!("{prefix}_STRIPE_DOUBLE_URL"), double.url());
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if status(self.port, "GET", "/ready") == Some(200) {
                return Ok(());
            }
            if let Some(end) = self.running.try_wait()? {
                bail!("the server ended while starting ({end}); the end of its log:\n{}", self.log_end());
            }
            if Instant::now() > deadline {
                bail!(
                    "the server was not ready after {} s; the end of its log:\n{}",
                    START_TIMEOUT.as_secs(),
                    self.log_end()
                );
            }
            run::pause(Duration::from_millis(50));
        }
    }

    /// The last lines of the server's log.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(40)).map(|line| format!("    {line}\n")).collect()
    }
}

/// A server that is starting.
#[must_use = "wait until the server is ready"]
pub(crate) struct Launched {
    server: Server,
    /// Prints the server's keys once it has started.
    keys: Command,
    basalt: PathBuf,
}

impl Launched {
    /// Waits until the server accepts requests.
    pub(crate) fn ready(mut self) -> Result<Server> {
        self.server.wait_until_ready()?;
        self.server.keys = Keys::from_command(&mut self.keys)?;
        let server = &mut self.server;
        if let Some(double) = &mut server.double {
            let log = server.log.with_extension("double.log");
            let log = run::private_file(&log).with_context(|| format!("cannot write {}", log.display()))?;
            let url = format!("http://127.0.0.1:{}", server.port);
            double.start(
                &self.basalt,
                &url,
                &server.keys.secret,
                &server.folder.join("stripe-double.json"),
                Some(log),
            )?;
        }
        Ok(self.server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Stop the programs before removing the folder that they write to.
        if let Some(double) = &mut self.double {
            double.stop();
        }
        self.running.stop();
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            ui::error(&format!("cannot remove {}: {error}", self.folder.display()));
        }
    }
}

/// A free port below the kernel's ephemeral range, so that no outgoing connection takes it before the server does.
pub(crate) fn free_port() -> Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Start at a different port in each process, so that parallel runs do not collide.
    let first = std::process::id().wrapping_mul(64);
    (0..10_000)
        .map(|_| first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % 10_000)
        .filter_map(|turn| u16::try_from(20_000 + turn).ok())
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .context("no free port on the loopback address")
}

/// The status of a request without a body; `None` if there is no response.
pub(crate) fn status(port: u16, method: &str, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    String::from_utf8_lossy(&answer).split_whitespace().nth(1)?.parse().ok()
}

/// A project's four API keys.
#[derive(Default, Debug, PartialEq, Eq)]
struct Keys {
    anon: String,
    service: String,
    publishable: String,
    secret: String,
}

impl Keys {
    /// Parses the output of `basalt keys`.
    fn from_command(command: &mut Command) -> Result<Self> {
        let text = run::output(command).with_context(|| format!("`{}` failed", run::line(command)))?;
        Self::read(&text).with_context(|| format!("`{}` did not print all four keys", run::line(command)))
    }

    /// Finds the keys by their format.
    fn read(text: &str) -> Option<Self> {
        let words = || text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')));
        let starting = |prefix: &str| words().find(|word| word.starts_with(prefix)).map(str::to_owned);
        let with_role = |role: &str| {
            let claim = format!("\"role\":\"{role}\"");
            words()
                .find(|word| payload(word).is_some_and(|payload| payload.contains(&claim)))
                .map(str::to_owned)
        };
        Some(Self {
            anon: with_role("anon")?,
            service: with_role("service_role")?,
            publishable: starting("sb_publishable_")?,
            secret: starting("sb_secret_")?,
        })
    }
}

/// A JWT's claims as text without blanks; `None` if it is not a JWT.
fn payload(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let mut bytes = Vec::new();
    let (mut bits, mut held) = (0_u32, 0_u32);
    for character in payload.bytes() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from((bits >> held) & 0xff).ok()?);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    Some(text.chars().filter(|c| !c.is_whitespace()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_keys_in_lines_and_json() {
        // {"role":"anon"} and {"role": "service_role"}
        let (anon, service) = ("e30.eyJyb2xlIjoiYW5vbiJ9.x", "e30.eyJyb2xlIjogInNlcnZpY2Vfcm9sZSJ9.y");
        let keys = Keys {
            anon: anon.into(),
            service: service.into(),
            publishable: "sb_publishable_a_b".into(),
            secret: "sb_secret_c_d".into(),
        };
        let lines =
            format!("anon key: {anon}\nservice_role key: {service}\nsb_publishable_a_b\nsb_secret_c_d\n");
        assert_eq!(Keys::read(&lines).as_ref(), Some(&keys));
        let json = format!(
            r#"{{"service":"{service}","anon":"{anon}","p":"sb_publishable_a_b","s":"sb_secret_c_d"}}"#
        );
        assert_eq!(Keys::read(&json), Some(keys));
        assert_eq!(Keys::read("anon key: none"), None);
    }

    #[test]
    fn closed_port_has_no_status() {
        assert_eq!(status(free_port().unwrap(), "GET", "/ready"), None);
    }
}
