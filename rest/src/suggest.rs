//! Spelling hints for names that were not found (rest.md §3.18).
//!
//! Works like the FuzzySet library PostgREST uses: candidates share a trigram (else a bigram) with the wrong name and
//! are ranked by edit distance over length, so that clients who read our hints read the same words.

use std::collections::HashSet;

/// Similarity from which a table or function is suggested.
pub const NAME_SIMILARITY: f64 = 0.75;
/// Schemas with fewer relations are searched: from then on the search would cost more than it is worth, and misspelled
/// names could keep a core busy.
pub const SEARCHED_RELATIONS: usize = 500;
/// Similarity from which parameters and relationships are suggested.
pub const LOOSE_SIMILARITY: f64 = 0.33;

/// The candidates that are at least `minimum` like `wrong` (1.0 is equal but for case), the one to suggest first. Each is
/// what would be suggested if those before it did not exist.
pub fn ranked<'a>(candidates: impl IntoIterator<Item = &'a str>, wrong: &str, minimum: f64) -> Vec<&'a str> {
    let wrong = wrong.to_lowercase();
    let known: Vec<(&str, String)> = candidates
        .into_iter()
        .map(|name| (name, name.to_lowercase()))
        .filter(|(_, candidate)| length_allows(candidate, &wrong, minimum))
        .collect();
    let mut ranked: Vec<&str> = Vec::new();
    for size in [3, 2] {
        let wanted = grams(&wrong, size);
        let mut alike: Vec<(&str, f64)> = known
            .iter()
            .filter(|(name, _)| !ranked.contains(name))
            .filter(|(_, candidate)| grams(candidate, size).iter().any(|gram| wanted.contains(gram)))
            .map(|(name, candidate)| (*name, strsim::normalized_levenshtein(candidate, &wrong)))
            .filter(|(_, score)| *score >= minimum)
            .collect();
        // Of those that are equally alike, the first by name.
        alike.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
        ranked.extend(alike.into_iter().map(|(name, _)| name));
    }
    ranked
}

/// Names of too different a length cannot be alike: as many edits as one is longer are needed in any case. So a name of
/// kilobytes keeps no core busy.
#[expect(
    clippy::cast_precision_loss,
    reason = "a request target is at most some hundred thousand bytes long"
)]
fn length_allows(a: &str, b: &str, minimum: f64) -> bool {
    let (a, b) = (a.chars().count(), b.chars().count());
    a.min(b) as f64 >= minimum * a.max(b) as f64
}

/// Runs of `size` characters of the word between dashes.
fn grams(word: &str, size: usize) -> HashSet<Vec<char>> {
    let letters = word.chars().filter(|c| c.is_alphanumeric() || matches!(c, ',' | ' '));
    let framed: Vec<char> = std::iter::once('-').chain(letters).chain(['-']).collect();
    framed.windows(size).map(<[char]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best<'a>(candidates: impl IntoIterator<Item = &'a str>, wrong: &str, minimum: f64) -> Option<&'a str> {
        ranked(candidates, wrong, minimum).first().copied()
    }

    #[test]
    fn a_name_of_another_length_is_not_compared() {
        for (name, is_compared) in [("projects", true), ("subprojects", true), ("xyz", false), ("", false)] {
            assert_eq!(length_allows("projects", name, 0.5), is_compared, "{name}");
        }
        let endless = "project".repeat(20_000);
        assert_eq!(best(["projects", "clients"], &endless, LOOSE_SIMILARITY), None);
    }

    #[test]
    fn close_names_are_suggested_and_far_ones_are_not() {
        let names = ["items", "projects", "clients"];
        assert_eq!(best(names, "project", NAME_SIMILARITY), Some("projects"));
        assert_eq!(best(names, "Itmes", NAME_SIMILARITY), None);
        assert_eq!(best(names, "xyz", LOOSE_SIMILARITY), None);
        assert_eq!(best(["(a, b)", "(c, d, e)"], "(a)", LOOSE_SIMILARITY), Some("(a, b)"));
    }
}
