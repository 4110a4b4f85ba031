//! `basalt mail …`: lists mails that are waiting or were abandoned, and sends them again, with or without a running server.
//! Their content stays encrypted.

use std::io::{self, Write};

use basalt_core::convert::saturating;
use basalt_mail::queue::{self, STATES};
use basalt_pg::jobs::{ListedJob, Queue, RetrySelection};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::command_database::CommandDatabase;
use super::terminal::{table, time};
use crate::config::Config;
use crate::mail;

/// The subcommands of `basalt mail`.
#[derive(Debug, Subcommand)]
pub(super) enum MailCommand {
    /// Lists waiting and abandoned mails, newest first, with the mail server's reply.
    List(List),
    /// Sends abandoned mails, or mails waiting for their next attempt, again.
    Retry(Retry),
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Only mails in this state; may be repeated. queued: waiting; dead: abandoned; sent: accepted by the mail server;
    /// mailbox: in the development mailbox [default: queued and dead].
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Vec<&'static str>,
    /// Maximum number of mails to print.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The mails to send again. A code in a mail expires as from its first request: retrying does not extend it.
#[derive(Debug, Args)]
pub(super) struct Retry {
    /// Ids of mails, as shown by `basalt mail list`. A mail that is being sent at this moment may arrive twice.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    ids: Vec<i64>,
    /// All abandoned mails.
    #[arg(long)]
    all: bool,
}

fn parse_state(name: &str) -> Result<&'static str, String> {
    STATES
        .into_iter()
        .find(|state| *state == name)
        .ok_or_else(|| format!("unknown state; the states are {}", STATES.join(", ")))
}

/// Runs `basalt mail`.
pub(super) async fn run(config: &Config, command: &MailCommand) -> anyhow::Result<()> {
    let mut database = CommandDatabase::open(config).await?;
    let queue = queue::queue(database.system_pool(), &mail::outbox(config, &database.secrets));
    let done = match command {
        MailCommand::List(list) => Box::pin(self::list(&queue, list)).await,
        MailCommand::Retry(retry) => Box::pin(self::retry(config, &queue, retry)).await,
    };
    database.close().await;
    done
}

async fn list(queue: &Queue, list: &List) -> anyhow::Result<()> {
    let states: &[&str] = if list.state.is_empty() { &["queued", "dead"] } else { &list.state };
    let listed = queue.list(states, list.limit).await?;
    let mut out = io::stdout();
    if list.json {
        let mails: Vec<Value> = listed.jobs.iter().map(as_json).collect();
        writeln!(out, "{:#}", json!({ "mails": mails, "total": listed.total }))?;
    } else {
        let rows: Vec<Vec<String>> = listed.jobs.iter().map(as_row).collect();
        let header = ["ID", "KIND", "TO", "STATE", "ATTEMPTS", "CREATED", "NEXT", "ENDED", "ERROR"];
        out.write_all(table(&header, &rows).as_bytes())?;
        let shown = saturating::<i64>(listed.jobs.len());
        if shown < listed.total {
            writeln!(io::stderr(), "{shown} of {} mails; more with --limit", listed.total)?;
        }
    }
    if listed.of_others > 0 {
        writeln!(
            io::stderr(),
            "{} more are encrypted with another server.master_key, of another project or a previous one",
            listed.of_others
        )?;
    }
    Ok(())
}

fn as_json(mail: &ListedJob) -> Value {
    json!({
        "id": mail.key.parse::<i64>().ok(),
        "kind": mail.kind,
        "to": recipient(mail),
        "state": mail.state,
        "attempts": mail.attempts,
        "created_at": mail.created_at,
        "next_attempt_at": mail.next_attempt_at,
        "finished_at": mail.finished_at,
        "last_error": mail.last_error,
    })
}

fn as_row(mail: &ListedJob) -> Vec<String> {
    // Keep each mail on one line: a mail server's reply may have several lines or control characters.
    let error = mail.last_error.as_deref().unwrap_or("-");
    let error: String = error.chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    vec![
        mail.key.clone(),
        mail.kind.clone(),
        recipient(mail),
        mail.state.clone(),
        mail.attempts.to_string(),
        time(Some(mail.created_at)),
        time(mail.next_attempt_at),
        time(mail.finished_at),
        error,
    ]
}

fn recipient(mail: &ListedJob) -> String {
    mail.row.try_get("recipient").unwrap_or_default()
}

async fn retry(config: &Config, queue: &Queue, retry: &Retry) -> anyhow::Result<()> {
    let ids: Vec<String> = retry.ids.iter().map(i64::to_string).collect();
    let selection = if retry.all { RetrySelection::Dead } else { RetrySelection::Keys(&ids) };
    let count = match queue.retry(selection).await? {
        Ok(ids) => ids.len(),
        Err(missing) => anyhow::bail!(
            "no waiting or abandoned mail has the id {}; nothing was changed: `basalt mail list` shows the mails",
            missing.join(", ")
        ),
    };
    let mails = if count == 1 { "mail" } else { "mails" };
    writeln!(io::stdout(), "{count} {mails} queued again")?;
    if count > 0 && config.mail.smtp_url.is_none() {
        writeln!(
            io::stderr(),
            "No mail server is configured: set mail.smtp_url and mail.from, and start the server."
        )?;
    }
    Ok(())
}
