//! Password rules and password hashing.

pub(crate) mod breaches;
pub(crate) mod hasher;
pub(crate) mod kinds;
pub(crate) mod policy;
pub(crate) mod rules;
