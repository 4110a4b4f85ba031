//! `supabase/config.toml`: maps the keys of Supabase's CLI to our settings, below `basalt.toml` in precedence. What concerns the project's files
//! becomes [`SupabaseSettings`].
//!
//! Nothing in this file prevents the start: an invalid value or an unknown key is a warning, and a file that is not TOML leaves the defaults.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use basalt_core::settings::kinds::{Bytes, read_as};
use basalt_core::settings::{Source, Value, Written};
use basalt_project::supabase::{BucketFiles, BucketSettings, FOLDER, SeedPatterns, SupabaseSettings};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use toml::de::{DeTable, DeValue};

use super::foreign::{self, Entry, Form, Meaning, Name, describe};
use super::raw::{FunctionSection, line_of};
use super::sections::setting;
use Meaning::{AlwaysOn, As, Ignored, Instead, Later, List, Same, Special};

/// Maximum size of `config.toml` and of an environment file.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum number of keys.
const MAX_KEYS: usize = 20_000;

/// Its keys. Those with a function of their own below are `Special`.
const NAMES: &[(&str, Meaning)] = &[
    ("project_id", Special("used for addresses such as `<project_id>.supabase.co` in SQL")),
    ("api.enabled", AlwaysOn("the REST API is always served")),
    ("api.port", Same("server.port")),
    ("api.external_url", Same("server.public_url")),
    ("api.schemas", List("rest.schemas")),
    ("api.extra_search_path", List("rest.extra_search_path")),
    ("api.max_rows", Same("rest.max_rows")),
    ("api.auto_expose_new_tables", Special("whether new tables in `public` are granted to the API roles")),
    ("api.tls.", Instead("set server.tls_certificate or server.acme_domains for TLS")),
    ("db.port", Special("`database.port`, unless it is 54322, the usual one")),
    ("db.migrations.enabled", Special("whether migrations are applied")),
    ("db.migrations.schema_paths", Ignored),
    ("db.seed.enabled", Special("whether seeds run on a new database in development")),
    ("db.seed.sql_paths", Special("the seeds, glob patterns relative to `supabase/`")),
    ("db.settings.", Instead("set PostgreSQL's settings with ALTER DATABASE or ALTER ROLE")),
    ("db.vault.", Special("secrets that are created or updated in the vault at each start")),
    ("db.", Ignored),
    ("auth.enabled", AlwaysOn("the auth service is always served")),
    ("auth.site_url", Same("auth.site_url")),
    ("auth.external_url", Ignored),
    ("auth.additional_redirect_urls", List("auth.uri_allow_list")),
    ("auth.jwt_expiry", Same("jwt.exp")),
    ("auth.jwt_issuer", Same("jwt.issuer")),
    ("auth.jwt_secret", Same("jwt.secret")),
    ("auth.anon_key", Same("jwt.anon_key")),
    ("auth.service_role_key", Same("jwt.service_key")),
    ("auth.publishable_key", Same("jwt.publishable_key")),
    ("auth.secret_key", Same("jwt.secret_key")),
    ("auth.signing_keys_path", Special("`jwt.keys`, read from this file")),
    ("auth.enable_signup", As("auth.disable_signup", negated)),
    ("auth.enable_anonymous_sign_ins", Same("auth.external_anonymous_users_enabled")),
    ("auth.enable_manual_linking", Same("auth.security_manual_linking_enabled")),
    ("auth.enable_refresh_token_rotation", Same("auth.security_refresh_token_rotation_enabled")),
    ("auth.refresh_token_reuse_interval", Same("auth.security_refresh_token_reuse_interval")),
    ("auth.minimum_password_length", Same("auth.password_min_length")),
    ("auth.password_requirements", As("auth.password_required_characters", password_characters)),
    ("auth.rate_limit.email_sent", Special("`auth.rate_limit_email_sent`, if a mail server is configured")),
    ("auth.rate_limit.sms_sent", Same("auth.rate_limit_sms_sent")),
    ("auth.rate_limit.anonymous_users", Same("auth.rate_limit_anonymous_users")),
    ("auth.rate_limit.token_refresh", Same("auth.rate_limit_token_refresh")),
    ("auth.rate_limit.sign_in_sign_ups", Same("auth.rate_limit_otp")),
    ("auth.rate_limit.token_verifications", Same("auth.rate_limit_verify")),
    ("auth.rate_limit.", Ignored),
    ("auth.sessions.timebox", Same("auth.sessions_timebox")),
    ("auth.sessions.inactivity_timeout", Same("auth.sessions_inactivity_timeout")),
    ("auth.email.enable_signup", Same("auth.external_email_enabled")),
    ("auth.email.double_confirm_changes", Same("auth.mailer_secure_email_change_enabled")),
    ("auth.email.enable_confirmations", As("auth.mailer_autoconfirm", negated)),
    ("auth.email.secure_password_change", Same("auth.security_update_password_require_reauthentication")),
    ("auth.email.max_frequency", Same("mail.max_frequency")),
    ("auth.email.otp_length", Same("auth.mailer_otp_length")),
    ("auth.email.otp_expiry", Same("auth.mailer_otp_exp")),
    ("auth.email.smtp.", Special("`mail.smtp_url`, `mail.from`, `mail.sender_name`")),
    ("auth.email.template.", Special("`auth.mailer_subjects_*` and `auth.mailer_templates_*`")),
    ("auth.email.notification.", Special("`auth.mailer_notifications_*` and their subjects and templates")),
    ("auth.sms.enable_signup", Same("auth.external_phone_enabled")),
    ("auth.sms.enable_confirmations", As("auth.sms_autoconfirm", negated)),
    ("auth.sms.max_frequency", Same("auth.sms_max_frequency")),
    ("auth.sms.template", Same("auth.sms_template")),
    ("auth.sms.test_otp.", Special("`auth.sms_test_otp`")),
    ("auth.sms.twilio.", Special("`auth.sms_provider` and `auth.sms_twilio_*`")),
    ("auth.sms.", Later("this provider of text messages")),
    ("auth.mfa.max_enrolled_factors", Same("auth.mfa_max_enrolled_factors")),
    ("auth.mfa.totp.enroll_enabled", Same("auth.mfa_totp_enroll_enabled")),
    ("auth.mfa.totp.verify_enabled", Same("auth.mfa_totp_verify_enabled")),
    ("auth.mfa.phone.enroll_enabled", Same("auth.mfa_phone_enroll_enabled")),
    ("auth.mfa.phone.verify_enabled", Same("auth.mfa_phone_verify_enabled")),
    ("auth.mfa.phone.otp_length", Same("auth.mfa_phone_otp_length")),
    ("auth.mfa.phone.template", Same("auth.mfa_phone_template")),
    ("auth.mfa.phone.max_frequency", Same("auth.mfa_phone_max_frequency")),
    ("auth.mfa.web_authn.enroll_enabled", Same("auth.mfa_web_authn_enroll_enabled")),
    ("auth.mfa.web_authn.verify_enabled", Same("auth.mfa_web_authn_verify_enabled")),
    ("auth.mfa.", Ignored),
    ("auth.external.", Special("`auth.external_*`")),
    ("auth.third_party.", Later("tokens of other issuers")),
    ("auth.web3.", Later("sign-in with wallets")),
    ("auth.hook.", Special("`auth.hook_*`")),
    ("auth.captcha.", Special("`auth.security_captcha_*`")),
    ("auth.oauth_server.enabled", Same("auth.oauth_server_enabled")),
    ("auth.oauth_server.allow_dynamic_registration", Same("auth.oauth_server_allow_dynamic_registration")),
    ("auth.oauth_server.authorization_url_path", Same("auth.oauth_server_authorization_path")),
    ("auth.oauth_server.", Later("this setting of the OAuth server")),
    ("auth.passkey.enabled", Same("auth.passkey_enabled")),
    ("auth.passkey.", Later("this setting of passkeys")),
    ("auth.webauthn.rp_id", Same("auth.webauthn_rp_id")),
    ("auth.webauthn.rp_display_name", Same("auth.webauthn_rp_display_name")),
    ("auth.webauthn.rp_origins", List("auth.webauthn_rp_origins")),
    ("auth.webauthn.", Later("this setting of passkeys")),
    ("storage.enabled", AlwaysOn("the storage service is always served")),
    ("storage.file_size_limit", Same("storage.max_file_size")),
    ("storage.image_transformation.enabled", Same("storage.images.enabled")),
    (
        "storage.buckets.",
        Special(
            "buckets that are created at each start; in development, the files of `objects_path` are uploaded",
        ),
    ),
    ("storage.analytics.", Later("analytics buckets")),
    ("storage.vector.", Later("vector buckets")),
    ("storage.", Ignored),
    ("functions.", Special("`[functions.NAME]`")),
    ("edge_runtime.secrets.", Special("`functions.secrets`")),
    ("edge_runtime.", Ignored),
    ("realtime.", Ignored),
    ("studio.", Ignored),
    ("inbucket.", Ignored),
    ("local_smtp.", Ignored),
    ("analytics.", Ignored),
    ("experimental.", Ignored),
    ("remotes.", Ignored),
];

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

/// Sections of sign-in providers.
const PROVIDERS: &str = "auth.external.";
/// Sections of hooks.
const HOOKS: &str = "auth.hook.";
/// Switched tables of which all keys matter.
const READ_WHOLE: [&str; 4] = [PROVIDERS, HOOKS, "auth.captcha", "auth.sms.twilio"];

/// Keys of `[functions.NAME]`.
const FUNCTION_KEYS: [&str; 6] = ["enabled", "verify_jwt", "import_map", "entrypoint", "static_files", "env"];

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

fn form() -> Form {
    Form {
        server: "Supabase's CLI",
        prefix: "",
        names: NAMES.iter().map(|(name, meaning)| Name::new(name, *meaning)).collect(),
        defaults: &[],
    }
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

    /// `[auth] signing_keys_path`, relative to `supabase/`: a JSON array of JWKs, of which the first signs.
    fn read_keys(&mut self, path: &str, source: &Source) {
        let keys =
            read_bounded(&self.file.project_dir.join(FOLDER).join(path)).map_err(|error| error.to_string());
        let keys = keys.and_then(|text| {
            serde_json::from_str::<Vec<serde_json::Value>>(&text).map_err(|error| error.to_string())
        });
        match keys {
            Ok(keys) if keys.is_empty() => {}
            Ok(keys) => {
                let json = serde_json::Value::from(keys).to_string();
                self.write("jwt.keys", Value::Text(json), source);
            }
            Err(error) => {
                self.out.warnings.push(format!("{source}: cannot use {path} ({error}); ignored"));
            }
        }
    }

    /// `[auth.email.smtp]`, `[auth.email.template.*]`, `[auth.email.notification.*]`, `[auth.rate_limit] email_sent`.
    fn read_mail(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let part = |name: &str| parts.get(name).filter(|(text, _)| !text.is_empty()).cloned();
        let smtp = |name: &str| part(&format!("auth.email.smtp.{name}"));
        let is_on = smtp("enabled").is_none_or(|(flag, _)| flag == "true");
        if let Some((host, source)) = smtp("host").filter(|_| is_on) {
            let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            let port = smtp("port").map_or_else(|| "587".to_owned(), |(port, _)| port);
            let login = match (smtp("user"), smtp("pass")) {
                (Some((user, _)), Some((password, _))) => {
                    format!("{}:{}@", escaped(&user), escaped(&password))
                }
                _ => String::new(),
            };
            let scheme = if port == "465" { "smtps" } else { "smtp" };
            self.write("mail.smtp_url", Value::Text(format!("{scheme}://{login}{host}:{port}")), &source);
            for (name, key) in [("admin_email", "mail.from"), ("sender_name", "mail.sender_name")] {
                if let Some((text, source)) = smtp(name) {
                    self.write(key, Value::Text(text), &source);
                }
            }
            // Without a mail server the mails go to the mailbox, which needs no limit.
            if let Some((rate, source)) = part("auth.rate_limit.email_sent") {
                self.write("auth.rate_limit_email_sent", Value::Bare(rate), &source);
            }
        }
        for (name, (text, source)) in parts {
            let Some(rest) = name.strip_prefix("auth.email.") else { continue };
            let Some((kind, key)) = rest
                .strip_prefix("template.")
                .or_else(|| rest.strip_prefix("notification."))
                .and_then(|rest| rest.split_once('.'))
            else {
                continue;
            };
            let (prefix, suffix) = match key {
                "subject" => ("auth.mailer_subjects_", ""),
                "content_path" | "content" => ("auth.mailer_templates_", ""),
                "enabled" => ("auth.mailer_notifications_", "_enabled"),
                _ => continue,
            };
            let Some(setting) = setting(&format!("{prefix}{kind}{suffix}")) else {
                self.out.warnings.push(format!("{source}: there is no such mail as {kind}; ignored"));
                continue;
            };
            if key == "content_path" && !self.file.project_dir.join(text).is_file() {
                self.out
                    .warnings
                    .push(format!("{source}: the file {text} does not exist; the built-in template is used"));
                continue;
            }
            self.write(setting.key, Value::Bare(text.clone()), source);
        }
    }

    /// `[auth.external.NAME]`. A provider that lacks its client id stays off, with a warning.
    fn read_providers(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let keys = parts.iter().filter_map(|(name, part)| {
            let (provider, key) = name.strip_prefix(PROVIDERS)?.split_once('.')?;
            Some((provider, key, part))
        });
        for (provider, key, (text, source)) in keys {
            let part = |key: &str| parts.get(&format!("{PROVIDERS}{provider}.{key}"));
            let is_set = |key: &str| part(key).is_some_and(|(text, _)| !text.is_empty());
            let Some(setting) = setting(&format!("auth.external_{provider}_{key}")) else {
                if key == "enabled" {
                    self.out
                        .warnings
                        .push(format!("{source}: not available yet (sign-in with {provider}); ignored"));
                }
                continue;
            };
            if key == "enabled" && !(is_set("client_id") && (provider != "keycloak" || is_set("url"))) {
                self.out.warnings.push(format!(
                    "{source}: sign-in with {provider} needs client_id (and keycloak its url) and stays off"
                ));
            } else if !text.is_empty() {
                self.write(setting.key, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.hook.NAME]`. A hook without a valid address stays off, with a warning.
    fn read_hooks(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        for (name, (flag, source)) in parts {
            let Some(hook) = name.strip_prefix(HOOKS).and_then(|name| name.strip_suffix(".enabled")) else {
                continue;
            };
            if flag != "true" {
                continue;
            }
            let part = |key: &str| parts.get(&format!("{HOOKS}{hook}.{key}"));
            let text = |key: &str| part(key).map(|(text, _)| text.as_str()).unwrap_or_default();
            if let Some(fault) = basalt_auth::hook_fault(text("uri"), text("secrets")) {
                self.out
                    .warnings
                    .push(format!("{source}: the hook {hook} stays off: its uri or secrets {fault}"));
                continue;
            }
            for key in ["enabled", "uri", "secrets"] {
                let Some((text, source)) = part(key).filter(|(text, _)| !text.is_empty()) else { continue };
                let Some(setting) = setting(&format!("auth.hook_{hook}_{key}")) else {
                    self.out.warnings.push(format!("{source}: not available yet (the hook {hook}); ignored"));
                    break;
                };
                self.write(setting.key, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.captcha]`. Without a secret it stays off, with a warning.
    fn read_captcha(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let part = |key: &str| parts.get(&format!("auth.captcha.{key}")).filter(|(text, _)| !text.is_empty());
        let Some((flag, source)) = part("enabled") else { return };
        let is_known =
            part("provider").is_none_or(|(name, _)| matches!(name.as_str(), "hcaptcha" | "turnstile"));
        if flag != "true" {
            return;
        }
        if part("secret").is_none() || !is_known {
            self.out.warnings.push(format!(
                "{source}: captchas need a secret, and the provider hcaptcha or turnstile, and stay off"
            ));
            return;
        }
        for (key, ours) in [
            ("enabled", "auth.security_captcha_enabled"),
            ("provider", "auth.security_captcha_provider"),
            ("secret", "auth.security_captcha_secret"),
        ] {
            if let Some((text, source)) = part(key) {
                self.write(ours, Value::Bare(text.clone()), source);
            }
        }
    }

    /// `[auth.sms.twilio]` and `[auth.sms.test_otp]`.
    fn read_sms(&mut self, parts: &BTreeMap<String, (String, Source)>) {
        let mut codes = Vec::new();
        let mut codes_source = None;
        for (name, (text, source)) in parts {
            if let Some(phone) = name.strip_prefix("auth.sms.test_otp.") {
                let is_number = |text: &str, most: usize| {
                    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
                };
                if is_number(phone.trim_start_matches('+'), 15) && is_number(text, 10) {
                    codes.push((phone.to_owned(), Value::Text(text.clone())));
                    codes_source = Some(source.clone());
                } else {
                    self.out.warnings.push(format!("{source}: must be a phone number with a code; ignored"));
                }
            }
        }
        if let Some(source) = codes_source {
            self.write("auth.sms_test_otp", Value::Pairs(codes), &source);
        }
        let part =
            |key: &str| parts.get(&format!("auth.sms.twilio.{key}")).filter(|(text, _)| !text.is_empty());
        let Some((_flag, source)) = part("enabled").filter(|(flag, _)| flag == "true") else { return };
        self.write("auth.sms_provider", Value::Text("twilio".to_owned()), source);
        for (key, ours) in [
            ("account_sid", "auth.sms_twilio_account_sid"),
            ("auth_token", "auth.sms_twilio_auth_token"),
            ("message_service_sid", "auth.sms_twilio_message_service_sid"),
            ("content_sid", "auth.sms_twilio_content_sid"),
        ] {
            if let Some((text, source)) = part(key) {
                self.write(ours, Value::Text(text.clone()), source);
            }
        }
    }

    fn read_buckets(&mut self, table: &DeTable<'_>) {
        let Some(buckets) = at(table, &["storage", "buckets"]) else { return };
        for (name, bucket) in buckets {
            let DeValue::Table(bucket) = bucket.get_ref() else { continue };
            let source = self.file.source(name.span().start);
            let name = name.get_ref().to_string();
            let mut unset = Vec::new();
            let mut get =
                |key: &str| bucket.get(key).map(|value| self.variables.resolve(value.get_ref(), &mut unset));
            let is_public = matches!(get("public"), Some(Value::Boolean(true)));
            let limit = get("file_size_limit");
            let types = get("allowed_mime_types");
            let limit = limit.map(|value| read_as::<u64, Bytes>(&value));
            let limit = match limit {
                Some(Err(fault)) => {
                    self.out.warnings.push(format!("{source}: file_size_limit {fault}; ignored"));
                    None
                }
                Some(Ok(bytes)) => i64::try_from(bytes).ok(),
                None => None,
            };
            let types = match types {
                Some(Value::List(items)) if !items.is_empty() => {
                    Some(items.iter().filter_map(Value::text).map(str::to_owned).collect())
                }
                _ => None,
            };
            if let Some(Value::Text(path)) = get("objects_path") {
                let folder = self.file.project_dir.join(FOLDER).join(path);
                self.out.project.bucket_files.push(BucketFiles { bucket: name.clone(), folder });
            }
            self.out.project.buckets.push(BucketSettings {
                name,
                is_public,
                file_size_limit: limit,
                allowed_mime_types: types,
            });
        }
    }

    fn read_functions(&mut self, table: &DeTable<'_>) {
        let Some(functions) = at(table, &["functions"]) else { return };
        for (name, section) in functions {
            let DeValue::Table(section) = section.get_ref() else { continue };
            let source = self.file.source(name.span().start);
            let mut pairs = Vec::new();
            for (key, value) in section {
                let mut unset = Vec::new();
                let value = self.variables.resolve(value.get_ref(), &mut unset);
                let is_valid = FUNCTION_KEYS.contains(&&**key.get_ref())
                    && (!matches!(&**key.get_ref(), "enabled" | "verify_jwt")
                        || matches!(value, Value::Boolean(_)));
                if is_valid {
                    pairs.push((key.get_ref().to_string(), value));
                } else {
                    let source = self.file.source(key.span().start);
                    self.out.warnings.push(format!(
                        "{source}: not a setting of functions, or not a value for it; ignored"
                    ));
                }
            }
            let name = name.get_ref().to_string();
            if basalt_functions::FunctionSettings::read(&name, &pairs).is_ok() {
                self.out.functions.push(FunctionSection { name, source, pairs });
            } else {
                self.out.warnings.push(format!("{source}: {name} is not a function's name; ignored"));
            }
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

fn negated(text: &str) -> Result<String, String> {
    match text {
        "true" => Ok("false".to_owned()),
        "false" => Ok("true".to_owned()),
        _ => Err("must be true or false".to_owned()),
    }
}

/// The names that the CLI has for sets of characters.
fn password_characters(text: &str) -> Result<String, String> {
    const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
    const DIGITS: &str = "0123456789";
    const SYMBOLS: &str = r#"!@#$%^&*()_+-=[]{};'\\:"|<>?,./`~"#;
    let upper = LOWER.to_ascii_uppercase();
    Ok(match text {
        "" => String::new(),
        "letters_digits" => format!("{LOWER}{upper}:{DIGITS}"),
        "lower_upper_letters_digits" => format!("{LOWER}:{upper}:{DIGITS}"),
        "lower_upper_letters_digits_symbols" => format!("{LOWER}:{upper}:{DIGITS}:{SYMBOLS}"),
        _ => {
            return Err(
                "must be letters_digits, lower_upper_letters_digits or lower_upper_letters_digits_symbols"
                    .to_owned(),
            );
        }
    })
}

/// Variables for `env(NAME)`: the environment, then the `.env` files of `supabase/` and of the project folder.
struct Variables(BTreeMap<String, String>);

impl Variables {
    fn read(project_dir: &Path, environment: &[(OsString, OsString)]) -> Self {
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

    fn resolve(&self, value: &DeValue<'_>, unset: &mut Vec<String>) -> Value {
        match super::raw::from_toml(value) {
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

fn read_bounded(path: &Path) -> io::Result<String> {
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

/// The section of docs/CONFIG.md about the file.
pub(super) fn markdown() -> String {
    let mut text = form().markdown(include_str!("supabase.md"));
    for (name, meaning) in NAMES {
        let all = if name.ends_with('.') { "*" } else { "" };
        let _ = writeln!(text, "| `{name}{all}` | {} |", describe(*meaning));
    }
    text
}
