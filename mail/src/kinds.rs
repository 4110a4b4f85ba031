//! Kinds of mail that the app's functions send (functions.md part B). They go through Resend if an account is configured.

/// An invitation to a plan.
pub const PLAN_INVITATION: &str = "plan_invitation";

/// A test mail that an administrator sends to check the settings.
pub const TEST: &str = "test";

/// Whether the app's functions send mail of this kind.
#[must_use]
pub fn is_of_functions(kind: &str) -> bool {
    matches!(kind, PLAN_INVITATION | TEST)
}
