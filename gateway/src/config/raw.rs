//! `RawConfig`: the written values with their sources, before they are checked. Reads `basalt.toml`, `BASALT_*` variables
//! and command-line options, and reports unknown names.
//!
//! PostgREST's variables and file ([`super::postgrest`]) and GoTrue's variables ([`super::gotrue`]) are further sources of
//! the same map.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::Only;
use super::gotrue;
use super::nearest::nearest;
use super::postgrest;
use super::sections::{sections, setting, settings};
use super::supabase;
use basalt_core::settings::{Fault, Source, Value, Written};
use basalt_project::ProjectLayout;
use basalt_project::supabase::SupabaseSettings;

/// The file's name in the project folder.
const FILE: &str = "basalt.toml";
const PREFIX: &str = "BASALT_";
/// Variables of our own tests, which are not settings.
const TEST_PREFIX: &str = "BASALT_TEST_";
/// `cargo xtask` sets these for clients; a server may start in a shell that has them.
const FOR_CLIENTS: [&str; 5] =
    ["BASALT_URL", "BASALT_ANON_KEY", "BASALT_SERVICE_KEY", "BASALT_PUBLISHABLE_KEY", "BASALT_SECRET_KEY"];

/// All external input, so that tests need no process environment.
pub(super) struct Origin {
    /// Options: setting, option as typed, value.
    pub options: Vec<(&'static str, &'static str, String)>,
    /// The complete environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory of the process.
    pub working_dir: PathBuf,
    /// The service of `--only`; `rest` and `auth` accept foreign configuration.
    pub only: Option<Only>,
    /// PostgREST's configuration file.
    pub postgrest_file: Option<PathBuf>,
}

/// All written values, by setting.
#[derive(Clone)]
pub(super) struct RawConfig {
    /// The folder of `basalt.toml`; relative paths in the file and in variables are resolved against it.
    pub project_dir: PathBuf,
    /// The working directory; relative paths in options are resolved against it.
    pub working_dir: PathBuf,
    /// The path of `basalt.toml`, if it exists.
    pub file: Option<PathBuf>,
    /// Whether PostgREST's names configure this server, so that PostgREST's defaults apply.
    pub is_postgrest: bool,
    /// Written values without an effect.
    pub warnings: Vec<String>,
    /// Facts about the configuration without a remedy.
    pub notes: Vec<String>,
    /// The part of `supabase/config.toml` that concerns the project's files, in a folder of that layout.
    pub supabase: Option<SupabaseSettings>,
    /// The values, not yet checked.
    pub written: BTreeMap<&'static str, Written>,
    /// The `[functions.NAME]` sections, whose names the project chooses.
    pub functions: Vec<FunctionSection>,
    /// The mistakes found so far.
    pub faults: Vec<Fault>,
}

/// A section `[functions.NAME]`.
#[derive(Clone)]
pub(super) struct FunctionSection {
    /// The function's name.
    pub name: String,
    /// Where it was written.
    pub source: Source,
    /// Its keys and values.
    pub pairs: Vec<(String, Value)>,
}

impl RawConfig {
    /// Collects all sources.
    pub(super) fn collect(origin: &Origin) -> Self {
        let mut raw = Self {
            project_dir: origin.working_dir.clone(),
            working_dir: origin.working_dir.clone(),
            file: None,
            is_postgrest: false,
            warnings: Vec::new(),
            notes: Vec::new(),
            supabase: None,
            written: BTreeMap::new(),
            functions: Vec::new(),
            faults: Vec::new(),
        };
        // The last source wins, but the location of the file depends on `project.dir`, which the other two sources may set.
        raw.collect_environment(&origin.environment);
        raw.collect_options(&origin.options);
        let mut stronger = std::mem::take(&mut raw.written);
        if let Some(Written { value: Value::Bare(dir), source }) = stronger.get_mut("project.dir") {
            raw.project_dir = raw.working_dir.join(&*dir);
            // Other relative paths are resolved against this folder, so make it absolute here.
            *dir = raw.project_dir.to_string_lossy().into_owned();
            if !raw.project_dir.is_dir() {
                raw.faults.push(Fault {
                    source: source.clone(),
                    message: format!(
                        "folder {} does not exist: use the folder that contains {FILE}",
                        raw.project_dir.display()
                    ),
                });
            }
        }
        raw.collect_supabase(origin);
        raw.collect_file();
        let names_database =
            [&stronger, &raw.written].iter().any(|written| written.contains_key("database.url"));
        let is_gotrue = raw.collect_foreign(origin, names_database);
        raw.written.extend(stronger);
        if is_gotrue {
            raw.faults.extend(gotrue::missing(|key| raw.written.contains_key(key)));
        }
        raw
    }

    /// Adds `supabase/config.toml`. REST alone belongs to another server's project.
    fn collect_supabase(&mut self, origin: &Origin) {
        if origin.only == Some(Only::Rest)
            || ProjectLayout::detect(&self.project_dir) != ProjectLayout::Supabase
        {
            return;
        }
        let working_dir = self.working_dir.clone();
        let shown = |path: &Path| path.strip_prefix(&working_dir).unwrap_or(path).to_path_buf();
        let collected = supabase::collect(&self.project_dir, &origin.environment, shown);
        self.written.extend(collected.written);
        self.functions.extend(collected.functions);
        self.warnings.extend(collected.warnings);
        self.notes.extend(collected.notes);
        self.supabase = Some(collected.project);
    }

    /// Adds PostgREST's or GoTrue's configuration: it overrides `basalt.toml`, because it was given to this start, but not our
    /// own variables. Returns whether GoTrue's names configure this server.
    fn collect_foreign(&mut self, origin: &Origin, names_database: bool) -> bool {
        let Origin { environment, only, postgrest_file: file, .. } = origin;
        let collected = match only {
            Some(Only::Rest) => postgrest::collect(file.as_deref(), environment, &origin.working_dir),
            Some(Only::Auth) => gotrue::collect(environment),
            _ => None,
        };
        for (service, form, section) in
            [(Only::Rest, postgrest::form(), "rest"), (Only::Auth, gotrue::form(), "auth")]
        {
            if *only != Some(service) {
                self.warnings.extend(form.stray(environment, section));
            }
        }
        if file.is_some() && *only != Some(Only::Rest) {
            let message = "a PostgREST configuration file requires --only rest; Basalt's own is basalt.toml in the project folder";
            self.faults
                .push(Fault { source: Source::Flag("the configuration file"), message: message.to_owned() });
        }
        let Some(collected) = collected else { return false };
        self.is_postgrest = *only == Some(Only::Rest);
        self.faults.extend(collected.faults);
        self.warnings.extend(collected.warnings);
        for (key, written) in collected.defaults {
            if !(names_database && key == "database.authenticator_url") {
                self.written.entry(key).or_insert(written);
            }
        }
        self.written.extend(collected.written);
        !self.is_postgrest
    }

    fn collect_options(&mut self, options: &[(&'static str, &'static str, String)]) {
        for (name, flag, text) in options {
            self.written
                .insert(name, Written { value: Value::Bare(text.clone()), source: Source::Flag(flag) });
        }
    }

    fn collect_environment(&mut self, environment: &[(OsString, OsString)]) {
        let mut ours: Vec<_> = environment
            .iter()
            .filter_map(|(name, text)| name.to_str().map(|name| (name, text)))
            .filter(|(name, _)| name.starts_with(PREFIX) && !name.starts_with(TEST_PREFIX))
            .filter(|(name, _)| !FOR_CLIENTS.contains(name))
            .collect();
        ours.sort_unstable();
        for (variable, text) in ours {
            let source = Source::Variable(variable.to_owned());
            let Some(row) = settings().find(|row| row.variable() == variable) else {
                let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
                let near = nearest(name, settings().map(|row| row.key.to_owned()));
                let near =
                    near.map(|near| format!("{PREFIX}{}", near.to_ascii_uppercase().replace('.', "_")));
                self.faults.push(Fault { source, message: format!("unknown setting.{}", suggest(near)) });
                continue;
            };
            match text.to_str() {
                None => self.faults.push(Fault { source, message: "its value is not UTF-8 text".to_owned() }),
                Some("") if !row.may_be_empty() => {}
                Some(text) => {
                    self.written.insert(row.key, Written { value: Value::Bare(text.to_owned()), source });
                }
            }
        }
    }

    fn collect_file(&mut self) {
        let path = self.project_dir.join(FILE);
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                let remedy = if path.is_dir() {
                    "it is a folder: move it away"
                } else {
                    "give the user that runs Basalt read access"
                };
                return self.file_fault(&path, 1, format!("cannot read this file ({error}): {remedy}"));
            }
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => {
                    let valid = error.utf8_error().valid_up_to();
                    let line = error.as_bytes().iter().take(valid).filter(|byte| **byte == b'\n').count() + 1;
                    return self.file_fault(&path, line, "invalid UTF-8: save the file as UTF-8".to_owned());
                }
            },
        };
        self.file = Some(path.clone());
        let (table, errors) = DeTable::parse_recoverable(&text);
        let mut unsure = Vec::new();
        for error in errors {
            let line = line_of(&text, error.span().map_or(0, |span| span.start));
            self.file_fault(&path, line, format!("is not valid TOML: {}", error.message()));
            unsure.push(unsure_lines(&text, line));
        }
        let reported = self.faults.len();
        self.collect_table(table.get_ref(), "", &text, &path);
        // The parser guesses the meaning of invalid lines; do not report faults that follow from a guess.
        let is_sure = |source: &Source| match source {
            Source::File { line, .. } => !unsure.iter().any(|lines| lines.contains(line)),
            Source::Default | Source::DefaultOf(_) | Source::Variable(_) | Source::Flag(_) => true,
        };
        let later = self.faults.split_off(reported);
        self.faults.extend(later.into_iter().filter(|fault| is_sure(&fault.source)));
        self.written.retain(|_, written| is_sure(&written.source));
    }

    fn file_fault(&mut self, path: &Path, line: usize, message: String) {
        self.faults.push(Fault { source: Source::File { path: self.shown(path), line }, message });
    }

    /// The path relative to the working directory, if possible.
    fn shown(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.working_dir).unwrap_or(path).to_path_buf()
    }

    fn collect_table(&mut self, table: &DeTable<'_>, above: &str, text: &str, path: &Path) {
        for (key, value) in table {
            let name = if above.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{above}.{}", key.get_ref())
            };
            let line = line_of(text, key.span().start);
            let row = setting(&name);
            match (row, value.get_ref()) {
                (Some(row), value) => {
                    let source = Source::File { path: self.shown(path), line };
                    self.written.insert(row.key, Written { value: from_toml(value), source });
                }
                (None, DeValue::Table(inner)) if above == "functions" => {
                    let pairs = inner
                        .iter()
                        .map(|(key, value)| (key.get_ref().to_string(), from_toml(value.get_ref())))
                        .collect();
                    let source = Source::File { path: self.shown(path), line };
                    self.functions.push(FunctionSection { name: key.get_ref().to_string(), source, pairs });
                }
                (None, DeValue::Table(inner)) if !inner.is_empty() && has_section(&name) => {
                    self.collect_table(inner, &name, text, path);
                }
                (None, DeValue::Table(_)) => {
                    // Report an unknown section once, not once per key.
                    if !has_section(&name) {
                        let near = nearest(&name, sections().map(|(name, _)| name.to_owned()));
                        let message = format!(
                            "unknown section [{name}].{}",
                            suggest(near.map(|near| format!("[{near}]")))
                        );
                        self.file_fault(path, line, message);
                    }
                }
                (None, _) if has_section(&name) => {
                    let message =
                        format!("{name} is a section: write [{name}] and put its settings below it");
                    self.file_fault(path, line, message);
                }
                (None, _) => {
                    let near = nearest(&name, settings().map(|row| row.key.to_owned()));
                    self.file_fault(path, line, format!("unknown setting {name}.{}", suggest(near)));
                }
            }
        }
    }
}

fn has_section(name: &str) -> bool {
    settings().any(|row| row.key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.')))
}

pub(super) fn from_toml(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("number that is too large"), Value::Integer),
        DeValue::Array(items) => Value::List(items.iter().map(|item| from_toml(item.get_ref())).collect()),
        DeValue::Float(_) => Value::Other("number with a fraction"),
        DeValue::Datetime(_) => Value::Other("date"),
        DeValue::Table(pairs) => Value::Pairs(
            pairs
                .iter()
                .map(|(name, value)| (name.get_ref().to_string(), from_toml(value.get_ref())))
                .collect(),
        ),
    }
}

/// The lines whose meaning is uncertain after an invalid one: the line itself, or the whole section after a section name.
fn unsure_lines(text: &str, broken: usize) -> RangeInclusive<usize> {
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let mut lines = text.lines().enumerate().skip(broken.saturating_sub(1));
    let end = match lines.next() {
        Some((_, line)) if is_header(line) => {
            lines.find(|(_, line)| is_header(line)).map_or(usize::MAX, |(before, _)| before)
        }
        _ => broken,
    };
    broken..=end
}

/// The line of a byte position, from 1.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    text.bytes().take(position).filter(|byte| *byte == b'\n').count() + 1
}

fn suggest(near: Option<String>) -> String {
    near.map_or_else(|| " Remove it.".to_owned(), |near| format!(" Did you mean {near}?"))
}
