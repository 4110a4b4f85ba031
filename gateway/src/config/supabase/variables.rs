//! Variables for `env(NAME)`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::Path;

use basalt_core::settings::Value;
use basalt_project::supabase::FOLDER;
use toml::de::DeValue;

use super::super::raw;

/// Maximum size of `config.toml` and of an environment file.
const MAX_BYTES: u64 = 1 << 20;

/// Variables for `env(NAME)`: the environment, then the `.env` files of `supabase/` and of the project folder.
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    pub(super) fn read(project_dir: &Path, environment: &[(OsString, OsString)]) -> Self {
        let mut variables: BTreeMap<String, String> = environment
            .iter()
            .filter_map(|(name, text)| Some((name.to_str()?.to_owned(), text.to_str()?.to_owned())))
            .collect();
        let mode = variables.get("SUPABASE_ENV").cloned().unwrap_or_else(|| "development".to_owned());
        for dir in [project_dir.join(FOLDER), project_dir.to_owned()] {
            for name in [
                format!(".env.{mode}.local"),
                ".env.local".to_owned(),
                format!(".env.{mode}"),
                ".env".to_owned(),
            ] {
                let Ok(text) = read_bounded(&dir.join(name)) else { continue };
                // An invalid line ends the file, as in the CLI.
                let pairs = dotenvy::from_read_iter(text.as_bytes()).map_while(Result::ok);
                for (name, value) in pairs {
                    variables.entry(name).or_insert(value);
                }
            }
        }
        Self(variables)
    }

    pub(super) fn resolve(&self, value: &DeValue<'_>, unset: &mut Vec<String>) -> Value {
        match raw::from_toml(value) {
            Value::Text(text) => self.resolve_text(text, unset),
            Value::List(items) => Value::List(
                items
                    .into_iter()
                    .map(|item| match item.text() {
                        Some(text) => self.resolve_text(text.to_owned(), unset),
                        None => item,
                    })
                    .collect(),
            ),
            other @ (Value::Bare(_)
            | Value::Integer(_)
            | Value::Boolean(_)
            | Value::Pairs(_)
            | Value::Other(_)) => other,
        }
    }

    fn resolve_text(&self, text: String, unset: &mut Vec<String>) -> Value {
        let Some(name) = text.strip_prefix("env(").and_then(|rest| rest.strip_suffix(')')) else {
            return Value::Text(text);
        };
        match self.0.get(name) {
            // `port = "env(PORT)"` is a number, `enabled = "env(ON)"` a boolean.
            Some(value) => match (value.parse::<i64>(), value.parse::<bool>()) {
                (Ok(number), _) => Value::Integer(number),
                (_, Ok(flag)) => Value::Boolean(flag),
                _ => Value::Text(value.clone()),
            },
            None => {
                unset.push(name.to_owned());
                Value::Text(String::new())
            }
        }
    }
}

pub(super) fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let read = file.by_ref().take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    Ok(text)
}
