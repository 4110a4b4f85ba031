//! The functions that are compiled into this program, by cargo feature.

use basalt_functions::built_in::BuiltIn;

/// The planning app's server half; `None` without the feature `planning`.
#[cfg(feature = "planning")]
pub(crate) fn built_in() -> Option<&'static dyn BuiltIn> {
    Some(&basalt_planning::Planning)
}

/// This build has none.
#[cfg(not(feature = "planning"))]
pub(crate) fn built_in() -> Option<&'static dyn BuiltIn> {
    None
}

/// Names of secrets that verify signatures.
pub(crate) fn signing_secrets() -> &'static [&'static str] {
    built_in().map_or(&[], BuiltIn::signing_secrets)
}
