//! `basalt secrets …`: sets, lists and removes secrets of functions, with or without a running server. Values are never shown.
//! `reset` replaces the server's own secrets.

mod reset;

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use basalt_functions::secrets::{SecretStore, parse_env_file};
use clap::{Args, Subcommand};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::command_database::CommandDatabase;
use super::terminal::{table, time};
use crate::built_in::signing_secrets;
use crate::config::Config;

/// Limit on the size of a file, well above the limit on all secrets together.
const FILE_BYTES: u64 = 8 * 1024 * 1024;

/// The subcommands of `basalt secrets`.
#[derive(Debug, Subcommand)]
pub(super) enum SecretsCommand {
    /// Sets secrets, either all or none.
    Set(Set),
    /// Lists the names of secrets.
    List(List),
    /// Removes secrets, either all or none.
    Unset(Unset),
    /// Generates new server secrets when those of the embedded database are lost, and lists what becomes invalid.
    Reset,
}

#[derive(Debug, Args)]
pub(super) struct Set {
    /// `NAME=value`. Other users of this machine may see command lines; a file is safer.
    #[arg(value_name = "NAME=VALUE", required_unless_present = "env_file", value_parser = parse_pair)]
    pairs: Vec<(String, SecretString)>,
    /// A file with `NAME=value` lines; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Unset {
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

fn parse_pair(text: &str) -> Result<(String, SecretString), &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=value")?;
    Ok((name.to_owned(), SecretString::from(value)))
}

/// Runs `basalt secrets`.
pub(super) async fn run(config: &Config, command: &SecretsCommand) -> anyhow::Result<()> {
    if let SecretsCommand::Reset = command {
        return Box::pin(reset::run(config)).await;
    }
    let mut database = CommandDatabase::open(config).await?;
    let pool = database.system_pool();
    let store = SecretStore::new(pool, database.secrets.master_key(), signing_secrets());
    let done = match command {
        SecretsCommand::Set(set) => Box::pin(self::set(&store, set)).await,
        SecretsCommand::List(list) => Box::pin(self::list(&store, list)).await,
        SecretsCommand::Unset(unset) => Box::pin(self::unset(&store, unset)).await,
        // Handled above, because it must not open the database with the current secrets.
        SecretsCommand::Reset => Ok(()),
    };
    database.close().await;
    done
}

async fn set(store: &SecretStore, set: &Set) -> anyhow::Result<()> {
    let mut secrets = set.env_file.as_deref().map(read_file).transpose()?.unwrap_or_default();
    secrets.extend(set.pairs.iter().cloned());
    store.set(&secrets, None).await?;
    let count = secrets.len();
    let set = if count == 1 { "secret is" } else { "secrets are" };
    writeln!(io::stdout(), "{count} {set} set")?;
    Ok(())
}

fn read_file(path: &Path) -> anyhow::Result<Vec<(String, SecretString)>> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        io::stdin().take(FILE_BYTES).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(FILE_BYTES).read_to_string(&mut text))
    };
    read.map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    parse_env_file(&text).map_err(|line| anyhow::anyhow!("{}:{line}: expected NAME=value", path.display()))
}

async fn list(store: &SecretStore, list: &List) -> anyhow::Result<()> {
    let secrets = store.list().await?;
    let mut out = io::stdout();
    if list.json {
        let secrets: Vec<Value> = secrets
            .iter()
            .map(|secret| json!({ "name": secret.name, "updated_at": secret.updated_at }))
            .collect();
        writeln!(out, "{:#}", json!({ "secrets": secrets }))?;
    } else {
        let rows: Vec<Vec<String>> =
            secrets.into_iter().map(|secret| vec![secret.name, time(Some(secret.updated_at))]).collect();
        out.write_all(table(&["NAME", "SET"], &rows).as_bytes())?;
    }
    Ok(())
}

async fn unset(store: &SecretStore, unset: &Unset) -> anyhow::Result<()> {
    match store.unset(&unset.names).await? {
        Ok(()) => {
            let count = unset.names.len();
            let removed = if count == 1 { "secret is" } else { "secrets are" };
            writeln!(io::stdout(), "{count} {removed} removed")?;
            Ok(())
        }
        Err(missing) => anyhow::bail!(
            "no secret is named {}; nothing was changed: `basalt secrets list` shows the names",
            missing.join(", ")
        ),
    }
}
