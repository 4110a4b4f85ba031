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
    /// Generates types of the database, in TypeScript.
    #[command(args_conflicts_with_subcommands = true)]
    Types {
        #[command(subcommand)]
        command: Option<TypesCommand>,
        #[command(flatten)]
        options: Typescript,
    },
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
    let GenCommand::Types { command, options } = command;
    let options = match command {
        Some(TypesCommand::Typescript(options)) => options,
        None => options,
    };
    let types = match &options.db_url {
        Some(url) => {
            let other = database_setup::external("--db-url", url, config)?;
            generate(&database_setup::connect(&other).await?, &options.schema, config).await?
        }
        None => {
            let database = CommandDatabase::open(config).await?;
            let types = match database.connect().await {
                Ok(client) => generate(&client, &options.schema, config).await,
                Err(error) => Err(error),
            };
            database.close().await;
            types?
        }
    };
    io::stdout().write_all(types.as_bytes())?;
    Ok(())
}

/// The types of the given schemas, or of those exposed ones that exist.
async fn generate(
    client: &tokio_postgres::Client,
    given: &[String],
    config: &Config,
) -> anyhow::Result<String> {
    let exposed;
    let schemas = if given.is_empty() {
        exposed = typescript::existing_schemas(client, &config.rest.schemas).await?;
        &exposed
    } else {
        given
    };
    Ok(typescript::generate(client, schemas).await?)
}
