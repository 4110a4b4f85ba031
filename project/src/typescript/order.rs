//! The order of names in generated types: that of English dictionaries, so that the output does not depend on a database's
//! collation and matches other generators of these types.

use std::cmp::Ordering;

use basalt_core::convert::saturating;

/// Punctuation in Unicode collation order; digits and letters follow.
const PUNCTUATION: &str = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$";

/// Compares letters case-insensitively, then puts lower case first.
pub(super) fn by_name(a: &str, b: &str) -> Ordering {
    let weights = |text: &str| text.chars().map(weight).collect::<Vec<_>>();
    let cases = |text: &str| text.chars().map(char::is_uppercase).collect::<Vec<_>>();
    weights(a).cmp(&weights(b)).then_with(|| cases(a).cmp(&cases(b))).then_with(|| a.cmp(b))
}

/// Group and position within it: spaces, punctuation, digits, letters.
fn weight(c: char) -> (u8, u32) {
    if c.is_whitespace() {
        return (0, u32::from(c));
    }
    if let Some(index) = PUNCTUATION.find(c) {
        return (1, saturating(index));
    }
    let lower = c.to_lowercase().next().unwrap_or(c);
    (if c.is_ascii_digit() { 2 } else { 3 }, u32::from(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_like_a_dictionary() {
        let mut names = ["b", "a1", "A", "plans", "a_b", "a", "plan_members", "B1", "ab", "_x", "a b", "1st"];
        names.sort_by(|a, b| by_name(a, b));
        let expected = ["_x", "1st", "a", "A", "a b", "a_b", "a1", "ab", "b", "B1", "plan_members", "plans"];
        assert_eq!(names, expected);
    }
}
