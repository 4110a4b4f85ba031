//! Settings of functions: `[functions]` and `[functions.NAME]`.

use std::path::PathBuf;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::read_as;
use basalt_core::settings::{InvalidValue, Kind, Value};
use secrecy::{ExposeSecret, SecretString};

use crate::secrets::{Names, check};

settings! {
    /// `[functions]`.
    #[derive(Clone, Debug)]
    pub struct FunctionsConfig in "functions" with r {
        /// Folder of the TypeScript functions, `NAME/index.ts`.
        dir: PathBuf = ByOr("`functions` of the project", "functions");
        /// Whether the functions that are compiled into the server are registered. They need the tables of their own project.
        builtin: bool = Is("false");
        /// Secrets of all functions, by name: the section `[functions.secrets]`. Those of `basalt secrets set` win.
        secrets: Vec<(String, SecretString)> as SecretPairs = By("none"), secret;
    } also {
        /// The sections `[functions.NAME]`.
        each: Vec<FunctionSettings> = Vec::new();
    }
}

/// Names with secret values.
#[derive(Debug)]
pub(crate) struct SecretPairs;

impl Kind<Vec<(String, SecretString)>> for SecretPairs {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        "a section of names with texts".to_owned()
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

/// `[functions.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSettings {
    /// The function.
    pub name: String,
    /// Whether it can be called; otherwise it is not found.
    pub is_enabled: bool,
    /// Whether a caller needs a valid token. The built-in functions judge their callers themselves, more strictly.
    pub verify_jwt: bool,
    /// Whether it answers preflights itself: `cors = "function"`.
    pub answers_preflights: bool,
}

impl FunctionSettings {
    /// A function without a section.
    #[must_use]
    pub const fn usual(name: String) -> Self {
        Self { name, is_enabled: true, verify_jwt: true, answers_preflights: false }
    }

    /// Reads a section's keys.
    ///
    /// # Errors
    /// What is wrong, as keys with sentences that go on after the key.
    pub fn read(name: &str, pairs: &[(String, Value)]) -> Result<Self, Vec<(String, String)>> {
        let mut settings = Self::usual(name.to_owned());
        let mut faults = Vec::new();
        let mut fault =
            |key: &str, sentence: String| faults.push((format!("functions.{name}.{key}"), sentence));
        if !crate::registry::is_name(name) {
            fault(
                "*",
                "belongs to a name that no function has: a letter, then letters, digits, - and _".to_owned(),
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
                // For the runtime of TypeScript functions, which checks them.
                "entrypoint" | "import_map" | "static_files" | "env" => {}
                _ => fault(key, "is no setting of a function. Remove it.".to_owned()),
            }
        }
        if faults.is_empty() { Ok(settings) } else { Err(faults) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_read_or_refused_key_by_key() {
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
