//! What can be wrong with a project's files, in words for the person who wrote them: file, line, PostgreSQL's message
//! and hint.

use std::path::PathBuf;

use basalt_pg::pg_error::{DriverError, PgError};

/// Why a project could not be applied. What was applied before stays.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The folder does not exist.
    #[error("{} is no folder; set project.dir or --project to the folder that holds migrations/", dir.display())]
    NoFolder {
        /// As configured.
        dir: PathBuf,
    },
    /// The folder holds `supabase/config.toml`.
    #[error("{} is a Supabase project; this release applies only projects with migrations/NNNN_name.sql", dir.display())]
    SupabaseLayout {
        /// As configured.
        dir: PathBuf,
    },
    /// A file could not be read.
    #[error("{file}: {source}")]
    Read {
        /// Relative to the project.
        file: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file's name does not follow the rule.
    #[error("{file}: {rule}")]
    Name {
        /// Relative to the project.
        file: String,
        /// The rule.
        rule: &'static str,
    },
    /// Two migrations carry one number.
    #[error("{first} and {second} have the same number; give the newer one the next free number")]
    SameNumber {
        /// Relative to the project.
        first: String,
        /// Relative to the project.
        second: String,
    },
    /// A migration that had been applied is not what it was.
    #[error(
        "{file} was changed after it had been applied to this database; undo the change and put it into a new migration"
    )]
    Changed {
        /// Relative to the project.
        file: String,
    },
    /// Another tool has applied versions of new migrations and recorded them in the history that is shared with it.
    #[error(
        "another tool, such as `supabase db push`, has applied {} to this database, and a second time would fail; to record as applied what it has applied, \
         run: basalt migrate --adopt",
        .files.join(", ")
    )]
    AppliedElsewhere {
        /// Relative to the project, in order.
        files: Vec<String>,
    },
    /// A new migration comes before one that is applied already.
    #[error("{file} is new but comes before {applied}, which is applied already; give it a higher number")]
    OutOfOrder {
        /// Relative to the project.
        file: String,
        /// The last applied one.
        applied: String,
    },
    /// A statement cannot run inside the file's transaction.
    #[error("{file}, line {line}: {reason}")]
    Refused {
        /// Relative to the project.
        file: String,
        /// One-based.
        line: usize,
        /// Why.
        reason: &'static str,
    },
    /// PostgreSQL refused a statement; the file was rolled back.
    #[error("{0}")]
    Statement(Box<StatementError>),
    /// A policy test file is not understood.
    #[error("{file}: {message}")]
    TestFile {
        /// Relative to the project.
        file: String,
        /// What is wrong with it.
        message: String,
    },
    /// Types were asked for, and no schema was named.
    #[error("no schema was named; name at least one with --schema")]
    NoSchemas,
    /// A named schema does not exist.
    #[error("the database has no schema {schema}")]
    NoSchema {
        /// As named.
        schema: String,
    },
    /// Another server is applying a project to this database.
    #[error(
        "another server has been applying a project to this database for over a minute; try again when it is done"
    )]
    Busy,
    /// A query of our own failed.
    #[error("reading what was applied before: {0}")]
    Postgres(#[source] Box<PgError>),
    /// The connection broke; the driver's text.
    #[error("the connection to the database broke: {0}")]
    Connection(String),
}

/// A statement of a project's file that PostgreSQL refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementError {
    /// Relative to the project.
    pub file: String,
    /// One-based line of the file: where PostgreSQL points to, else where the statement begins.
    pub line: usize,
    /// Which statement of the file, from one.
    pub statement: usize,
    /// What PostgreSQL said.
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
