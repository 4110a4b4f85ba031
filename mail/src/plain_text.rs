//! Derives the plain text part of an HTML e-mail: the text with line breaks between blocks, and the URL after each link. For mail
//! clients without HTML, and for programs that extract codes.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

/// A comment, or a tag with name and attributes. A `>` in quotes does not end a tag; the end of the text does.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    compiled(r#"(?s)<!--.*?(?:-->|$)|<([a-zA-Z/!][^\s>]*)((?:"[^"]*(?:"|$)|'[^']*(?:'|$)|[^"'>])*)(?:>|$)"#)
});
static ATTRIBUTE: LazyLock<Regex> = LazyLock::new(|| compiled(r#"\s([a-zA-Z]+)=(?:"([^"]*)"|'([^']*)')"#));
static ENTITY: LazyLock<Regex> = LazyLock::new(|| compiled("&(?:([a-z]+)|#([0-9]+)|#[xX]([0-9a-fA-F]+));"));

/// Converts HTML to plain text. Never fails: invalid HTML is treated as text.
#[must_use]
pub fn from_html(html: &str) -> String {
    let mut out = Writer::default();
    let mut rest = html;
    // A link's URL and the start of its text in the output.
    let mut link: Option<(String, usize)> = None;
    while let Some(tag) = TAG.captures(rest) {
        let place = tag.get(0).map_or(0..0, |whole| whole.range());
        out.words(rest.get(..place.start).unwrap_or_default());
        rest = rest.get(place.end..).unwrap_or_default();
        let name = group(&tag, 1).trim_end_matches('/').to_ascii_lowercase();
        let attributes = group(&tag, 2);
        match name.as_str() {
            "script" | "style" | "head" | "title" => rest = after_end(rest, &name),
            "a" => link = attribute(attributes, "href").map(|address| (address, out.text.len())),
            "/a" => {
                if let Some((address, begins)) = link.take() {
                    out.address(&address, begins);
                }
            }
            _ => match name.strip_prefix('/').unwrap_or(&name) {
                "br" | "tr" | "li" | "div" | "dt" | "dd" => out.breaks(1),
                "p" | "h1" | "h2" | "h3" | "h4" | "ul" | "ol" | "table" | "hr" | "blockquote" => {
                    out.breaks(2)
                }
                "td" | "th" => out.words(" "),
                _ => {}
            },
        }
        // Hidden content is preview text.
        if attribute(attributes, "style").is_some_and(|style| style.replace(' ', "").contains("display:none"))
        {
            rest = after_end(rest, &name);
        }
    }
    out.words(rest);
    out.text + "\n"
}

#[derive(Default)]
struct Writer {
    text: String,
    /// Pending line breaks before the next word.
    owed: usize,
    /// Whether a space is pending.
    blank: bool,
}

impl Writer {
    /// Writes text, resolving entities and folding white space.
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

    /// Writes a link's URL after its text, unless they are equal.
    fn address(&mut self, address: &str, begins: usize) {
        let is_shown = self.text.get(begins..).is_some_and(|words| words.trim() == address);
        if !is_shown && address.contains("://") {
            self.breaks(1);
            self.words(address);
            self.breaks(1);
        }
    }
}

/// The text after the end tag of `name`; empty without one.
fn after_end<'a>(rest: &'a str, name: &str) -> &'a str {
    let end = rest.to_ascii_lowercase().find(&format!("</{name}"));
    let after = end.and_then(|at| rest.get(at..)).unwrap_or_default();
    after.split_once('>').map_or("", |(_, rest)| rest)
}

/// The unescaped value of a quoted attribute.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let found = ATTRIBUTE.captures_iter(attributes).find(|one| group(one, 1).eq_ignore_ascii_case(name))?;
    Some(unescape(found.get(2).or(found.get(3))?.as_str()))
}

/// Resolves common entities and those of our escaping; keeps others.
fn unescape(text: &str) -> String {
    let resolved = |entity: &Captures<'_>| {
        let (decimal, hexadecimal) = (group(entity, 2), group(entity, 3));
        let named = match group(entity, 1) {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "apos" => "'",
            "nbsp" => " ",
            "zwnj" | "shy" => "",
            "copy" => "©",
            "ndash" => "–",
            "mdash" => "—",
            "hellip" => "…",
            "rarr" => "→",
            "laquo" => "«",
            _ => {
                let code = decimal.parse().or_else(|_| u32::from_str_radix(hexadecimal, 16)).ok();
                let character = code.and_then(char::from_u32).map(String::from);
                return character.unwrap_or_else(|| group(entity, 0).to_owned());
            }
        };
        named.to_owned()
    };
    ENTITY.replace_all(text, resolved).into_owned()
}

fn group<'a>(found: &Captures<'a>, number: usize) -> &'a str {
    found.get(number).map_or("", |part| part.as_str())
}

fn compiled(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap_or_else(|error| unreachable!("a pattern of this file: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keeps_words_breaks_and_urls() {
        let html = "<html><head><title>x</title><style>p{}</style></head><body>\
                    <div style=\"display: none\">hidden</div>\
                    <h2>Hello &amp;  good\n day</h2><p>One<br>two &lt;3</p>\
                    <p><a href=\"https://x.example/?a=1&amp;b=2\">Sign in</a> now</p>\
                    <a href='https://y.example'>https://y.example</a><!-- no --> 1 < 2 &copy; &#8211; &bogus;\
                    <p>Code: <b>123456</b></p></body></html>";
        assert_eq!(
            from_html(html),
            "Hello & good day\n\nOne\ntwo <3\n\nSign in\nhttps://x.example/?a=1&b=2\nnow\n\nhttps://y.example 1 < 2 © – \
             &bogus;\n\nCode: 123456\n"
        );
        assert_eq!(from_html(""), "\n");
    }

    proptest! {
        #[test]
        fn conversion_never_panics(html in "(<|>|&|;|\"|'|a href=|/|!--|-->|style|\\PC){0,40}") {
            let _text = from_html(&html);
        }
    }
}
