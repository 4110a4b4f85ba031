//! Every difference there may be between PostgREST 12.0.2 and us, with its reason.
//!
//! A rule looks at one exchange, decides narrowly whether it is its business, and turns PostgREST's answer into the one
//! the contract asks for; where the contract leaves a text to us (details of a parse error, a spelling hint) it takes
//! ours over after checking its shape. "rest.md" is the REST contract; versions are PostgREST's, whose change log
//! names them.

mod calls;
mod complaint;
mod errors;
mod faults;
mod features;
mod headers;
mod openapi;
pub(crate) mod single;
mod tests;
mod writes;

use super::answer::View;
use super::case::Case;

/// One explained difference.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
    /// Changes the expected answer, and says whether it did. Ours is changed only where both are put into one form.
    pub(crate) apply: fn(&Case, &mut View, &mut View) -> bool,
}

/// Headers that every answer has gained; they do not make an answer a different one.
pub(crate) const STANDING: &[Rule] = headers::STANDING;

/// The rules, in the order they are tried.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    [headers::RULES, errors::RULES, features::RULES, writes::RULES, calls::RULES, faults::RULES]
        .into_iter()
        .flatten()
}

/// Rules that only longer runs need for sure: what they explain is met by chance.
pub(crate) const RARE: &[&str] = &[
    "computed-name-clash",
    "star-in-spread",
    "ambiguous-twice",
    "late-strict",
    "lost-embeds",
    "lost-relationships",
    "impossible-total",
    "count-privileges",
    "head-error",
    "two-errors",
    "nul",
    "blank-name",
    "list-of-representations",
    "grant-hint",
    "aggregate-of-nothing",
    "ragged-lines",
    "grouped-by-name",
    "order-by-hidden",
    "json-order-of-call",
    "named-raw-parameter",
    "page-count",
    "empty-in-spread",
    "argument-names",
    "representation-quantifier",
    "logic-on-writes",
    "put-quoted-key",
    "embed-ranges-on-writes",
    "unordered-rows",
    "ignored-select",
    "location-latin1",
    "whichever-row",
    "unknown-order-on-writes",
    "json-literal",
    "unnamed-default",
    "computed-of-call",
    "empty-select-of-call",
    "literal-first",
    "tabs",
    "embeds-first",
    "csv-of-written",
    "handler-of-values",
    "whole-words",
    "crash",
    "csv-of-no-rows",
    "no-columns",
    "empty-select-of-write",
    "aggregates-in-spreads",
    "defaults-by-row",
];
