#![doc = include_str!("../README.md")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test kit fails a test by panicking")]

mod chaos_proxy;
mod cluster;
mod database;
mod http;
mod log;
mod process;
mod runtime;
mod server;
mod user;

pub use chaos_proxy::{ChaosProxy, Link};
pub use cluster::Cluster;
pub use database::TestDatabase;
pub use http::{Request, Response};
pub use log::LogLine;
pub use server::{Basalt, Builder};
pub use user::User;
