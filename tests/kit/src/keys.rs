//! The API keys of a server's secrets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::process;

/// The project's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) anon: String,
    pub(crate) service: String,
    pub(crate) publishable: String,
    pub(crate) secret: String,
    pub(crate) jwt_secret: String,
}

impl Keys {
    /// As `basalt keys` prints them.
    pub(crate) fn read(project: &Path, state_dir: &Path, settings: &BTreeMap<String, String>) -> Self {
        let mut command = process::basalt(project);
        let output =
            process::configure(&mut command, settings).arg("keys").arg("--data").arg(state_dir).output();
        let output = process::succeeded("basalt keys", output);
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let key = |name: &str| {
            let line = printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            line.unwrap_or_else(|| panic!("`basalt keys` prints no {name}")).to_owned()
        };
        let stored = fs::read(state_dir.join("secrets.json")).expect("the server has secrets");
        let stored: Value = serde_json::from_slice(&stored).expect("the secrets are JSON");
        let generated = stored.get("jwt_secret").and_then(Value::as_str).unwrap_or_default();
        Self {
            anon: key("SUPABASE_ANON_KEY"),
            service: key("SUPABASE_SERVICE_ROLE_KEY"),
            publishable: key("SUPABASE_PUBLISHABLE_KEY"),
            secret: key("SUPABASE_SECRET_KEY"),
            jwt_secret: settings.get("jwt.secret").map_or(generated, String::as_str).to_owned(),
        }
    }
}
