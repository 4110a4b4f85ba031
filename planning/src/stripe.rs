//! Stripe: a small client for the calls that the app makes (decision 0064), the parts of its objects that are read, its signatures, and the
//! inbox of its webhooks.
//!
//! An event is a hint: the subscription that it names is fetched from Stripe and stored with the time before the fetch. So the order, the
//! repetition and the API version of events do not matter (functions.md 3.17.5).

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
