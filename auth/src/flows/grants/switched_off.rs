//! The grant `web3` (auth.md §3.5), which is not implemented.

use serde::Deserialize;

use crate::error::AuthError;
use crate::error::feature::Feature;

/// The relevant fields of a `web3` grant.
#[derive(Deserialize)]
pub(crate) struct Web3Grant {
    chain: Option<String>,
}

impl Web3Grant {
    /// The error of the grant, which always fails.
    pub(crate) fn refusal(&self) -> AuthError {
        match self.chain.as_deref() {
            Some("solana" | "ethereum") => AuthError::SwitchedOff(Feature::WEB3),
            _ => AuthError::UnsupportedChain,
        }
    }
}
