#![doc = include_str!("../README.md")]

pub mod bearer;
pub mod claims;
pub mod clock;
pub mod database;
mod error;
pub mod fair_share;
pub mod html;
pub mod http_client;
pub mod identity;
pub mod jobs;
pub mod keys;
pub mod listen;
pub mod memory;
pub mod metric;
pub mod missing_grants;
pub mod pg_error;
pub mod pool;
pub mod random;
pub mod request_settings;
pub mod seal;
pub mod service;
pub mod session;
pub mod settings;
pub mod sql;
pub mod system_migrations;
pub mod view_origins;
mod wire;

pub use wire::replication;
