//! `basalt policies …`: the project's rights applied, checked and proven, with or without a running server.

use std::io::{self, Write};
use std::process::ExitCode;

use basalt_project::Project;
use clap::Subcommand;

use super::command_database::CommandDatabase;
use crate::banner::Console;
use crate::config::Config;

/// What to do with the project's policy files.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PoliciesCommand {
    /// Applies all policy files, also those that have not changed: rights that were changed by hand are undone.
    Apply,
    /// Looks for what usually goes wrong with rights, and compares the database with the files. Ends with 1 when it
    /// finds something.
    Check,
    /// Tries every case of policies/tests as every person, in a transaction that is rolled back. Ends with 1 when one is
    /// not as stated.
    Test,
}

/// Runs the command.
pub(super) async fn run(config: &Config, command: PoliciesCommand) -> anyhow::Result<ExitCode> {
    let project = Project::open(&config.project.dir)?;
    let database = CommandDatabase::open(config).await?;
    let outcome = run_on(&project, &database, config, command).await;
    database.close().await;
    outcome
}

async fn run_on(
    project: &Project,
    database: &CommandDatabase,
    config: &Config,
    command: PoliciesCommand,
) -> anyhow::Result<ExitCode> {
    let mut client = database.connect().await?;
    let mut out = io::stdout();
    match command {
        PoliciesCommand::Apply => {
            let console = Console::new(false);
            let files = project.apply_policies(&mut client, |line| console.progress(line)).await?;
            writeln!(out, "{} policy files are applied", files.len())?;
            Ok(ExitCode::SUCCESS)
        }
        PoliciesCommand::Check => {
            let findings = project.check_policies(&mut client, &config.rest.schemas).await?;
            for finding in &findings {
                writeln!(out, "{finding}")?;
            }
            if findings.is_empty() {
                writeln!(out, "no faults found")?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(ExitCode::FAILURE)
        }
        PoliciesCommand::Test => {
            let outcome = project.test_policies(&mut client).await?;
            for fault in &outcome.faults {
                writeln!(out, "{fault}")?;
            }
            writeln!(out, "{} checks, {} not as stated", outcome.checks, outcome.faults.len())?;
            Ok(if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
