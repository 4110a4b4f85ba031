//! The part of Mailpit's search language that tests use: `to:`, `from:` and `subject:` with a word or a quoted text,
//! bare words, and `!` or `-` before any of them for "not". All must hold; case does not matter.

use super::store::Delivered;

#[derive(Debug, PartialEq, Eq)]
enum Field {
    To,
    From,
    Subject,
    Any,
}

#[derive(Debug, PartialEq, Eq)]
struct Term {
    field: Field,
    text: String,
    is_wanted: bool,
}

/// A query, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search(Vec<Term>);

impl Search {
    /// Reads a query. Every text is one: what is no field is looked for as it stands.
    pub(super) fn parse(query: &str) -> Self {
        Self(words(query).into_iter().filter_map(|word| term(&word)).collect())
    }

    /// What the recipient must contain, for the database to filter by; may be empty.
    pub(super) fn recipient(&self) -> &str {
        let wanted = |term: &&Term| term.field == Field::To && term.is_wanted;
        self.0.iter().find(wanted).map_or("", |term| &term.text)
    }

    /// Whether a mail is meant.
    pub(super) fn finds(&self, mail: &Delivered, sender: &str) -> bool {
        let contains = |text: &str, wanted: &str| text.to_lowercase().contains(wanted);
        self.0.iter().all(|Term { field, text, is_wanted }| {
            let found = match field {
                Field::To => contains(&mail.to, text),
                Field::From => contains(sender, text),
                Field::Subject => contains(&mail.content.subject, text),
                Field::Any => [&mail.to, &mail.content.subject, &mail.content.text, &mail.content.html]
                    .iter()
                    .any(|part| contains(part, text)),
            };
            found == *is_wanted
        })
    }
}

/// Splits at white space that is not within double quotes; the quotes go.
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
    words.retain(|word| !word.is_empty());
    words
}

fn term(word: &str) -> Option<Term> {
    let (is_wanted, word) = match word.strip_prefix(['!', '-']) {
        Some(rest) => (false, rest),
        None => (true, word),
    };
    let fields =
        [("to:", Field::To), ("addressed:", Field::To), ("from:", Field::From), ("subject:", Field::Subject)];
    let lower = word.to_lowercase();
    let found = fields
        .into_iter()
        .find_map(|(prefix, field)| lower.strip_prefix(prefix).map(|text| (field, text.to_owned())));
    let (field, text) = found.unwrap_or((Field::Any, lower));
    (!text.is_empty()).then_some(Term { field, text, is_wanted })
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
            },
        }
    }

    #[test]
    fn all_terms_must_hold() {
        let finds = |query: &str| Search::parse(query).finds(&mail(), "noreply@localhost");
        for query in [
            "",
            "to:ada+1@example.org",
            "to:\"ada+1@example.org\"",
            "TO:ada subject:\"reset your\" from:noreply",
            "123456 password",
            "-to:eve !invited",
        ] {
            assert!(finds(query), "{query}");
        }
        for query in ["to:eve", "subject:\"your reset\"", "to:ada invited", "-to:ada", "from:ada"] {
            assert!(!finds(query), "{query}");
        }
        assert_eq!(Search::parse("reset to:Ada@example.org").recipient(), "ada@example.org");
        assert_eq!(Search::parse("to: \"").0, Vec::new());
    }
}
