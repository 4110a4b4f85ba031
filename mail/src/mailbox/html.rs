//! What the pages need of HTML: links in plain text, and a mail's own document made fit for its frame.

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

/// A mail's document with its links opening in tabs of their own: the frame may not leave the page.
pub(super) fn for_frame(html: &str) -> String {
    const BASE: &str = "<base target=\"_blank\">";
    let lower = html.to_ascii_lowercase();
    let head = lower.match_indices("<head").find_map(|(start, name)| {
        let after = lower.get(start + name.len()..)?;
        let is_tag = after.starts_with(['>', ' ', '\n', '\r', '\t', '/']);
        is_tag.then(|| after.find('>').map(|end| start + name.len() + end + 1)).flatten()
    });
    match head.and_then(|end| html.split_at_checked(end)) {
        Some((before, after)) => format!("{before}{BASE}{after}"),
        None if lower.trim_start().starts_with("<!doctype") => format!("{html}{BASE}"),
        None => format!("<!doctype html>{BASE}{html}"),
    }
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

    #[test]
    fn links_of_a_framed_mail_open_elsewhere() {
        assert_eq!(
            for_frame("<!doctype html><html><HEAD lang=x><title>"),
            "<!doctype html><html><HEAD lang=x><base target=\"_blank\"><title>"
        );
        assert_eq!(for_frame("<p>Hi</p>"), "<!doctype html><base target=\"_blank\"><p>Hi</p>");
        assert!(for_frame("<header>Hi").starts_with("<!doctype html><base"));
    }
}
