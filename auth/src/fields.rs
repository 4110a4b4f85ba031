//! Optional text fields of JSON bodies. Clients send `""` for a field that they leave empty.

/// The text of a field; empty when the field is absent.
pub(crate) fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The text of a field, unless it is absent or empty.
pub(crate) fn filled(field: &Option<String>) -> Option<&str> {
    field.as_deref().filter(|text| !text.is_empty())
}
