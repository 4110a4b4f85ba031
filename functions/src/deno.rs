//! TypeScript functions, each on Deno worker processes of its own (functions.md 3.10, decision 0131).
//!
//! `locate` finds Deno and `source` the functions; `runtime` has a `pool` for each function, a pool has `worker`s, and `exchange` passes
//! one request to one of them. `bootstrap.js` runs in each worker before the function.

mod command;
mod connections;
mod environment;
mod exchange;
mod host;
pub(crate) mod journal;
mod limits;
pub(crate) mod locate;
mod modules;
mod output;
mod pool;
pub(crate) mod runtime;
pub(crate) mod source;
mod watch;
mod worker;

pub(crate) use environment::Environment;
pub(crate) use host::Host;
pub(crate) use limits::Usage;
pub(crate) use modules::Modules;
pub(crate) use watch::{INTERVAL, Snapshot};
