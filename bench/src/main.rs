#![doc = include_str!("../README.md")]

mod basalt;
mod http;
mod peer;
mod pgbench;
mod process;
mod report;
mod rest;
mod token;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures Basalt against references in the same run.
#[derive(Debug, Parser)]
#[command(name = "basalt-bench", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Reads and writes under row-level security, beside pgbench and PostgREST.
    Rest(rest::Options),
}

// One thread: what the generator takes, the server under test does not have.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Workload::Rest(options) = Cli::parse().workload;
    match rest::run(&options).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
