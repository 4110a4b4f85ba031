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

/// Plain-text version of a short document such as a mail: tags are removed, links are followed by their address, and
/// block elements start new lines. `style` and `script` are omitted.
#[must_use]
pub fn to_text(html: &str) -> String {
    let mut out = String::with_capacity(html.len());
    let mut rest = html;
    let mut link: Option<(String, usize)> = None;
    while let Some((before, after)) = rest.split_once('<') {
        push_words(&mut out, &unescape(before));
        let Some((tag, after)) = split_tag(after) else {
            rest = "";
            break;
        };
        rest = after;
        let is_end = tag.starts_with('/');
        let name = tag
            .trim_start_matches('/')
            .split(|c: char| !c.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "style" | "script" if !is_end => rest = after_end(rest, name),
            "a" if !is_end => link = attribute(tag, "href").map(|href| (unescape(&href), out.len())),
            "a" => {
                if let Some((href, start)) = link.take()
                    && !out.get(start..).unwrap_or_default().contains(&href)
                {
                    push_words(&mut out, &format!(" {href} "));
                }
            }
            "br" | "tr" => new_line(&mut out, 1),
            "li" if !is_end => {
                new_line(&mut out, 1);
                out.push_str("- ");
            }
            "p" | "div" | "h1" | "h2" | "h3" | "h4" | "ul" | "ol" | "table" | "blockquote" => {
                new_line(&mut out, 2)
            }
            _ => {}
        }
    }
    push_words(&mut out, &unescape(rest));
    out.trim().to_owned()
}

/// The inside of a tag and the text after it. `>` inside quotes is part of the tag.
fn split_tag(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            (None, '>') => return Some((text.get(..at)?, text.get(at + 1..)?)),
            _ => {}
        }
    }
    None
}

fn after_end<'a>(text: &'a str, name: &str) -> &'a str {
    let lower = text.to_ascii_lowercase();
    let end = lower.find(&format!("</{}", name.to_ascii_lowercase()));
    end.and_then(|end| text.get(end..)).unwrap_or_default()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let at = lower.find(&format!("{name}="))? + name.len() + 1;
    let value = tag.get(at..)?;
    let quoted = value.strip_prefix('"').map(|value| (value, '"'));
    let quoted = quoted.or_else(|| value.strip_prefix('\'').map(|value| (value, '\'')));
    let value = match quoted {
        Some((value, quote)) => value.split(quote).next(),
        None => value.split_whitespace().next(),
    };
    value.map(str::to_owned)
}

/// Appends text with white space collapsed, and none at the start of a line.
fn push_words(out: &mut String, text: &str) {
    for (index, word) in text.split_whitespace().enumerate() {
        let wants_space = index > 0 || text.starts_with(char::is_whitespace);
        if wants_space && !out.is_empty() && !out.ends_with(['\n', ' ']) {
            out.push(' ');
        }
        out.push_str(word);
    }
    if text.ends_with(char::is_whitespace) && !out.is_empty() && !out.ends_with(['\n', ' ']) {
        out.push(' ');
    }
}

fn new_line(out: &mut String, lines: usize) {
    let kept = out.trim_end_matches(' ').len();
    out.truncate(kept);
    let present = out.chars().rev().take_while(|character| *character == '\n').count();
    if !out.is_empty() {
        out.extend(std::iter::repeat_n('\n', lines.saturating_sub(present)));
    }
}

fn unescape(text: &str) -> String {
    let named =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&nbsp;", " ")];
    let text = named.iter().fold(text.to_owned(), |text, (name, meant)| text.replace(name, meant));
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_keeps_words_lines_and_links() {
        let html = "<style>p{color:red}</style><p>Hello,</p>\n<p><b>ada&#39;s</b> plan &amp;\n more</p>\
                    <p><a href=\"https://x.example/i?a=1&amp;b=2\">Accept</a>.</p><ul><li>one<li>two</ul>\
                    <a href='https://y.example'>https://y.example</a>";
        assert_eq!(
            to_text(html),
            "Hello,\n\nada's plan & more\n\nAccept https://x.example/i?a=1&b=2 .\n\n- one\n- two\n\nhttps://y.example"
        );
        assert_eq!(to_text("a < b"), "a");
        assert_eq!(to_text("&amp;lt;"), "&lt;");
    }

    #[test]
    fn special_characters_are_escaped() {
        assert_eq!(
            escape("<a href=\"x\" id='y'>&\0"),
            "&lt;a href=&#34;x&#34; id=&#39;y&#39;&gt;&amp;\u{fffd}"
        );
        assert_eq!(escape("Grüße"), "Grüße");
    }
}
