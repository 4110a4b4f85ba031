//! `basalt user …`: what the operator does with accounts, without a request.

use std::time::Duration;

pub(crate) mod create_user;
pub(crate) mod operator;

/// Time limit of one command.
const LIMIT: Duration = Duration::from_secs(30);
