//! The sections that are the gateway's own beside [`super::server`] and [`super::database`], and the list of all.

use std::path::{Path, PathBuf};
use std::time::Duration;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Seconds, Time, Whole};
use basalt_core::settings::{BaseUrl, InvalidValue, Kind, Setting, Value};
use basalt_functions::FunctionsConfig;
use basalt_mail::smtp::SmtpUrl;
use basalt_realtime::RealtimeConfig;
use basalt_rest::config::RestConfig;
use basalt_storage::{ImagesConfig, S3Config, S3ProtocolConfig, StorageConfig};
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::{Database, Server};
use crate::built_in::built_in;

/// The platform's sections except the last one, [`PROJECT`].
const SECTIONS: &[(&str, &str)] = &[
    ("server", "Where the server listens, how it presents itself, where it keeps its things."),
    ("database", "Which PostgreSQL: the embedded one, or yours by URL."),
    ("jwt", "Tokens and keys of all services."),
    ("rest", "`/rest/v1`. The names are PostgREST's without `db_` and `server_`."),
    (
        "auth",
        "`/auth/v1`. The names are GoTrue's in lower case; its `JWT_*` are in `[jwt]`, its `SMTP_*` in `[mail]`.",
    ),
    ("storage", "`/storage/v1`."),
    (
        "realtime",
        "`/realtime/v1`. The names of its limits are those that Supabase's servers have for a tenant.",
    ),
    ("functions", "`/functions/v1`."),
    ("mail", "How mail leaves. Without it, a development server keeps mail in its own mailbox."),
];

const PROJECT: (&str, &str) =
    ("project", "The folder with `basalt.toml`, `migrations/`, `policies/`, `functions/` and `seed.sql`.");

/// Every section with its purpose, in the order of docs/CONFIG.md.
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
        .chain(&Mail::SETTINGS)
        .chain(built_in().map_or(&[][..], |built_in| built_in.settings()))
        .chain(&Project::SETTINGS)
}

/// The setting of this key.
#[must_use]
pub(super) fn setting(key: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.key == key)
}

settings! {
    /// `[jwt]`: keys as configured; what is missing comes from [`crate::secrets`]. What goes into tokens is auth's.
    #[derive(Clone, Debug)]
    pub struct Jwt in "jwt" with r {
        /// HS256 secret, at least 32 characters. Set alone, it signs all tokens.
        secret: Option<SecretString> = By("generated, kept in the state folder"), secret;
        /// Whether `jwt.secret` is base64 of the secret.
        secret_is_base64: bool = Is("false");
        /// JSON array of JWKs; the one whose `key_ops` has `sign` signs, the others verify.
        keys: Option<SecretString> = By("an ES256 key, generated, kept in the state folder"), secret;
        /// `kid` of tokens that `jwt.secret` signs.
        key_id: Option<String> = By("derived from the secret");
        /// Legacy API key with role `anon`, a JWT.
        anon_key: Option<SecretString> as Option<LegacyKey> = By("derived from `jwt.secret`"), secret;
        /// Legacy API key with role `service_role`, a JWT.
        service_key: Option<SecretString> as Option<LegacyKey> = By("derived from `jwt.secret`"), secret;
        /// API key for browsers: `sb_publishable_…`.
        publishable_key: Option<SecretString> = By("generated, kept in the state folder"), secret;
        /// API key for servers, which bypasses policies: `sb_secret_…`.
        secret_key: Option<SecretString> = By("generated, kept in the state folder"), secret;
    } also {
        /// The bytes of `secret`.
        decoded_secret: Option<SecretSlice<u8>> = None;
    }
}

settings! {
    /// `[mail]`.
    #[derive(Clone, Debug)]
    pub struct Mail in "mail" with r {
        /// `smtp://user:password@host:587` or `smtps://user:password@host:465`. `smtp` takes STARTTLS when it is offered, insists on it with `?tls=required` and where there is a login (except on this machine), and does without with `?tls=none`.
        smtp_url: Option<SmtpUrl> as Option<SmtpServer> = By("none"), secret;
        /// Sender address.
        from: String = ByOr("`noreply@` and the host of `server.public_url`", "noreply@localhost");
        /// Sender name.
        sender_name: Option<String> = By("none");
        /// Further headers of each mail; `$messageType` in a value stands for the mail's kind (`recovery`, `invite`, …).
        headers: Vec<(String, String)> = Is("");
        /// Longest wait for each step of an exchange with the SMTP server. A mail whose server died while sending it is tried again after fourteen times as long.
        timeout: Duration as Time<1000> = Is("20s");
        /// Mails on their way at once, each on a connection of its own.
        connections: u32 as Whole<1, 100> = Is("4");
        /// Attempts until a mail is given up. Refusals that will not pass (5xx) give it up at once.
        max_attempts: u32 as Whole<1, 1000> = Is("12");
        /// Pause after the first failed attempt; it doubles with each, up to an hour.
        retry_pause: Duration as Time<100> = Is("10s");
        /// How long rows about sent mails (without what they said) and mails given up are kept, 0 for not at all; in development also mails in the mailbox, the last 500.
        retention: Duration as Time = Is("7d");
        /// Address of Resend's API, through which built-in functions send once an administrator has set a key.
        resend_url: Option<BaseUrl> = By("Resend's");
        /// A port of its own for the development mailbox, which is at `/mailbox` in any case.
        mailbox_port: Option<u16> = By("none");
        /// Least time between two mails of one kind to one user; 0 for none.
        max_frequency: u64 as Seconds = Is("60");
    }
}

settings! {
    /// `[project]`.
    #[derive(Clone, Debug)]
    pub struct Project in "project" with r {
        /// The project folder. Option `--project`.
        dir: PathBuf = Is(".");
    } also {
        /// Its `basalt.toml`, if there is one.
        file: Option<PathBuf> = None;
    }
}

/// A key that is a JWT; its signature is checked where the keys are.
struct LegacyKey;

impl Kind<SecretString> for LegacyKey {
    const HOLDS_SECRET: bool = true;

    fn expected() -> String {
        SecretString::expected()
    }

    fn read(value: &Value, base: &Path) -> Result<(SecretString, String), InvalidValue> {
        let (key, shown) = SecretString::read(value, base)?;
        if key.expose_secret().split('.').filter(|part| !part.is_empty()).count() != 3 {
            let sentence = "is no JWT: copy the whole key, three parts with dots between";
            return Err(InvalidValue::Because(sentence.to_owned()));
        }
        Ok((key, shown))
    }
}

/// A mail server by URL, with its login.
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
