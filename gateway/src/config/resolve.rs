//! From what was written to what holds: types, bounds, derived defaults, and settings that contradict each other.
//! Collects faults and never stops at the first.

mod letters;
mod services;

use std::num::NonZeroUsize;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::fault::{ConfigErrors, Source};
use super::keys::{self, Mode};
use super::raw::RawConfig;
use super::reader::{Reader, absolute};
use basalt_http::layers::heads::HeadLimits;

use super::value::{BaseUrl, ByteSize, Setting, Whole};
use super::{Config, Database, Jwt, Only, Project, Server};
use basalt_http::layers::api_key::SecretKeysInBrowsers;
use basalt_http::pace::Pace;

/// Resolves everything, or reports everything.
pub(super) fn resolve(raw: RawConfig, only: Option<Only>) -> Result<Config, ConfigErrors> {
    let mut reader = Reader::new(raw);
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
    let mail = services::mail(r, &server);
    let rest_listens = r.get(&keys::REST_CHANNEL_ENABLED);
    let config = Config {
        only,
        mode,
        jwt: jwt(r, only),
        rest: services::rest(r, &server, only),
        rest_listens,
        auth: services::auth(r, &server, mode, &mail, only),
        storage: services::storage(r, &server.state_dir),
        functions: services::functions(r),
        stripe: services::stripe(r),
        project,
        server,
        database,
        mail,
        is_postgrest: r.raw.is_postgrest,
        warnings: Vec::new(),
        effective: Vec::new(),
    };
    contradictions(r, &config);
    config
}

/// The settings that [`read`] forgot.
#[cfg(test)]
pub(super) fn unread_keys() -> Vec<&'static str> {
    let raw = RawConfig::collect(&super::raw::Origin {
        options: Vec::new(),
        environment: Vec::new(),
        working_dir: std::env::temp_dir(),
        only: None,
        postgrest_file: None,
    });
    let mut reader = Reader::new(raw);
    read(&mut reader, None);
    keys::TABLE.iter().map(|row| row.name).filter(|name| !reader.has_read(name)).collect()
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
    let port = r.get(&keys::SERVER_PORT).0;
    let admin_host = r.or(&keys::SERVER_ADMIN_HOST, || host.clone());
    let mode = r.get(&keys::SERVER_UNIX_SOCKET_MODE).0;
    let unix_socket = r.path(&keys::SERVER_UNIX_SOCKET);
    r.show(&keys::SERVER_UNIX_SOCKET.row, unix_socket.as_ref().map(Setting::show));
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
        secret_keys_in_browsers: if r.get(&keys::SERVER_SECRET_KEYS_IN_BROWSERS) {
            SecretKeysInBrowsers::Accepted
        } else {
            SecretKeysInBrowsers::Refused
        },
        prefix,
        trusted_proxies: r.get(&keys::SERVER_TRUSTED_PROXIES),
        cors_origins: cors_origins(r),
        admin_port: r.given(&keys::SERVER_ADMIN_PORT),
        admin_host,
        unix_socket: unix_socket.map(|path| (path, mode)),
        reuse_port: r.get(&keys::SERVER_REUSE_PORT),
        master_key: master_key(r),
        app_dir,
        state_dir,
        log,
        log_format: r.get(&keys::SERVER_LOG_FORMAT),
        metrics: r.get(&keys::SERVER_METRICS),
        max_connections: r.get(&keys::SERVER_MAX_CONNECTIONS).count(),
        max_requests: r.get(&keys::SERVER_MAX_REQUESTS).count(),
        body_memory: r.get(&keys::SERVER_BODY_MEMORY).0,
        body_wait: r.get(&keys::SERVER_BODY_WAIT),
        answer_memory: r.get(&keys::SERVER_ANSWER_MEMORY).0,
        pace: pace(r),
        heads: heads(r),
        head_memory: r.get(&keys::SERVER_HEAD_MEMORY).0,
        max_streams: r.get(&keys::SERVER_MAX_STREAMS).small(),
        idle_timeout: idle_timeout(r),
        shutdown_timeout: r.get(&keys::SERVER_SHUTDOWN_TIMEOUT),
    }
}

fn pace(r: &mut Reader) -> Pace {
    let window = r.get(&keys::SERVER_STALL_TIMEOUT);
    if window < Duration::from_secs(1) {
        r.fault(&keys::SERVER_STALL_TIMEOUT.row, "must be at least 1s: networks pause for longer than less");
    }
    Pace { window, bytes_per_second: r.get(&keys::SERVER_MIN_RATE).0 }
}

fn heads(r: &mut Reader) -> HeadLimits {
    const LEAST: u32 = 8 << 10;
    const MOST: u32 = 16 << 20;
    let asked = u32::try_from(r.get(&keys::SERVER_MAX_HEADER_BYTES).0).unwrap_or(u32::MAX);
    if !(LEAST..=MOST).contains(&asked) {
        r.fault(&keys::SERVER_MAX_HEADER_BYTES.row, "must be from 8KiB to 16MiB");
    }
    HeadLimits { bytes: asked.clamp(LEAST, MOST), headers: r.get(&keys::SERVER_MAX_HEADERS).count() }
}

fn idle_timeout(r: &mut Reader) -> Duration {
    let timeout = r.get(&keys::SERVER_IDLE_TIMEOUT);
    if timeout < Duration::from_secs(1) {
        r.fault(&keys::SERVER_IDLE_TIMEOUT.row, "must be at least 1s: no client is faster for certain");
    }
    timeout
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
                 database.url to postgresql://login:password@host:5432/database, or PostgREST's PGRST_DB_URI",
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
        // Alone it has nobody to leave connections to. A refresh waits for the disk: with three connections it went at
        // six tenths of the rate that eight give.
        auth_pool_size: if only == Some(Only::Auth) {
            pool_size
        } else {
            pool_size.div_ceil(4).max(pool_size.clamp(2, 8))
        },
        system_pool_size: 2,
        pool_timeout: r.time(&keys::DATABASE_POOL_TIMEOUT, Duration::from_millis(100)),
        pool_max_lifetime: Some(r.get(&keys::DATABASE_POOL_MAX_LIFETIME))
            .filter(|time| !time.is_zero())
            .unwrap_or(Duration::MAX),
        pool_idle_timeout: r.get(&keys::DATABASE_POOL_IDLE_TIMEOUT),
        statement_cache: NonZeroUsize::new(r.get(&keys::DATABASE_STATEMENT_CACHE).count())
            .unwrap_or(NonZeroUsize::MIN),
        max_row_bytes: r.bytes(&keys::DATABASE_MAX_ROW_BYTES, ByteSize(64 << 10)),
        verify_certificate: r.get(&keys::DATABASE_VERIFY_CERTIFICATE),
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

/// What cannot hold together, or is useless together.
fn contradictions(r: &mut Reader, config: &Config) {
    let Config { server, database, mode, only, .. } = config;
    let (mode, only) = (*mode, *only);
    if server.admin_port == Some(server.port)
        && server.unix_socket.is_none()
        && server.admin_host == server.host
    {
        r.fault(&keys::SERVER_ADMIN_PORT.row, "and server.port are the same: choose another");
    }
    let largest_body = u64::try_from(config.rest.max_body_bytes).unwrap_or(u64::MAX);
    if server.body_memory < largest_body {
        r.fault(&keys::SERVER_BODY_MEMORY.row, "is less than rest.max_body_bytes: one body must fit");
    }
    if server.head_memory < u64::from(server.heads.bytes) * 2 {
        r.fault(
            &keys::SERVER_HEAD_MEMORY.row,
            "is less than twice server.max_header_bytes: one head must fit",
        );
    }
    let largest_answer = u64::try_from(database.max_row_bytes).unwrap_or(u64::MAX);
    if server.answer_memory < largest_answer {
        r.fault(&keys::SERVER_ANSWER_MEMORY.row, "is less than database.max_row_bytes: one answer must fit");
    }
    for (port, other) in [(Some(server.port), "server.port"), (server.admin_port, "server.admin_port")] {
        if database.url.is_none() && database.port.is_some() && database.port == port {
            r.fault(&keys::DATABASE_PORT.row, &format!("and {other} are the same: choose another"));
        }
    }
    // One that does not parse is a fault already, and no embedded PostgreSQL.
    if !r.is_written(&keys::DATABASE_URL.row) {
        if r.is_written(&keys::DATABASE_REPLICA_URL.row) {
            r.fault(
                &keys::DATABASE_REPLICA_URL.row,
                "needs database.url: the embedded PostgreSQL has no replica",
            );
        }
        if database.authenticator_url.is_some() && only != Some(Only::Rest) {
            r.fault(
                &keys::DATABASE_AUTHENTICATOR_URL.row,
                "needs database.url beside it: without that, Basalt starts its own PostgreSQL and its own login",
            );
        }
    } else {
        for row in [&keys::DATABASE_PORT.row, &keys::DATABASE_BIN_DIR.row, &keys::DATABASE_DATA_DIR.row] {
            if r.is_written(row) {
                r.warn(format!(
                    "{} ({}) is for the embedded PostgreSQL and does nothing while database.url is set",
                    row.name,
                    r.source(row.name)
                ));
            }
        }
    }
    // REST alone sends no mails.
    if mode == Mode::Production && server.public_url.is_loopback() && only != Some(Only::Rest) {
        r.warn(format!(
            "production with server.public_url {}: links in mails will lead nowhere; set it to the address people use",
            server.public_url
        ));
    }
    // The project's own functions are a setting of the project, not of this server: no need to say it each start.
    for row in keys::TABLE.iter().filter(|row| row.reserved && !row.name.starts_with("functions.")) {
        if r.is_written(row) {
            r.warn(format!(
                "{} ({}) is checked, but no part of this release reads it yet",
                row.name,
                r.source(row.name)
            ));
        }
    }
    if only.is_none() && server.prefix.is_some() {
        r.warn("server.prefix counts only with --only: every service keeps its usual path".to_owned());
    }
    if mode == Mode::Development && !server.host.is_loopback() {
        r.warn(
            "development mode on an address that others can reach: sign-up needs no confirmation".to_owned(),
        );
    }
}
