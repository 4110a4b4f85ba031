//! The valid name nearest to a mistyped one.

/// The candidate that `name` was most likely meant to be.
///
/// Names carried over from PostgREST and GoTrue (`rest.db_schemas`, `auth.jwt_exp`) and names without a section (`port`) are
/// common, so a candidate that is a suffix of the name, or the reverse, ranks before one with a small edit distance.
pub(super) fn nearest(name: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['.', '-'], "_");
    let wanted = plain(name);
    let last = |text: &str| text.rsplit('.').next().map(str::to_ascii_lowercase);
    candidates
        .map(|candidate| {
            let other = plain(&candidate);
            let is_end = wanted.ends_with(&format!("_{other}"))
                || other.ends_with(&format!("_{wanted}"))
                || (candidate.contains('.') && last(&candidate) == last(name));
            let distance = strsim::damerau_levenshtein(&wanted, &other);
            (if is_end { 0 } else { distance }, distance, candidate)
        })
        .min_by(|left, right| (left.0, left.1).cmp(&(right.0, right.1)))
        .filter(|(rank, _, _)| *rank <= (wanted.len() / 3).clamp(2, 6))
        .map(|(_, _, candidate)| candidate)
}
