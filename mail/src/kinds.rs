//! Kinds of the mails that the app's functions send (functions.md part B). Which service sends them decides how they leave:
//! these go through Resend where an account is set.

/// An invitation to a plan.
pub const PLAN_INVITATION: &str = "plan_invitation";

/// A mail by which an administrator tries the settings.
pub const TEST: &str = "test";

/// Whether it is one of the functions'.
#[must_use]
pub fn is_of_functions(kind: &str) -> bool {
    matches!(kind, PLAN_INVITATION | TEST)
}
