//! Runs the command of the built-in functions, with or without a running server.

use std::io;
use std::sync::Arc;

use basalt_functions::built_in::CommandHost;
use basalt_functions::secrets::{SecretStore, Secrets};
use clap::ArgMatches;

use super::command_database::CommandDatabase;
use crate::built_in::signing_secrets;
use crate::config::Config;

/// Runs the command.
pub(super) async fn run(config: &Config, arguments: &ArgMatches) -> anyhow::Result<()> {
    let built_in = config.built_in.as_ref().filter(|_| config.functions.builtin);
    let built_in = built_in.ok_or_else(|| {
        anyhow::anyhow!("this command needs the built-in functions, but functions.builtin is false")
    })?;
    let mut database = CommandDatabase::open(config).await?;
    let (service_role, system) = (database.functions_pool(), database.system_pool());
    let store = SecretStore::new(system, database.secrets.master_key(), signing_secrets());
    let secrets = Arc::new(Secrets::new(store, &config.functions.secrets));
    let mut out = io::stdout();
    let done = built_in.run_command(arguments, CommandHost { service_role, secrets }, &mut out).await;
    database.close().await;
    done.map_err(anyhow::Error::from_boxed)
}
