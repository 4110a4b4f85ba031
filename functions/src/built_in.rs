//! Functions compiled into the server. A crate of such functions implements [`BuiltIn`], and the gateway registers its settings,
//! migrations, metrics, command, checks, background jobs and functions.

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

/// A crate of built-in functions, before the configuration is read.
pub trait BuiltIn: Sync {
    /// Its sections of the configuration, with their descriptions.
    fn sections(&self) -> &'static [(&'static str, &'static str)];

    /// The settings of these sections.
    fn settings(&self) -> &'static [Setting];

    /// Reads all of these settings.
    fn configure(&self, reader: &mut Reader) -> Arc<dyn ConfiguredBuiltIn>;

    /// Its tables and SQL functions, applied after those of all services.
    fn migrations(&self) -> &'static [SystemMigration];

    /// Its metrics.
    fn metrics(&self) -> &'static [Metric];

    /// Names of secrets used to verify signatures, whose values must not be blank.
    fn signing_secrets(&self) -> &'static [&'static str];

    /// Its subcommand of `basalt`, which [`ConfiguredBuiltIn::run_command`] runs.
    fn command(&self) -> Command;
}

/// A crate of built-in functions with its configuration.
pub trait ConfiguredBuiltIn: Debug + Send + Sync {
    /// Starts the background jobs and returns the functions with their names.
    fn start(&self, host: Host) -> Vec<(&'static str, Handler)>;

    /// The kinds of its mails that are sent through Resend, and the account to use. `system` has the system's login.
    fn provider_mails(&self, system: ServicePool) -> ProviderMails;

    /// Its checks for `basalt doctor`.
    fn check<'a>(&'a self, clock: &'a Clock) -> BoxFuture<'a, Vec<Finding>>;

    /// Runs the command defined by [`BuiltIn::command`].
    fn run_command<'a>(
        &'a self,
        arguments: &'a ArgMatches,
        host: CommandHost,
        out: &'a mut (dyn Write + Send),
    ) -> BoxFuture<'a, Result<(), CommandError>>;
}

/// Why a command failed, printed to standard error.
pub type CommandError = Box<dyn Error + Send + Sync>;

/// Decides whether a URL is a page of the app.
pub type IsPage = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// What the server provides to built-in functions.
pub struct Host {
    /// Sessions of the login that switches to callers' roles.
    pub sessions: Sessions,
    /// A pool that acts as `service_role`.
    pub service_role: ServicePool,
    /// A pool of the system's login, for secrets and the outbox.
    pub system: ServicePool,
    /// Secrets from the configuration and the database.
    pub secrets: Arc<Secrets>,
    /// Verifies tokens.
    pub keys: Arc<Keys>,
    /// The clock.
    pub clock: Clock,
    /// Queues mail.
    pub outbox: Outbox,
    /// Sends mail, if a mail server or provider is configured.
    pub mail_worker: Option<Arc<Worker<Sender>>>,
    /// `auth.mailer_autoconfirm`: sign-ups are confirmed without a mail.
    pub confirms_without_mail: bool,
    /// Decides which URLs links and redirects may use.
    pub is_page: IsPage,
    /// `auth.site_url` without a trailing slash: the address of the app.
    pub site_url: String,
    /// `mail.sender_name`.
    pub sender_name: Option<String>,
    /// Whether the server runs in development mode.
    pub is_development: bool,
    /// Tracks every spawned task.
    pub tracker: TaskTracker,
    /// Cancelled when the server starts to shut down.
    pub shutdown: CancellationToken,
}

/// What the server provides to a command.
pub struct CommandHost {
    /// A pool that acts as `service_role`.
    pub service_role: ServicePool,
    /// Secrets from the configuration and the database; the latter are not loaded yet.
    pub secrets: Arc<Secrets>,
}

/// The result of a check of `basalt doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No action needed.
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
    /// What was checked, as a short label.
    pub subject: &'static str,
    /// The finding and, unless the outcome is `Ok`, the remedy.
    pub text: String,
}
