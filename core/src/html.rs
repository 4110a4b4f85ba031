//! HTML escaping, and conversion of HTML to plain text.

/// Escapes `text` for HTML text and quoted attributes.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            // NUL is not allowed in HTML; browsers read it as U+FFFD.
            '\0' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(
            escape("<a href=\"x\" id='y'>&\0"),
            "&lt;a href=&#34;x&#34; id=&#39;y&#39;&gt;&amp;\u{fffd}"
        );
        assert_eq!(escape("Grüße"), "Grüße");
    }
}
