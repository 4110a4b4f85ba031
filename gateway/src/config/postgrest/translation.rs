//! PostgREST's values in our words.

use std::path::PathBuf;

use super::Origin;
use super::given::Given;
use super::libpq;
use super::names::{APP_SETTINGS, APP_SETTINGS_VARIABLE, Meaning, NAMES};
use crate::config::foreign::Collected;
use basalt_core::settings::Source;
use basalt_core::settings::Value;
use basalt_core::settings::Written;

/// What the settings of a start mean, one by one; those of the log go together.
pub(super) struct Translation<'a> {
    pub(super) given: &'a Given,
    pub(super) origin: &'a Origin<'a>,
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) out: &'a mut Collected,
}

impl Translation<'_> {
    pub(super) fn run(&mut self) {
        let (mut level, mut logs_queries) = (None, None);
        for name in NAMES {
            let given = self.given.get(name).map(|(text, source)| (text.to_owned(), source));
            match (name.meaning, given) {
                (Meaning::Database, given) => self.database(given),
                (_, None) | (Meaning::Immaterial, Some(_)) => {}
                (Meaning::Same(key) | Meaning::List(key), Some((text, source))) => {
                    self.out.write(key, text, source)
                }
                (Meaning::Flag(key), Some((text, source))) => self.out.write(key, flag(&text), source),
                (Meaning::Path(key), Some((text, source))) => {
                    self.out.write(key, self.path(&text).display().to_string(), source);
                }
                (Meaning::Secret, Some((text, source))) => self.secret(&text, source),
                (Meaning::LogLevel, Some(given)) => level = Some(given),
                (Meaning::LogQuery, Some(given)) => logs_queries = Some(given),
                (Meaning::PreparedStatements, Some((text, source))) => {
                    if flag(&text) == "false" {
                        self.out.write("database.statement_cache", "0".to_owned(), source);
                    }
                }
                (Meaning::AlwaysOn(sentence), Some((text, source))) => {
                    if flag(&text) != "true" {
                        self.out.warnings.push(format!("{source}: {sentence}"));
                    }
                }
            }
        }
        self.log(level.as_ref(), logs_queries.as_ref());
        self.app_settings();
    }

    fn path(&self, text: &str) -> PathBuf {
        self.origin.working_dir.join(text)
    }

    /// `@file` is what the file holds, without the line's end.
    fn contents(&mut self, text: &str, source: &Source) -> Option<String> {
        let Some(file) = text.strip_prefix('@') else { return Some(text.to_owned()) };
        match std::fs::read_to_string(self.path(file)) {
            Ok(contents) => Some(contents.trim_end_matches(['\r', '\n']).to_owned()),
            Err(error) => {
                let problem = format!("{file} cannot be read ({error}): check the path and who may read it");
                self.out.fault(source.clone(), problem);
                None
            }
        }
    }

    fn database(&mut self, given: Option<(String, Source)>) {
        let is_given = given.is_some();
        let (text, source) =
            given.unwrap_or_else(|| ("postgresql://".to_owned(), Source::DefaultOf("PostgREST")));
        let Some(text) = self.contents(&text, &source) else { return };
        let connection = match libpq::connection(text.trim(), self.variable) {
            Ok(connection) => connection,
            // Our own names may say where the database is.
            Err(_) if !is_given => return,
            Err(problem) => return self.out.fault(source, format!("the connection string {problem}")),
        };
        let url = ("database.authenticator_url", self.out.database_url(connection, source));
        if is_given { self.out.written.push(url) } else { self.out.defaults.push(url) }
    }

    fn secret(&mut self, text: &str, source: Source) {
        let Some(text) = self.contents(text, &source) else { return };
        let json = serde_json::from_str::<serde_json::Value>(&text).ok();
        match json.as_ref().and_then(serde_json::Value::as_object) {
            Some(key) if key.contains_key("kty") => self.out.write("jwt.keys", format!("[{text}]"), source),
            Some(set) if set.contains_key("keys") => self.out.write("jwt.keys", text, source),
            Some(_) | None => self.out.write("jwt.secret", text, source),
        }
    }

    /// Their levels say which answers are logged; ours, how much.
    fn log(&mut self, level: Option<&(String, Source)>, queries: Option<&(String, Source)>) {
        let logs_queries = queries.is_some_and(|(text, _)| {
            !matches!(text.to_ascii_lowercase().as_str(), "disabled" | "false" | "no" | "off" | "0")
        });
        let source = level.or(queries).map(|(_, source)| source.clone());
        let Some(source) = source else { return };
        let filter = match level.map_or("", |(level, _)| level.as_str()) {
            "" => "info,basalt::access=off",
            "crit" => "error,basalt::access=off",
            "error" => "warn,basalt::access=off",
            "warn" => "info,basalt::access=off",
            "info" => "info,basalt::access=info",
            "debug" => "debug,basalt::access=info,basalt::query=off",
            other => {
                let problem =
                    format!("log-level must be one of crit, error, warn, info, debug, not {other:?}");
                return self.out.fault(source, problem);
            }
        };
        let filter = if logs_queries { format!("{filter},basalt::query=debug") } else { filter.to_owned() };
        self.out.write("server.log", filter, source);
    }

    fn app_settings(&mut self) {
        let mut pairs: Vec<(String, Value)> = Vec::new();
        let mut source = None;
        let mut set = |name: &str, text: &str, from: Source| {
            // Names of settings have no case in PostgreSQL.
            pairs.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            pairs.push((name.to_owned(), Value::Text(text.to_owned())));
            source = Some(from);
        };
        for entry in &self.given.entries {
            if let Some(name) = entry.name.strip_prefix(APP_SETTINGS) {
                set(name, &entry.value, entry.source.clone());
            }
        }
        for (variable, text) in &self.given.variables {
            if let Some(name) = variable.strip_prefix(APP_SETTINGS_VARIABLE) {
                set(&name.to_ascii_lowercase(), text, Source::Variable(variable.clone()));
            }
        }
        if let Some(source) = source {
            let written = Written { value: Value::Pairs(pairs), source };
            self.out.written.push(("rest.app_settings", written));
        }
    }
}

/// Any number but zero is true there.
fn flag(text: &str) -> String {
    match text.trim().parse::<f64>() {
        Ok(number) => (number != 0.0).to_string(),
        Err(_) => text.to_ascii_lowercase(),
    }
}
