#![doc = include_str!("../README.md")]

pub mod banner;
mod bind;
pub mod cli;
pub mod config;
pub mod database_setup;
pub mod doctor;
pub mod embedded;
pub mod key_keeper;
pub mod layers;
pub mod listener;
pub mod logging;
pub mod mail;
pub mod mailbox;
pub mod metric_table;
mod open_files;
pub mod pace;
pub mod router;
pub mod secrets;
pub mod serve;
mod signals;
pub mod static_app;
pub mod stop;
pub mod system_routes;
