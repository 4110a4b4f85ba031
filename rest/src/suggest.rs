//! Suggests similar names for names that were not found (rest.md §3.18).
//!
//! Works like the FuzzySet library used by PostgREST: candidates share a trigram (or else a bigram) with the given
//! name and are ranked by edit distance relative to length, so that both servers suggest the same names.

use std::collections::HashSet;

/// Minimum similarity of a suggested table or function.
pub const NAME_SIMILARITY: f64 = 0.75;
/// Only schemas with fewer relations are searched: in larger ones misspelled names could keep a core busy.
pub const SEARCHED_RELATIONS: usize = 500;
/// Minimum similarity of suggested parameters and relationships.
pub const LOOSE_SIMILARITY: f64 = 0.33;

/// Candidates whose similarity to `wrong` is at least `minimum` (1.0 is equal apart from case), best first. Each one
/// is what would be suggested if those before it did not exist.
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
        // Ties are broken by name.
        alike.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
        ranked.extend(alike.into_iter().map(|(name, _)| name));
    }
    ranked
}

/// Whether two names are close enough in length to be similar: the difference in length is a lower bound of the edit
/// distance. Bounds the work for names of several kilobytes.
#[expect(clippy::cast_precision_loss, reason = "a request target has at most some hundred thousand bytes")]
fn length_allows(a: &str, b: &str, minimum: f64) -> bool {
    let (a, b) = (a.chars().count(), b.chars().count());
    a.min(b) as f64 >= minimum * a.max(b) as f64
}

/// All `size`-character windows of the word enclosed in dashes.
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
    fn names_of_different_length_are_not_compared() {
        for (name, is_compared) in [("projects", true), ("subprojects", true), ("xyz", false), ("", false)] {
            assert_eq!(length_allows("projects", name, 0.5), is_compared, "{name}");
        }
        let endless = "project".repeat(20_000);
        assert_eq!(best(["projects", "clients"], &endless, LOOSE_SIMILARITY), None);
    }

    #[test]
    fn only_similar_names_are_suggested() {
        let names = ["items", "projects", "clients"];
        assert_eq!(best(names, "project", NAME_SIMILARITY), Some("projects"));
        assert_eq!(best(names, "Itmes", NAME_SIMILARITY), None);
        assert_eq!(best(names, "xyz", LOOSE_SIMILARITY), None);
        assert_eq!(best(["(a, b)", "(c, d, e)"], "(a)", LOOSE_SIMILARITY), Some("(a, b)"));
    }
}
