//! Errors in a project's files, for the person who wrote them: file, line, and PostgreSQL's message and hint.

use std::path::PathBuf;

use basalt_pg::pg_error::{DriverError, PgError};

/// Why a project could not be applied. Files applied before stay applied.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder does not exist.
    #[error("{} is not a folder; set project.dir or --project to the folder that contains migrations/", dir.display())]
    NoFolder {
        /// The configured path.
        dir: PathBuf,
    },
    /// A file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// Relative to the project.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file's name is invalid.
    #[error("{file}: {rule}")]
    Name {
        /// Relative to the project.
        file: String,
        /// The naming rule.
        rule: &'static str,
    },
    /// Two migrations have the same number.
    #[error("{first} and {second} have the same number; give the newer one the next free number")]
    SameNumber {
        /// Relative to the project.
        first: String,
        /// Relative to the project.
        second: String,
    },
    /// An applied migration was changed.
    #[error(
        "{file} was changed after being applied to this database; revert the change and put it into a new migration"
    )]
    Changed {
        /// Relative to the project.
        file: String,
    },
    /// Another tool has applied new migrations and recorded them in the shared history.
    #[error(
        "another tool, such as `supabase db push`, has already applied {} to this database; to record these migrations as applied, \
         run: basalt migrate --adopt",
        .files.join(", ")
    )]
    AppliedElsewhere {
        /// Relative to the project, in order.
        files: Vec<String>,
    },
    /// A new migration precedes an applied one.
    #[error("{file} is new but precedes {applied}, which is already applied; give it a higher number")]
    OutOfOrder {
        /// Relative to the project.
        file: String,
        /// The last applied migration.
        applied: String,
    },
    /// A statement cannot run inside the file's transaction.
    #[error("{file}, line {line}: {reason}")]
    Refused {
        /// Relative to the project.
        file: String,
        /// One-based.
        line: usize,
        /// The reason.
        reason: &'static str,
    },
    /// A version without a file.
    #[error("no migration in the folder has the number {version}; `basalt migration list` shows them")]
    NoVersion {
        /// The version.
        version: String,
    },
    /// A bucket of `supabase/config.toml` cannot be created or changed.
    #[error("supabase/config.toml, bucket {name}: {error}")]
    Bucket {
        /// The bucket's name.
        name: String,
        /// PostgreSQL's error.
        #[source]
        error: Box<PgError>,
    },
    /// A secret of `[db.vault]` cannot be stored.
    #[error("supabase/config.toml, secret {name} of the vault: {error}")]
    Vault {
        /// The secret's name.
        name: String,
        /// PostgreSQL's error.
        #[source]
        error: Box<PgError>,
    },
    /// A file of a Supabase project failed, and `--strict` stops there.
    #[error("{failure}\n  later files were not applied because of --strict")]
    Strict {
        /// The failure.
        failure: String,
    },
    /// The command works on Supabase's layout only, or on Basalt's only.
    #[error("{dir}: {message}", dir = dir.display())]
    WrongLayout {
        /// The folder.
        dir: PathBuf,
        /// What the command needs.
        message: &'static str,
    },
    /// PostgreSQL rejected a statement; the file was rolled back.
    #[error("{0}")]
    Statement(Box<StatementError>),
    /// A policy test file is invalid.
    #[error("{file}: {message}")]
    TestFile {
        /// Relative to the project.
        file: String,
        /// The problem.
        message: String,
    },
    /// No schema was given for generated types.
    #[error("no schema given; use --schema at least once")]
    NoSchemas,
    /// A given schema does not exist.
    #[error("schema {schema} does not exist in the database")]
    NoSchema {
        /// The schema's name.
        schema: String,
    },
    /// Another server is applying a project to this database.
    #[error(
        "another server has been applying a project to this database for more than a minute; try again when it has finished"
    )]
    Busy,
    /// One of our own queries failed.
    #[error("cannot read the applied files from the database: {0}")]
    Postgres(#[source] Box<PgError>),
    /// The connection was lost; the driver's message.
    #[error("the connection to the database was lost: {0}")]
    Connection(String),
}

/// A statement of a project's file that PostgreSQL rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementError {
    /// Relative to the project.
    pub file: String,
    /// One-based line in the file: the error's position if PostgreSQL reports one, else the start of the statement.
    pub line: usize,
    /// One-based number of the statement in the file.
    pub statement: usize,
    /// PostgreSQL's error.
    pub error: PgError,
}

impl std::fmt::Display for StatementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, line, statement, error } = self;
        write!(
            f,
            "{file}, line {line} (statement {statement}): {} (SQLSTATE {})",
            error.message, error.code
        )?;
        if let Some(detail) = &error.detail {
            write!(f, "\n  detail: {detail}")?;
        }
        if let Some(hint) = &error.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl From<tokio_postgres::Error> for ProjectError {
    fn from(error: tokio_postgres::Error) -> Self {
        match DriverError::from(error) {
            DriverError::Postgres(error) => Self::Postgres(error),
            DriverError::Connection(text) => Self::Connection(text),
        }
    }
}
