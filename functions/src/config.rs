//! The `[functions]` section and the sections `[functions.NAME]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Bytes, Time, Whole, read_as};
use basalt_core::settings::{InvalidValue, Kind, Value};
use basalt_core::{choice, settings};
use secrecy::{ExposeSecret, SecretString};

use crate::secrets::{Names, check};

choice! {
    /// How workers are shared among requests.
    pub enum Policy {
        /// A worker serves many requests.
        PerWorker = "per_worker",
        /// Each request gets a new worker, for debugging.
        Oneshot = "oneshot",
    }
}

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
        /// The program that runs TypeScript functions.
        deno_path: Option<PathBuf> = By("the npm package `@deno/*` in a `node_modules` of the project folder, the working directory, the executable's folder, or any folder above these; else `PATH`");
        /// `per_worker`: a worker process serves many requests of one function. `oneshot`: each request gets a new worker, for debugging.
        policy: Policy = Is("per_worker");
        /// Memory of a worker, in megabytes: of its JavaScript heap, and of everything that it allocates after its start (Linux). A worker that exceeds it ends with 546 `WORKER_LIMIT`.
        memory_mb: u64 as Whole<16, 65_536> = Is("256");
        /// Processor time of a worker without finishing a request (Linux, whole seconds). A worker that exceeds it ends with 546 `WORKER_LIMIT`.
        cpu_limit: Duration as Time<1000> = Is("2s");
        /// Lifetime of a worker. After half of it the worker gets no more requests; at its end it is killed, and its requests end with 546 `WORKER_LIMIT`.
        wall_clock: Duration as Time<1000> = Is("400s");
        /// Time until the first byte of a function's response; then 504 `IDLE_TIMEOUT`.
        idle_timeout: Duration as Time<1000> = Is("150s");
        /// How long a request waits for a worker that runs; then 503 `WORKER_POOL_EXHAUSTED`.
        queue_timeout: Duration as Time<100> = Is("10s");
        /// How long a worker may take until it accepts requests, including downloads of modules in development; then 503 `BOOT_ERROR`.
        boot_timeout: Duration as Time<1000> = Is("30s");
        /// Workers of one function.
        workers_per_function: Option<usize> as Option<Whole<1, 256>> = By("the number of processors");
        /// Workers of all functions. Beyond, the worker that has been idle for longest ends.
        max_workers: Option<usize> as Option<Whole<1, 4096>> = By("4 for each processor");
        /// How long an idle worker is kept; 0 to end it after its last response.
        keep_warm: Duration as Time = Is("300s");
        /// Size of a request's body for a TypeScript function; larger ones get 413.
        max_body_bytes: u64 as Bytes<1> = Is("50MiB");
        /// Hosts, networks and ports that TypeScript functions cannot connect to, as for Deno's `--deny-net`. The default has the metadata services of clouds and the ports of mail servers.
        deny_net: Vec<String> = Is("169.254.0.0/16, :25, :587");
        /// Whether TypeScript functions can connect to the database and get `SUPABASE_DB_URL`.
        allow_db: bool = Is("true");
        /// Whether responses to GET keep the type `text/html`; else they become `text/plain`, because functions and the app share an origin. A page without a policy of its own gets `Content-Security-Policy: sandbox allow-forms allow-scripts`.
        allow_html: bool = Is("false");
        /// `SUPABASE_URL` of functions.
        supabase_url: Option<String> = By("`server.public_url`");
        /// `SB_REGION` of functions.
        region: String = Is("local");
    } also {
        /// The `[functions.NAME]` sections.
        each: Vec<FunctionSettings> = Vec::new();
    }
}

impl FunctionsConfig {
    /// The folder that contains the folder of functions: the project, or `supabase/` in it. Paths in sections are relative to it.
    pub(crate) fn base_dir(&self) -> &Path {
        self.dir.parent().unwrap_or(Path::new("/"))
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

/// The settings of one function, `[functions.NAME]`. Relative paths start at `base_dir`.
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
    /// The file to run, if it is not `NAME/index.ts` in the folder of functions.
    pub entrypoint: Option<PathBuf>,
    /// Its import map or `deno.json`, if it is not in the function's folder.
    pub import_map: Option<PathBuf>,
    /// Files that it may read, with `*` as a wildcard in the last part.
    pub static_files: Vec<String>,
    /// Variables of this function only.
    pub env: Variables,
}

/// Names and values of variables. Values are not part of the debug output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables(pub Vec<(String, String)>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _value)| name)).finish()
    }
}

impl FunctionSettings {
    /// The settings of a function without a section.
    #[must_use]
    pub const fn new(name: String) -> Self {
        Self {
            name,
            is_enabled: true,
            verify_jwt: true,
            answers_preflights: false,
            entrypoint: None,
            import_map: None,
            static_files: Vec::new(),
            env: Variables(Vec::new()),
        }
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
            if let Err(sentence) = settings.set(key, value) {
                fault(key, sentence);
            }
        }
        if faults.is_empty() { Ok(settings) } else { Err(faults) }
    }

    /// Sets one key, or returns the fault.
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "enabled" => self.is_enabled = read_as::<bool, bool>(value)?,
            "verify_jwt" => self.verify_jwt = read_as::<bool, bool>(value)?,
            "cors" => {
                self.answers_preflights = match value.text() {
                    Some("function") => true,
                    Some("gateway") => false,
                    Some(_) | None => return Err("must be \"gateway\" or \"function\"".to_owned()),
                };
            }
            "entrypoint" => {
                let path = PathBuf::from(read_as::<String, String>(value)?);
                let extension = path.extension().and_then(|extension| extension.to_str());
                if !extension.is_some_and(|extension| EXTENSIONS.contains(&extension)) {
                    return Err(format!("must be a file that ends in .{}", EXTENSIONS.join(", .")));
                }
                self.entrypoint = Some(path);
            }
            "import_map" => self.import_map = Some(PathBuf::from(read_as::<String, String>(value)?)),
            "static_files" => self.static_files = read_as::<Vec<String>, Vec<String>>(value)?,
            "env" => {
                let pairs = read_as::<Vec<(String, String)>, Vec<(String, String)>>(value)?;
                let named = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                check(named, Names::Project).map_err(|fault| format!("cannot be used: {fault}"))?;
                self.env = Variables(pairs);
            }
            _ => return Err("is not a setting of functions. Remove it.".to_owned()),
        }
        Ok(())
    }
}

/// The endings of files that can be a function's entry point.
pub(crate) const EXTENSIONS: [&str; 5] = ["ts", "js", "mjs", "jsx", "tsx"];

/// Whether the name matches `^[A-Za-z][A-Za-z0-9_-]*$`.
#[must_use]
pub fn is_name(name: &str) -> bool {
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
            &[
                pair("verify_jwt", Value::Boolean(false)),
                pair("cors", Value::Text("function".to_owned())),
                pair("entrypoint", Value::Text("functions/hello/main.ts".to_owned())),
                pair("env", Value::Pairs(vec![pair("GREETING", Value::Text("hi".to_owned()))])),
            ],
        );
        let shown = format!("{read:?}");
        assert!(shown.contains("GREETING") && !shown.contains("hi\""), "{shown}");
        assert_eq!(
            read,
            Ok(FunctionSettings {
                verify_jwt: false,
                answers_preflights: true,
                entrypoint: Some(PathBuf::from("functions/hello/main.ts")),
                env: Variables(vec![("GREETING".to_owned(), "hi".to_owned())]),
                ..FunctionSettings::new("hello".to_owned())
            })
        );
        let faults = FunctionSettings::read(
            "1st",
            &[
                pair("enabled", Value::Text("no".to_owned())),
                pair("verify", Value::Boolean(true)),
                pair("entrypoint", Value::Text("main.py".to_owned())),
                pair("env", Value::Pairs(vec![pair("SUPABASE_URL", Value::Text("x".to_owned()))])),
            ],
        );
        let keys: Vec<String> = faults.unwrap_err().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            [
                "functions.1st.*",
                "functions.1st.enabled",
                "functions.1st.verify",
                "functions.1st.entrypoint",
                "functions.1st.env"
            ]
        );
    }
}
