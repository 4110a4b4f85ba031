//! `basalt stripe …`, with or without a running server.

use std::io::{self, Write};

use anyhow::Context as _;
use basalt_functions::{CatchUpError, CaughtUp};
use clap::{Args, Subcommand};
use serde_json::json;

use super::command_database::CommandDatabase;
use crate::config::Config;

/// What to do with Stripe.
#[derive(Debug, Subcommand)]
pub(super) enum StripeCommand {
    /// After a long outage: fetches the events that Stripe could not deliver, and compares every subscription. Takes a second
    /// for each 250 objects; a running server does the same once a day.
    Sync(Sync),
}

#[derive(Debug, Args)]
pub(super) struct Sync {
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) async fn run(config: &Config, command: &StripeCommand) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.functions.builtin,
        "this project has no subscriptions: functions.builtin is false in its configuration"
    );
    let mut database = CommandDatabase::open(config).await?;
    let (billing, system) = (database.functions_pool(), database.system_pool());
    let key = database.secrets.master_key();
    let done =
        basalt_functions::catch_up_with_stripe(&config.functions, &config.stripe, billing, system, key);
    let done = Box::pin(done).await;
    database.close().await;
    let StripeCommand::Sync(sync) = command;
    let done = done.map_err(|error| match error {
        CatchUpError::NoKey => anyhow::anyhow!(
            "no Stripe key is known: set stripe.secret_key, or run `basalt secrets set STRIPE_SECRET_KEY=…`"
        ),
        CatchUpError::Database(_) | CatchUpError::Stripe(_) => {
            anyhow::anyhow!("{error}; what was fetched until then holds, and the command can be repeated")
        }
    })?;
    show(&done, sync.json).context("cannot write")
}

fn show(done: &CaughtUp, as_json: bool) -> io::Result<()> {
    let CaughtUp { events, subscriptions, changed, without_account } = done;
    let mut out = io::stdout();
    if as_json {
        let done = json!({
            "events": events,
            "subscriptions": subscriptions,
            "changed": changed,
            "without_account": without_account,
        });
        return writeln!(out, "{done:#}");
    }
    writeln!(out, "{events} undelivered events were new; the server processes them")?;
    writeln!(out, "{subscriptions} subscriptions compared, {changed} brought up to date")?;
    if !without_account.is_empty() {
        writeln!(out, "{} belong to no account here: {}", without_account.len(), without_account.join(", "))?;
    }
    Ok(())
}
