//! `basalt stripe …`, with or without a running server.

use std::io::{self, Write};

use basalt_functions::built_in::{CommandError, CommandHost};
use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand};
use serde_json::json;

use crate::config::StripeConfig;
use crate::stripe::Stripe;
use crate::stripe::billing::Billing;
use crate::stripe::catch_up::{CatchUpError, CatchUpReport, catch_up};

#[derive(Debug, Subcommand)]
enum StripeCommand {
    /// Catches up after an outage: fetches events that Stripe could not deliver, and compares every subscription. Takes a second
    /// per 250 objects; a running server does this once a day.
    Sync(Sync),
}

#[derive(Debug, Args)]
struct Sync {
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

/// The definition of `basalt stripe`.
pub(crate) fn command() -> Command {
    let command = Command::new("stripe").about("Compares payments with Stripe");
    StripeCommand::augment_subcommands(command.subcommand_required(true).arg_required_else_help(true))
}

/// Runs `basalt stripe`.
pub(crate) async fn run(
    config: &StripeConfig,
    arguments: &ArgMatches,
    host: CommandHost,
    out: &mut (dyn Write + Send),
) -> Result<(), CommandError> {
    let StripeCommand::Sync(sync) = StripeCommand::from_arg_matches(arguments)?;
    let CommandHost { service_role, secrets } = host;
    let report = async {
        secrets.refresh().await?;
        catch_up(&Billing { pool: service_role }, &Stripe::new(config, secrets, false)).await
    };
    let report = report.await.map_err(|error| match error {
        CatchUpError::NoKey => {
            "no Stripe key is configured: set stripe.secret_key, or run `basalt secrets set STRIPE_SECRET_KEY=…`"
                .to_owned()
        }
        CatchUpError::Database(_) | CatchUpError::Stripe(_) => {
            format!("{error}; the events fetched so far are kept, and the command can be repeated")
        }
    })?;
    print(&report, sync.json, out).map_err(|error| format!("cannot write the result: {error}").into())
}

fn print(report: &CatchUpReport, as_json: bool, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let CatchUpReport { events, subscriptions, changed, without_account } = report;
    if as_json {
        let report = json!({
            "events": events,
            "subscriptions": subscriptions,
            "changed": changed,
            "without_account": without_account,
        });
        return writeln!(out, "{report:#}");
    }
    writeln!(out, "{events} undelivered events stored; the server processes them")?;
    writeln!(out, "{subscriptions} subscriptions compared, {changed} updated")?;
    if !without_account.is_empty() {
        writeln!(out, "{} have no account here: {}", without_account.len(), without_account.join(", "))?;
    }
    Ok(())
}
