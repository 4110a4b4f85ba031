//! The layout that all mails of the app share, and templates with placeholders.

use basalt_core::html;

const LAYOUT: &str = include_str!("layout.html");
/// Mail clients ignore style sheets more often than attributes.
const BUTTON: &str = "<a class=\"button\" style=\"display:inline-block;padding:13px 24px;background-color:#0f5c55;\
border-radius:8px;font-size:16px;line-height:22px;font-weight:600;color:#ffffff;text-decoration:none;\"";

/// The parts of a mail.
pub(crate) struct Page<'a> {
    pub(crate) subject: &'a str,
    /// What mail clients show beside the subject.
    pub(crate) preview: &'a str,
    pub(crate) app_name: &'a str,
    /// HTML. `<a class="button"` becomes a button.
    pub(crate) content: &'a str,
    /// HTML, below the content.
    pub(crate) footer: &'a str,
}

impl Page<'_> {
    /// The HTML document.
    pub(crate) fn render(&self) -> String {
        fill(LAYOUT, |name| {
            Some(match name {
                "content" => self.content.replace("<a class=\"button\"", BUTTON),
                "footer" => self.footer.to_owned(),
                "subject" => html::escape(self.subject),
                "preview" => html::escape(self.preview),
                "appName" => html::escape(self.app_name),
                _ => return None,
            })
        })
    }
}

/// Replaces line breaks and control characters by spaces, so that a value cannot inject a header.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Replaces `{{name}}` and `{name}` in one pass, so that placeholders in values are not expanded. Unknown names are kept.
pub(crate) fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let (inside, closing) = match after.strip_prefix('{') {
            Some(inside) => (inside, "}}"),
            None => (after, "}"),
        };
        let found = inside.split_once(closing).and_then(|(name, after)| Some((value(name.trim())?, after)));
        match found {
            Some((value, after)) => {
                out.push_str(&value);
                rest = after;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::LAYOUT;

    /// The server reads the mails of `auth` from the project's folder, one complete file for each: they repeat this layout.
    #[test]
    fn mails_of_auth_have_the_same_layout() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mails");
        let mut mails = 0;
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let mail = std::fs::read_to_string(&path).unwrap();
            let mut lines = mail.lines();
            for line in LAYOUT.lines().filter(|line| !line.contains("{{")) {
                assert!(lines.any(|other| other == line), "{} lacks: {line}", path.display());
            }
            mails += 1;
        }
        assert_eq!(mails, 5);
    }
}
