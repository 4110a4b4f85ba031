//! The gateway's parts as a library, so that the binary, the tests and the testkit share them.
//!
//! Read [`serve`] first: how a configuration becomes a running server. Then [`router`] and [`layers`]: what happens
//! to a request.

pub mod banner;
pub mod cli;
pub mod config;
pub mod database_setup;
pub mod doctor;
pub mod embedded;
pub mod layers;
pub mod listener;
pub mod logging;
pub mod router;
pub mod secrets;
pub mod serve;
pub mod static_app;
pub mod system_routes;
