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

/// The candidate most like `wrong`, if it is at least `minimum` alike (1.0 is equal but for case).
pub fn best<'a>(candidates: impl IntoIterator<Item = &'a str>, wrong: &str, minimum: f64) -> Option<&'a str> {
    ranked(candidates, wrong, minimum).into_iter().next().map(|(name, _)| name)
}

/// The candidates at least `minimum` alike, best first.
pub fn ranked<'a>(
    candidates: impl IntoIterator<Item = &'a str>,
    wrong: &str,
    minimum: f64,
) -> Vec<(&'a str, f64)> {
    let wrong = normalise(wrong);
    // Names of too different a length cannot be alike. A name of kilobytes keeps no core busy.
    let known: Vec<(&str, Vec<char>)> = candidates
        .into_iter()
        .map(|name| (name, normalise(name)))
        .filter(|(_, candidate)| most_similar(candidate, &wrong) >= minimum)
        .collect();
    if known.is_empty() {
        return Vec::new();
    }
    for size in [3, 2] {
        let wanted = grams(&wrong, size);
        let mut found: Vec<(&str, f64)> = known
            .iter()
            .filter(|(_, candidate)| grams(candidate, size).iter().any(|gram| wanted.contains(gram)))
            .map(|(name, candidate)| (*name, similarity(candidate, &wrong)))
            .filter(|(_, score)| *score >= minimum)
            .collect();
        if !found.is_empty() {
            found.sort_by(|(a_name, a), (b_name, b)| b.total_cmp(a).then_with(|| a_name.cmp(b_name)));
            return found;
        }
    }
    Vec::new()
}

fn normalise(text: &str) -> Vec<char> {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Runs of `size` characters of the word between dashes.
fn grams(word: &[char], size: usize) -> HashSet<Vec<char>> {
    let mut framed = vec!['-'];
    framed.extend(word.iter().filter(|c| c.is_alphanumeric() || matches!(c, ',' | ' ')));
    framed.push('-');
    framed.windows(size).map(<[char]>::to_vec).collect()
}

/// One minus the edit distance over the longer length.
fn similarity(a: &[char], b: &[char]) -> f64 {
    score(levenshtein(a, b), a.len().max(b.len()))
}

/// What [`similarity`] is at most: as many edits as one word is longer are needed in any case.
fn most_similar(a: &[char], b: &[char]) -> f64 {
    score(a.len().abs_diff(b.len()), a.len().max(b.len()))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a request target is at most some hundred thousand characters long"
)]
fn score(edits: usize, longest: usize) -> f64 {
    if longest == 0 { 1.0 } else { 1.0 - edits as f64 / longest as f64 }
}

fn levenshtein(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        let mut next = vec![left];
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(from != to)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        let distance = |a: &str, b: &str| levenshtein(&normalise(a), &normalise(b));
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn no_word_is_more_alike_than_its_length_allows() {
        let words = ["", "a", "project", "projects", "subprojects", "xyz", "Ünïcödé"];
        for (a, b) in words.iter().flat_map(|a| words.iter().map(move |b| (normalise(a), normalise(b)))) {
            assert!(similarity(&a, &b) <= most_similar(&a, &b), "{a:?} {b:?}");
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
