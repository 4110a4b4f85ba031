//! The `[functions]` section and the sections `[functions.NAME]`.

use std::path::PathBuf;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::read_as;
use basalt_core::settings::{InvalidValue, Kind, Value};
use secrecy::{ExposeSecret, SecretString};

use crate::secrets::{Names, check};

settings! {
    /// The `[functions]` settings.
    #[derive(Clone, Debug)]
    pub struct FunctionsConfig in "functions" with r {
        /// Folder of TypeScript functions (`NAME/index.ts`).
        dir: PathBuf = ByOr("`functions` in the project folder", "functions");
        /// Whether to register the functions compiled into the server. They require the tables of their project.
        builtin: bool = Is("false");
        /// Secrets for all functions, as the section `[functions.secrets]`. Secrets of `basalt secrets set` win.
        secrets: Vec<(String, SecretString)> as SecretPairs = By("none"), secret;
    } also {
        /// The `[functions.NAME]` sections.
        each: Vec<FunctionSettings> = Vec::new();
    }
}

/// Secrets by name.
#[derive(Debug)]
pub(crate) struct SecretPairs;

impl Kind<Vec<(String, SecretString)>> for SecretPairs {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        "a section of names with string values".to_owned()
    }

    fn read(
        value: &Value,
        base: &std::path::Path,
    ) -> Result<(Vec<(String, SecretString)>, String), InvalidValue> {
        let (pairs, _shown) = <Vec<(String, String)> as Kind<Vec<(String, String)>>>::read(value, base)?;
        let pairs: Vec<(String, SecretString)> =
            pairs.into_iter().map(|(name, text)| (name, SecretString::from(text))).collect();
        let names = pairs.iter().map(|(name, secret)| (name.as_str(), secret.expose_secret()));
        check(names, Names::Any)
            .map_err(|fault| InvalidValue::Because(format!("cannot be used: {fault}")))?;
        Ok((pairs, "(set)".to_owned()))
    }

    fn unset() -> Option<Vec<(String, SecretString)>> {
        Some(Vec::new())
    }
}

/// The settings of one function, `[functions.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSettings {
    /// The function's name.
    pub name: String,
    /// Whether it can be called; otherwise calls return 404.
    pub is_enabled: bool,
    /// Whether callers need a valid token. Built-in functions authenticate callers themselves, more strictly.
    pub verify_jwt: bool,
    /// Whether it handles preflights itself: `cors = "function"`.
    pub answers_preflights: bool,
}

impl FunctionSettings {
    /// The settings of a function without a section.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self { name, is_enabled: true, verify_jwt: true, answers_preflights: false }
    }

    /// Parses a section.
    ///
    /// # Errors
    /// The faults: keys, each with a message that continues after the key.
    pub fn read(name: &str, pairs: &[(String, Value)]) -> Result<Self, Vec<(String, String)>> {
        let mut settings = Self::new(name.to_owned());
        let mut faults = Vec::new();
        let mut fault =
            |key: &str, sentence: String| faults.push((format!("functions.{name}.{key}"), sentence));
        if !is_name(name) {
            fault(
                "*",
                "is not allowed: a function's name is a letter followed by letters, digits, - and _"
                    .to_owned(),
            );
        }
        for (key, value) in pairs {
            match key.as_str() {
                "enabled" | "verify_jwt" => match read_as::<bool, bool>(value) {
                    Ok(flag) if key == "enabled" => settings.is_enabled = flag,
                    Ok(flag) => settings.verify_jwt = flag,
                    Err(sentence) => fault(key, sentence),
                },
                "cors" => match value.text() {
                    Some("function") => settings.answers_preflights = true,
                    Some("gateway") => settings.answers_preflights = false,
                    Some(_) | None => fault(key, "must be \"gateway\" or \"function\"".to_owned()),
                },
                // Checked by the TypeScript runtime, which this release does not have.
                "entrypoint" | "import_map" | "static_files" | "env" => {}
                _ => fault(key, "is not a setting of functions. Remove it.".to_owned()),
            }
        }
        if faults.is_empty() { Ok(settings) } else { Err(faults) }
    }
}

/// Whether the name matches `^[A-Za-z][A-Za-z0-9_-]*$`.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_section_and_reports_faults_by_key() {
        let pair = |key: &str, value| (key.to_owned(), value);
        let read = FunctionSettings::read(
            "hello",
            &[pair("verify_jwt", Value::Boolean(false)), pair("cors", Value::Text("function".to_owned()))],
        );
        assert_eq!(
            read,
            Ok(FunctionSettings {
                name: "hello".to_owned(),
                is_enabled: true,
                verify_jwt: false,
                answers_preflights: true
            })
        );
        let faults = FunctionSettings::read(
            "1st",
            &[pair("enabled", Value::Text("no".to_owned())), pair("verify", Value::Boolean(true))],
        );
        let keys: Vec<String> = faults.unwrap_err().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["functions.1st.*", "functions.1st.enabled", "functions.1st.verify"]);
    }
}
