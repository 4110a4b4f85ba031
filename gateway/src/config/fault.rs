//! What is wrong with a configuration, for a person to read: where it was written, what is wrong, what to do.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from. Later ones win: default, file, variable, option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody wrote it.
    Default,
    /// Nobody wrote it, and the server stands in for a PostgREST.
    Postgrest,
    /// Nobody wrote it, and the server stands in for a GoTrue.
    Gotrue,
    /// A line of a file, from 1.
    File {
        /// As the reader would name it.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line option.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Postgrest => f.write_str("PostgREST's default"),
            Self::Gotrue => f.write_str("GoTrue's default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where it was made.
    pub source: Source,
    /// What is wrong and what to do; never holds a secret.
    pub message: String,
}

/// Everything that is wrong, in one report.
#[derive(Clone, Debug)]
pub struct ConfigErrors(pub Vec<Fault>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.len();
        writeln!(f, "The configuration has {count} {}:", if count == 1 { "fault" } else { "faults" })?;
        for fault in &self.0 {
            match &fault.source {
                Source::Default | Source::Postgrest | Source::Gotrue => writeln!(f, "  - {}", fault.message)?,
                source @ (Source::File { .. } | Source::Variable(_) | Source::Flag(_)) => {
                    writeln!(f, "  - {source}: {}", fault.message)?
                }
            }
        }
        f.write_str("docs/CONFIG.md of the Basalt repository lists every setting; `basalt config` shows what is in force once these are mended.")
    }
}

impl Error for ConfigErrors {}
