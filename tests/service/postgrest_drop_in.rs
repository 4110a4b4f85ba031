//! `basalt serve --only rest` in place of `postgrest`, with unchanged configuration (rest.md §4.4, §4.5, §6): variables, file,
//! signals, admin port, and a database without Basalt's schemas.
//!
//! Unit tests of `config/postgrest.rs` cover each setting's value; `rest/` and `tests/oracle` cover the responses.
#![expect(clippy::unwrap_used, reason = "helpers fail a test by panicking")]

mod admin;
mod differences;
mod oracle;
mod outage;
mod reload;
mod server;
mod start;
