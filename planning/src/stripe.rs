//! Stripe: a small client for the app's calls (decision 0064), parsers for the objects it uses, webhook signatures, and the inbox of
//! webhooks.
//!
//! An event is only a hint: the subscription that it names is fetched from Stripe and stored with the time before the fetch. The order,
//! repetition and API version of events therefore do not matter (functions.md 3.17.5).

pub(crate) mod billing;
pub(crate) mod catch_up;
mod client;
mod error;
pub(crate) mod former_customers;
pub(crate) mod inbox;
pub(crate) mod objects;
pub(crate) mod processor;
pub(crate) mod signature;
pub(crate) mod sync;

pub(crate) use client::{API, Form, INTERACTIVE, Stripe};
pub(crate) use error::StripeError;
