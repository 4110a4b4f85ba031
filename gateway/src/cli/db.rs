//! `basalt db …`: starts a development database again from nothing, dumps it, and compares it with the project's files.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context as _;
use basalt_pg::database::Database;
use basalt_project::diff::Inventory;
use basalt_project::restore::{self, Restored};
use clap::{Args, Subcommand};

use super::command_database::CommandDatabase;
use super::terminal::confirm;
use crate::banner::Console;
use crate::config::Config;
use crate::database_setup::{self, Options, Seed};
use crate::secrets::Secrets;

/// The subcommands of `basalt db`.
#[derive(Debug, Subcommand)]
pub(super) enum DbCommand {
    /// Deletes all data of the embedded database, accounts included, and applies the project's files and seeds again. The server must be stopped.
    Reset {
        /// Does not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Writes the database as SQL, with `pg_dump`.
    Dump(Dump),
    /// Loads the rows of a dump, as `pg_dump --data-only` or `supabase db dump --data-only` writes it, in one transaction. Rows that exist stay.
    Restore {
        /// The dump; `-` reads standard input.
        file: PathBuf,
    },
    /// Compares the database with the project's files, which are applied to a temporary database for this. Exits with 1 if they differ.
    Diff,
}

#[derive(Debug, Args)]
pub(super) struct Dump {
    /// Only the rows, not the schema.
    #[arg(long)]
    data_only: bool,
    /// Schemas, separated by commas.
    #[arg(long, value_name = "SCHEMA", value_delimiter = ',', default_value = "public")]
    schema: Vec<String>,
    /// The file to write [default: standard output].
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs `basalt db`.
pub(super) async fn run(config: &Config, command: &DbCommand) -> anyhow::Result<ExitCode> {
    match command {
        DbCommand::Reset { yes } => {
            reset(config, *yes).await?;
            Ok(ExitCode::SUCCESS)
        }
        DbCommand::Dump(dump) => {
            let database = CommandDatabase::open_as_it_is(config).await?;
            let done = run_pg_dump(config, &database, dump).await;
            database.close().await;
            done?;
            Ok(ExitCode::SUCCESS)
        }
        DbCommand::Restore { file } => {
            let database = CommandDatabase::open(config).await?;
            let restored = load_dump(&database, file).await;
            database.close().await;
            write_restored(&restored?, &mut io::stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        DbCommand::Diff => {
            let database = CommandDatabase::open_as_it_is(config).await?;
            let lines = diff(config, &database).await;
            database.close().await;
            let lines = lines?;
            let mut out = io::stdout();
            for line in &lines {
                writeln!(out, "{line}")?;
            }
            if lines.is_empty() {
                writeln!(out, "the database is as the files make it")?;
                return Ok(ExitCode::SUCCESS);
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn reset(config: &Config, is_confirmed: bool) -> anyhow::Result<()> {
    if !config.is_embedded() || !config.is_development() {
        anyhow::bail!(
            "`basalt db reset` deletes everything, so it only works on the embedded database of a development server"
        );
    }
    let secrets = Secrets::load(config)?;
    if database_setup::running(config, &secrets).is_some() {
        anyhow::bail!("the server is running; stop it first");
    }
    confirm("Delete all data of this database, accounts included?", is_confirmed)?;
    let console = Console::new(false);
    let progress = |line: &str| console.progress(line);
    database_setup::recreate(config, &secrets, progress).await?;
    let options = Options { seed: Seed::NewDatabase, adopt: false };
    let databases = database_setup::prepare(config, &secrets, &options, progress).await?;
    if let Some(embedded) = &databases.embedded {
        embedded.stop().await;
    }
    console.progress("the database is new; `basalt storage gc` deletes the files of its former objects");
    Ok(())
}

async fn load_dump(database: &CommandDatabase, file: &Path) -> anyhow::Result<Restored> {
    let mut client = database.connect().await?;
    let name = file.display().to_string();
    if file == Path::new("-") {
        let mut input = io::BufReader::new(io::stdin());
        return Ok(restore::restore(&mut client, "standard input", &mut input).await?);
    }
    let input = std::fs::File::open(file).with_context(|| format!("cannot read {name}"))?;
    Ok(restore::restore(&mut client, &name, &mut io::BufReader::new(input)).await?)
}

fn write_restored(restored: &Restored, out: &mut impl Write) -> io::Result<()> {
    for (table, rows) in &restored.rows {
        let what = if table == "storage.objects" { "objects got their owner" } else { "new rows" };
        writeln!(out, "{table}: {rows} {what}")?;
    }
    for (table, reason) in &restored.skipped {
        writeln!(out, "left out {table}: {reason}")?;
    }
    if restored.ignored_statements > 0 {
        writeln!(
            out,
            "left out {} statements that are not rows: the schema is made by the project's migrations",
            restored.ignored_statements
        )?;
    }
    Ok(())
}

/// Applies the project to a temporary database and compares both.
async fn diff(config: &Config, database: &CommandDatabase) -> anyhow::Result<Vec<String>> {
    const SHADOW: &str = "basalt_diff";
    let client = database.connect().await?;
    let actual = Inventory::read(&client).await?;
    client.batch_execute(&format!("drop database if exists {SHADOW} with (force)")).await?;
    client
        .batch_execute(&format!("create database {SHADOW} template template0"))
        .await
        .context("cannot create a temporary database; the login of database.url needs the right CREATEDB")?;
    let expected = of_files(config, database, SHADOW).await;
    client.batch_execute(&format!("drop database if exists {SHADOW} with (force)")).await?;
    let differences = actual.differences(&expected?);
    Ok(differences.iter().map(ToString::to_string).collect())
}

async fn of_files(config: &Config, database: &CommandDatabase, name: &str) -> anyhow::Result<Inventory> {
    let shadow = other_database(database.admin(), name);
    let mut client = database_setup::prepare_shadow(&shadow, config).await?;
    let options = Options { seed: Seed::No, adopt: false };
    let api_keys = database.secrets.api_keys();
    database_setup::apply_project(&mut client, config, api_keys, &options, &mut |_| {}).await?;
    Ok(Inventory::read(&client).await?)
}

fn other_database(admin: &Database, name: &str) -> Database {
    let mut config = admin.config().clone();
    config.dbname(name);
    Database::new(config)
}

/// Runs `pg_dump`.
async fn run_pg_dump(config: &Config, database: &CommandDatabase, dump: &Dump) -> anyhow::Result<()> {
    let client = database.connect().await?;
    let version: String = client.query_one("show server_version_num", &[]).await?.try_get(0)?;
    let major = version.parse::<u32>().unwrap_or_default() / 10_000;
    let program = database_setup::client_program(config, "pg_dump", major).await?;
    let url = match &config.database.url {
        Some(url) => url.expose_secret().to_owned(),
        None => database_setup::running_url(config, &database.secrets)
            .context("the embedded database has no port; set database.port")?,
    };
    let mut arguments: Vec<OsString> =
        vec!["--no-owner".into(), "--no-password".into(), "--dbname".into(), without_password(&url).into()];
    arguments.extend(dump.schema.iter().map(|schema| OsString::from(format!("--schema={schema}"))));
    if dump.data_only {
        arguments.push("--data-only".into());
    }
    if let Some(file) = &dump.file {
        arguments.extend(["--file".into(), file.into()]);
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    // Not on the command line, which other users of the machine can read.
    if let Some(password) = url.parse::<tokio_postgres::Config>()?.get_password() {
        command.env("PGPASSWORD", String::from_utf8_lossy(password).into_owned());
    }
    let status = tokio::task::spawn_blocking(move || command.status()).await??;
    if status.success() { Ok(()) } else { anyhow::bail!("pg_dump failed ({status})") }
}

pub(crate) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let Some((login, place)) = rest.rsplit_once('@') else { return url.to_owned() };
    let user = login.split(':').next().unwrap_or(login);
    format!("{scheme}://{user}@{place}")
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn password_is_not_an_argument() {
        assert_eq!(without_password("postgresql://me:p%40x@h:5432/d?a=b"), "postgresql://me@h:5432/d?a=b");
        assert_eq!(without_password("postgresql://h/d"), "postgresql://h/d");
    }
}
