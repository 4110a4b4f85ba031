//! `basalt migration …`: makes and lists migrations, and corrects the database's list of applied ones.

use std::io::{self, Write};

use basalt_project::Project;
use clap::{Args, Subcommand, ValueEnum};
use jiff::Timestamp;

use super::command_database::CommandDatabase;
use super::terminal::table;
use crate::config::Config;

/// The subcommands of `basalt migration`.
#[derive(Debug, Subcommand)]
pub(super) enum MigrationCommand {
    /// Makes an empty migration with the next number, or with the time in Supabase's layout.
    New {
        /// What it does, such as `add_orders`.
        name: String,
    },
    /// Lists the project's migrations and those that the database has.
    List,
    /// Corrects the database's list of applied migrations, without running any SQL.
    Repair(Repair),
}

#[derive(Debug, Args)]
pub(super) struct Repair {
    /// Numbers of migrations.
    #[arg(required = true)]
    versions: Vec<String>,
    /// What the list shall say.
    #[arg(long)]
    status: Status,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Status {
    /// Counts as applied
    Applied,
    /// The next start applies it
    Reverted,
}

/// Runs `basalt migration`.
pub(super) async fn run(config: &Config, command: &MigrationCommand) -> anyhow::Result<()> {
    let project = Project::open(&config.project.dir)?;
    if let MigrationCommand::New { name } = command {
        let path = project.new_migration(name, Timestamp::now().as_second())?;
        writeln!(io::stdout(), "created {path}")?;
        return Ok(());
    }
    let database = CommandDatabase::open_as_it_is(config).await?;
    let done = run_on(&project, &database, command).await;
    database.close().await;
    done
}

async fn run_on(
    project: &Project,
    database: &CommandDatabase,
    command: &MigrationCommand,
) -> anyhow::Result<()> {
    let mut client = database.connect().await?;
    let mut out = io::stdout();
    match command {
        MigrationCommand::New { .. } => {}
        MigrationCommand::List => {
            let rows: Vec<Vec<String>> = project
                .list_migrations(&client)
                .await?
                .into_iter()
                .map(|entry| {
                    let mark = |is: bool| if is { entry.version.clone() } else { String::new() };
                    vec![mark(entry.has_file), mark(entry.is_applied), entry.name.clone()]
                })
                .collect();
            out.write_all(table(&["FOLDER", "DATABASE", "NAME"], &rows).as_bytes())?;
        }
        MigrationCommand::Repair(Repair { versions, status }) => {
            project.repair_migrations(&mut client, versions, *status == Status::Applied).await?;
            let status = if *status == Status::Applied { "applied" } else { "reverted" };
            writeln!(out, "{}: {status}", versions.join(", "))?;
        }
    }
    Ok(())
}
