//! One-time codes and links in e-mails, and the PKCE flows that they continue.

pub(crate) mod challenge;
pub(crate) mod flow_state;
pub(crate) mod one_time;
