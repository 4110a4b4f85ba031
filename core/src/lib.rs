#![doc = include_str!("../README.md")]

pub mod bearer;
pub mod claims;
pub mod clock;
pub mod error;
pub mod fair_share;
pub mod html;
pub mod http_client;
pub mod identity;
pub mod keys;
pub mod memory;
pub mod metric;
pub mod random;
pub mod seal;
pub mod service;
pub mod settings;
pub mod tls;
