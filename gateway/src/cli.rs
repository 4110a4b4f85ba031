//! Parses the command line and runs the command.

mod backup;
mod built_in_command;
mod command_database;
pub(crate) mod db;
mod functions;
mod generate;
mod init;
mod keys;
mod mail;
mod migration;
mod policies;
mod restore;
mod secrets;
mod service;
mod storage;
mod terminal;
mod upgrade;
mod user;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::backup::check_complete;
use crate::banner::Console;
use crate::built_in::built_in;
use crate::config::{CommandLine, Config, LogFormat, Only};
use crate::database_setup::{self, Options, Seed};
use crate::secrets::Secrets;
use crate::{doctor, logging, serve, service_manager};
use basalt_functions::built_in::BuiltIn;
use basalt_http::shutdown::{EndSignals, Hangup, Shutdown};

/// A Supabase-compatible backend on PostgreSQL, in one process. `basalt serve` starts it.
#[derive(Debug, Parser)]
#[command(name = "basalt", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Starts the server: PostgreSQL, API and app on one port.
    Serve {
        /// Runs only this service: rest, auth, storage, realtime or functions.
        #[arg(long, value_name = "SERVICE", value_parser = parse_only)]
        only: Option<Only>,
        /// With --only rest: a postgrest.conf. PGRST_* variables are read too.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
        /// In a folder with supabase/: does not start if a migration, seed or function's module fails, instead of reporting it.
        #[arg(long)]
        strict: bool,
    },
    /// Brings the database up to date (roles, schemas, the project's migrations and policies) and stops.
    Migrate {
        /// Also runs the project's seed, if this database has not been seeded yet.
        #[arg(long)]
        seed: bool,
        /// Records migrations as applied that another tool, such as `supabase db push`, has applied to this database.
        #[arg(long)]
        adopt: bool,
        /// In a folder with supabase/: stops at the first file that fails, instead of reporting it and continuing.
        #[arg(long)]
        strict: bool,
    },
    /// Makes a project folder: basalt.toml, migrations/ and policies/; with a template, also a table and a page.
    Init(init::Init),
    /// Resets, dumps and compares the database.
    Db {
        #[command(subcommand)]
        command: db::DbCommand,
    },
    /// Makes and lists migrations; corrects the database's list of applied ones.
    Migration {
        #[command(subcommand)]
        command: migration::MigrationCommand,
    },
    /// Prints the effective configuration, with the source of each value. Secrets are not shown.
    Config {
        /// Shows the configuration of `serve` with the same option.
        #[arg(long, value_name = "SERVICE", value_parser = parse_only)]
        only: Option<Only>,
        /// With --only rest: prints in the format of postgrest.conf.
        #[arg(long)]
        postgrest: bool,
        /// With --only rest: a postgrest.conf.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Prints the project's URL and keys; lists, creates, revokes and rotates keys.
    Keys {
        #[command(subcommand)]
        command: Option<keys::KeysCommand>,
    },
    /// Lists, creates and deletes accounts, resets passwords, ends sessions.
    User {
        #[command(subcommand)]
        command: user::UserCommand,
    },
    /// Lists and retries mails that are waiting or were abandoned.
    Mail {
        #[command(subcommand)]
        command: mail::MailCommand,
    },
    /// Creates, lists and calls TypeScript functions, and shows their messages.
    Functions {
        #[command(subcommand)]
        command: functions::FunctionsCommand,
    },
    /// Manages secrets of functions, stored encrypted in the database and used by running servers at once. `reset` replaces lost server secrets.
    Secrets {
        #[command(subcommand)]
        command: secrets::SecretsCommand,
    },
    /// Compares stored blobs with their rows.
    Storage {
        #[command(subcommand)]
        command: storage::StorageCommand,
    },
    /// Applies, checks and tests the project's policies.
    Policies {
        #[command(subcommand)]
        command: policies::PoliciesCommand,
    },
    /// Generates code from the database's schema.
    Gen {
        #[command(subcommand)]
        command: generate::GenCommand,
    },
    /// Runs the server under systemd: installs a unit, shows its state and its log.
    Service {
        #[command(subcommand)]
        command: service::ServiceCommand,
    },
    /// Makes a backup of database, objects, secrets and project files while the server runs; lists, verifies and deletes backups.
    Backup(backup::BackupArguments),
    /// Makes a new project folder from a backup, as it was then or at any later moment of the archived log.
    Restore(restore::Restore),
    /// Shows what the first start of this release would change.
    Upgrade {
        #[command(subcommand)]
        command: upgrade::UpgradeCommand,
    },
    /// Checks for common problems and prints how to fix them.
    Doctor,
    /// Prints the version.
    Version,
}

/// Options that override settings, including variables and files.
#[derive(Debug, Args)]
struct Settings {
    /// The project folder [default: the current folder].
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<String>,
    /// Port of the API and the app [default: 8000].
    #[arg(long, global = true, value_name = "N")]
    port: Option<String>,
    /// Folder for secrets and data [default: .basalt].
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<String>,
    /// Port of the embedded PostgreSQL, on the loopback address [default: 54322 or the next free one].
    #[arg(long, global = true, value_name = "N")]
    db_port: Option<String>,
}

impl From<Settings> for CommandLine {
    fn from(settings: Settings) -> Self {
        let Settings { project, port, data, db_port } = settings;
        Self { only: None, project, port, data, db_port, postgrest_file: None, is_strict: false }
    }
}

/// A parsed command line.
enum Invocation {
    /// A command of the platform.
    Platform(Cli),
    /// The command of the built-in functions.
    BuiltIn { settings: Settings, arguments: ArgMatches },
}

impl Invocation {
    /// Parses the arguments of this process; exits on invalid arguments or `--help`.
    fn parse() -> Self {
        let built_in_command = built_in().map(BuiltIn::command);
        let name = built_in_command.as_ref().map(|command| command.get_name().to_owned());
        let mut command = Cli::command().subcommands(built_in_command);
        let matches = command.get_matches_mut();
        let read = match matches.subcommand() {
            Some((typed, arguments)) if Some(typed) == name.as_deref() => {
                let arguments = arguments.clone();
                // Global options are available on the subcommand too.
                Settings::from_arg_matches(&arguments).map(|settings| Self::BuiltIn { settings, arguments })
            }
            _ => Cli::from_arg_matches(&matches).map(Self::Platform),
        };
        read.unwrap_or_else(|error| error.format(&mut command).exit())
    }
}

fn parse_only(name: &str) -> Result<Only, String> {
    Only::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Only::ALL.iter().map(|only| only.as_str()).collect();
        format!("unknown service; the services are {}", names.join(", "))
    })
}

/// Parses the command line and runs the command.
#[must_use]
pub fn run() -> ExitCode {
    let invocation = Invocation::parse();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => match runtime.block_on(execute_until_signal(invocation)) {
            Ok(code) => code,
            // The reader closed the pipe, as in `basalt config | head`.
            Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
            Err(error) => {
                let _closed = writeln!(io::stderr(), "basalt: {}", with_causes(&error));
                ExitCode::FAILURE
            }
        },
        Err(error) => {
            let _closed = writeln!(io::stderr(), "basalt: cannot start the async runtime: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The error followed by its causes, except causes that its text already includes.
fn with_causes(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// On a signal, also stops the PostgreSQL that a command may have started. `serve` handles signals itself.
async fn execute_until_signal(invocation: Invocation) -> anyhow::Result<ExitCode> {
    let serves = matches!(
        invocation,
        Invocation::Platform(Cli {
            command: Command::Serve { .. }
                | Command::Functions { command: functions::FunctionsCommand::Serve },
            ..
        })
    );
    if !serves {
        // In a task of its own, because the command may block while reading from the terminal.
        tokio::spawn(end_on_signal(EndSignals::new(Hangup::Ends)?));
    }
    match invocation {
        Invocation::Platform(cli) => Box::pin(execute(cli)).await,
        Invocation::BuiltIn { settings, arguments } => {
            let config = load(&settings.into())?;
            Box::pin(built_in_command::run(&config, &arguments)).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

#[expect(clippy::exit, reason = "a command that reads from the terminal cannot be cancelled")]
async fn end_on_signal(mut signals: EndSignals) {
    let number = signals.next().await;
    basalt_postgres::interrupt_all();
    std::process::exit(128 + number);
}

async fn execute(cli: Cli) -> anyhow::Result<ExitCode> {
    let mut command_line = CommandLine::from(cli.settings);
    match cli.command {
        Command::Version => {
            writeln!(io::stdout(), "basalt {}", env!("CARGO_PKG_VERSION"))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Serve { only, file, strict } => {
            command_line.only = only;
            command_line.is_strict = strict;
            command_line.postgrest_file = file;
            run_server(&command_line).await
        }
        Command::Functions { command: functions::FunctionsCommand::Serve } => {
            command_line.only = Some(Only::Functions);
            run_server(&command_line).await
        }
        Command::Functions { command } => {
            let config = load(&command_line)?;
            Box::pin(functions::run(&config, command)).await
        }
        Command::Migrate { seed, adopt, strict } => {
            command_line.is_strict = strict;
            let config = load(&command_line)?;
            let options = Options { seed: if seed { Seed::Asked } else { Seed::No }, adopt };
            Box::pin(migrate(&config, &options)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Init(arguments) => {
            init::run(&arguments, &command_line)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Db { command } => {
            let config = load(&command_line)?;
            Box::pin(db::run(&config, &command)).await
        }
        Command::Migration { command } => {
            let config = load(&command_line)?;
            Box::pin(migration::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Config { only, postgrest, file } => {
            command_line.only = only.or(postgrest.then_some(Only::Rest));
            command_line.postgrest_file = file;
            let config = load(&command_line)?;
            if postgrest {
                io::stdout().write_all(crate::config::postgrest::print(&config, &config.rest).as_bytes())?;
            } else {
                crate::config::print::print_config(&config, &mut io::stdout())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Keys { command: Some(command) } => {
            let config = load(&command_line)?;
            Box::pin(keys::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Keys { command: None } => {
            let config = load(&command_line)?;
            let secrets = Secrets::load(&config)?;
            let in_force = keys::in_force(&config, &secrets).await;
            let url = keys::server_url(&config, &secrets, &in_force).await;
            let mut out = io::stdout();
            crate::secrets::print_keys(&url, &in_force, &mut out)?;
            crate::secrets::print_s3_keys(&url, &secrets.s3_protocol(&config), &mut out)?;
            if let Some(url) = database_setup::running_url(&config, &secrets) {
                writeln!(out, "# The embedded PostgreSQL, while the server is running.")?;
                writeln!(out, "SUPABASE_DB_URL={url}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::User { command } => {
            let config = load(&command_line)?;
            Box::pin(user::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Mail { command } => {
            let config = load(&command_line)?;
            Box::pin(mail::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Secrets { command } => {
            let config = load(&command_line)?;
            Box::pin(secrets::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Storage { command } => {
            let config = load(&command_line)?;
            Box::pin(storage::run(&config, &command)).await
        }
        Command::Policies { command } => {
            let config = load(&command_line)?;
            Box::pin(policies::run(&config, command)).await
        }
        Command::Gen { command } => {
            let config = load(&command_line)?;
            Box::pin(generate::run(&config, &command)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Service { command } => {
            let config = load(&command_line)?;
            service::run(&config, &command)
        }
        Command::Backup(arguments) => {
            let config = load(&command_line)?;
            Box::pin(backup::run(&config, &arguments)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Restore(arguments) => {
            let config = load(&command_line)?;
            Box::pin(restore::run(&config, &arguments)).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Upgrade { command } => {
            let config = load(&command_line)?;
            Box::pin(upgrade::run(&config, &command)).await
        }
        Command::Doctor => {
            let config = load(&command_line)?;
            let healthy = doctor::run(&config, &mut io::stdout()).await?;
            Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

async fn run_server(command_line: &CommandLine) -> anyhow::Result<ExitCode> {
    let config = load(command_line)?;
    let console = Console::new(config.server.log_format == LogFormat::Json);
    let shutdown = Shutdown::default();
    let hangup = if service_manager::is_present() { Hangup::IsHandled } else { Hangup::Ends };
    let signals = shutdown.follow_signals(hangup)?;
    tokio::select! {
        served = Box::pin(serve::serve(config, command_line, &console, shutdown)) => served?,
        never = signals => match never {},
    }
    Ok(ExitCode::SUCCESS)
}

/// Brings the database up to date: that of the running server, else the configured or the embedded one.
async fn migrate(config: &Config, options: &Options) -> anyhow::Result<()> {
    let console = Console::new(false);
    let mut progress = |line: &str| console.progress(line);
    let secrets = Secrets::load(config)?;
    if let Some(running) = database_setup::running(config, &secrets) {
        // The server applied the system migrations when it started.
        let mut client = database_setup::connect(&running).await?;
        secrets.check_embedded(config, &client).await?;
        database_setup::apply_project(&mut client, config, secrets.api_keys(), options, &mut progress)
            .await?;
    } else {
        let databases = database_setup::prepare(config, &secrets, options, &mut progress).await?;
        if let Some(embedded) = &databases.embedded {
            embedded.stop().await;
        }
    }
    console.progress("the database is up to date");
    Ok(())
}

fn load(command_line: &CommandLine) -> anyhow::Result<Config> {
    let config = Config::load(command_line)?;
    logging::install(&config.server)?;
    check_complete(&config)?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::with_causes;

    #[test]
    fn cause_is_printed_once() {
        let cause = || std::io::Error::other("no room");
        assert_eq!(
            with_causes(&anyhow::Error::new(cause()).context("cannot write it")),
            "cannot write it: no room"
        );
        let names_it = anyhow::Error::new(cause()).context("cannot write it (no room): make some");
        assert_eq!(with_causes(&names_it), "cannot write it (no room): make some");
    }
}
