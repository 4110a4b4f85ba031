//! The rules for a new password: the policy, and the list of breached passwords where it is configured.

use super::breaches::Breaches;
use super::policy::{self, PasswordError, PasswordPolicy, Weakness};

pub(crate) struct PasswordRules {
    policy: PasswordPolicy,
    breaches: Option<Breaches>,
}

impl PasswordRules {
    pub(crate) const fn new(policy: PasswordPolicy, breaches: Option<Breaches>) -> Self {
        Self { policy, breaches }
    }

    /// What makes a password weak: the policy's reasons first, then that it is known from a breach.
    pub(crate) async fn weakness(&self, password: &str) -> Option<Weakness> {
        let weakness = self.policy.weakness(password);
        match &self.breaches {
            Some(breaches) if breaches.contains(password).await => Some(Weakness::pwned(weakness)),
            Some(_) | None => weakness,
        }
    }

    /// Rejects a password that breaks a rule.
    pub(crate) async fn check(&self, password: &str) -> Result<(), PasswordError> {
        policy::check_length(password)?;
        self.weakness(password).await.map_or(Ok(()), |weakness| Err(PasswordError::Weak(weakness)))
    }
}
