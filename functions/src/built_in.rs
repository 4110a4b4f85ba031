//! Functions that are compiled into the server. A crate of such functions implements [`BuiltIn`], and the gateway registers it: its
//! settings, migrations, metrics, command, checks, background jobs and functions.

use std::error::Error;
use std::fmt::Debug;
use std::io::Write;
use std::sync::Arc;

use basalt_core::clock::Clock;
use basalt_core::keys::Keys;
use basalt_core::metric::Metric;
use basalt_core::service::Handler;
use basalt_core::settings::{Reader, Setting};
use basalt_mail::Outbox;
use basalt_mail::worker::{ProviderMails, Sender};
use basalt_pg::jobs::Worker;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::Sessions;
use basalt_pg::system_migrations::SystemMigration;
use clap::{ArgMatches, Command};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::secrets::Secrets;

/// What a crate of built-in functions registers before the configuration is read.
pub trait BuiltIn: Sync {
    /// The sections of the configuration that are its own, with the purpose of each.
    fn sections(&self) -> &'static [(&'static str, &'static str)];

    /// The settings of these sections.
    fn settings(&self) -> &'static [Setting];

    /// Reads every one of these settings.
    fn configure(&self, reader: &mut Reader) -> Arc<dyn ConfiguredBuiltIn>;

    /// Its tables and SQL functions. They are applied after those of all services.
    fn migrations(&self) -> &'static [SystemMigration];

    /// The metrics that it sets.
    fn metrics(&self) -> &'static [Metric];

    /// Names of secrets that verify signatures: their values must not be blank.
    fn signing_secrets(&self) -> &'static [&'static str];

    /// Its subcommand of `basalt`, which [`ConfiguredBuiltIn::run_command`] runs.
    fn command(&self) -> Command;
}

/// The same crate with its configuration.
pub trait ConfiguredBuiltIn: Debug + Send + Sync {
    /// Starts the background jobs and returns the functions, each with its name.
    fn start(&self, host: Host) -> Vec<(&'static str, Handler)>;

    /// Which of its mails leave through Resend, and with which account. `system` has the system's login.
    fn provider_mails(&self, system: ServicePool) -> ProviderMails;

    /// Its part of `basalt doctor`.
    fn check<'a>(&'a self, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>>;

    /// Runs the command of [`BuiltIn::command`].
    fn run_command<'a>(
        &'a self,
        arguments: &'a ArgMatches,
        host: CommandHost,
        out: &'a mut (dyn Write + Send),
    ) -> BoxFuture<'a, Result<(), CommandError>>;
}

/// Why a command failed, for standard error.
pub type CommandError = Box<dyn Error + Send + Sync>;

/// Whether an address is a page of the app.
pub type IsPage = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// What the server provides to built-in functions.
pub struct Host {
    /// Sessions of the login that takes on callers' roles.
    pub sessions: Sessions,
    /// Connections that act as `service_role`.
    pub service_role: ServicePool,
    /// Connections of the system's login, for secrets and the outbox.
    pub system: ServicePool,
    /// Secrets of the configuration and of the database.
    pub secrets: Arc<Secrets>,
    /// Verifies tokens.
    pub keys: Arc<Keys>,
    /// The time.
    pub clock: Clock,
    /// Queues mail.
    pub outbox: Outbox,
    /// Sends mail, where a mail server or a provider is configured.
    pub mail_worker: Option<Arc<Worker<Sender>>>,
    /// `auth.mailer_autoconfirm`: sign-ups are confirmed without a mail to their address.
    pub confirms_without_mail: bool,
    /// Decides where links and redirects may lead.
    pub is_page: IsPage,
    /// `auth.site_url` without a trailing slash: where the app is.
    pub site_url: String,
    /// Whether this is a developer's server.
    pub is_development: bool,
    /// Every task is spawned on it.
    pub tracker: TaskTracker,
    /// Cancelled when the server begins to shut down.
    pub shutdown: CancellationToken,
}

/// What a command is given.
pub struct CommandHost {
    /// Connections that act as `service_role`.
    pub service_role: ServicePool,
    /// Secrets of the configuration and of the database; the latter are not read yet.
    pub secrets: Arc<Secrets>,
}

/// The result of a check of `basalt doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do.
    Ok,
    /// It works, but probably not as intended.
    Warn,
    /// It does not work.
    Fail,
}

/// One line of `basalt doctor`.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The result.
    pub outcome: Outcome,
    /// What was checked, in one word.
    pub subject: &'static str,
    /// What was found and, unless it is fine, what to do.
    pub text: String,
}
