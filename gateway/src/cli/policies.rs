//! `basalt policies …`: applies, checks and tests the project's policies, with or without a running server.

use std::io::{self, Write};
use std::process::ExitCode;

use basalt_project::Project;
use basalt_project::policy_check::Finding;
use clap::Subcommand;

use super::command_database::CommandDatabase;
use crate::banner::Console;
use crate::config::Config;

/// The subcommands of `basalt policies`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum PoliciesCommand {
    /// Applies all policy files, including unchanged ones, which reverts manual changes.
    Apply,
    /// Checks for common mistakes in grants and policies, and compares the database with the policy files, if there are any. Exits
    /// with 1 if it finds a problem.
    Check {
        /// Prints every finding instead of one line for each table.
        #[arg(long)]
        details: bool,
    },
    /// Runs every case in policies/tests as every user, in a transaction that is rolled back. Exits with 1 if a result
    /// differs from the expectation.
    Test,
}

/// Runs `basalt policies`.
pub(super) async fn run(config: &Config, command: PoliciesCommand) -> anyhow::Result<ExitCode> {
    let project = Project::open(&config.project.dir)?;
    let database = CommandDatabase::open(config).await?;
    let outcome = run_on(&project, &database, config, command).await;
    database.close().await;
    outcome
}

/// `5 more [policy-without-role ×3, call-per-row ×2], shown by --details`
fn summary(findings: &[Finding]) -> String {
    let rules: Vec<String> = findings
        .chunk_by(|a, b| a.rule == b.rule)
        .map(|of_rule| match of_rule {
            [only] => only.rule.name().to_owned(),
            several => {
                format!("{} ×{}", several.first().map_or("", |first| first.rule.name()), several.len())
            }
        })
        .collect();
    format!("{} more [{}], shown by --details", findings.len(), rules.join(", "))
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
            writeln!(out, "applied {} policy files", files.len())?;
            Ok(ExitCode::SUCCESS)
        }
        PoliciesCommand::Check { details } => {
            let findings = project.check_policies(&mut client, &config.rest.schemas).await?;
            // Findings are sorted by object.
            for of_object in findings.chunk_by(|a, b| a.object == b.object) {
                match of_object {
                    [first, others @ ..] if !others.is_empty() && !details => {
                        writeln!(out, "{first}; {}", summary(others))?;
                    }
                    all => all.iter().try_for_each(|finding| writeln!(out, "{finding}"))?,
                }
            }
            if findings.is_empty() {
                writeln!(out, "no problems found")?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(ExitCode::FAILURE)
        }
        PoliciesCommand::Test => {
            let outcome = project.test_policies(&mut client).await?;
            for fault in &outcome.faults {
                writeln!(out, "{fault}")?;
            }
            writeln!(out, "{} checks, {} failed", outcome.checks, outcome.faults.len())?;
            Ok(if outcome.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
