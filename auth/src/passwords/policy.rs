//! The password policy (auth.md §3.17). Pure; [`super::breaches`] needs the network.

use serde::Serialize;

/// Longest password in bytes. bcrypt ignores further bytes, and imported and new accounts must behave alike.
const MAX_PASSWORD_BYTES: usize = 72;
/// Lower bound of the configurable minimum.
const LEAST_MIN_LENGTH: usize = 6;

/// Why a password is weak, as clients read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeakReason {
    /// Shorter than the minimum length.
    Length,
    /// A required character set is missing.
    Characters,
    /// Known from a breach.
    Pwned,
}

/// A violation of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakness {
    /// One sentence per reason, joined by a space.
    pub message: String,
    /// In the order of the sentences.
    pub reasons: Vec<WeakReason>,
}

impl Weakness {
    /// Adds that the password is known from a breach.
    pub(crate) fn pwned(other: Option<Self>) -> Self {
        const PWNED: &str = "Password is known to be weak and easy to guess, please choose a different one.";
        let mut weakness = other.unwrap_or(Self { message: String::new(), reasons: Vec::new() });
        if !weakness.message.is_empty() {
            weakness.message.push(' ');
        }
        weakness.message.push_str(PWNED);
        weakness.reasons.push(WeakReason::Pwned);
        weakness
    }
}

/// Why a password cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PasswordError {
    /// Longer than [`MAX_PASSWORD_BYTES`].
    TooLong,
    Weak(Weakness),
}

/// Rejects a password that is too long.
pub(crate) fn check_length(password: &str) -> Result<(), PasswordError> {
    if password.len() > MAX_PASSWORD_BYTES { Err(PasswordError::TooLong) } else { Ok(()) }
}

/// The configured policy.
#[derive(Debug, Clone)]
pub(crate) struct PasswordPolicy {
    min_length: usize,
    required: Vec<String>,
}

impl PasswordPolicy {
    /// `required_characters` contains sets separated by `:`; `\:` is a colon within a set.
    pub(crate) fn new(min_length: usize, required_characters: &str) -> Self {
        let mut required = vec![String::new()];
        let mut characters = required_characters.chars().peekable();
        while let Some(character) = characters.next() {
            let is_escape = character == '\\' && characters.peek() == Some(&':');
            match (character, required.last_mut()) {
                (':', _) => required.push(String::new()),
                (_, Some(set)) if is_escape => {
                    characters.next();
                    set.push(':');
                }
                (_, Some(set)) => set.push(character),
                (_, None) => {}
            }
        }
        required.retain(|set| !set.is_empty());
        Self { min_length: min_length.max(LEAST_MIN_LENGTH), required }
    }

    /// How `password` violates the policy, if it does. Length counts bytes, as upstream.
    pub(crate) fn weakness(&self, password: &str) -> Option<Weakness> {
        let mut sentences = Vec::new();
        let mut reasons = Vec::new();
        if password.len() < self.min_length {
            reasons.push(WeakReason::Length);
            sentences.push(format!("Password should be at least {} characters.", self.min_length));
        }
        if self.required.iter().any(|set| !password.contains(|character| set.contains(character))) {
            reasons.push(WeakReason::Characters);
            sentences.push(format!(
                "Password should contain at least one character of each: {}.",
                self.required.join(", ")
            ));
        }
        if reasons.is_empty() { None } else { Some(Weakness { message: sentences.join(" "), reasons }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_length_is_at_least_six() {
        let policy = PasswordPolicy::new(0, "");
        let weakness = policy.weakness("12345").unwrap();
        assert_eq!(weakness.message, "Password should be at least 6 characters.");
        assert_eq!(weakness.reasons, [WeakReason::Length]);
        assert_eq!(policy.weakness("123456"), None);
    }

    #[test]
    fn length_counts_bytes() {
        assert_eq!(PasswordPolicy::new(6, "").weakness("äöü"), None);
    }

    #[test]
    fn requires_every_set_and_reports_every_reason() {
        let policy = PasswordPolicy::new(8, r"abc:123:\:;");
        let weakness = policy.weakness("a1").unwrap();
        assert_eq!(weakness.reasons, [WeakReason::Length, WeakReason::Characters]);
        assert_eq!(
            weakness.message,
            "Password should be at least 8 characters. \
             Password should contain at least one character of each: abc, 123, :;."
        );
        assert_eq!(policy.weakness("zzzza1:z"), None);
    }
}
