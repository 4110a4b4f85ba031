//! Configuration of other servers ([`super::postgrest`], [`super::gotrue`]): maps their names to our settings and
//! translates the values.
//!
//! Empty means not set. An unknown name only warns, because those servers ignore it; a value that cannot be parsed is a
//! fault.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Write as _;

use basalt_core::settings::{Fault, Source, Value, Written};

use super::libpq::Connection;
use super::nearest::nearest;

/// How a value is translated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Meaning {
    /// Copied to our setting.
    Same(&'static str),
    /// A list for our setting; an empty list counts as a value.
    List(&'static str),
    /// A list of names for our setting, parsed by `read`.
    Names {
        key: &'static str,
        read: fn(&str) -> Vec<String>,
        /// Whether an empty list counts as a value; otherwise it counts as unset.
        may_be_empty: bool,
    },
    /// Translated by the function for our setting.
    As(&'static str, fn(&str) -> Result<String, String>),
    /// Handled by the form itself; the text describes it in docs/CONFIG.md.
    Special(&'static str),
    /// Accepted without any effect.
    Ignored,
    /// Always enabled here; `false` causes a warning with this sentence.
    AlwaysOn(&'static str),
    /// Not supported; the warning says what to use instead.
    Instead(&'static str),
    /// Belongs to this feature, which is not available yet.
    Later(&'static str),
}

/// One of their settings, or a prefix of settings if it ends with `_` or `.`.
pub(super) struct Name {
    pub(super) name: Cow<'static, str>,
    /// Alternative spellings.
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

    pub(super) const fn with_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) fn spellings(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.aliases.iter().copied())
    }

    pub(super) fn is_prefix(&self) -> bool {
        self.name.ends_with(['_', '.'])
    }
}

/// The configuration format of one server.
pub(super) struct Form {
    /// The server's name.
    pub(super) server: &'static str,
    /// The prefix of its variables.
    pub(super) prefix: &'static str,
    /// An exact name wins over a prefix; of several prefixes, the first match wins.
    pub(super) names: Vec<Name>,
    /// Defaults that apply where neither its names nor ours set a value.
    pub(super) defaults: &'static [(&'static str, &'static str)],
}

/// A written value.
#[derive(Debug)]
pub(super) struct Entry {
    /// The name as spelled in the table.
    pub(super) name: String,
    pub(super) value: String,
    pub(super) source: Source,
}

/// The values collected from foreign names, translated to our settings.
#[derive(Default)]
pub(super) struct Collected {
    /// Later entries override earlier ones.
    pub(super) entries: Vec<Entry>,
    pub(super) written: Vec<(&'static str, Written)>,
    /// Used where nothing else is written.
    pub(super) defaults: Vec<(&'static str, Written)>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
}

impl Form {
    /// `db-uri` → `PGRST_DB_URI`
    pub(super) fn variable_of(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.to_ascii_uppercase().replace(['-', '.'], "_"))
    }

    /// Collects variables with the prefix that are not empty; `spelled` converts a variable's name to the table's spelling.
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

    /// Translates values with a fixed meaning; the form handles `Special` ones.
    pub(super) fn translate(&self, out: &mut Collected) {
        let source = Source::DefaultOf(self.server);
        out.defaults =
            self.defaults.iter().map(|(key, text)| (*key, written(text, source.clone()))).collect();
        let mut later: Vec<(&str, Vec<String>)> = Vec::new();
        for name in &self.names {
            let counts_empty = name.may_be_empty();
            let given: Vec<(String, Source)> = if name.is_prefix() {
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
                        out.warnings.push(format!("{source} is ignored: {sentence}"));
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
            out.warnings.push(format!("{variables}: not available yet ({feature}); ignored"));
        }
    }

    pub(super) fn name_of(&self, name: &str) -> Option<&Name> {
        let exact = self.names.iter().find(|known| known.spellings().any(|spelling| spelling == name));
        exact.or_else(|| self.names.iter().find(|known| known.is_prefix() && name.starts_with(&*known.name)))
    }

    /// Warns about unknown names.
    pub(super) fn warn_about_unknown(&self, out: &mut Collected) {
        let spellings = || self.names.iter().filter(|name| !name.is_prefix()).flat_map(Name::spellings);
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
            out.warnings.push(format!("{source}: {server} has no {setting}; ignored{advice}"));
        }
    }

    /// One warning for all variables in `environment` that have no effect without the matching `--only`.
    pub(super) fn stray(&self, environment: &[(OsString, OsString)], section: &str) -> Option<String> {
        let names = environment.iter().filter_map(|(name, _)| name.to_str());
        let mut names: Vec<&str> = names.filter(|name| name.starts_with(self.prefix)).collect();
        names.sort_unstable();
        let first = names.first()?;
        let others = if names.len() > 1 { " and similar variables" } else { "" };
        Some(format!(
            "{first}{others}: {}'s variables are used only with --only {section}; see [{section}] in docs/CONFIG.md",
            self.server
        ))
    }

    /// This server's section of docs/CONFIG.md: `text` with `{defaults}` replaced.
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
    /// The effective value: a name wins over its aliases, and the last value of a name wins.
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

    /// The database URL; also records the other results of its connection string.
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
pub(super) fn describe(meaning: Meaning) -> String {
    match meaning {
        Meaning::Same(key) | Meaning::List(key) | Meaning::Names { key, .. } | Meaning::As(key, _) => {
            format!("`{key}`")
        }
        Meaning::Special(text) => text.to_owned(),
        Meaning::Ignored => "accepted without effect".to_owned(),
        Meaning::AlwaysOn(sentence) => format!("{sentence}; `false` causes a warning"),
        Meaning::Instead(sentence) => format!("ignored: {sentence}"),
        Meaning::Later(feature) => format!("not available yet: {feature}"),
    }
}

/// Normalises booleans: PostgREST accepts any non-zero number as true, Go accepts `t` and `F`.
pub(super) fn flag(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    Ok(match (text.as_str(), text.parse::<f64>()) {
        (_, Ok(number)) => (number != 0.0).to_string(),
        ("t", _) => "true".to_owned(),
        ("f", _) => "false".to_owned(),
        _ => text,
    })
}

/// The value of a variable, if it is set.
pub(super) fn variable(environment: &[(OsString, OsString)], name: &str) -> Option<String> {
    let found = environment.iter().find(|(known, _)| known == name);
    found.and_then(|(_, text)| text.to_str()).map(ToOwned::to_owned)
}
