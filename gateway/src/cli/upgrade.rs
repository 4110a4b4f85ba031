//! `basalt upgrade …`: what the first start of this release would do to the database.

use std::io::{self, Write};
use std::process::ExitCode;

use basalt_pg::database::Database;
use basalt_pg::system_migrations::{MigrationError, missing_migrations};
use basalt_postgres::Embedded;
use clap::Subcommand;
use tokio_postgres::Client;

use crate::banner::Console;
use crate::config::Config;
use crate::database_setup;
use crate::secrets::Secrets;

/// The subcommands of `basalt upgrade`.
#[derive(Debug, Subcommand)]
pub(super) enum UpgradeCommand {
    /// Prints the system migrations that this release would apply. Changes nothing. Exits with 1 if this release cannot use the database.
    Check,
}

/// Runs `basalt upgrade`.
pub(super) async fn run(config: &Config, command: &UpgradeCommand) -> anyhow::Result<ExitCode> {
    let UpgradeCommand::Check = command;
    let secrets = Secrets::load(config)?;
    let embedded_config = database_setup::embedded_config(config, &secrets);
    if config.is_embedded() && !Embedded::has_cluster(&config.server.state_dir, &config.database.data_dir) {
        writeln!(io::stdout(), "there is no database yet: the first start creates it")?;
        return Ok(ExitCode::SUCCESS);
    }
    if config.is_embedded() {
        // Fails with the remedy if the data belongs to another major version.
        let _major = Embedded::check_data(&embedded_config).await?;
    }
    let (database, started) = match (&config.database.url, database_setup::running(config, &secrets)) {
        (Some(url), _) => (database_setup::external("database.url", url.expose_secret(), config)?, None),
        (None, Some(running)) => (running, None),
        (None, None) => {
            let console = Console::new(false);
            let embedded = Embedded::start(embedded_config, |line| console.progress(line)).await?;
            (Database::new(embedded.connect_config()), Some(embedded))
        }
    };
    let checked = async {
        let client = database_setup::connect(&database).await?;
        check(config, &client).await
    };
    let checked = Box::pin(checked).await;
    if let Some(embedded) = started {
        embedded.stop().await;
    }
    checked
}

async fn check(config: &Config, client: &Client) -> anyhow::Result<ExitCode> {
    let release = env!("CARGO_PKG_VERSION");
    let mut out = io::stdout();
    let missing = match missing_migrations(client, &database_setup::service_migrations()).await {
        Ok(missing) => missing,
        Err(error @ (MigrationError::Newer(_) | MigrationError::Changed { .. })) => {
            writeln!(out, "Basalt {release} cannot use this database: {error}")?;
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error.into()),
    };
    if missing.is_empty() {
        writeln!(out, "nothing to do: the database is up to date for Basalt {release}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let backup = match (config.is_embedded(), &config.backup.target) {
        (true, Some(target)) => format!("makes a backup in {target}"),
        (true, None) => {
            format!(
                "makes a backup of the database in {}",
                config.server.state_dir.join("before-upgrade").display()
            )
        }
        (false, _) => "makes no backup of an external PostgreSQL: run `basalt backup` first".to_owned(),
    };
    writeln!(
        out,
        "The first start of Basalt {release} {backup}, then applies, each in its own transaction:"
    )?;
    for name in missing {
        writeln!(out, "- {name}")?;
    }
    writeln!(out, "Earlier releases refuse the database afterwards.")?;
    Ok(ExitCode::SUCCESS)
}
