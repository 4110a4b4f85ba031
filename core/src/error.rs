//! Error formatting.

/// Formats an error followed by its causes: the message of a database driver, for example, ("error connecting to
/// server") omits the reason.
#[must_use]
pub fn with_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}
