//! Row changes against a real PostgreSQL: their payloads, and who receives them.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod faults;
mod filters;
mod harness;
mod leaks;
mod order;
mod payloads;
mod policies;
mod scale;
mod types;
mod visibility;
