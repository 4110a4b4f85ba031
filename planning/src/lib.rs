#![doc = include_str!("../README.md")]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::clock::Clock;
use basalt_core::metric::Metric;
use basalt_core::service::Handler;
use basalt_core::settings::{Reader, Setting};
use basalt_functions::built_in::{BuiltIn, CommandError, CommandHost, ConfiguredBuiltIn, Finding, Host};
use basalt_mail::worker::ProviderMails;
use basalt_pg::pool::ServicePool;
use basalt_pg::system_migrations::SystemMigration;
use clap::{ArgMatches, Command};
use futures_util::future::{BoxFuture, FutureExt as _};

mod app;
mod commands;
mod config;
mod doctor;
mod functions;
mod layout;
mod mailer;
mod metric_table;
mod metrics;
mod plan_mails;
mod rates;
mod refusal;
mod stripe;

pub use config::StripeConfig;

use app::App;

/// Time limit of one statement.
pub(crate) const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// Tables and SQL functions for payments. They were released as versions of the service `functions`, and databases record them under this name
/// and these numbers, so neither may change. New migrations use the service name `planning`.
pub const MIGRATIONS: &[SystemMigration] = &[
    SystemMigration::new(
        "functions",
        3,
        "former_customers",
        include_str!("../migrations/0003_former_customers.sql"),
    ),
    SystemMigration::new("functions", 4, "caught_up", include_str!("../migrations/0004_caught_up.sql")),
    SystemMigration::new(
        "functions",
        5,
        "proven_addresses",
        include_str!("../migrations/0005_proven_addresses.sql"),
    ),
    SystemMigration::new("planning", 1, "mail_states", include_str!("../migrations/0001_mail_states.sql")),
    SystemMigration::new("planning", 2, "plan_mails", include_str!("../migrations/0002_plan_mails.sql")),
    SystemMigration::new(
        "planning",
        3,
        "backup_figures",
        include_str!("../migrations/0003_backup_figures.sql"),
    ),
];

/// The app's server half, which the gateway registers.
#[derive(Clone, Copy, Debug)]
pub struct Planning;

impl BuiltIn for Planning {
    fn sections(&self) -> &'static [(&'static str, &'static str)] {
        config::SECTIONS
    }

    fn settings(&self) -> &'static [Setting] {
        &StripeConfig::SETTINGS
    }

    fn configure(&self, reader: &mut Reader) -> Arc<dyn ConfiguredBuiltIn> {
        Arc::new(StripeConfig::read(reader))
    }

    fn migrations(&self) -> &'static [SystemMigration] {
        MIGRATIONS
    }

    fn metrics(&self) -> &'static [Metric] {
        metric_table::METRICS
    }

    fn signing_secrets(&self) -> &'static [&'static str] {
        &[functions::WEBHOOK_SECRET]
    }

    fn command(&self) -> Command {
        commands::command()
    }
}

impl ConfiguredBuiltIn for StripeConfig {
    fn start(&self, host: Host) -> Vec<(&'static str, Handler)> {
        functions::all(&Arc::new(App::start(self, host)))
    }

    fn provider_mails(&self, system: ServicePool) -> ProviderMails {
        mailer::provider_mails(system)
    }

    fn check<'a>(&'a self, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>> {
        doctor::check(self, clock).boxed()
    }

    fn run_command<'a>(
        &'a self,
        arguments: &'a ArgMatches,
        host: CommandHost,
        out: &'a mut (dyn Write + Send),
    ) -> BoxFuture<'a, Result<(), CommandError>> {
        commands::run(self, arguments, host, out).boxed()
    }
}
