//! Text in HTML.

/// `text` so that it stands for itself in HTML text and in quoted attributes.
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
            // No character of HTML; browsers read it as this one.
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
    fn nothing_is_left_that_html_reads() {
        assert_eq!(
            escape("<a href=\"x\" id='y'>&\0"),
            "&lt;a href=&#34;x&#34; id=&#39;y&#39;&gt;&amp;\u{fffd}"
        );
        assert_eq!(escape("Grüße"), "Grüße");
    }
}
