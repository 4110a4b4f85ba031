#![doc = include_str!("../README.md")]

pub mod database;
mod error;
pub mod jobs;
pub mod json;
pub mod key_store;
pub mod listen;
pub mod migration_runner;
pub mod missing_grants;
pub mod pg_error;
pub mod pool;
pub mod request_settings;
pub mod session;
pub mod sql;
pub mod system_migrations;
pub mod view_origins;
mod wire;

pub use wire::replication;
