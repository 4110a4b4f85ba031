//! What happens to requests, and to what they wrote, when a part goes away (PostgreSQL, the server, the link between, a
//! client), and when there is more to do than the server takes on.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "helpers fail a test as the tests do; only a test's environment says how long it may run"
)]

mod backends;
mod clients;
mod embedded;
mod endurance;
mod files;
mod killed;
mod link;
mod load;
mod logins;
mod lost_secrets;
mod memory;
mod operators;
mod overload;
mod own;
mod raw;
mod refused;
mod signals;
mod slow;
mod standby;
mod start;
mod stopped;
mod waits;
mod watchers;
