//! The functions compiled into this program, depending on cargo features.

use basalt_functions::built_in::BuiltIn;

/// The planning app's server half; `None` without the feature `planning`.
#[cfg(feature = "planning")]
pub(crate) fn built_in() -> Option<&'static dyn BuiltIn> {
    Some(&basalt_planning::Planning)
}

/// `None`, because the feature `planning` is off.
#[cfg(not(feature = "planning"))]
pub(crate) fn built_in() -> Option<&'static dyn BuiltIn> {
    None
}

/// Names of secrets used to verify signatures.
pub(crate) fn signing_secrets() -> &'static [&'static str] {
    built_in().map_or(&[], BuiltIn::signing_secrets)
}
