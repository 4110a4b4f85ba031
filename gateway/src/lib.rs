#![doc = include_str!("../README.md")]

mod backup;
pub mod banner;
mod bucket_files;
mod built_in;
pub mod cli;
pub mod config;
pub mod database_setup;
mod demo_accounts;
pub mod doctor;
#[cfg(test)]
mod error_table;
mod function_facts;
pub mod key_keeper;
pub mod logging;
pub mod mail;
pub mod metric_table;
mod probe;
mod project_check;
mod project_watch;
pub mod router;
mod running;
pub mod secrets;
pub mod serve;
mod service_manager;
mod signals;
pub mod system_routes;
mod welcome;
