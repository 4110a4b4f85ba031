//! The claims of subscribers, as far as they decide what is visible.

use std::sync::Arc;

use basalt_core::claims::Claims;

/// Claims that decide what a subscriber sees. Equal claims share one instance, so that policies are
/// evaluated once for them.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) claims: Arc<Claims>,
    pub(super) role: Arc<str>,
    /// Role and `sub`; all tokens of a user share a time budget.
    pub(super) user: Option<Arc<str>>,
}

impl Identity {
    pub(super) fn new(claims: &Arc<Claims>) -> Self {
        let role = claims.role().unwrap_or_default();
        let user = claims.sub().map(|sub| format!("user {role} {sub}").into());
        Self { claims: Arc::clone(claims), role: role.into(), user }
    }

    /// Key of the time budget for policies.
    pub(super) fn account(&self) -> Arc<str> {
        self.user.clone().unwrap_or_else(|| self.claims.as_text().into())
    }
}
