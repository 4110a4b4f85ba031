//! The plain text part of an e-mail whose HTML comes from a project: the words, with breaks where blocks end and each
//! link's address beside its words. For people whose programs show no HTML, and for programs that read codes.

/// HTML as plain text. Never fails: what is no HTML is text.
pub(super) fn text(html: &str) -> String {
    let mut out = Writer::default();
    let mut rest = html;
    let mut link: Option<Link> = None;
    while let Some((before, after)) = rest.split_once('<') {
        out.words(before);
        if let Some(comment) = after.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        if !after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')) {
            out.words("<");
            rest = after;
            continue;
        }
        let end = end_of_tag(after);
        let tag = after.get(..end).unwrap_or(after);
        rest = after.get(end..).and_then(|rest| rest.strip_prefix('>')).unwrap_or_default();
        let name_length = tag.find(|c: char| c.is_whitespace()).unwrap_or(tag.len());
        let name = tag.get(..name_length).unwrap_or(tag).trim_end_matches('/').to_ascii_lowercase();
        match name.as_str() {
            "script" | "style" | "head" | "title" => rest = after_end(rest, &name),
            "a" => link = attribute(tag, "href").map(|address| Link { address, begins: out.text.len() }),
            "/a" => {
                if let Some(Link { address, begins }) = link.take() {
                    out.address(&address, begins);
                }
            }
            "br" => out.breaks(1),
            "tr" | "/tr" | "li" | "div" | "/div" | "dt" | "dd" => out.breaks(1),
            "p" | "/p" | "h1" | "/h1" | "h2" | "/h2" | "h3" | "/h3" | "h4" | "/h4" | "ul" | "/ul" | "ol"
            | "/ol" | "table" | "/table" | "hr" | "blockquote" | "/blockquote" => out.breaks(2),
            "td" | "th" => out.words(" "),
            _ => {}
        }
        // What is hidden is for lists of mails, not for readers.
        if attribute(tag, "style").is_some_and(|style| style.replace(' ', "").contains("display:none")) {
            rest = after_end(rest, &name);
        }
    }
    out.words(rest);
    let mut text = out.text.trim_end().to_owned();
    text.push('\n');
    text
}

struct Link {
    address: String,
    /// Where its words begin in the text.
    begins: usize,
}

#[derive(Default)]
struct Writer {
    text: String,
    /// Line breaks owed before the next word.
    owed: usize,
    /// Whether a blank is owed.
    blank: bool,
}

impl Writer {
    /// Words, with entities resolved and white space folded.
    fn words(&mut self, html: &str) {
        for character in unescape(html).chars() {
            if character.is_whitespace() {
                self.blank = true;
                continue;
            }
            if self.owed > 0 && !self.text.is_empty() {
                self.text.push_str(if self.owed > 1 { "\n\n" } else { "\n" });
            } else if self.blank && !self.text.is_empty() {
                self.text.push(' ');
            }
            (self.owed, self.blank) = (0, false);
            self.text.push(character);
        }
    }

    fn breaks(&mut self, count: usize) {
        self.owed = self.owed.max(count);
    }

    /// A link's address after its words, unless they are the address.
    fn address(&mut self, address: &str, begins: usize) {
        let is_shown = self.text.get(begins..).is_some_and(|words| words.trim() == address);
        let is_web = ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
            || address.contains("://");
        if !is_shown && is_web {
            self.breaks(1);
            self.words(address);
            self.breaks(1);
        }
    }
}

/// Where a tag's `>` is: not within quotes.
fn end_of_tag(text: &str) -> usize {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '>') => return at,
            _ => {}
        }
    }
    text.len()
}

fn after_end<'a>(rest: &'a str, name: &str) -> &'a str {
    let end = rest.to_ascii_lowercase().find(&format!("</{name}"));
    let after = end.and_then(|at| rest.get(at..)).unwrap_or_default();
    after.split_once('>').map_or("", |(_, rest)| rest)
}

/// An attribute's value in quotes, unescaped.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let lower = tag.to_ascii_lowercase();
    let (at, _) = lower
        .match_indices(&format!("{name}="))
        .find(|(at, _)| lower.get(..*at).is_some_and(|before| before.ends_with(char::is_whitespace)))?;
    let value = tag.get(at + name.len() + 1..)?;
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    let (value, _) = value.get(1..)?.split_once(quote)?;
    Some(unescape(value))
}

/// Resolves the entities that templates write and our own escaping makes.
fn unescape(text: &str) -> String {
    const NAMED: [(&str, &str); 14] = [
        ("amp", "&"),
        ("lt", "<"),
        ("gt", ">"),
        ("quot", "\""),
        ("apos", "'"),
        ("nbsp", " "),
        ("zwnj", ""),
        ("shy", ""),
        ("copy", "©"),
        ("ndash", "–"),
        ("mdash", "—"),
        ("hellip", "…"),
        ("rarr", "→"),
        ("laquo", "«"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let entity = after.split_once(';').filter(|(name, _)| name.len() < 12);
        let resolved = entity.and_then(|(name, rest)| {
            let named = NAMED.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
            Some((named.or_else(|| numbered(name))?, rest))
        });
        match resolved {
            Some((text, after)) => {
                out.push_str(&text);
                rest = after;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn numbered(name: &str) -> Option<String> {
    let number = name.strip_prefix('#')?;
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?).map(String::from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn words_breaks_and_addresses_are_kept() {
        let html = "<html><head><title>x</title><style>p{}</style></head><body>\
                    <div style=\"display: none\">hidden</div>\
                    <h2>Hello &amp;  good\n day</h2><p>One<br>two &lt;3</p>\
                    <p><a href=\"https://x.example/?a=1&amp;b=2\">Sign in</a> now</p>\
                    <a href='https://y.example'>https://y.example</a><!-- no --> 1 < 2 &copy; &#8211; &bogus;\
                    <p>Code: <b>123456</b></p></body></html>";
        assert_eq!(
            text(html),
            "Hello & good day\n\nOne\ntwo <3\n\nSign in\nhttps://x.example/?a=1&b=2\nnow\n\nhttps://y.example 1 < 2 © – \
             &bogus;\n\nCode: 123456\n"
        );
        assert_eq!(text(""), "\n");
    }

    proptest! {
        #[test]
        fn no_html_panics(html in "(<|>|&|;|\"|'|a href=|/|!--|-->|style|\\PC){0,40}") {
            let _text = text(&html);
        }
    }
}
