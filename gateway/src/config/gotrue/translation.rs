//! GoTrue's values in our words.

use std::collections::BTreeMap;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::names::{LATER, Meaning, NAMES, PREFIX, meaning, setting, settings};
use crate::config::foreign::Collected;
use crate::config::postgrest::libpq;
use crate::config::raw::nearest;
use basalt_core::settings::Source;
use basalt_core::settings::Value;
use basalt_core::settings::Written;

/// Value and variable by the name without prefix.
pub(super) type Given = BTreeMap<String, (String, String)>;

/// What the variables of a start mean, one by one; SMTP is put together at the end.
pub(super) struct Translation<'a> {
    pub(super) given: &'a Given,
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) out: &'a mut Collected,
}

impl Translation<'_> {
    pub(super) fn run(&mut self) {
        let mut later: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (name, (text, variable)) in self.given {
            let source = Source::Variable(variable.clone());
            if let Some(row) = setting(name) {
                self.write(row.key, text, source);
                continue;
            }
            match meaning(name) {
                Some(Meaning::Same(key)) => self.write(key, text, source),
                Some(Meaning::Database) => self.database(text, source),
                Some(Meaning::Headers) => self.headers(text, source),
                Some(Meaning::LogLevel) => self.log_level(text, source),
                Some(Meaning::Instead(sentence)) => {
                    self.out.warnings.push(format!("{variable} is not read: {sentence}"));
                }
                // SMTP is put together below.
                Some(Meaning::Immaterial | Meaning::Smtp) => {}
                None => match LATER.iter().find(|(start, _)| name.starts_with(start)) {
                    Some((_, feature)) if !is_off(text) => later.entry(feature).or_default().push(variable),
                    Some(_) => {}
                    None => self.warn_of_unknown(variable),
                },
            }
        }
        for (feature, variables) in later {
            self.out
                .warnings
                .push(format!("{}: not available yet ({feature}); it is ignored", variables.join(", ")));
        }
        self.smtp();
    }

    fn write(&mut self, key: &'static str, text: &str, source: Source) {
        self.out.write(key, whole_rate(key, text).to_owned(), source);
    }

    fn database(&mut self, text: &str, source: Source) {
        let connection = match libpq::connection(&without_search_path(text.trim()), self.variable) {
            Ok(connection) => connection,
            Err(problem) => return self.out.fault(source, format!("the connection string {problem}")),
        };
        let url = self.out.database_url(connection, source);
        self.out.written.push(("database.url", url));
    }

    fn log_level(&mut self, text: &str, source: Source) {
        let filter = match text.to_ascii_lowercase().as_str() {
            "trace" | "debug" => "debug,basalt::access=info",
            "info" => "info,basalt::access=info",
            "warn" | "warning" => "warn,basalt::access=off",
            "error" | "fatal" | "panic" => "error,basalt::access=off",
            _ => {
                let problem = "must be one of trace, debug, info, warn, error, fatal, panic";
                return self.out.fault(source, problem.to_owned());
            }
        };
        self.write("server.log", filter, source);
    }

    /// `{"X-Name":["value"]}`
    fn headers(&mut self, text: &str, source: Source) {
        let Ok(headers) = serde_json::from_str::<BTreeMap<String, Vec<String>>>(text) else {
            let problem = "must be a JSON object with a list of texts for each name";
            return self.out.fault(source, problem.to_owned());
        };
        let pairs = headers
            .into_iter()
            .flat_map(|(name, values)| {
                values.into_iter().map(move |value| (name.clone(), Value::Text(value)))
            })
            .collect();
        let written = Written { value: Value::Pairs(pairs), source };
        self.out.written.push(("mail.headers", written));
    }

    /// `smtp://user:password@host:587`; port 465 speaks TLS from the first byte.
    fn smtp(&mut self) {
        let part = |name: &str| self.given.get(name).map(|(text, variable)| (text.as_str(), variable));
        let Some((host, variable)) = part("SMTP_HOST") else { return };
        let source = Source::Variable(variable.clone());
        let port = part("SMTP_PORT").map_or("587", |(port, _)| port);
        if !port.parse::<u16>().is_ok_and(|port| port > 0) {
            let source = part("SMTP_PORT").map_or(source, |(_, name)| Source::Variable(name.clone()));
            return self.out.fault(source, "must be a port, a whole number from 1 to 65535".to_owned());
        }
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let login = match (part("SMTP_USER"), part("SMTP_PASS")) {
            (Some((user, _)), Some((password, _))) => format!("{}:{}@", escaped(user), escaped(password)),
            (Some((user, _)), None) => format!("{}@", escaped(user)),
            (None, _) => String::new(),
        };
        let scheme = if port == "465" { "smtps" } else { "smtp" };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        self.write("mail.smtp_url", &format!("{scheme}://{login}{host}:{port}"), source);
    }

    fn warn_of_unknown(&mut self, variable: &str) {
        let known = NAMES.iter().map(|(name, _)| (*name).to_owned()).chain(settings().map(|(name, _)| name));
        let known = known.filter(|name| !name.ends_with('_')).map(|name| format!("{PREFIX}{name}"));
        let advice =
            nearest(variable, known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
        self.out.warnings.push(format!("{variable}: GoTrue has no such setting; it is ignored{advice}"));
    }
}

/// Go's way to write what is off, or none.
fn is_off(text: &str) -> bool {
    matches!(text, "0" | "f" | "F" | "false" | "FALSE" | "False")
}

/// A rate may have a fraction there; what is below one whole request is none.
fn whole_rate<'a>(key: &str, text: &'a str) -> &'a str {
    match text.split_once('.') {
        Some((whole, fraction))
            if key.starts_with("auth.rate_limit_")
                && !whole.is_empty()
                && fraction.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            whole
        }
        _ => text,
    }
}

/// Go's driver takes settings of the session in the URL; the service sets its own search path.
fn without_search_path(url: &str) -> String {
    let Some((base, query)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("search_path=")).collect();
    if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
}
