//! The configurations of other servers ([`super::postgrest`], [`super::gotrue`]): a table from their names to ours, and
//! the engine that puts what is written under them under our keys.
//!
//! Empty means not set. An unknown name is only warned of, because those servers ignore it; a value that cannot be
//! read is a fault.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;

use basalt_core::settings::{Fault, Source, Value, Written};

use super::libpq::Connection;
use super::raw::nearest;

/// What becomes of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// The same text under our key.
    Same(&'static str),
    /// A list under our key; an empty one counts.
    List(&'static str),
    /// A list under our key, of names as this function reads them.
    Names {
        key: &'static str,
        read: fn(&str) -> Vec<String>,
        /// An empty list counts; otherwise it is as if nothing were written.
        may_be_empty: bool,
    },
    /// This translation of the text under our key.
    As(&'static str, fn(&str) -> Result<String, String>),
    /// Read by the form itself; the words are for docs/CONFIG.md.
    Special(&'static str),
    /// Changes no answer here, whatever it says.
    Ignored,
    /// Only `true` is done; the sentence says so to those who write `false`.
    AlwaysOn(&'static str),
    /// Nothing here reads it; the sentence says what to do instead.
    Instead(&'static str),
    /// Belongs to this feature, which a later release brings.
    Later(&'static str),
}

/// One of their settings, or with `_` or `.` at its end all that start so.
pub(super) struct Name {
    pub(super) name: Cow<'static, str>,
    /// Other spellings.
    pub(super) aliases: &'static [&'static str],
    pub(super) meaning: Meaning,
}

impl Name {
    const fn may_be_empty(&self) -> bool {
        matches!(self.meaning, Meaning::List(_) | Meaning::Names { may_be_empty: true, .. })
    }

    pub(super) const fn new(name: &'static str, meaning: Meaning) -> Self {
        Self { name: Cow::Borrowed(name), aliases: &[], meaning }
    }

    pub(super) const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.aliases.iter().copied())
    }

    pub(super) fn is_beginning(&self) -> bool {
        self.name.ends_with(['_', '.'])
    }
}

/// The configuration of one server.
pub(super) struct Form {
    /// What it is called.
    pub(super) server: &'static str,
    /// What its variables start with.
    pub(super) prefix: &'static str,
    /// Of several that fit, the whole name counts before a beginning, and of those the first.
    pub(super) names: Vec<Name>,
    /// What holds where neither its names nor ours say something else.
    pub(super) defaults: &'static [(&'static str, &'static str)],
}

/// One thing that was written.
#[derive(Debug)]
pub(super) struct Entry {
    /// As the table spells it.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) source: Source,
}

/// What their names say, under ours.
#[derive(Default)]
pub(super) struct Collected {
    /// Later ones count more.
    pub(super) entries: Vec<Entry>,
    pub(super) written: Vec<(&'static str, Written)>,
    /// To be used where nothing else is written.
    pub(super) defaults: Vec<(&'static str, Written)>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Form {
    /// `db-uri` → `PGRST_DB_URI`
    pub(super) fn variable_of(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_ascii_uppercase().replace(['-', '.'], "_"))
    }

    /// The variables with its prefix that are not empty; `spelled` says how the table names one without its prefix.
    pub(super) fn variables(
        &self,
        environment: &[(OsString, OsString)],
        spelled: fn(&str) -> String,
        out: &mut Collected,
    ) {
        let mut found: Vec<_> = environment
            .iter()
            .filter_map(|(name, text)| Some((name.to_str()?, text)))
            .filter_map(|(name, text)| Some((name, name.strip_prefix(self.prefix)?, text)))
            .collect();
        found.sort_unstable();
        for (variable, name, text) in found {
            let source = Source::Variable(variable.to_owned());
            match text.to_str() {
                Some("") if !self.name_of(&spelled(name)).is_some_and(Name::may_be_empty) => {}
                Some(text) => {
                    out.entries.push(Entry { name: spelled(name), value: text.to_owned(), source });
                }
                None => out.fault(source, "its value is not UTF-8 text".to_owned()),
            }
        }
    }

    /// Translates what has one meaning; what is special stays for the form itself.
    pub(super) fn translate(&self, out: &mut Collected) {
        let source = Source::DefaultOf(self.server);
        out.defaults =
            self.defaults.iter().map(|(key, text)| (*key, written(text, source.clone()))).collect();
        let mut later: Vec<(&str, Vec<String>)> = Vec::new();
        for name in &self.names {
            let counts_empty = name.may_be_empty();
            let given: Vec<(String, Source)> = if name.is_beginning() {
                let fits =
                    |entry: &&Entry| self.name_of(&entry.name).is_some_and(|found| std::ptr::eq(found, name));
                let found = out.entries.iter().filter(fits);
                found.map(|entry| (entry.value.clone(), entry.source.clone())).collect()
            } else {
                out.get(name, counts_empty).into_iter().collect()
            };
            for (text, source) in given {
                match name.meaning {
                    Meaning::Same(key) | Meaning::List(key) => out.write(key, &text, source),
                    Meaning::Names { key, read, .. } => {
                        let value = Value::List(read(&text).into_iter().map(Value::Text).collect());
                        out.written.push((key, Written { value, source }));
                    }
                    Meaning::As(key, translate) => match translate(&text) {
                        Ok(text) => out.write(key, &text, source),
                        Err(problem) => out.fault(source, problem),
                    },
                    Meaning::AlwaysOn(sentence) if flag(&text) != Ok("true".to_owned()) => {
                        out.warnings.push(format!("{source}: {sentence}"));
                    }
                    Meaning::Instead(sentence) => {
                        out.warnings.push(format!("{source} is not read: {sentence}"));
                    }
                    Meaning::Later(feature) if flag(&text) != Ok("false".to_owned()) => {
                        match later.iter_mut().find(|(known, _)| *known == feature) {
                            Some((_, variables)) => variables.push(source.to_string()),
                            None => later.push((feature, vec![source.to_string()])),
                        }
                    }
                    Meaning::Special(_) | Meaning::Ignored | Meaning::AlwaysOn(_) | Meaning::Later(_) => {}
                }
            }
        }
        for (feature, variables) in later {
            let variables = variables.join(", ");
            out.warnings.push(format!("{variables}: not available yet ({feature}); it is ignored"));
        }
    }

    fn name_of(&self, name: &str) -> Option<&Name> {
        let whole = self.names.iter().find(|known| known.spellings().any(|spelling| spelling == name));
        whole.or_else(|| {
            self.names.iter().find(|known| known.is_beginning() && name.starts_with(&*known.name))
        })
    }

    /// Warns of unknown names.
    pub(super) fn warn_of_unknown(&self, out: &mut Collected) {
        let spellings = || self.names.iter().filter(|name| !name.is_beginning()).flat_map(Name::spellings);
        let unknown = out.entries.iter().filter(|entry| self.name_of(&entry.name).is_none());
        let server = self.server;
        for Entry { name, source, .. } in unknown {
            let (setting, near) = match source {
                Source::Variable(variable) => (
                    "such setting".to_owned(),
                    nearest(variable, spellings().map(|name| self.variable_of(name))),
                ),
                Source::Default | Source::DefaultOf(_) | Source::File { .. } | Source::Flag(_) => {
                    (format!("setting {name}"), nearest(name, spellings().map(ToOwned::to_owned)))
                }
            };
            let advice = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
            out.warnings.push(format!("{source}: {server} has no {setting}; it is ignored{advice}"));
        }
    }

    /// The names among `environment` that mean nothing unless the server stands in for this one, as one warning.
    pub(super) fn stray(&self, environment: &[(OsString, OsString)], section: &str) -> Option<String> {
        let names = environment.iter().filter_map(|(name, _)| name.to_str());
        let mut names: Vec<&str> = names.filter(|name| name.starts_with(self.prefix)).collect();
        names.sort_unstable();
        let first = names.first()?;
        let others = if names.len() > 1 { " and the like" } else { "" };
        Some(format!(
            "{first}{others}: {}'s variables are read with --only {section} only; see [{section}] in docs/CONFIG.md",
            self.server
        ))
    }

    /// Its part of docs/CONFIG.md: `text` with the defaults in the place of `{defaults}`.
    pub(super) fn markdown(&self, text: &str) -> String {
        let mut defaults = String::new();
        for (key, value) in self.defaults {
            let value = if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") };
            let _ = writeln!(defaults, "- `{key}`: {value}");
        }
        format!("\n{}", text.replace("{defaults}\n", &defaults))
    }
}

impl Collected {
    /// The value in force: a name before its aliases, and of several with one name the last.
    pub(super) fn get(&self, name: &Name, counts_empty: bool) -> Option<(String, Source)> {
        name.spellings().find_map(|spelling| self.get_spelled(spelling, counts_empty))
    }

    pub(super) fn get_spelled(&self, spelling: &str, counts_empty: bool) -> Option<(String, Source)> {
        let entry = self.entries.iter().rev().find(|entry| entry.name == spelling)?;
        (counts_empty || !entry.value.is_empty()).then(|| (entry.value.clone(), entry.source.clone()))
    }

    pub(super) fn write(&mut self, key: &'static str, text: &str, source: Source) {
        self.written.push((key, written(text, source)));
    }

    pub(super) fn fault(&mut self, source: Source, message: String) {
        self.faults.push(Fault { source, message });
    }

    /// The database's URL, after what else its connection string says.
    pub(super) fn database_url(&mut self, connection: Connection, source: Source) -> Written {
        for warning in connection.warnings {
            self.warnings.push(format!("{source}: {warning}"));
        }
        if connection.verifies {
            self.write("database.verify_certificate", "true", source.clone());
        }
        written(&connection.text, source)
    }
}

fn written(text: &str, source: Source) -> Written {
    Written { value: Value::Bare(text.to_owned()), source }
}

/// What a name means here, for docs/CONFIG.md.
pub(super) fn words(meaning: Meaning) -> String {
    match meaning {
        Meaning::Same(key) | Meaning::List(key) | Meaning::Names { key, .. } | Meaning::As(key, _) => {
            format!("`{key}`")
        }
        Meaning::Special(words) => words.to_owned(),
        Meaning::Ignored => "accepted; changes no answer here".to_owned(),
        Meaning::AlwaysOn(sentence) => format!("{sentence}; `false` is warned of"),
        Meaning::Instead(sentence) => format!("not read: {sentence}"),
        Meaning::Later(feature) => format!("not available yet: {feature}"),
    }
}

/// `true` or `false`, where it is one: PostgREST takes any number but zero as true, Go writes `t` and `F`.
pub(super) fn flag(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    Ok(match (text.as_str(), text.parse::<f64>()) {
        (_, Ok(number)) => (number != 0.0).to_string(),
        ("t", _) => "true".to_owned(),
        ("f", _) => "false".to_owned(),
        _ => text,
    })
}

/// One variable's text, of those that have one.
pub(super) fn variable(environment: &[(OsString, OsString)], name: &str) -> Option<String> {
    let found = environment.iter().find(|(known, _)| known == name);
    found.and_then(|(_, text)| text.to_str()).map(ToOwned::to_owned)
}
