//! From what was written to what holds: types, bounds, derived defaults, and settings that contradict each other.
//! Collects faults and never stops at the first.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use basalt_auth::{AuthConfig, JwtConfig};
use basalt_rest::config::{ErrorVerbosity, OpenApiMode, RestConfig, is_system_schema};
use secrecy::{ExposeSecret, SecretString};

use super::fault::{ConfigErrors, Fault, Source};
use super::keys::{self, Fallback, Key, Mode, Row, StorageBackend};
use super::raw::RawConfig;
use super::value::{BaseUrl, Setting, Value, Whole};
use super::{Config, Database, Effective, Functions, Jwt, Mail, Only, Project, S3, Server, Storage, Stripe};

/// The secrets' least length: PostgREST refuses shorter ones, and a guessable secret signs for everybody.
const MIN_SECRET: usize = 32;

/// Resolves everything, or reports everything.
pub(super) fn resolve(mut raw: RawConfig, only: Option<Only>) -> Result<Config, ConfigErrors> {
    let faults = raw.take_faults();
    let mut reader = Reader { raw, faults, warnings: Vec::new(), effective: BTreeMap::new() };
    let config = read(&mut reader, only);
    let (effective, faults, warnings) = reader.finish();
    if faults.is_empty() { Ok(Config { effective, warnings, ..config }) } else { Err(ConfigErrors(faults)) }
}

/// Reads every setting once; a test holds it to that.
fn read(r: &mut Reader, only: Option<Only>) -> Config {
    let project = project(r);
    let server = server(r, only);
    let mode = mode(r, &server);
    let database = database(r, &server, only);
    let mail = mail(r);
    let config = Config {
        only,
        mode,
        jwt: jwt(r, only),
        rest: rest(r, only),
        auth: auth(r, &server, mode, &mail),
        storage: storage(r, &server.state_dir),
        functions: functions(r),
        stripe: stripe(r),
        project,
        server,
        database,
        mail,
        warnings: Vec::new(),
        effective: Vec::new(),
    };
    r.contradictions(&config);
    config
}

/// The settings that [`read`] forgot.
#[cfg(test)]
pub(super) fn unread_keys() -> Vec<&'static str> {
    let raw = RawConfig::collect(&super::raw::Origin {
        options: Vec::new(),
        environment: Vec::new(),
        working_dir: std::env::temp_dir(),
    });
    let mut reader = Reader { raw, faults: Vec::new(), warnings: Vec::new(), effective: BTreeMap::new() };
    read(&mut reader, None);
    keys::TABLE.iter().map(|row| row.name).filter(|name| !reader.effective.contains_key(name)).collect()
}

fn project(r: &mut Reader) -> Project {
    // Only a `project.dir` in the file itself is still open: the other places decided where the file is.
    let dir = match r.raw.get(keys::PROJECT_DIR.row.name).map(|written| &written.source) {
        Some(Source::File { .. }) => r.path(&keys::PROJECT_DIR).unwrap_or_else(|| r.raw.project_dir.clone()),
        _ => absolute(&r.raw.project_dir),
    };
    r.show(&keys::PROJECT_DIR.row, Some(dir.show()));
    Project { dir, file: r.raw.file.clone() }
}

fn server(r: &mut Reader, only: Option<Only>) -> Server {
    let host = r.get(&keys::SERVER_HOST);
    let port = r.get(&keys::SERVER_PORT);
    let public_url = r.or(&keys::SERVER_PUBLIC_URL, || local_url(port));
    let prefix = r.given(&keys::SERVER_PREFIX).map(|text| normal_prefix(r, &text));
    let at_root = only.is_some() && prefix.as_deref() == Some("");
    let app_dir = match r.path(&keys::SERVER_APP_DIR) {
        Some(dir) => Some(dir),
        None if r.is_written(&keys::SERVER_APP_DIR.row) || only.is_some() => None,
        None => Some(r.raw.project_dir.join("app").join("dist")),
    };
    r.show(
        &keys::SERVER_APP_DIR.row,
        app_dir.as_ref().map(Setting::show).or_else(|| Some("\"\"".to_owned())),
    );
    if at_root && app_dir.is_some() {
        r.fault(
            &keys::SERVER_APP_DIR.row,
            "cannot be served while server.prefix = \"\" gives every path to one service: set it to \"\"",
        );
    }
    let state_dir = r.path(&keys::SERVER_STATE_DIR).unwrap_or_else(|| r.raw.project_dir.join(".basalt"));
    r.show(&keys::SERVER_STATE_DIR.row, Some(state_dir.show()));
    let log = r.get(&keys::SERVER_LOG);
    if let Err(error) = tracing_subscriber::EnvFilter::try_new(&log) {
        r.fault(
            &keys::SERVER_LOG.row,
            &format!("is not a log filter ({error}): write info, or info,basalt_rest=debug"),
        );
    }
    Server {
        host,
        port,
        public_url,
        require_apikey: r.get(&keys::SERVER_REQUIRE_APIKEY),
        prefix,
        trusted_proxies: r.get(&keys::SERVER_TRUSTED_PROXIES),
        cors_origins: cors_origins(r),
        admin_port: r.given(&keys::SERVER_ADMIN_PORT),
        master_key: master_key(r),
        app_dir,
        state_dir,
        log,
        log_format: r.get(&keys::SERVER_LOG_FORMAT),
        metrics: r.get(&keys::SERVER_METRICS),
        shutdown_timeout: r.get(&keys::SERVER_SHUTDOWN_TIMEOUT),
    }
}

#[expect(clippy::expect_used, reason = "the text is ours and a test reads it")]
fn local_url(port: u16) -> BaseUrl {
    format!("http://localhost:{port}").parse().expect("a URL")
}

/// `""`, or a path that starts with `/` and does not end with one.
fn normal_prefix(r: &mut Reader, text: &str) -> String {
    let prefix = text.trim_end_matches('/').to_owned();
    let clean = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
    if !(prefix.is_empty() || prefix.starts_with('/')) || prefix.contains("//") || !clean {
        r.fault(&keys::SERVER_PREFIX.row, "must be \"\" or a path such as /rest/v1");
    }
    prefix
}

fn cors_origins(r: &mut Reader) -> Option<Vec<String>> {
    let row = &keys::SERVER_CORS_ORIGINS.row;
    let written = r.get(&keys::SERVER_CORS_ORIGINS);
    if written.iter().any(|origin| origin == "*") {
        if written.len() > 1 {
            r.fault(row, "names * and other origins: * already allows all, so keep one or the other");
        }
        return None;
    }
    let mut origins = Vec::new();
    for text in &written {
        // Browsers send the origin without a path; a slash at the end would never match.
        match text.parse::<BaseUrl>().ok().filter(|url| url.url().path() == "/") {
            Some(url) => origins.push(url.url().origin().ascii_serialization()),
            None => r.fault(row, &format!("has {text:?}, which is no origin: write https://app.example.org")),
        }
    }
    Some(origins)
}

fn master_key(r: &mut Reader) -> Option<SecretString> {
    let key = r.given(&keys::SERVER_MASTER_KEY)?;
    r.check_length(&keys::SERVER_MASTER_KEY.row, key.expose_secret().len());
    Some(key)
}

fn mode(r: &mut Reader, server: &Server) -> Mode {
    let local = server.host.is_loopback() && server.public_url.is_loopback();
    r.or(&keys::SERVER_MODE, || if local { Mode::Development } else { Mode::Production })
}

fn database(r: &mut Reader, server: &Server, only: Option<Only>) -> Database {
    let url = r.given(&keys::DATABASE_URL);
    let mut authenticator_url = r.given(&keys::DATABASE_AUTHENTICATOR_URL);
    if only == Some(Only::Rest) {
        // A PostgREST has one login, whatever it is called.
        authenticator_url = authenticator_url.or_else(|| url.clone());
        let written =
            r.is_written(&keys::DATABASE_URL.row) || r.is_written(&keys::DATABASE_AUTHENTICATOR_URL.row);
        if authenticator_url.is_none() && !written {
            r.general(
                "--only rest starts no PostgreSQL of its own: set database.authenticator_url (BASALT_DATABASE_AUTHENTICATOR_URL) or \
                 database.url to postgresql://login:password@host:5432/database",
            );
        }
    }
    let data_dir = r.path(&keys::DATABASE_DATA_DIR).unwrap_or_else(|| server.state_dir.join("postgres"));
    r.show(&keys::DATABASE_DATA_DIR.row, Some(data_dir.show()));
    let bin_dir = r.path(&keys::DATABASE_BIN_DIR);
    r.show(&keys::DATABASE_BIN_DIR.row, bin_dir.as_ref().map(Setting::show));
    if let Some(dir) = bin_dir.as_ref().filter(|dir| !dir.join("postgres").exists()) {
        r.fault(
            &keys::DATABASE_BIN_DIR.row,
            &format!("has no program `postgres`: {} is not a PostgreSQL bin folder", dir.display()),
        );
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let pool_size = r.or(&keys::DATABASE_POOL_SIZE, || Whole::clamped((4 * cores).max(10))).count();
    Database {
        url,
        authenticator_url,
        replica_url: r.given(&keys::DATABASE_REPLICA_URL),
        port: r.given(&keys::DATABASE_PORT),
        bin_dir,
        data_dir,
        pool_size,
        auth_pool_size: pool_size.div_ceil(4).max(2),
        system_pool_size: 2,
        pool_timeout: r.get(&keys::DATABASE_POOL_TIMEOUT),
    }
}

fn jwt(r: &mut Reader, only: Option<Only>) -> Jwt {
    let base64 = r.get(&keys::JWT_SECRET_IS_BASE64);
    let secret = r.given(&keys::JWT_SECRET).and_then(|secret| {
        let bytes = if base64 {
            decode_base64(secret.expose_secret())
        } else {
            Some(secret.expose_secret().as_bytes().to_vec())
        };
        match &bytes {
            Some(bytes) => r.check_length(&keys::JWT_SECRET.row, bytes.len()),
            None => r.fault(&keys::JWT_SECRET.row, "is not base64, though jwt.secret_is_base64 says so"),
        }
        bytes.map(Into::into)
    });
    let keys_json = r.given(&keys::JWT_KEYS);
    if let Some(json) = &keys_json {
        match crate::secrets::read_jwks(json.expose_secret()) {
            Err(problem) => r.fault(&keys::JWT_KEYS.row, &problem),
            // Verifying alone is all that PostgREST does.
            Ok(jwks)
                if secret.is_none()
                    && only != Some(Only::Rest)
                    && !jwks.iter().any(crate::secrets::signs) =>
            {
                r.fault(
                    &keys::JWT_KEYS.row,
                    "has no key that signs: give one private key \"key_ops\":[\"sign\",\"verify\"]",
                );
            }
            Ok(_) => {}
        }
    }
    Jwt {
        secret,
        keys: keys_json,
        key_id: r.given(&keys::JWT_KEY_ID).filter(|id| !id.is_empty()),
        anon_key: r.legacy_key(&keys::JWT_ANON_KEY),
        service_key: r.legacy_key(&keys::JWT_SERVICE_KEY),
        publishable_key: r.opaque_key(&keys::JWT_PUBLISHABLE_KEY, "sb_publishable_"),
        secret_key: r.opaque_key(&keys::JWT_SECRET_KEY, "sb_secret_"),
    }
}

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine as _;
    // PostgREST takes both alphabets, with and without padding.
    let text = text.trim().replace('-', "+").replace('_', "/").replace('.', "=");
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok()
}

fn mail(r: &mut Reader) -> Mail {
    let smtp_url = r.given(&keys::MAIL_SMTP_URL);
    let from = r.given(&keys::MAIL_FROM);
    if let Some(url) = &smtp_url {
        let parsed = url::Url::parse(url.expose_secret()).ok();
        if !parsed.is_some_and(|url| matches!(url.scheme(), "smtp" | "smtps") && url.has_host()) {
            r.fault(
                &keys::MAIL_SMTP_URL.row,
                "must read smtp://user:password@host:587 or smtps://user:password@host:465",
            );
        }
        if from.is_none() {
            r.fault(&keys::MAIL_SMTP_URL.row, "needs a sender: set mail.from as well");
        }
    }
    Mail { smtp_url, from, sender_name: r.given(&keys::MAIL_SENDER_NAME) }
}

fn auth(r: &mut Reader, server: &Server, mode: Mode, mail: &Mail) -> AuthConfig {
    let confirms = mode == Mode::Development && mail.smtp_url.is_none();
    let external_url = format!("{}/auth/v1", server.public_url);
    let config = AuthConfig {
        site_url: r.or(&keys::AUTH_SITE_URL, || server.public_url.as_str().to_owned()),
        uri_allow_list: r.get(&keys::AUTH_URI_ALLOW_LIST),
        disable_signup: r.get(&keys::AUTH_DISABLE_SIGNUP),
        external_email_enabled: r.get(&keys::AUTH_EXTERNAL_EMAIL_ENABLED),
        external_email_magic_link_enabled: r.get(&keys::AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED),
        external_phone_enabled: r.get(&keys::AUTH_EXTERNAL_PHONE_ENABLED),
        external_anonymous_users_enabled: r.get(&keys::AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED),
        mailer_autoconfirm: r.or(&keys::AUTH_MAILER_AUTOCONFIRM, || confirms),
        mailer_allow_unverified_email_sign_ins: r.get(&keys::AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS),
        mailer_secure_email_change_enabled: r.get(&keys::AUTH_MAILER_SECURE_EMAIL_CHANGE_ENABLED),
        mailer_otp_exp: r.seconds(&keys::AUTH_MAILER_OTP_EXP),
        mailer_otp_length: u8::try_from(r.get(&keys::AUTH_MAILER_OTP_LENGTH).get()).unwrap_or(u8::MAX),
        mailer_max_frequency: r.seconds(&keys::MAIL_MAX_FREQUENCY),
        sms_autoconfirm: r.get(&keys::AUTH_SMS_AUTOCONFIRM),
        sms_otp_exp: r.seconds(&keys::AUTH_SMS_OTP_EXP),
        sms_otp_length: u8::try_from(r.get(&keys::AUTH_SMS_OTP_LENGTH).get()).unwrap_or(u8::MAX),
        sms_max_frequency: r.seconds(&keys::AUTH_SMS_MAX_FREQUENCY),
        password_min_length: r.get(&keys::AUTH_PASSWORD_MIN_LENGTH).count(),
        password_required_characters: r.get(&keys::AUTH_PASSWORD_REQUIRED_CHARACTERS),
        password_hibp_enabled: r.get(&keys::AUTH_PASSWORD_HIBP_ENABLED),
        password_argon2_memory: r.get(&keys::AUTH_PASSWORD_ARGON2_MEMORY).small(),
        password_argon2_iterations: r.get(&keys::AUTH_PASSWORD_ARGON2_ITERATIONS).small(),
        password_argon2_parallelism: r.get(&keys::AUTH_PASSWORD_ARGON2_PARALLELISM).small(),
        password_hash_concurrency: r.get(&keys::AUTH_PASSWORD_HASH_CONCURRENCY).count(),
        password_hash_queue: r.get(&keys::AUTH_PASSWORD_HASH_QUEUE).count(),
        security_refresh_token_rotation_enabled: r.get(&keys::AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED),
        security_refresh_token_reuse_interval: r.seconds(&keys::AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL),
        security_refresh_token_allow_reuse: r.get(&keys::AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE),
        security_update_password_require_reauthentication: r
            .get(&keys::AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION),
        security_update_password_require_current_password: r
            .get(&keys::AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD),
        security_manual_linking_enabled: r.get(&keys::AUTH_SECURITY_MANUAL_LINKING_ENABLED),
        sessions_timebox: r.seconds(&keys::AUTH_SESSIONS_TIMEBOX),
        sessions_inactivity_timeout: r.seconds(&keys::AUTH_SESSIONS_INACTIVITY_TIMEOUT),
        sessions_allow_low_aal: r.seconds(&keys::AUTH_SESSIONS_ALLOW_LOW_AAL),
        sessions_single_per_user: r.get(&keys::AUTH_SESSIONS_SINGLE_PER_USER),
        rate_limit_token_refresh: r.get(&keys::AUTH_RATE_LIMIT_TOKEN_REFRESH).small(),
        rate_limit_verify: r.get(&keys::AUTH_RATE_LIMIT_VERIFY).small(),
        rate_limit_otp: r.get(&keys::AUTH_RATE_LIMIT_OTP).small(),
        rate_limit_anonymous_users: r.get(&keys::AUTH_RATE_LIMIT_ANONYMOUS_USERS).small(),
        rate_limit_email_sent: r.get(&keys::AUTH_RATE_LIMIT_EMAIL_SENT).small(),
        rate_limit_sms_sent: r.get(&keys::AUTH_RATE_LIMIT_SMS_SENT).small(),
        audit_log_disable_postgres: r.get(&keys::AUTH_AUDIT_LOG_DISABLE_POSTGRES),
        api_max_request_duration: r.seconds(&keys::AUTH_API_MAX_REQUEST_DURATION),
        jwt: JwtConfig {
            exp: u32::try_from(r.seconds(&keys::JWT_EXP)).unwrap_or(u32::MAX),
            aud: r.get(&keys::JWT_AUD),
            issuer: r.or(&keys::JWT_ISSUER, || external_url.clone()),
            admin_roles: r.get(&keys::JWT_ADMIN_ROLES),
            default_group_name: r.get(&keys::JWT_DEFAULT_GROUP_NAME),
        },
        external_url,
    };
    for (name, sentence) in config.faults() {
        r.fault_of(name, &sentence);
    }
    config
}

fn rest(r: &mut Reader, only: Option<Only>) -> RestConfig {
    let schemas = r.get(&keys::REST_SCHEMAS);
    if schemas.is_empty() {
        r.fault(&keys::REST_SCHEMAS.row, "must name at least one schema");
    }
    for schema in schemas.iter().filter(|schema| is_system_schema(schema)) {
        r.fault(
            &keys::REST_SCHEMAS.row,
            &format!("must not expose {schema}, which belongs to PostgreSQL itself: remove it"),
        );
    }
    let max_rows = r.get(&keys::REST_MAX_ROWS).get();
    RestConfig {
        schemas,
        extra_search_path: r.get(&keys::REST_EXTRA_SEARCH_PATH),
        anon_role: Some(r.get(&keys::REST_ANON_ROLE)).filter(|role| !role.is_empty()),
        max_rows: (max_rows > 0).then_some(max_rows),
        pre_request: r.parsed(&keys::REST_PRE_REQUEST),
        tx_end: r.parsed(&keys::REST_TX_END).unwrap_or_default(),
        aggregates: r.get(&keys::REST_AGGREGATES),
        plan_enabled: r.get(&keys::REST_PLAN_ENABLED),
        openapi_mode: r.parsed(&keys::REST_OPENAPI_MODE).unwrap_or(OpenApiMode::FollowPrivileges),
        root_spec: r.parsed(&keys::REST_ROOT_SPEC),
        openapi_server_proxy_uri: r
            .given(&keys::REST_OPENAPI_SERVER_PROXY_URI)
            .map(|url| url.as_str().to_owned()),
        openapi_security_active: r.get(&keys::REST_OPENAPI_SECURITY_ACTIVE),
        role_claim: r.parsed(&keys::REST_ROLE_CLAIM).unwrap_or_default(),
        jwt_aud: r.given(&keys::REST_JWT_AUD).filter(|audience| !audience.is_empty()),
        safe_update: r.or(&keys::REST_SAFE_UPDATE, || only != Some(Only::Rest)),
        hoisted_tx_settings: r.get(&keys::REST_HOISTED_TX_SETTINGS),
        app_settings: r.get(&keys::REST_APP_SETTINGS),
        pre_config: r.parsed(&keys::REST_PRE_CONFIG),
        timing_enabled: r.get(&keys::REST_TIMING_ENABLED),
        trace_header: r.parsed(&keys::REST_TRACE_HEADER),
        url_use_legacy_target_names: r.get(&keys::REST_URL_USE_LEGACY_TARGET_NAMES),
        client_error_verbosity: r
            .parsed(&keys::REST_CLIENT_ERROR_VERBOSITY)
            .unwrap_or(ErrorVerbosity::Verbose),
        max_body_bytes: usize::try_from(r.get(&keys::REST_MAX_BODY_BYTES).0).unwrap_or(usize::MAX),
        timeout: r.get(&keys::REST_TIMEOUT),
        database_settings: r.get(&keys::REST_DATABASE_SETTINGS),
    }
}

fn storage(r: &mut Reader, state_dir: &Path) -> Storage {
    let backend = r.get(&keys::STORAGE_BACKEND);
    let dir = r.path(&keys::STORAGE_DIR).unwrap_or_else(|| state_dir.join("storage"));
    r.show(&keys::STORAGE_DIR.row, Some(dir.show()));
    let s3 = S3 {
        endpoint: r.given(&keys::STORAGE_S3_ENDPOINT),
        region: r.get(&keys::STORAGE_S3_REGION),
        bucket: r.given(&keys::STORAGE_S3_BUCKET).filter(|bucket| !bucket.is_empty()),
        access_key_id: r.given(&keys::STORAGE_S3_ACCESS_KEY_ID).filter(|id| !id.is_empty()),
        secret_access_key: r.given(&keys::STORAGE_S3_SECRET_ACCESS_KEY),
        force_path_style: r.get(&keys::STORAGE_S3_FORCE_PATH_STYLE),
    };
    if backend == StorageBackend::S3 && s3.bucket.is_none() {
        r.fault(
            &keys::STORAGE_BACKEND.row,
            "is s3, which needs storage.s3.bucket: set it to the bucket's name",
        );
    }
    if s3.access_key_id.is_some() != s3.secret_access_key.is_some() {
        r.fault(
            &keys::STORAGE_S3_ACCESS_KEY_ID.row,
            "and storage.s3.secret_access_key belong together: set both, or neither",
        );
    }
    Storage { backend, dir, max_file_size: r.get(&keys::STORAGE_MAX_FILE_SIZE).0, s3 }
}

fn functions(r: &mut Reader) -> Functions {
    let dir = r.path(&keys::FUNCTIONS_DIR).unwrap_or_else(|| r.raw.project_dir.join("functions"));
    r.show(&keys::FUNCTIONS_DIR.row, Some(dir.show()));
    Functions { dir, builtin: r.get(&keys::FUNCTIONS_BUILTIN) }
}

fn stripe(r: &mut Reader) -> Stripe {
    Stripe {
        secret_key: r.given(&keys::STRIPE_SECRET_KEY),
        webhook_secret: r.given(&keys::STRIPE_WEBHOOK_SECRET),
        api_base: r.given(&keys::STRIPE_API_BASE),
    }
}

/// Reads settings by key; keeps what is wrong and what is in force.
pub(super) struct Reader {
    raw: RawConfig,
    faults: Vec<Fault>,
    warnings: Vec<String>,
    effective: BTreeMap<&'static str, Option<String>>,
}

impl Reader {
    /// The value of a setting that has a default of its own.
    #[expect(clippy::expect_used, reason = "a test reads every default of the table")]
    fn get<T: Setting>(&mut self, key: &Key<T>) -> T {
        self.or(key, || default_of(key).expect("a default that fits its type"))
    }

    /// The value, or what other settings make of it.
    fn or<T: Setting>(&mut self, key: &Key<T>, derive: impl FnOnce() -> T) -> T {
        let value = self.read(key).unwrap_or_else(derive);
        self.show(&key.row, Some(value.show()));
        value
    }

    /// The value if there is one.
    fn given<T: Setting>(&mut self, key: &Key<T>) -> Option<T> {
        let value = self.read(key);
        self.show(&key.row, value.as_ref().map(Setting::show));
        value
    }

    /// Text that a service has its own type for.
    fn parsed<T: FromStr<Err: Display>>(&mut self, key: &Key<String>) -> Option<T> {
        let text = match key.row.fallback {
            Fallback::Is(_) => Some(self.get(key)),
            Fallback::By(_) => self.given(key),
        };
        let text = text.filter(|text| !text.is_empty())?;
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(&key.row, &format!("does not fit: {error}"));
                None
            }
        }
    }

    fn seconds(&mut self, key: &Key<Duration>) -> u64 {
        self.get(key).as_secs()
    }

    /// An absolute path; `None` when unset or empty. Relative ones start where the person who wrote them stands: in
    /// the project folder, but for an option in the working folder. The caller shows it.
    fn path(&mut self, key: &Key<PathBuf>) -> Option<PathBuf> {
        let base = match self.raw.get(key.row.name).map(|written| &written.source) {
            Some(Source::Flag(_)) => self.raw.working_dir.clone(),
            _ => self.raw.project_dir.clone(),
        };
        self.read(key).filter(|path| !path.as_os_str().is_empty()).map(|path| absolute(&base.join(path)))
    }

    /// A key that is a JWT; its signature is checked where the keys are.
    fn legacy_key(&mut self, key: &Key<SecretString>) -> Option<SecretString> {
        let value = self.given(key)?;
        if value.expose_secret().split('.').filter(|part| !part.is_empty()).count() != 3 {
            self.fault(&key.row, "is no JWT: copy the whole key, three parts with dots between");
        }
        Some(value)
    }

    fn opaque_key(&mut self, key: &Key<SecretString>, prefix: &str) -> Option<SecretString> {
        let value = self.given(key)?;
        let long_enough = value.expose_secret().strip_prefix(prefix).is_some_and(|rest| rest.len() >= 16);
        if !long_enough {
            self.fault(&key.row, &format!("must start with {prefix} and go on with at least 16 characters"));
        }
        Some(value)
    }

    fn read<T: Setting>(&mut self, key: &Key<T>) -> Option<T> {
        let written = self.raw.get(key.row.name)?;
        let value = T::read(&written.value);
        if value.is_none() {
            let found = if key.row.secret || holds_password(&key.row) {
                String::new()
            } else {
                format!(", not {}", written.value.describe())
            };
            let source = written.source.clone();
            self.faults.push(Fault {
                source,
                message: format!("{} must be {}{found}", key.row.name, T::expected()),
            });
        }
        value
    }

    fn is_written(&self, row: &Row) -> bool {
        self.raw.get(row.name).is_some()
    }

    fn show(&mut self, row: &Row, value: Option<String>) {
        let value = if row.secret { value.map(|_| "(set)".to_owned()) } else { value };
        self.effective.insert(row.name, value);
    }

    fn source(&self, name: &str) -> Source {
        self.raw.get(name).map_or(Source::Default, |written| written.source.clone())
    }

    fn fault(&mut self, row: &Row, sentence: &str) {
        self.fault_of(row.name, sentence);
    }

    fn fault_of(&mut self, name: &str, sentence: &str) {
        self.faults.push(Fault { source: self.source(name), message: format!("{name} {sentence}") });
    }

    /// A fault that lies in what nobody wrote.
    fn general(&mut self, message: &str) {
        self.faults.push(Fault { source: Source::Default, message: message.to_owned() });
    }

    fn warn(&mut self, sentence: String) {
        self.warnings.push(sentence);
    }

    fn check_length(&mut self, row: &Row, length: usize) {
        if length < MIN_SECRET {
            self.fault(
                row,
                &format!("has {length} characters and needs at least {MIN_SECRET}: make one with `openssl rand -base64 48`"),
            );
        }
    }

    /// What cannot hold together, or is useless together.
    fn contradictions(&mut self, config: &Config) {
        let Config { server, database, mode, only, .. } = config;
        let (mode, only) = (*mode, *only);
        if server.admin_port == Some(server.port) {
            self.fault(&keys::SERVER_ADMIN_PORT.row, "and server.port are the same: choose another");
        }
        for (port, other) in [(Some(server.port), "server.port"), (server.admin_port, "server.admin_port")] {
            if database.url.is_none() && database.port.is_some() && database.port == port {
                self.fault(&keys::DATABASE_PORT.row, &format!("and {other} are the same: choose another"));
            }
        }
        if database.url.is_none() {
            if self.is_written(&keys::DATABASE_REPLICA_URL.row) {
                self.fault(
                    &keys::DATABASE_REPLICA_URL.row,
                    "needs database.url: the embedded PostgreSQL has no replica",
                );
            }
            if database.authenticator_url.is_some() && only != Some(Only::Rest) {
                self.fault(
                    &keys::DATABASE_AUTHENTICATOR_URL.row,
                    "needs database.url beside it: without that, Basalt starts its own PostgreSQL and its own login",
                );
            }
        } else {
            for row in [&keys::DATABASE_PORT.row, &keys::DATABASE_BIN_DIR.row, &keys::DATABASE_DATA_DIR.row] {
                if self.is_written(row) {
                    self.warn(format!(
                        "{} ({}) is for the embedded PostgreSQL and does nothing while database.url is set",
                        row.name,
                        self.source(row.name)
                    ));
                }
            }
        }
        if mode == Mode::Production && server.public_url.is_loopback() {
            self.warn(format!(
                "production with server.public_url {}: links in mails will lead nowhere; set it to the address people use",
                server.public_url
            ));
        }
        // The project's own functions are a setting of the project, not of this server: no need to say it each start.
        for row in keys::TABLE.iter().filter(|row| row.reserved && !row.name.starts_with("functions.")) {
            if self.is_written(row) {
                self.warn(format!(
                    "{} ({}) is checked, but no part of this release reads it yet",
                    row.name,
                    self.source(row.name)
                ));
            }
        }
        if only.is_none() && server.prefix.is_some() {
            self.warn("server.prefix counts only with --only: every service keeps its usual path".to_owned());
        }
        if mode == Mode::Development && !server.host.is_loopback() {
            self.warn(
                "development mode on an address that others can reach: sign-up needs no confirmation"
                    .to_owned(),
            );
        }
    }

    /// Every setting in the table's order.
    fn finish(mut self) -> (Vec<Effective>, Vec<Fault>, Vec<String>) {
        let effective = keys::TABLE
            .iter()
            .map(|row| Effective {
                name: row.name,
                value: self.effective.remove(row.name).flatten(),
                source: self.source(row.name),
            })
            .collect();
        self.faults.sort_by_key(|fault| order(&fault.source));
        (effective, self.faults, self.warnings)
    }
}

/// Faults of one place stand together: the file by line, then variables, then options.
fn order(source: &Source) -> (u8, usize, String) {
    match source {
        Source::File { line, .. } => (0, *line, String::new()),
        Source::Variable(name) => (1, 0, name.clone()),
        Source::Flag(flag) => (2, 0, (*flag).to_owned()),
        Source::Default => (3, 0, String::new()),
    }
}

fn holds_password(row: &Row) -> bool {
    [
        keys::DATABASE_URL.row.name,
        keys::DATABASE_AUTHENTICATOR_URL.row.name,
        keys::DATABASE_REPLICA_URL.row.name,
    ]
    .contains(&row.name)
}

/// The default that stands in the table, if it stands there.
pub(super) fn default_of<T: Setting>(key: &Key<T>) -> Option<T> {
    match key.row.fallback {
        Fallback::Is(text) => T::read(&Value::Bare(text.to_owned())),
        Fallback::By(_) => None,
    }
}

fn absolute(path: &Path) -> PathBuf {
    // Without touching the disk: the folder may not exist yet. `a/./b` and a trailing `.` go.
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()).components().collect()
}
