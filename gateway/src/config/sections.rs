//! The gateway's own sections beside [`super::server`] and [`super::database`], and the list of all sections and settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_backup::{BackupConfig, BackupS3Config};
use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Seconds, Time, Whole};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Setting, Value};
use basalt_extensions::ExtensionsConfig;
use basalt_functions::FunctionsConfig;
use basalt_mail::smtp::SmtpUrl;
use basalt_project::supabase::SupabaseSettings;
use basalt_realtime::RealtimeConfig;
use basalt_rest::config::RestConfig;
use basalt_storage::{ImagesConfig, S3Config, S3ProtocolConfig, StorageConfig};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::{Database, Server};
use crate::built_in::built_in;

/// The platform's sections, except [`PROJECT`], which comes last.
const SECTIONS: &[(&str, &str)] = &[
    ("server", "Addresses, limits, logging and the state folder."),
    ("database", "The PostgreSQL to use: the embedded one, or an external one by URL."),
    ("jwt", "Tokens and keys, for all services."),
    ("rest", "`/rest/v1`. The names are PostgREST's without `db_` and `server_`."),
    (
        "auth",
        "`/auth/v1`. The names are GoTrue's in lower case; its `JWT_*` are in `[jwt]`, its `SMTP_*` in `[mail]`.",
    ),
    ("storage", "`/storage/v1`."),
    ("realtime", "`/realtime/v1`. Its limits are named as in a tenant of Supabase's Realtime."),
    ("functions", "`/functions/v1`."),
    ("extensions", "The workers of the extensions `pg_cron` and `pg_net`."),
    ("backup", "Backups: where they go, when they are made, how long they are kept (docs/backup.md)."),
    ("mail", "How mail is sent. Without a mail server, a development server keeps mail in its mailbox."),
];

const PROJECT: (&str, &str) = (
    "project",
    "The folder with `basalt.toml`, `migrations/`, `policies/`, `functions/` and `seed.sql`; or with `supabase/`.",
);

/// Every section with its description, in the order of docs/CONFIG.md.
pub(super) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    let built_in = built_in().map_or(&[][..], |built_in| built_in.sections());
    SECTIONS.iter().chain(built_in).copied().chain([PROJECT])
}

/// Every setting of every section.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    Server::SETTINGS
        .iter()
        .chain(&Database::SETTINGS)
        .chain(&Jwt::SETTINGS)
        .chain(&RestConfig::SETTINGS)
        .chain(basalt_auth::settings())
        .chain(&StorageConfig::SETTINGS)
        .chain(&S3Config::SETTINGS)
        .chain(&ImagesConfig::SETTINGS)
        .chain(&S3ProtocolConfig::SETTINGS)
        .chain(&RealtimeConfig::SETTINGS)
        .chain(&FunctionsConfig::SETTINGS)
        .chain(&ExtensionsConfig::SETTINGS)
        .chain(&Mail::SETTINGS)
        .chain(&BackupConfig::SETTINGS)
        .chain(&BackupS3Config::SETTINGS)
        .chain(built_in().map_or(&[][..], |built_in| built_in.settings()))
        .chain(&Project::SETTINGS)
}

/// The setting with this key.
#[must_use]
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

settings! {
    /// The keys of `[jwt]` as configured; [`crate::secrets`] provides missing ones. The auth service reads the settings of token contents.
    #[derive(Clone, Debug)]
    pub struct Jwt in "jwt" with r {
        /// HS256 secret, at least 32 characters. If `jwt.keys` is not set, it signs all tokens.
        secret: Option<SecretString> = By("generated, stored in the state folder"), secret;
        /// Whether `jwt.secret` is base64-encoded.
        secret_is_base64: bool = Is("false");
        /// JSON array of JWKs; the one whose `key_ops` has `sign` signs, the others verify.
        keys: Option<SecretString> = By("an ES256 key, generated, stored in the state folder"), secret;
        /// `kid` of tokens signed with `jwt.secret`.
        key_id: Option<String> = By("derived from the secret");
        /// Legacy API key with role `anon`, a JWT.
        anon_key: Option<SecretString> as Option<LegacyKey> = By("derived from `jwt.secret`"), secret;
        /// Legacy API key with role `service_role`, a JWT.
        service_key: Option<SecretString> as Option<LegacyKey> = By("derived from `jwt.secret`"), secret;
        /// API key for browsers: `sb_publishable_…`.
        publishable_key: Option<SecretString> = By("generated, stored in the state folder"), secret;
        /// API key for servers, which bypasses policies: `sb_secret_…`.
        secret_key: Option<SecretString> = By("generated, stored in the state folder"), secret;
    } also {
        /// The decoded bytes of `secret`.
        decoded_secret: Option<SecretSlice<u8>> = None;
    }
}

settings! {
    /// The `[mail]` settings.
    #[derive(Clone, Debug)]
    pub struct Mail in "mail" with r {
        /// `smtp://user:password@host:587` or `smtps://user:password@host:465`. `smtp` uses STARTTLS if the server offers it; `?tls=required` or a login requires it (except on this machine), and `?tls=none` disables it.
        smtp_url: Option<SmtpUrl> as Option<SmtpServer> = By("none"), secret;
        /// Sender address.
        from: String = ByOr("`noreply@` and the host of `server.public_url`", "noreply@localhost");
        /// Sender name.
        sender_name: Option<String> = By("none");
        /// Additional headers of each mail; `$messageType` in a value is replaced by the mail's kind (`recovery`, `invite`, …).
        headers: Vec<(String, String)> = Is("");
        /// Timeout of each step of an SMTP session. A mail whose sender crashed while sending it is retried after fourteen times this long.
        timeout: Duration as Time<1000> = Is("20s");
        /// Mails sent concurrently, each on its own connection.
        connections: u32 as Whole<1, 100> = Is("4");
        /// Attempts until a mail is abandoned. A permanent failure (5xx) abandons it at once.
        max_attempts: u32 as Whole<1, 1000> = Is("12");
        /// Delay after the first failed attempt; it doubles with each attempt, up to an hour.
        retry_pause: Duration as Time<100> = Is("10s");
        /// How long records of sent mails (without their content) and abandoned mails are kept; 0 deletes them at once. In development it also applies to the mailbox, which keeps the last 500 mails.
        retention: Duration as Time = Is("7d");
        /// Address of Resend's API, which built-in functions use once an administrator has set a key.
        resend_url: Option<BaseUrl> = By("Resend's");
        /// A separate port for the development mailbox, which is always available at `/mailbox`.
        mailbox_port: Option<u16> = By("none");
        /// Minimum time between two mails of one kind to one user; 0 disables it.
        max_frequency: u64 as Seconds = Is("60");
    }
}

settings! {
    /// The `[project]` settings.
    #[derive(Clone, Debug)]
    pub struct Project in "project" with r {
        /// The project folder. Option `--project`.
        dir: PathBuf = Is(".");
    } also {
        /// The path of its `basalt.toml`, if it has one.
        file: Option<PathBuf> = None;
        /// Set in Supabase's layout.
        supabase: Option<SupabaseSettings> = None;
        /// In Supabase's layout: whether to stop at the first file that fails. Option `--strict`.
        is_strict: bool = false;
    }
}

/// An API key in JWT format; [`crate::secrets`] verifies its signature.
struct LegacyKey;

impl Kind<SecretString> for LegacyKey {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        SecretString::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(SecretString, String), InvalidValue> {
        let (key, shown) = SecretString::read(value, base)?;
        if key.expose_secret().split('.').filter(|part| !part.is_empty()).count() != 3 {
            let sentence = "is not a JWT: copy the whole key, which has three parts separated by dots";
            return Err(InvalidValue::Because(sentence.to_owned()));
        }
        Ok((key, shown))
    }
}

/// The URL of a mail server, including its login.
struct SmtpServer;

impl Kind<SmtpUrl> for SmtpServer {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        SecretString::expected()
    }

    fn read(value: &Value, _: &Path) -> Result<(SmtpUrl, String), InvalidValue> {
        let text = value.text().filter(|text| !text.is_empty()).ok_or(InvalidValue::Kind)?;
        let url = SmtpUrl::parse(text).map_err(|fault| InvalidValue::Because(fault.to_owned()))?;
        Ok((url, "(set)".to_owned()))
    }
}
