//! `basalt serve --only auth` in place of a GoTrue: configured by `GOTRUE_*` variables alone, at the root, without a key
//! gate, several servers with different settings on one database (auth.md §8 B).

#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test's helpers fail it by panicking"
)]

mod four_servers;
mod server;
mod start;
