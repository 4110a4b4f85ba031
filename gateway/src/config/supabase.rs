//! `supabase/config.toml`: maps the keys of Supabase's CLI to our settings, below `basalt.toml` in precedence. What concerns the project's files
//! becomes [`SupabaseSettings`].
//!
//! Nothing in this file prevents the start: an invalid value or an unknown key is a warning, and a file that is not TOML leaves the defaults.

mod auth;
mod functions;
mod mail;
mod names;
mod storage;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use basalt_core::settings::{Source, Value, Written};
use basalt_project::supabase::{FOLDER, SeedPatterns, SupabaseSettings};
use toml::de::{DeTable, DeValue};

use super::foreign::Meaning::{Ignored, List, Special};
use super::foreign::{self, Entry, describe};
use super::raw::{FunctionSection, line_of};
use super::sections::setting;
use names::{NAMES, form};
use variables::{Variables, read_bounded};

/// Maximum number of keys.
const MAX_KEYS: usize = 20_000;

/// Tables with `enabled = false` whose other keys then mean nothing; and those of which only `enabled` matters.
const SWITCHED: [&str; 10] = [
    "api.tls",
    "auth.external.",
    "auth.third_party.",
    "auth.web3.",
    "auth.hook.",
    "auth.captcha",
    "auth.sms.",
    "storage.analytics",
    "storage.vector",
    "db.network_restrictions",
];

/// Switched tables of which all keys matter.
const READ_WHOLE: [&str; 4] = [auth::PROVIDERS, auth::HOOKS, "auth.captcha", "auth.sms.twilio"];

/// What the file says.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) written: Vec<(&'static str, Written)>,
    pub(super) functions: Vec<FunctionSection>,
    pub(super) project: SupabaseSettings,
    pub(super) warnings: Vec<String>,
    /// Facts without a remedy, such as keys that have no effect here.
    pub(super) notes: Vec<String>,
}

/// A key with its value; tables are flattened.
struct Leaf<'a> {
    name: String,
    value: &'a DeValue<'a>,
    source: Source,
}

/// Reads `supabase/config.toml` of the project; a missing file leaves the defaults. `shown` shortens paths for messages.
pub(super) fn collect(
    project_dir: &Path,
    environment: &[(OsString, OsString)],
    shown: impl Fn(&Path) -> PathBuf,
) -> Collected {
    let path = project_dir.join(FOLDER).join("config.toml");
    let mut out = Collected::default();
    let text = match read_bounded(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return out,
        Err(error) => {
            let path = shown(&path);
            out.warnings
                .push(format!("{}: cannot read this file ({error}); its defaults apply", path.display()));
            return out;
        }
    };
    let (table, errors) = DeTable::parse_recoverable(&text);
    if let Some(error) = errors.first() {
        let line = line_of(&text, error.span().map_or(0, |span| span.start));
        out.warnings.push(format!(
            "{}:{line}: is not valid TOML ({}); the defaults apply to all its settings",
            shown(&path).display(),
            error.message()
        ));
        return out;
    }
    let file = File { text: &text, path: shown(&path), project_dir };
    let mut reader =
        ConfigReader { file, variables: Variables::read(project_dir, environment), out: &mut out };
    reader.read(table.get_ref());
    out
}

struct File<'a> {
    text: &'a str,
    path: PathBuf,
    project_dir: &'a Path,
}

impl File<'_> {
    fn source(&self, position: usize) -> Source {
        Source::File { path: self.path.clone(), line: line_of(self.text, position) }
    }
}

struct ConfigReader<'a> {
    file: File<'a>,
    variables: Variables,
    out: &'a mut Collected,
}

impl ConfigReader<'_> {
    fn read(&mut self, table: &DeTable<'_>) {
        let mut leaves = Vec::new();
        self.flatten(table, "", &mut leaves);
        let form = form();
        let mut entries = foreign::Collected::default();
        let mut without_effect = BTreeSet::new();
        let mut parts: BTreeMap<String, (String, Source)> = BTreeMap::new();
        let mut secrets = Vec::new();
        for leaf in &leaves {
            let Some(value) = self.value(leaf) else { continue };
            match form.name_of(&leaf.name).map(|name| name.meaning) {
                Some(List(key)) => self.write(key, value, &leaf.source),
                Some(Ignored) => {
                    without_effect.insert(section(&leaf.name).to_owned());
                }
                Some(Special(_)) => self.special(leaf, value, &mut parts, &mut secrets),
                Some(_) | None => {
                    let value = as_text(&value).unwrap_or_default();
                    entries.entries.push(Entry {
                        name: leaf.name.clone(),
                        value,
                        source: leaf.source.clone(),
                    });
                }
            }
        }
        form.warn_about_unknown(&mut entries);
        form.translate(&mut entries);
        for (key, Written { value, source }) in std::mem::take(&mut entries.written) {
            self.write(key, value, &source);
        }
        for fault in entries.faults {
            self.out.warnings.push(format!("{}: {}; ignored", fault.source, fault.message));
        }
        self.out.warnings.append(&mut entries.warnings);
        self.read_mail(&parts);
        self.read_providers(&parts);
        self.read_hooks(&parts);
        self.read_captcha(&parts);
        self.read_sms(&parts);
        if !secrets.is_empty() {
            let source = Source::File { path: self.file.path.clone(), line: 1 };
            self.write("functions.secrets", Value::Pairs(secrets), &source);
        }
        self.read_buckets(table);
        self.read_functions(table);
        if !without_effect.is_empty() {
            let sections = without_effect.into_iter().collect::<Vec<_>>().join(", ");
            let path = self.file.path.display();
            self.out.notes.push(format!("{path}: without effect here: {sections}"));
        }
    }

    fn flatten<'t>(&self, table: &'t DeTable<'t>, above: &str, leaves: &mut Vec<Leaf<'t>>) {
        for (key, value) in table {
            let name = if above.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{above}.{}", key.get_ref())
            };
            if leaves.len() >= MAX_KEYS {
                return;
            }
            let leaf = |name, value| Leaf { name, value, source: self.file.source(key.span().start) };
            let DeValue::Table(inner) = value.get_ref() else {
                leaves.push(leaf(name, value.get_ref()));
                continue;
            };
            let is_switched = SWITCHED.iter().any(|start| format!("{name}.").starts_with(start));
            match inner.get("enabled").filter(|_| is_switched) {
                Some(flag) if matches!(flag.get_ref(), DeValue::Boolean(false)) => {}
                Some(_) if READ_WHOLE.iter().any(|start| name.starts_with(start)) => {
                    self.flatten(inner, &name, leaves)
                }
                Some(flag) => leaves.push(leaf(format!("{name}.enabled"), flag.get_ref())),
                None => self.flatten(inner, &name, leaves),
            }
        }
    }

    /// The value with variables resolved; `None` if one is not set.
    fn value(&mut self, leaf: &Leaf<'_>) -> Option<Value> {
        let mut unset = Vec::new();
        let value = self.variables.resolve(leaf.value, &mut unset);
        // A switched-off provider's secret is usually not set.
        if let Some(name) = unset.first() {
            self.out.warnings.push(format!(
                "{}: {} reads the variable {name}, which is not set; set it in the environment or in {FOLDER}/.env",
                leaf.source, leaf.name
            ));
            return None;
        }
        Some(value)
    }

    /// Writes a value for one of our settings, unless the setting does not accept it.
    fn write(&mut self, key: &'static str, value: Value, source: &Source) {
        let accepts = setting(key).is_some_and(|setting| (setting.show)(&value).is_some());
        if accepts {
            self.out.written.push((key, Written { value, source: source.clone() }));
        } else {
            let expected = setting(key).map(|setting| (setting.expected)()).unwrap_or_default();
            self.out.warnings.push(format!("{source}: must be {expected}; ignored"));
        }
    }

    fn special(
        &mut self,
        leaf: &Leaf<'_>,
        value: Value,
        parts: &mut BTreeMap<String, (String, Source)>,
        secrets: &mut Vec<(String, Value)>,
    ) {
        let project = &mut self.out.project;
        match (leaf.name.as_str(), &value) {
            ("project_id", Value::Text(id)) => project.project_id = Some(id.clone()),
            ("api.auto_expose_new_tables", Value::Boolean(flag)) => project.exposes_new_tables = *flag,
            ("db.migrations.enabled", Value::Boolean(flag)) => project.has_migrations = *flag,
            ("db.seed.enabled", Value::Boolean(false)) => project.seeds = SeedPatterns(Vec::new()),
            ("db.seed.enabled", Value::Boolean(true)) => {}
            ("db.seed.sql_paths", Value::List(items)) => {
                // `enabled` comes before `sql_paths`, because keys are sorted.
                if !project.seeds.0.is_empty() {
                    let paths = items.iter().filter_map(Value::text).map(str::to_owned);
                    project.seeds = SeedPatterns(paths.collect());
                }
            }
            ("db.port", Value::Integer(54322)) => {}
            ("db.port", Value::Integer(_)) => self.write("database.port", value, &leaf.source),
            ("auth.signing_keys_path", Value::Text(path)) => self.read_keys(path, &leaf.source),
            (name, _) if name.starts_with("auth.") => {
                let text = as_text(&value).unwrap_or_default();
                parts.insert(name.to_owned(), (text, leaf.source.clone()));
            }
            (name, Value::Text(text)) if name.starts_with("edge_runtime.secrets.") => {
                let name = name.rsplit('.').next().unwrap_or_default();
                secrets.push((name.to_owned(), Value::Text(text.clone())));
            }
            (name, Value::Text(text)) if name.starts_with("db.vault.") => {
                let name = name.trim_start_matches("db.vault.").to_owned();
                if !text.is_empty() {
                    project.vault.push((name, text.clone().into()));
                }
            }
            (name, _) if ["storage.buckets.", "functions."].iter().any(|start| name.starts_with(start)) => {}
            (name, _) => self
                .out
                .warnings
                .push(format!("{}: {name} has a value of another type; ignored", leaf.source)),
        }
    }
}

/// The table at a path of keys.
fn at<'t>(table: &'t DeTable<'t>, path: &[&str]) -> Option<&'t DeTable<'t>> {
    let mut table = table;
    for key in path {
        let DeValue::Table(inner) = table.get(*key)?.get_ref() else { return None };
        table = inner;
    }
    Some(table)
}

/// `db.pooler` of `db.pooler.enabled`, `studio` of `studio.port`.
fn section(name: &str) -> &str {
    let first = name.find('.').unwrap_or(name.len());
    let is_ours = ["db", "auth", "storage", "edge_runtime"].contains(&name.get(..first).unwrap_or_default());
    if !is_ours {
        return name.get(..first).unwrap_or(name);
    }
    let rest = name.get(first + 1..).unwrap_or_default();
    let second = rest.find('.').unwrap_or(rest.len());
    name.get(..first + 1 + second).unwrap_or(name)
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Bare(text) | Value::Text(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::List(_) | Value::Pairs(_) | Value::Other(_) => None,
    }
}

/// The section of docs/CONFIG.md about the file.
pub(super) fn markdown() -> String {
    let mut text = form().markdown(include_str!("supabase.md"));
    for (name, meaning) in NAMES {
        let all = if name.ends_with('.') { "*" } else { "" };
        let _ = writeln!(text, "| `{name}{all}` | {} |", describe(*meaning));
    }
    text
}
