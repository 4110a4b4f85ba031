//! The services' sections, mapped to the services' own types.

use std::path::Path;
use std::time::Duration;

use basalt_auth::{AuthConfig, JwtConfig};
use basalt_mail::smtp::{self, SmtpUrl};
use basalt_rest::config::{ErrorVerbosity, OpenApiMode, RequestSetting, RestConfig, is_system_schema};
use secrecy::ExposeSecret;

use crate::config::keys::{self, Mode, StorageBackend};
use crate::config::reader::Reader;
use crate::config::value::{ByteSize, Setting, quote};
use crate::config::{Functions, Mail, Only, S3, Server, Storage, Stripe};

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn mail(r: &mut Reader, server: &Server) -> Mail {
    let url = r.given(&keys::MAIL_SMTP_URL);
    let smtp = url.and_then(|url| match SmtpUrl::parse(url.expose_secret()) {
        Ok(url) => Some(url),
        Err(fault) => {
            r.fault(&keys::MAIL_SMTP_URL.row, fault);
            None
        }
    });
    let from = r.or(&keys::MAIL_FROM, || {
        // An address of mail names no IP address.
        let domain = server.public_url.url().domain().unwrap_or("localhost");
        format!("noreply@{domain}")
    });
    let sender_name = r.given(&keys::MAIL_SENDER_NAME);
    if let Err(fault) = smtp::sender(&from, sender_name.as_deref().unwrap_or_default()) {
        r.fault(&keys::MAIL_FROM.row, &format!("cannot be used: {fault}"));
    }
    Mail {
        smtp,
        from,
        sender_name,
        headers: r.get(&keys::MAIL_HEADERS),
        timeout: r.time(&keys::MAIL_TIMEOUT, SECOND),
        connections: r.get(&keys::MAIL_CONNECTIONS).small(),
        max_attempts: r.get(&keys::MAIL_MAX_ATTEMPTS).small(),
        retry_pause: r.time(&keys::MAIL_RETRY_PAUSE, Duration::from_millis(100)),
        retention: r.get(&keys::MAIL_RETENTION),
        mailbox_port: r.given(&keys::MAIL_MAILBOX_PORT),
    }
}

pub(super) fn auth(
    r: &mut Reader,
    server: &Server,
    mode: Mode,
    mail: &Mail,
    only: Option<Only>,
) -> AuthConfig {
    let confirms = mode == Mode::Development && mail.smtp.is_none();
    // Alone it answers where it was put; a GoTrue at the root, where its public URL says.
    let prefix = server.prefix.as_deref().filter(|_| only == Some(Only::Auth)).unwrap_or("/auth/v1");
    let external_url = format!("{}{prefix}", server.public_url);
    let config = AuthConfig {
        site_url: r.or(&keys::AUTH_SITE_URL, || server.public_url.as_str().to_owned()),
        uri_allow_list: r.get(&keys::AUTH_URI_ALLOW_LIST),
        disable_signup: r.get(&keys::AUTH_DISABLE_SIGNUP),
        external_email_enabled: r.get(&keys::AUTH_EXTERNAL_EMAIL_ENABLED),
        external_email_magic_link_enabled: r.get(&keys::AUTH_EXTERNAL_EMAIL_MAGIC_LINK_ENABLED),
        external_email_authorized_addresses: r.get(&keys::AUTH_EXTERNAL_EMAIL_AUTHORIZED_ADDRESSES),
        external_phone_enabled: r.get(&keys::AUTH_EXTERNAL_PHONE_ENABLED),
        external_anonymous_users_enabled: r.get(&keys::AUTH_EXTERNAL_ANONYMOUS_USERS_ENABLED),
        mailer_autoconfirm: r.or(&keys::AUTH_MAILER_AUTOCONFIRM, || confirms),
        mailer_allow_unverified_email_sign_ins: r.get(&keys::AUTH_MAILER_ALLOW_UNVERIFIED_EMAIL_SIGN_INS),
        mailer_secure_email_change_enabled: r.get(&keys::AUTH_MAILER_SECURE_EMAIL_CHANGE_ENABLED),
        mailer_confirm_links: r.get(&keys::AUTH_MAILER_CONFIRM_LINKS),
        mailer_otp_exp: r.time(&keys::AUTH_MAILER_OTP_EXP, SECOND).as_secs(),
        mailer_otp_length: u8::try_from(r.get(&keys::AUTH_MAILER_OTP_LENGTH).get()).unwrap_or(u8::MAX),
        mailer_sender_name: mail.sender_name.clone().unwrap_or_default(),
        mailer_letters: super::letters::letters(r),
        mailer_max_frequency: r.seconds(&keys::MAIL_MAX_FREQUENCY),
        mailer_notifications_password_changed_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_PASSWORD_CHANGED_ENABLED),
        mailer_notifications_email_changed_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_EMAIL_CHANGED_ENABLED),
        mailer_notifications_phone_changed_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_PHONE_CHANGED_ENABLED),
        mailer_notifications_identity_linked_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_IDENTITY_LINKED_ENABLED),
        mailer_notifications_identity_unlinked_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_IDENTITY_UNLINKED_ENABLED),
        mailer_notifications_mfa_factor_enrolled_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_MFA_FACTOR_ENROLLED_ENABLED),
        mailer_notifications_mfa_factor_unenrolled_enabled: r
            .get(&keys::AUTH_MAILER_NOTIFICATIONS_MFA_FACTOR_UNENROLLED_ENABLED),
        mailer_external_hosts: r.get(&keys::AUTH_MAILER_EXTERNAL_HOSTS),
        mailer_recovery_tells_frequency: r.get(&keys::AUTH_MAILER_RECOVERY_TELLS_FREQUENCY),
        sms_autoconfirm: r.get(&keys::AUTH_SMS_AUTOCONFIRM),
        sms_otp_exp: r.time(&keys::AUTH_SMS_OTP_EXP, SECOND).as_secs(),
        sms_otp_length: u8::try_from(r.get(&keys::AUTH_SMS_OTP_LENGTH).get()).unwrap_or(u8::MAX),
        sms_max_frequency: r.seconds(&keys::AUTH_SMS_MAX_FREQUENCY),
        password_min_length: r.get(&keys::AUTH_PASSWORD_MIN_LENGTH).count(),
        password_required_characters: r.get(&keys::AUTH_PASSWORD_REQUIRED_CHARACTERS),
        password_hibp_enabled: r.get(&keys::AUTH_PASSWORD_HIBP_ENABLED),
        password_hibp_url: r.get(&keys::AUTH_PASSWORD_HIBP_URL),
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
        sessions_tags: r.get(&keys::AUTH_SESSIONS_TAGS),
        rate_limit_token_refresh: r.get(&keys::AUTH_RATE_LIMIT_TOKEN_REFRESH).small(),
        rate_limit_verify: r.get(&keys::AUTH_RATE_LIMIT_VERIFY).small(),
        rate_limit_otp: r.get(&keys::AUTH_RATE_LIMIT_OTP).small(),
        rate_limit_anonymous_users: r.get(&keys::AUTH_RATE_LIMIT_ANONYMOUS_USERS).small(),
        rate_limit_sign_in_failures: r.get(&keys::AUTH_RATE_LIMIT_SIGN_IN_FAILURES).small(),
        rate_limit_email_sent: r.get(&keys::AUTH_RATE_LIMIT_EMAIL_SENT),
        rate_limit_sms_sent: r.get(&keys::AUTH_RATE_LIMIT_SMS_SENT).small(),
        audit_log_disable_postgres: r.get(&keys::AUTH_AUDIT_LOG_DISABLE_POSTGRES),
        audit_log_retention: r.seconds(&keys::AUTH_AUDIT_LOG_RETENTION),
        db_cleanup_enabled: r.get(&keys::AUTH_DB_CLEANUP_ENABLED),
        db_cleanup_interval: r.seconds(&keys::AUTH_DB_CLEANUP_INTERVAL),
        db_cleanup_anonymous_users_after: r.seconds(&keys::AUTH_DB_CLEANUP_ANONYMOUS_USERS_AFTER),
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

pub(super) fn rest(r: &mut Reader, server: &Server, only: Option<Only>) -> RestConfig {
    let openapi_server_proxy_uri = openapi_address(r, server, only);
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
        openapi_server_proxy_uri,
        openapi_security_active: r.get(&keys::REST_OPENAPI_SECURITY_ACTIVE),
        role_claim: r.parsed(&keys::REST_ROLE_CLAIM).unwrap_or_default(),
        jwt_aud: r.given(&keys::REST_JWT_AUD).filter(|audience| !audience.is_empty()),
        safe_update: r.or(&keys::REST_SAFE_UPDATE, || only != Some(Only::Rest)),
        hoisted_tx_settings: r.get(&keys::REST_HOISTED_TX_SETTINGS),
        request_settings: request_settings(r),
        shape_cache_bytes: usize::try_from(r.get(&keys::REST_SHAPE_CACHE).0).unwrap_or(usize::MAX),
        app_settings: r.get(&keys::REST_APP_SETTINGS),
        pre_config: r.parsed(&keys::REST_PRE_CONFIG),
        timing_enabled: r.get(&keys::REST_TIMING_ENABLED),
        trace_header: r.parsed(&keys::REST_TRACE_HEADER),
        url_use_legacy_target_names: r.get(&keys::REST_URL_USE_LEGACY_TARGET_NAMES),
        client_error_verbosity: r
            .parsed(&keys::REST_CLIENT_ERROR_VERBOSITY)
            .unwrap_or(ErrorVerbosity::Verbose),
        max_body_bytes: r.bytes(&keys::REST_MAX_BODY_BYTES, ByteSize(1)),
        timeout: r.time(&keys::REST_TIMEOUT, SECOND),
        database_settings: r.get(&keys::REST_DATABASE_SETTINGS),
        channel: r.get(&keys::REST_CHANNEL),
        // What only the database sets.
        ..RestConfig::default()
    }
}

fn request_settings(r: &mut Reader) -> Vec<RequestSetting> {
    let key = &keys::REST_REQUEST_SETTINGS;
    let mut known = Vec::new();
    for name in r.get(key) {
        match name.parse() {
            Ok(setting) if known.contains(&setting) => {}
            Ok(setting) => known.push(setting),
            Err(error) => r.fault(&key.row, &format!("does not fit: {error}")),
        }
    }
    known
}

/// What the root document names as its server. A PostgREST goes by the request's `Host`, unless it was told.
fn openapi_address(r: &mut Reader, server: &Server, only: Option<Only>) -> Option<String> {
    let key = &keys::REST_OPENAPI_SERVER_PROXY_URI;
    let configured = r.given(key).map(|url| url.as_str().to_owned());
    if configured.is_some() || (r.raw.is_postgrest && !r.is_written(&keys::SERVER_PUBLIC_URL.row)) {
        return configured;
    }
    let prefix = server.prefix.as_deref().filter(|_| only.is_some()).unwrap_or("/rest/v1");
    let derived = format!("{}{prefix}", server.public_url);
    r.show(&key.row, Some(quote(&derived)));
    Some(derived)
}

pub(super) fn storage(r: &mut Reader, state_dir: &Path) -> Storage {
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

pub(super) fn functions(r: &mut Reader) -> Functions {
    let dir = r.path(&keys::FUNCTIONS_DIR).unwrap_or_else(|| r.raw.project_dir.join("functions"));
    r.show(&keys::FUNCTIONS_DIR.row, Some(dir.show()));
    Functions { dir, builtin: r.get(&keys::FUNCTIONS_BUILTIN) }
}

pub(super) fn stripe(r: &mut Reader) -> Stripe {
    Stripe {
        secret_key: r.given(&keys::STRIPE_SECRET_KEY),
        webhook_secret: r.given(&keys::STRIPE_WEBHOOK_SECRET),
        api_base: r.given(&keys::STRIPE_API_BASE),
    }
}
