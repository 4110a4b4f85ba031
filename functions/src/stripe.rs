//! Stripe: a small client of our own for the calls that the app makes (decision 0064), what we read of its objects, its
//! signatures, and the inbox of its webhooks.
//!
//! An event is a hint: what it is about is fetched from Stripe and written down with the time before the fetch. So the order
//! of events, their repetition and their API version do not matter (functions.md 3.17.5).

pub(crate) mod billing;
pub(crate) mod catch_up;
mod client;
pub(crate) mod former;
pub(crate) mod inbox;
pub(crate) mod objects;
pub(crate) mod processor;
pub(crate) mod signature;
pub(crate) mod sync;

pub use catch_up::{CatchUpError, CaughtUp};
pub use client::Access;
pub(crate) use client::{Form, INTERACTIVE, Stripe, StripeError};
