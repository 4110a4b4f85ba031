//! Codes and links that e-mails carry: how they are made, what they prove when they come back, and the PKCE flows that
//! wait for them.

pub(crate) mod challenge;
pub(crate) mod flow_state;
pub(crate) mod one_time;
