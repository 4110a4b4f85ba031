//! `basalt serve --only rest` in the place of the `postgrest` program, without an edited line (rest.md §4.4, §4.5, §6):
//! PostgREST's variables, its file, its signals, its admin port, a database that has never seen Basalt.
//!
//! Which value each setting gets is tested beside `config/postgrest.rs`; what each answer looks like, in `rest/` and
//! `tests/oracle`.
#![expect(clippy::unwrap_used, reason = "helpers fail a test by panicking")]

mod admin;
mod differences;
mod oracle;
mod outage;
mod reload;
mod server;
mod start;
