//! `basalt gen …`: generates code from the database's schema.

use std::io::{self, Write};

use basalt_project::typescript;
use clap::{Args, Subcommand};

use super::command_database::CommandDatabase;
use crate::config::Config;
use crate::database_setup;

/// The subcommands of `basalt gen`.
#[derive(Debug, Subcommand)]
pub(super) enum GenCommand {
    /// Generates types of the database.
    #[command(subcommand)]
    Types(TypesCommand),
}

/// The target language.
#[derive(Debug, Subcommand)]
pub(super) enum TypesCommand {
    /// The type argument of supabase-js' `createClient<Database>()`.
    Typescript(Typescript),
}

#[derive(Debug, Args)]
pub(super) struct Typescript {
    /// Schemas, separated by commas; may be repeated. `Tables<"name">` refers to the first one [default: rest.schemas].
    #[arg(long, value_name = "SCHEMA", value_delimiter = ',')]
    schema: Vec<String>,
    /// A database other than the project's: postgresql://user:password@host/name.
    #[arg(long, value_name = "URL")]
    db_url: Option<String>,
}

/// Runs `basalt gen`.
pub(super) async fn run(config: &Config, command: &GenCommand) -> anyhow::Result<()> {
    let GenCommand::Types(TypesCommand::Typescript(options)) = command;
    let schemas =
        if options.schema.is_empty() { config.rest.schemas.clone() } else { options.schema.clone() };
    let types = match &options.db_url {
        Some(url) => {
            let other = database_setup::external("--db-url", url, config)?;
            typescript::generate(&database_setup::connect(&other).await?, &schemas).await?
        }
        None => {
            let database = CommandDatabase::open(config).await?;
            let types = match database.connect().await {
                Ok(client) => typescript::generate(&client, &schemas).await.map_err(anyhow::Error::from),
                Err(error) => Err(error),
            };
            database.close().await;
            types?
        }
    };
    io::stdout().write_all(types.as_bytes())?;
    Ok(())
}
