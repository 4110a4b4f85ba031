#![doc = include_str!("../README.md")]

pub mod archive;
mod base;
mod blobs;
mod config;
pub mod create;
mod dump;
mod error;
mod files;
mod manifest;
pub mod prune;
pub mod restore;
pub mod runs;
mod seal;
mod target;
mod wal;

pub use blobs::BlobArchive;
pub use config::{BackupConfig, BackupS3Config};
pub use dump::{Connection, Dump, Load};
pub use error::BackupError;
pub use files::pack_project;
pub use manifest::{DatabaseKind, DatabasePart, Manifest, Rows, SetEntry, StoredFile, list_sets};
pub use seal::{SealKey, SealNote};
pub use target::Target;

use basalt_pg::system_migrations::SystemMigration;

/// SQL migrations: the record of runs.
pub const MIGRATIONS: &[SystemMigration] =
    &[SystemMigration::new("backup", 1, "runs", include_str!("../migrations/0001_runs.sql"))];
pub use wal::{Reach, reach};
