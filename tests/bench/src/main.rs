#![doc = include_str!("../README.md")]

mod auth;
mod basalt;
mod catalog;
mod cron;
mod functions;
mod http;
mod net;
mod options;
mod peer;
mod pgbench;
mod process;
mod realtime;
mod report;
mod rest;
mod storage;
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
    /// Sign-ins compared with argon2 alone, refreshes, and REST during a burst of sign-ins.
    Auth(auth::Options),
    /// Cron jobs that run every second: each due time once, and how late.
    Cron(cron::Options),
    /// The app's built-in functions, and a burst of Stripe's webhooks.
    Functions(functions::Options),
    /// `net.http_post` in one transaction: each request once, and how long after the commit.
    Net(net::Options),
    /// Reads and writes under row-level security, compared with pgbench and PostgREST.
    Rest(rest::Options),
    /// Downloads compared with nginx, uploads compared with copy and fsync, and the effect of uploads on other requests.
    Storage(storage::Options),
    /// Broadcasts from one socket to many, and the memory of idle ones.
    Realtime(realtime::Options),
    /// Loading and reloading a schema of thousands of tables, and the effect on requests.
    Catalog(catalog::Options),
}

// One thread, to leave CPU time to the server under test.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let measured = match Cli::parse().workload {
        Workload::Auth(options) => auth::run(&options).await,
        Workload::Cron(options) => cron::run(&options).await,
        Workload::Functions(options) => functions::run(&options).await,
        Workload::Net(options) => net::run(&options).await,
        Workload::Rest(options) => rest::run(&options).await,
        Workload::Storage(options) => storage::run(&options).await,
        Workload::Realtime(options) => realtime::run(&options).await,
        Workload::Catalog(options) => catalog::run(&options).await,
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::print(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
