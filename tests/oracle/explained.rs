//! Every allowed difference between PostgREST 12.0.2 and Basalt, with its reason.
//!
//! A rule checks narrowly whether it applies to an exchange, and turns PostgREST's response into the one that the contract
//! requires; where the contract leaves a text open (details of a parse error, a spelling hint), it takes ours after checking its
//! form. "rest.md" is the REST contract; version numbers are PostgREST's, as in its change log.

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

use super::case::Case;
use super::response::View;

/// One explained difference.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) reason: &'static str,
    /// Changes the expected response, and returns whether it did. Ours is changed only to normalise both.
    pub(crate) apply: fn(&Case, &mut View, &mut View) -> bool,
}

/// Headers added to every response since 12; ignored on their own.
pub(crate) const STANDING: &[Rule] = headers::STANDING;

/// The rules, in the order they are tried.
pub(crate) fn rules() -> impl Iterator<Item = &'static Rule> {
    [headers::RULES, errors::RULES, features::RULES, writes::RULES, calls::RULES, faults::RULES]
        .into_iter()
        .flatten()
}

/// Rules that only long runs are certain to need: their differences occur by chance.
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
