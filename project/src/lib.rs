#![doc = include_str!("../README.md")]

pub mod error;
mod folder;
mod migrate;
pub mod policy_check;
pub mod policy_mutations;
pub mod policy_tests;
mod split;
mod statements;
pub mod typescript;

use std::path::{Path, PathBuf};

pub use error::ProjectError;
pub use migrate::{MigrateOptions, Report};

/// A folder with an application's SQL. Files are read when needed, not when the folder is opened.
#[derive(Debug, Clone)]
pub struct Project {
    dir: PathBuf,
}

impl Project {
    /// Opens a folder in Basalt's layout. Without `migrations/`, `policies/` and `seed.sql` it is an empty project.
    ///
    /// # Errors
    /// The folder does not exist, or contains a Supabase project.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ProjectError> {
        let dir = dir.into();
        if !dir.is_dir() {
            return Err(ProjectError::NoFolder { dir });
        }
        if !dir.join("migrations").is_dir() && dir.join("supabase").join("config.toml").is_file() {
            return Err(ProjectError::SupabaseLayout { dir });
        }
        Ok(Self { dir })
    }

    /// The path of the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
