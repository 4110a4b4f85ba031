//! `basalt doctor`: checks for common problems of a machine or a server and prints how to fix them. It is read-only: it creates
//! no secrets, starts no PostgreSQL and changes no schema.
//!
//! `machine` checks ports, folders and programs, `database` a reachable PostgreSQL, `servers` what several servers must share;
//! built-in functions check their own requirements.

mod database;
mod machine;
mod servers;

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_functions::built_in::{Finding, Outcome};
use basalt_mail::smtp::Smtp;
use basalt_storage::Backend;
use basalt_storage::blobs::{BlobError, BlobStore};
use tokio_util::task::TaskTracker;

use crate::config::{Config, Mode, Only};
use crate::database_setup;
use crate::function_facts;
use crate::project_check;
use crate::secrets::Secrets;

/// The label at the start of a line; colour alone would not be accessible.
const fn label(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Warn => "warn",
        Outcome::Fail => "FAIL",
    }
}

/// The findings, in the order of the checks.
#[derive(Debug, Default)]
struct Report(Vec<Finding>);

impl Report {
    fn ok(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(Outcome::Ok, subject, text.into());
    }

    fn warn(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(Outcome::Warn, subject, text.into());
    }

    fn fail(&mut self, subject: &'static str, text: impl Into<String>) {
        self.add(Outcome::Fail, subject, text.into());
    }

    fn add(&mut self, outcome: Outcome, subject: &'static str, text: String) {
        self.0.push(Finding { outcome, subject, text });
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.0.iter().filter(|finding| finding.outcome == outcome).count()
    }

    fn render(&self) -> String {
        let mut text = String::new();
        for Finding { outcome, subject, text: sentence } in &self.0 {
            let _ = writeln!(text, "{:<5} {subject:<14} {sentence}", label(*outcome));
        }
        let (warnings, failures) = (self.count(Outcome::Warn), self.count(Outcome::Fail));
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let _ = match (failures, warnings) {
            (0, 0) => writeln!(text, "\nNo problems found."),
            (0, _) => writeln!(text, "\nThe server can run; {warnings} warning{} above.", plural(warnings)),
            _ => writeln!(
                text,
                "\n{failures} failure{} and {warnings} warning{} above; fix the failures first.",
                plural(failures),
                plural(warnings)
            ),
        };
        text
    }
}

/// Runs all checks and writes the report. Returns whether no check failed; warnings do not count.
///
/// # Errors
/// Writing to `out` fails.
pub async fn run(config: &Config, out: &mut impl Write) -> std::io::Result<bool> {
    let report = examine(config, &Clock::system()).await;
    out.write_all(report.render().as_bytes())?;
    Ok(report.count(Outcome::Fail) == 0)
}

async fn examine(config: &Config, clock: &Clock) -> Report {
    let mut report = Report::default();
    configuration(config, &mut report);
    let secrets = machine::secrets(config, &mut report);
    machine::disk_space(config, &mut report);
    machine::open_files(config, &mut report);
    machine::ports(config, &mut report).await;
    machine::proxy(config, &mut report);
    machine::tls(config, clock, &mut report);
    machine::app(config, &mut report);
    functions(config, &mut report).await;
    extensions(config, &mut report).await;
    mail(config, &mut report).await;
    objects(config, &mut report).await;
    if let Some(built_in) = config.built_in_functions() {
        report.0.extend(built_in.check(clock).await);
    }
    if config.is_embedded() {
        embedded(config, secrets.as_ref(), clock, &mut report).await;
    } else {
        external(config, secrets.as_ref(), clock, &mut report).await;
    }
    report
}

fn configuration(config: &Config, report: &mut Report) {
    let subject = "configuration";
    let file = config
        .project
        .file
        .as_ref()
        .map_or_else(|| "no basalt.toml".to_owned(), |file| file.display().to_string());
    report.ok(subject, format!("{file}, {} mode", config.mode.as_str()));
    for warning in &config.warnings {
        report.warn(subject, warning);
    }
    let is_clear = !config.server.public_url.is_https() && !config.server.public_url.is_loopback();
    if config.mode == Mode::Production && is_clear {
        report.warn(
            subject,
            "server.public_url is http: passwords and tokens are sent unencrypted; set server.acme_domains or server.tls_certificate, or put a proxy with TLS in front, and set it to https",
        );
    }
}

/// Loads the modules of every TypeScript function; in production from the cache only, as the server does.
async fn functions(config: &Config, report: &mut Report) {
    const SUBJECT: &str = "functions";
    if !matches!(config.only, None | Some(Only::Functions)) {
        return;
    }
    let facts = function_facts::facts(config, None);
    let inspected = basalt_functions::inspect(&config.functions, &facts, true).await;
    let enabled: Vec<_> = inspected.iter().filter(|function| function.is_enabled).collect();
    for function in &enabled {
        if let Some(problem) = &function.problem {
            report.warn(SUBJECT, format!("{} cannot run: {problem}", function.entry.display()));
        }
    }
    let able = enabled.iter().filter(|function| function.problem.is_none()).count();
    if able > 0 {
        report.ok(SUBJECT, format!("{able} of {} TypeScript functions can run", enabled.len()));
    }
}

/// Lists the extensions of a project in Supabase's layout that the embedded PostgreSQL does not have.
async fn extensions(config: &Config, report: &mut Report) {
    for problem in project_check::missing_extensions(config).await.problems {
        report.warn("extensions", problem);
    }
}

/// Logs in to the mail server, as sending the first mail would.
async fn mail(config: &Config, report: &mut Report) {
    const SUBJECT: &str = "mail";
    if !crate::mail::sends(config) {
        return;
    }
    let Some(smtp) = crate::mail::smtp(config) else {
        if config.is_development() {
            return report.ok(SUBJECT, "mail.smtp_url is not set: mail goes to the mailbox at /mailbox");
        }
        let needed = !config.auth.mailer_autoconfirm && !config.auth.disable_signup;
        let cost = if needed { ", so new users cannot confirm their address" } else { "" };
        return report.warn(SUBJECT, format!("no mail is sent{cost}: set mail.smtp_url and mail.from"));
    };
    let address = smtp.server.address();
    let checked = match Smtp::new(&smtp) {
        Ok(smtp) => smtp.check().await.map_err(|error| error.detail),
        Err(fault) => Err(fault),
    };
    match checked {
        Ok(()) => report.ok(SUBJECT, format!("{address} accepts mail from {}", config.mail.from)),
        Err(fault) => {
            report.fail(SUBJECT, format!("{address} does not accept mail ({fault}): check mail.smtp_url"))
        }
    }
}

/// Writes a small file to the folder, or lists the bucket.
async fn objects(config: &Config, report: &mut Report) {
    const SUBJECT: &str = "objects";
    const TIMEOUT: Duration = Duration::from_secs(30);
    if !matches!(config.only, None | Some(Only::Storage)) {
        return;
    }
    let storage = &config.storage;
    if storage.backend == Backend::File && !storage.dir.exists() {
        return report.ok(SUBJECT, format!("the server creates {} at startup", storage.dir.display()));
    }
    let checked = async {
        let blobs = BlobStore::open(storage, TaskTracker::new()).await?;
        blobs.check().await?;
        Ok::<_, BlobError>(blobs.describe())
    };
    let remedy = match storage.backend {
        Backend::File => "give this user write access, or set storage.dir",
        Backend::S3 => "check storage.s3, and that the key may list, read, write and delete objects",
    };
    match tokio::time::timeout(TIMEOUT, checked).await {
        Ok(Ok(location)) => report.ok(SUBJECT, format!("stored in {location}")),
        Ok(Err(error)) => report.fail(SUBJECT, format!("{error}: {remedy}")),
        Err(_elapsed) => {
            report.fail(SUBJECT, format!("no response within {} seconds: {remedy}", TIMEOUT.as_secs()))
        }
    }
}

async fn embedded(config: &Config, secrets: Option<&Secrets>, clock: &Clock, report: &mut Report) {
    machine::programs(config, secrets, report).await;
    match secrets.and_then(|secrets| Some((secrets, database_setup::running(config, secrets)?))) {
        Some((secrets, database)) => database::examine(&database, config, Some(secrets), clock, report).await,
        None => {
            report.ok("database", "not running; start the server and run this again to check the database")
        }
    }
}

async fn external(config: &Config, secrets: Option<&Secrets>, clock: &Clock, report: &mut Report) {
    let admin = config.database.url.as_ref();
    let login =
        if config.only == Some(Only::Rest) { config.database.authenticator_url.as_ref() } else { admin };
    report.warn(
        "memory",
        "Basalt cannot limit the memory of one request in an external PostgreSQL: limit the private memory of its processes \
         (LimitDATA=640M in its systemd unit), or rely on the machine's limits",
    );
    let Some(url) = login else { return };
    match basalt_pg::database::Database::from_url(url.expose_secret()) {
        Ok(database) => database::examine(&database, config, secrets, clock, report).await,
        Err(error) => report.fail("database", error.to_string()),
    }
    // With `--only rest` this login was checked above.
    if let (Some(url), false) = (&config.database.authenticator_url, config.only == Some(Only::Rest)) {
        database::examine_login("requests", url, report).await;
    }
    if let Some(url) = &config.database.replica_url {
        database::examine_login("replica", url, report).await;
    }
}
