#![doc = include_str!("../README.md")]

pub mod address;
pub mod bind;
pub mod layers;
pub mod listener;
pub mod local_only;
pub mod open_files;
pub mod pace;
pub mod shutdown;
pub mod static_app;
pub mod tls;
