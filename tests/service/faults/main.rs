//! Faults: PostgreSQL, the server, the link between them or a client fails, or the server is overloaded. Requests must get a
//! proper error, and acknowledged writes must survive.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test functions may panic, and long runs are configured by environment variables"
)]

mod backends;
mod backups;
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
mod tls;
mod waits;
mod watchers;
