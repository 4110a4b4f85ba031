//! HTML for the pages: links in plain text, and a mail's own document for its frame.

use basalt_core::html::escape;

/// Plain text as HTML with its URLs as links.
pub(super) fn linked(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = ["https://", "http://"].iter().filter_map(|scheme| rest.find(scheme)).min() {
        let (before, from) = rest.split_at(start);
        let end =
            from.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"')).unwrap_or(from.len());
        // Punctuation that ends the sentence is not part of the URL.
        let link = from.split_at(end).0.trim_end_matches(['.', ',', ';', ')', '!', '\'']);
        out.push_str(&escape(before));
        let link_text = escape(link);
        out.push_str(&format!(
            "<a href=\"{link_text}\" target=\"_blank\" rel=\"noopener noreferrer\">{link_text}</a>"
        ));
        rest = from.split_at(link.len()).1;
    }
    out.push_str(&escape(rest));
    out
}

/// A mail's document whose links open in new tabs, since the frame must not navigate. Browsers move `base` into the head and
/// ignore the mail's own doctype and `<head>` after it.
pub(super) fn for_frame(html: &str) -> String {
    format!("<!doctype html><base target=\"_blank\">{html}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_urls_and_escapes_everything_else() {
        assert_eq!(
            linked("<b> see http://localhost:8000/a?b=1&c=2. Or (https://example.org)!"),
            "&lt;b&gt; see <a href=\"http://localhost:8000/a?b=1&amp;c=2\" target=\"_blank\" \
             rel=\"noopener noreferrer\">http://localhost:8000/a?b=1&amp;c=2</a>. Or (<a href=\"https://example.org\" \
             target=\"_blank\" rel=\"noopener noreferrer\">https://example.org</a>)!"
        );
        assert!(!linked("http://x\"onclick=alert(1)").contains("\"onclick"));
        assert_eq!(linked("javascript:alert(1)"), "javascript:alert(1)");
        let _ends = linked("http:// https://");
    }
}
