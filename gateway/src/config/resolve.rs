//! Turns written values into the effective configuration: applies defaults that depend on other settings, and checks for
//! contradictions. Every section reads its own settings ([`mod@basalt_core::settings`]); all faults are collected.

use std::time::Duration;

use basalt_auth::AuthConfig;
use basalt_core::convert::saturating;
use basalt_core::keys::{ApiKeyKind, decode_secret, read_jwks, signs};
use basalt_core::settings::kinds::LongSecret;
use basalt_core::settings::{Fault, Reader, Source};
use basalt_extensions::ExtensionsConfig;
use basalt_functions::secrets::check_signing;
use basalt_functions::{FunctionSettings, FunctionsConfig};
use basalt_mail::smtp;
use basalt_project::supabase::FOLDER;
use basalt_realtime::RealtimeConfig;
use basalt_rest::config::RestConfig;
use basalt_storage::StorageConfig;
use secrecy::ExposeSecret;

use super::raw::{FunctionSection, RawConfig};
use super::sections::settings;
use crate::built_in::{built_in, signing_secrets};

use super::{Config, ConfigErrors, Database, Effective, Jwt, Mail, Mode, Only, Project, Server};

/// Returns the effective configuration, or all faults. Values of `supabase/config.toml` that cause a fault are dropped with a warning.
pub(super) fn resolve(mut raw: RawConfig, only: Option<Only>) -> Result<Config, ConfigErrors> {
    let is_supabase = raw.supabase.is_some();
    loop {
        let errors = match resolve_as_written(raw.clone(), only) {
            Err(errors) if is_supabase => errors,
            other => return other,
        };
        let before = raw.written.len();
        for Fault { source, message } in &errors.0 {
            let is_theirs =
                matches!(source, Source::File { path, .. } if path.ends_with("supabase/config.toml"));
            if is_theirs {
                raw.written.retain(|_, written| written.source != *source);
                raw.warnings.push(format!("{source}: {message}; ignored"));
            }
        }
        if raw.written.len() == before {
            return Err(errors);
        }
    }
}

fn resolve_as_written(raw: RawConfig, only: Option<Only>) -> Result<Config, ConfigErrors> {
    let RawConfig {
        project_dir,
        working_dir,
        file,
        is_postgrest,
        warnings,
        notes,
        supabase,
        written,
        functions,
        mut faults,
    } = raw;
    let each = functions.iter().filter_map(|section| function(section, &mut faults)).collect();
    let mut r = Reader::new(written, project_dir, working_dir, faults, warnings);
    if supabase.is_some() {
        r.derive("functions.dir", format!("{FOLDER}/functions"));
    }
    let mut config = read(&mut r, only, is_postgrest);
    config.project.file = file;
    config.project.supabase = supabase;
    config.notes = notes;
    config.functions.each = each;
    check(&mut r, &config);
    config.effective = settings()
        .map(|setting| Effective {
            setting,
            value: r.shown(setting.key).flatten(),
            source: r.source(setting.key),
        })
        .collect();
    let (faults, warnings) = r.finish();
    if faults.is_empty() { Ok(Config { warnings, ..config }) } else { Err(ConfigErrors(faults)) }
}

/// Reads a `[functions.NAME]` section; adds its faults to `faults`.
fn function(section: &FunctionSection, faults: &mut Vec<Fault>) -> Option<FunctionSettings> {
    let FunctionSection { name, source, pairs } = section;
    let read = FunctionSettings::read(name, pairs);
    read.map_err(|wrong| {
        let fault = |(key, sentence)| Fault { source: source.clone(), message: format!("{key} {sentence}") };
        faults.extend(wrong.into_iter().map(fault));
    })
    .ok()
}

/// Reads every setting once, which a test verifies.
pub(super) fn read(r: &mut Reader, only: Option<Only>, is_postgrest: bool) -> Config {
    let project = Project::read(r);
    let server = server(r, only);
    let local = server.host.is_loopback() && server.public_url.is_loopback();
    let mode = server.mode.unwrap_or(if local { Mode::Development } else { Mode::Production });
    r.show("server.mode", mode.as_str());
    let database = database(r, &server, only);
    let mail = mail(r, &server);
    let path = |usual: &'static str| server.prefix.clone().unwrap_or_else(|| usual.to_owned());

    // A PostgREST derives this address from the request's `Host`, unless its public address is configured.
    if !is_postgrest || r.is_written("server.public_url") {
        let prefix = if only.is_some() { path("/rest/v1") } else { "/rest/v1".to_owned() };
        r.derive("rest.openapi_server_proxy_uri", format!("{}{prefix}", server.public_url));
    }
    r.derive("rest.safe_update", (only != Some(Only::Rest)).to_string());

    // With `--only auth`, auth is served at `server.prefix`.
    let prefix = if only == Some(Only::Auth) { path("/auth/v1") } else { "/auth/v1".to_owned() };
    let external_url = format!("{}{prefix}", server.public_url);
    r.derive("auth.site_url", server.public_url.as_str());
    r.derive("auth.mailer_autoconfirm", (mode == Mode::Development && mail.smtp_url.is_none()).to_string());
    r.derive("jwt.issuer", external_url.as_str());
    r.derive("extensions.http_concurrency", (database.pool_size / 4).clamp(1, 100).to_string());
    r.derive("storage.dir", server.state_dir.join("storage").to_string_lossy());
    let auth = AuthConfig {
        external_url,
        mailer_max_frequency: mail.max_frequency,
        mailer_sender_name: mail.sender_name.clone().unwrap_or_default(),
        ..AuthConfig::read(r)
    };
    Config {
        only,
        mode,
        jwt: jwt(r, only),
        rest: RestConfig::read(r),
        auth,
        storage: StorageConfig::read(r),
        realtime: RealtimeConfig::read(r),
        functions: FunctionsConfig::read(r),
        extensions: ExtensionsConfig::read(r),
        backup: basalt_backup::BackupConfig::read(r),
        built_in: built_in().map(|built_in| built_in.configure(r)),
        project,
        server,
        database,
        mail,
        is_postgrest,
        warnings: Vec::new(),
        notes: Vec::new(),
        effective: Vec::new(),
    }
}

fn server(r: &mut Reader, only: Option<Only>) -> Server {
    if let Some(port) = r.written_text("server.port") {
        r.derive("server.public_url", format!("http://localhost:{port}"));
    }
    if let Some(host) = r.written_text("server.host") {
        r.derive("server.admin_host", host);
    }
    r.derive("server.app_dir", if only.is_some() { "" } else { "app/dist" });
    let mut server = Server::read(r);
    if let Some(domain) = server.acme_domains.first()
        && !r.is_written("server.public_url")
        && let Ok(url) = format!("https://{domain}").parse()
    {
        server.public_url = url;
        r.show("server.public_url", &format!("https://{domain}"));
    }
    if server.tls_certificate.is_some() != server.tls_key.is_some() {
        r.fault("server.tls_key", "and server.tls_certificate must be set together");
    }
    if server.tls_certificate.is_some() && !server.acme_domains.is_empty() {
        r.fault("server.acme_domains", "cannot be used with server.tls_certificate: set one of them");
    }
    if server.unix_socket.is_some() && server.has_tls() {
        r.fault("server.unix_socket", "cannot be used with TLS: the proxy in front of the socket encrypts");
    }
    if only.is_some() && server.prefix.as_deref() == Some("") && server.app_dir.is_some() {
        r.fault(
            "server.app_dir",
            "cannot be used with server.prefix = \"\", which routes every path to one service: set it to \"\"",
        );
    }
    server
}

fn database(r: &mut Reader, server: &Server, only: Option<Only>) -> Database {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // One client may use two thirds of these.
    r.derive("database.pool_size", (6 * cores).clamp(15, 60).to_string());
    r.derive("database.data_dir", server.state_dir.join("postgres").to_string_lossy());
    let mut database = Database::read(r);
    if only == Some(Only::Rest) {
        // A PostgREST has a single login; either setting may name it.
        database.authenticator_url = database.authenticator_url.or_else(|| database.url.clone());
        let is_written = r.is_written("database.url") || r.is_written("database.authenticator_url");
        if database.authenticator_url.is_none() && !is_written {
            r.general_fault(
                "--only rest does not start PostgreSQL: set database.authenticator_url (BASALT_DATABASE_AUTHENTICATOR_URL) or \
                 database.url to postgresql://login:password@host:5432/database, or PostgREST's PGRST_DB_URI",
            );
        }
    }
    if let Some(dir) = database.bin_dir.as_ref().filter(|dir| !dir.join("postgres").exists()) {
        r.fault(
            "database.bin_dir",
            &format!(
                "does not contain the program `postgres`: {} is not a PostgreSQL bin folder",
                dir.display()
            ),
        );
    }
    // With --only auth, auth uses all connections. A refresh waits for the disk: with three connections it reached six tenths
    // of the throughput of eight.
    let size = database.pool_size;
    database.auth_pool_size =
        if only == Some(Only::Auth) { size } else { size.div_ceil(4).max(size.clamp(2, 8)) };
    if database.pool_max_lifetime.is_zero() {
        database.pool_max_lifetime = Duration::MAX;
    }
    database
}

fn mail(r: &mut Reader, server: &Server) -> Mail {
    // An IP address cannot be the domain of a mail address.
    let domain = server.public_url.url().domain().unwrap_or("localhost");
    r.derive("mail.from", format!("noreply@{domain}"));
    let mail = Mail::read(r);
    if let Err(fault) = smtp::sender(&mail.from, mail.sender_name.as_deref().unwrap_or_default()) {
        r.fault("mail.from", &format!("cannot be used: {fault}"));
    }
    mail
}

fn jwt(r: &mut Reader, only: Option<Only>) -> Jwt {
    let mut jwt = Jwt::read(r);
    let secret = jwt.secret.as_ref().map(ExposeSecret::expose_secret);
    let bytes = secret.map(|text| {
        if jwt.secret_is_base64 { decode_secret(text).ok() } else { Some(text.as_bytes().to_vec()) }
    });
    match &bytes {
        Some(None) => r.fault("jwt.secret", "is not base64, but jwt.secret_is_base64 is true"),
        Some(Some(bytes)) => {
            if let Some(fault) = LongSecret::fault(bytes.len()) {
                r.fault("jwt.secret", &fault);
            }
        }
        None => {}
    }
    jwt.decoded_secret = bytes.flatten().map(Into::into);
    match jwt.keys.as_ref().map(|json| read_jwks(json.expose_secret())) {
        Some(Err(problem)) => r.fault("jwt.keys", &problem),
        // PostgREST only verifies tokens, so it needs no key that signs.
        Some(Ok(jwks))
            if jwt.decoded_secret.is_none() && only != Some(Only::Rest) && !jwks.iter().any(signs) =>
        {
            r.fault(
                "jwt.keys",
                "has no signing key: add to one private key \"key_ops\":[\"sign\",\"verify\"]",
            );
        }
        Some(Ok(_)) | None => {}
    }
    for (name, key, kind) in [
        ("jwt.publishable_key", &jwt.publishable_key, ApiKeyKind::Publishable),
        ("jwt.secret_key", &jwt.secret_key, ApiKeyKind::Secret),
    ] {
        let Some(key) = key else { continue };
        let prefix = kind.prefix();
        if key.expose_secret().strip_prefix(prefix).is_none_or(|rest| rest.len() < 16) {
            r.fault(name, &format!("must be {prefix} followed by at least 16 characters"));
        }
    }
    jwt
}

/// Checks for settings that contradict each other or have no effect together.
fn check(r: &mut Reader, config: &Config) {
    let Config { server, database, mode, only, .. } = config;
    let (mode, only) = (*mode, *only);
    for (key, sentence) in config.auth.faults() {
        r.fault(key, &sentence);
    }
    let faults = [config.storage.faults(), config.realtime.faults(), config.backup.faults()];
    for (key, sentence) in faults.into_iter().flatten() {
        r.fault(key, sentence);
    }
    let secrets = config.functions.secrets.iter();
    let secrets = secrets.map(|(name, secret)| (name.as_str(), secret.expose_secret()));
    if let Err(fault) = check_signing(secrets, signing_secrets()) {
        r.fault("functions.secrets", &format!("cannot be used: {fault}"));
    }
    if config.functions.builtin && config.built_in.is_none() {
        r.warn(
            "functions.builtin has no effect: this program was built without the feature `planning` and has no built-in functions"
                .to_owned(),
        );
    }
    let same_host = server.unix_socket.is_none() && server.admin_host == server.host;
    let bytes = |count: usize| saturating::<u64>(count);
    let needs_database = !r.is_written("database.url");
    let has_certificate = database.tls_certificate.is_some() && database.tls_key.is_some();
    for (is_wrong, key, sentence) in [
        (
            database.listen.is_some() && !has_certificate,
            "database.listen",
            "requires database.tls_certificate and database.tls_key: other machines connect with TLS only",
        ),
        (
            server.admin_port == Some(server.port) && same_host,
            "server.admin_port",
            "and server.port are the same: choose another",
        ),
        (
            server.body_memory < bytes(config.rest.max_body_bytes),
            "server.body_memory",
            "is less than rest.max_body_bytes: it must hold at least one body",
        ),
        (
            server.answer_memory < bytes(database.max_row_bytes),
            "server.answer_memory",
            "is less than database.max_row_bytes: it must hold at least one response",
        ),
        (
            needs_database && r.is_written("database.replica_url"),
            "database.replica_url",
            "requires database.url: the embedded PostgreSQL has no replica",
        ),
        (
            needs_database && database.authenticator_url.is_some() && only != Some(Only::Rest),
            "database.authenticator_url",
            "requires database.url: without it, Basalt starts its own PostgreSQL with its own login",
        ),
    ] {
        if is_wrong {
            r.fault(key, sentence);
        }
    }
    for (port, other) in [(Some(server.port), "server.port"), (server.admin_port, "server.admin_port")] {
        if database.url.is_none() && database.port.is_some() && database.port == port {
            r.fault("database.port", &format!("and {other} are the same: choose another"));
        }
    }
    for key in ["database.port", "database.bin_dir", "database.data_dir"] {
        if !needs_database && r.is_written(key) {
            let source = r.source(key);
            r.warn(format!(
                "{key} ({source}) applies to the embedded PostgreSQL only and has no effect while database.url is set"
            ));
        }
    }
    // With --only rest the server sends no mail.
    if mode == Mode::Production && server.public_url.is_loopback() && only != Some(Only::Rest) {
        r.warn(format!(
            "production mode with server.public_url {}: links in mails will not work; set it to the public address",
            server.public_url
        ));
    }
    // Settings of the project's own functions belong to the project, not to this server; do not warn at each start.
    for setting in settings().filter(|setting| setting.is_reserved && !setting.key.starts_with("functions."))
    {
        if r.is_written(setting.key) {
            let source = r.source(setting.key);
            let key = setting.key;
            r.warn(format!("{key} ({source}) is checked, but this release does not use it yet"));
        }
    }
    if only.is_none() && server.prefix.is_some() {
        r.warn("server.prefix has no effect without --only: every service keeps its usual path".to_owned());
    }
    if mode == Mode::Development && !server.host.is_loopback() {
        r.warn(
            "development mode on an address that other machines can reach: sign-up needs no confirmation"
                .to_owned(),
        );
    }
}
