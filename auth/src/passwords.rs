//! Passwords: which ones may be set, and how they are hashed and checked.

pub(crate) mod breaches;
pub(crate) mod hasher;
pub(crate) mod kinds;
pub(crate) mod policy;
pub(crate) mod rules;
