//! Thousands of requests: random combinations of grammar constructs over a schema's model, with a fixed seed.
//!
//! Most of them mean something. Some have a name or a word that does not fit, some are broken by a few random edits
//! (their place ends in `!`), and a few hold one value that does not fit its column. Every level is sorted by its key,
//! or rows would come in any order.

mod calls;
mod conditions;
mod headers;
mod mutations;
mod reads;
mod writes;

use super::case::Case;
use super::dice::Dice;
use super::model::Model;

/// Where the generated requests come from.
pub(crate) struct Generator<'a> {
    model: &'a Model,
    dice: Dice,
    name: &'a str,
    count: usize,
    /// Whether this request has something in it that the grammar does not take.
    is_broken: bool,
}

/// A request in the making: keys and values as they are meant, not yet encoded.
#[derive(Debug, Default)]
struct Draft {
    method: &'static str,
    path: String,
    parameters: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Draft {
    fn get(path: String) -> Self {
        Self { method: "GET", path, ..Self::default() }
    }

    fn add(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.parameters.push((key.into(), value.into()));
    }

    fn header(&mut self, name: &str, value: &str) {
        self.headers.push((name.to_owned(), value.to_owned()));
    }
}

impl<'a> Generator<'a> {
    /// `name` goes into the requests' places.
    pub(crate) fn new(model: &'a Model, name: &'a str, seed: u64) -> Self {
        Self { model, dice: Dice::new(seed), name, count: 0, is_broken: false }
    }

    pub(crate) fn cases(&mut self, count: usize) -> Vec<Case> {
        (0..count).map(|_| self.case()).collect()
    }

    /// Only requests that write.
    pub(crate) fn writes(&mut self, count: usize) -> Vec<Case> {
        let all = std::iter::repeat_with(|| self.case());
        all.filter(|case| case.is_write() && !case.path().contains("/echo_")).take(count).collect()
    }

    fn case(&mut self) -> Case {
        self.count += 1;
        self.is_broken = false;
        self.dice.begin();
        let mut draft = match self.dice.below(20) {
            0..4 => self.call(),
            4..7 => self.write(),
            _ => self.read(),
        };
        self.dress(&mut draft);
        if self.dice.once_in(60) {
            self.is_broken = true;
            mutations::misspell(&mut self.dice, &mut draft.path);
        }
        let target = self.target(&draft);
        let place =
            format!("{}-generated:{}{}", self.name, self.count, if self.is_broken { "!" } else { "" });
        let mut case = Case::get(place, &target);
        case.method = draft.method.to_owned();
        case.written = format!("{} {target}", draft.method);
        case.headers.extend(draft.headers);
        case.body = draft.body;
        case
    }

    /// Path and query, encoded.
    fn target(&mut self, draft: &Draft) -> String {
        let mut parameters = draft.parameters.clone();
        if self.dice.once_in(8) {
            self.is_broken = true;
            mutations::edit(&mut self.dice, &mut parameters);
        }
        // 12 calls them an error; rest.md §3.20 has them removed.
        parameters.retain(|(key, _)| !key.is_empty());
        let query: Vec<_> = parameters
            .iter()
            .map(|(key, value)| format!("{}={}", encoded(key, "=&+#%;?"), encoded(value, "&+#%;")))
            .collect();
        let path = encoded(&draft.path, "?#%");
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }
}

impl Generator<'_> {
    /// A name as the grammar wants it: quoted where it must be, sometimes where it need not, and rarely not where it
    /// must.
    fn name(&mut self, name: &str) -> String {
        let is_plain = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '$');
        if is_plain && !self.dice.once_in(12) {
            return name.to_owned();
        }
        if !is_plain && self.dice.once_in(12) {
            self.is_broken = true;
            return name.to_owned();
        }
        self.quoted_name(name)
    }

    #[expect(clippy::unused_self, reason = "reads as the rest does")]
    fn quoted_name(&self, name: &str) -> String {
        format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Encodes the characters in `special`; what no request line can hold is encoded with the case.
fn encoded(text: &str, special: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        if special.contains(letter) {
            out.push_str(&format!("%{:02X}", u32::from(letter)));
        } else {
            out.push(letter);
        }
    }
    out
}
