#![doc = include_str!("../README.md")]

pub mod auth;
pub mod config;
pub mod error;
pub mod parse;
pub mod plan;
pub mod request;
pub mod schema_cache;
pub mod statement;
pub mod suggest;
