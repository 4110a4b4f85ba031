#![doc = include_str!("../README.md")]

pub mod diff;
pub mod error;
mod folder;
mod list;
mod migrate;
pub mod policy_check;
pub mod policy_mutations;
pub mod policy_tests;
pub mod restore;
mod split;
mod statements;
pub mod supabase;
pub mod typescript;

use std::path::{Path, PathBuf};

pub use error::ProjectError;
pub use list::ListedMigration;
pub use migrate::{MigrateOptions, Report};
pub use supabase::{SupabaseOptions, SupabaseReport};

/// A folder with an application's SQL. Files are read when needed, not when the folder is opened.
#[derive(Debug, Clone)]
pub struct Project {
    dir: PathBuf,
    layout: ProjectLayout,
}

/// How a project's files are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectLayout {
    /// `migrations/NNNN_name.sql`, `policies/`, `seed.sql`.
    Basalt,
    /// A folder `supabase/` as Supabase's CLI makes it.
    Supabase,
}

impl ProjectLayout {
    /// The layout of a folder. The planning app's own folders win: a repository may keep its former `supabase/` beside them.
    #[must_use]
    pub fn detect(dir: &Path) -> Self {
        let supabase = dir.join(supabase::FOLDER);
        let is_supabase = supabase.join("config.toml").is_file() || supabase.join("migrations").is_dir();
        if is_supabase && !dir.join("migrations").is_dir() { Self::Supabase } else { Self::Basalt }
    }
}

impl Project {
    /// Opens a folder. Without any of the files of a layout it is an empty project in Basalt's layout.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, ProjectError> {
        let dir = dir.into();
        if !dir.is_dir() {
            return Err(ProjectError::NoFolder { dir });
        }
        let layout = ProjectLayout::detect(&dir);
        Ok(Self { dir, layout })
    }

    /// How its files are arranged.
    #[must_use]
    pub const fn layout(&self) -> ProjectLayout {
        self.layout
    }

    /// The path of the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }
}
