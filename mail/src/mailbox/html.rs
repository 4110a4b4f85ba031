//! What the pages need of HTML: links in plain text, and a mail's own document prepared for its frame.

use basalt_core::html::escape;

/// Plain text as HTML, its web addresses as links that open elsewhere.
pub(super) fn linked(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = ["https://", "http://"].iter().filter_map(|scheme| rest.find(scheme)).min() {
        let (before, from) = rest.split_at(start);
        let end =
            from.find(|c: char| c.is_whitespace() || matches!(c, '<' | '>' | '"')).unwrap_or(from.len());
        // A full stop or bracket that ends the sentence is not the address's.
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

/// A mail's document with its links opening in tabs of their own: the frame may not leave the page. Browsers put the
/// `base` into the head and read on: a doctype or `<head>` of the mail's own after it changes nothing.
pub(super) fn for_frame(html: &str) -> String {
    format!("<!doctype html><base target=\"_blank\">{html}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_links_and_everything_else_is_text() {
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
