//! `basalt serve --only auth` in place of GoTrue: configured only by `GOTRUE_*` variables, at the root, without API keys, several
//! servers with different settings on one database (auth.md §8 B).

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's helpers fail it by panicking"
)]

mod four_servers;
mod server;
mod start;
