//! The part of Mailpit's search language that tests use: `to:` and `subject:` with a word or a quoted text, and bare
//! words. All terms must match; case is ignored.

use super::store::Delivered;

#[derive(Debug, PartialEq, Eq)]
enum Term {
    To(String),
    Subject(String),
    Any(String),
}

/// A parsed query.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search(Vec<Term>);

impl Search {
    /// Never fails: text without a field name is a plain search term.
    pub(super) fn parse(query: &str) -> Self {
        Self(words(&query.to_lowercase()).iter().filter_map(|word| term(word)).collect())
    }

    /// The recipient term, which the database filters by; may be empty.
    pub(super) fn recipient(&self) -> &str {
        self.0
            .iter()
            .find_map(|term| match term {
                Term::To(text) => Some(text.as_str()),
                Term::Subject(_) | Term::Any(_) => None,
            })
            .unwrap_or_default()
    }

    /// Whether a mail matches.
    pub(super) fn finds(&self, mail: &Delivered) -> bool {
        let contains = |text: &str, wanted: &str| text.to_lowercase().contains(wanted);
        let content = &mail.content;
        self.0.iter().all(|term| match term {
            Term::To(text) => contains(&mail.to, text),
            Term::Subject(text) => contains(&content.subject, text),
            Term::Any(text) => [&mail.to, &content.subject, &content.text, &content.html]
                .iter()
                .any(|part| contains(part, text)),
        })
    }
}

/// Splits at white space outside double quotes, and removes the quotes.
fn words(query: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in query.chars() {
        match character {
            '"' => quoted = !quoted,
            blank if blank.is_whitespace() && !quoted => words.push(String::new()),
            other => words.last_mut().into_iter().for_each(|word| word.push(other)),
        }
    }
    words
}

fn term(word: &str) -> Option<Term> {
    let (field, text): (fn(String) -> Term, &str) = match word.split_once(':') {
        Some(("to", text)) => (Term::To, text),
        Some(("subject", text)) => (Term::Subject, text),
        _ => (Term::Any, word),
    };
    (!text.is_empty()).then(|| field(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use crate::Content;
    use jiff::Timestamp;

    use super::*;

    fn mail() -> Delivered {
        Delivered {
            id: 1,
            kind: "recovery".to_owned(),
            to: "Ada+1@example.org".to_owned(),
            created_at: Timestamp::UNIX_EPOCH,
            content: Content {
                subject: "Reset your password".to_owned(),
                html: String::new(),
                text: "The code is 123456".to_owned(),
                idempotency_key: None,
                author: None,
                unsubscribe_url: None,
            },
        }
    }

    #[test]
    fn all_terms_must_hold() {
        let finds = |query: &str| Search::parse(query).finds(&mail());
        for query in [
            "",
            "to:ada+1@example.org",
            "to:\"ada+1@example.org\"",
            "TO:ada subject:\"reset your\"",
            "123456 password",
        ] {
            assert!(finds(query), "{query}");
        }
        for query in ["to:eve", "subject:\"your reset\"", "to:ada invited"] {
            assert!(!finds(query), "{query}");
        }
        assert_eq!(Search::parse("reset to:Ada@example.org").recipient(), "ada@example.org");
        assert_eq!(Search::parse("to: \"").0, Vec::new());
    }
}
