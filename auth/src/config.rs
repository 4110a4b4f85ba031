//! What can be set about accounts and tokens. Field names are the keys of auth.md §3.24 in lower case, so that
//! `[auth]` in `basalt.toml` and upstream's `GOTRUE_…` variables name the same things; the gateway fills the struct
//! and checks it ([`AuthConfig::faults`]). All times are whole seconds; 0 means "none" where it says so.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::emails::templates::EmailSettings;
use crate::limits::email_rate::EmailRate;

/// `[auth]`, and the part of `[jwt]` that auth needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthConfig {
    /// Where the app lives: target of mail links and redirects that name none. Default `http://localhost:8000`.
    pub site_url: String,
    /// Public URL of this service, without a trailing slash: `server.public_url` + `/auth/v1`. It is the default
    /// issuer of tokens. Default `http://localhost:8000/auth/v1`.
    #[serde(skip)]
    pub external_url: String,
    /// Globs that a `redirect_to` may match beside `site_url` (auth.md §3.11). Default: none.
    pub uri_allow_list: Vec<String>,

    /// Refuse new accounts, anonymous ones too. Admins may still create users. Default false.
    pub disable_signup: bool,
    /// Sign-up and sign-in by e-mail. Default true.
    pub external_email_enabled: bool,
    /// Passwordless sign-in by e-mail. Default true.
    pub external_email_magic_link_enabled: bool,
    /// The only addresses that get mail; what follows a `+` in the local part does not count. Default: all.
    pub external_email_authorized_addresses: Vec<String>,
    /// Sign-up and sign-in by phone. Default false.
    pub external_phone_enabled: bool,
    /// Accounts without address or password. Default false.
    pub external_anonymous_users_enabled: bool,

    /// Take an e-mail address as confirmed without a mail. The gateway sets it in development when no mail server is
    /// configured (auth.md §3.3). Default false.
    pub mailer_autoconfirm: bool,
    /// Let external sign-ins with an unverified e-mail in; cannot go together with `mailer_autoconfirm`. Default
    /// false.
    pub mailer_allow_unverified_email_sign_ins: bool,
    /// An e-mail change needs the consent of both addresses. Default true.
    pub mailer_secure_email_change_enabled: bool,
    /// Show a page with a button when a mailed link is opened, and use the link up only when it is pressed: for mailboxes
    /// whose scanner opens links. Default false.
    pub mailer_confirm_links: bool,
    /// Life of codes and links in mails, in seconds. Default 86400.
    pub mailer_otp_exp: u64,
    /// Digits of a code in a mail, 6 to 10. Default 6.
    pub mailer_otp_length: u8,
    /// Least time between two mails of one kind to one user, in seconds (upstream's `SMTP_MAX_FREQUENCY`). Default
    /// 60.
    pub mailer_max_frequency: u64,
    /// Tell users by mail that their password was changed. Default false.
    pub mailer_notifications_password_changed_enabled: bool,
    /// Tell users at their old address that the address was changed. Default false.
    pub mailer_notifications_email_changed_enabled: bool,
    /// Tell users by mail that their phone number was changed. Default false.
    pub mailer_notifications_phone_changed_enabled: bool,
    /// Tell users by mail that a sign-in method was linked. Default false.
    pub mailer_notifications_identity_linked_enabled: bool,
    /// Tell users by mail that a sign-in method was removed. Default false.
    pub mailer_notifications_identity_unlinked_enabled: bool,
    /// Tell users by mail that a verification method was added. Default false.
    pub mailer_notifications_mfa_factor_enrolled_enabled: bool,
    /// Tell users by mail that a verification method was removed. Default false.
    pub mailer_notifications_mfa_factor_unenrolled_enabled: bool,
    /// What e-mails are called after; empty = the host of `site_url` (`mail.sender_name`).
    #[serde(skip)]
    pub mailer_sender_name: String,
    /// How e-mails differ from ours, by kind: `confirmation`, `recovery`, … (auth.md §3.21).
    #[serde(skip)]
    pub mailer_letters: BTreeMap<String, EmailSettings>,
    /// Further names of this server: a request that came by one of them (`X-Forwarded-Host`) gets links to it. Default:
    /// none.
    pub mailer_external_hosts: Vec<String>,
    /// Answer `/recover` with 429 when a mail went out less than `mailer_max_frequency` ago, as upstream does, which
    /// tells that the account exists. Default false: 200, and no mail.
    pub mailer_recovery_tells_frequency: bool,

    /// Take a phone number as confirmed without a message. Default false.
    pub sms_autoconfirm: bool,
    /// Life of codes in messages, in seconds. Default 60.
    pub sms_otp_exp: u64,
    /// Digits of a code in a message, 6 to 10. Default 6.
    pub sms_otp_length: u8,
    /// Least time between two messages of one kind to one user, in seconds. Default 60.
    pub sms_max_frequency: u64,

    /// Least length of a password in bytes; never below 6. Default 6.
    pub password_min_length: usize,
    /// Sets of characters separated by `:`, of each of which a password needs one; `\:` is a colon (auth.md §3.17).
    /// Default: none.
    pub password_required_characters: String,
    /// Refuse passwords known from breaches (k-anonymity range query). Default false.
    pub password_hibp_enabled: bool,
    /// Where range queries go; five hexadecimal digits are appended. Default `https://api.pwnedpasswords.com/range/`.
    pub password_hibp_url: String,
    /// argon2id memory per hash, in KiB. Default 19456.
    pub password_argon2_memory: u32,
    /// argon2id passes. Default 2.
    pub password_argon2_iterations: u32,
    /// argon2id lanes. Default 1.
    pub password_argon2_parallelism: u32,
    /// Password hashes computed at once; 0 = one per core. Memory used for hashing is at most this times
    /// `password_argon2_memory`. Default 0.
    pub password_hash_concurrency: usize,
    /// Requests that may wait for a hash; one more answers 503. Default 128.
    pub password_hash_queue: usize,

    /// Hand out a new refresh token at each refresh, and end a session whose old token comes back late. Default
    /// true.
    pub security_refresh_token_rotation_enabled: bool,
    /// For how long after a refresh an older token is still answered, in seconds. Default 10.
    pub security_refresh_token_reuse_interval: u64,
    /// Answer older refresh tokens at any time. Default false.
    pub security_refresh_token_allow_reuse: bool,
    /// A password change needs a recent session or a mailed nonce. Default false.
    pub security_update_password_require_reauthentication: bool,
    /// A password change needs the current password. Default false.
    pub security_update_password_require_current_password: bool,
    /// Users may link and unlink sign-in providers themselves. Default false.
    pub security_manual_linking_enabled: bool,

    /// Greatest age of a session in seconds, judged at refresh; 0 = none. Default 0.
    pub sessions_timebox: u64,
    /// Longest time between refreshes in seconds; 0 = none. Default 0.
    pub sessions_inactivity_timeout: u64,
    /// Life of an aal1 session of a user with a verified second factor, in seconds; 0 = none. Default 0.
    pub sessions_allow_low_aal: u64,
    /// Only the session refreshed last may refresh. Default false.
    pub sessions_single_per_user: bool,
    /// With `sessions_single_per_user`: one session for each of these tags, of which a session without any has the
    /// first. Default: none.
    pub sessions_tags: Vec<String>,

    /// Requests to `/token` per five minutes and client address; 0 = no limit. Default 150.
    pub rate_limit_token_refresh: u32,
    /// Requests to `/verify` per five minutes and client address; 0 = no limit. Default 30.
    pub rate_limit_verify: u32,
    /// Requests to each of `/signup`, `/recover`, `/resend`, `/magiclink`, `/otp` and `PUT /user` per five minutes
    /// and client address; 0 = no limit. Default 30.
    pub rate_limit_otp: u32,
    /// Anonymous sign-ins per hour and client address; 0 = no limit. Default 30.
    pub rate_limit_anonymous_users: u32,
    /// Wrong passwords for one account before its sign-in closes for a while, from addresses where none of its
    /// sessions lives; 0 = no limit. Default 20.
    pub rate_limit_sign_in_failures: u32,
    /// Mails of the whole server in a time; 0 = no limit. Default 30 per hour.
    pub rate_limit_email_sent: EmailRate,
    /// Messages per hour of the whole server; 0 = no limit. Default 30.
    pub rate_limit_sms_sent: u32,

    /// Write no rows to `auth.audit_log_entries`. Default false.
    pub audit_log_disable_postgres: bool,
    /// Age in seconds at which rows of `auth.audit_log_entries` are removed; 0 = never. Default 0.
    pub audit_log_retention: u64,
    /// Remove what has expired, in the background (auth.md §3.23). Default true.
    pub db_cleanup_enabled: bool,
    /// Seconds between two such clean-ups. Default 600.
    pub db_cleanup_interval: u64,
    /// Age in seconds at which anonymous users are removed; 0 = never. Upstream's clean-up, where it is on, takes
    /// 2592000. Default 0.
    pub db_cleanup_anonymous_users_after: u64,
    /// Seconds until a request is answered 504. Default 10.
    pub api_max_request_duration: u64,

    /// `[jwt]`.
    #[serde(skip)]
    pub jwt: JwtConfig,
}

/// The part of `[jwt]` that says what goes into tokens; the keys are `basalt_core::keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct JwtConfig {
    /// Life of an access token in seconds. Default 3600.
    pub exp: u32,
    /// Audience of users and tokens. May be empty. Default `authenticated`.
    pub aud: String,
    /// `iss` of tokens; empty = [`AuthConfig::external_url`]. Default empty.
    pub issuer: String,
    /// Roles whose tokens are admin tokens. Default `service_role`, `supabase_admin`.
    pub admin_roles: Vec<String>,
    /// Role of new users; empty = `authenticated`. Default `authenticated`.
    pub default_group_name: String,
}

impl Default for JwtConfig {
    fn default() -> Self {
        Self {
            exp: 3600,
            aud: "authenticated".to_owned(),
            issuer: String::new(),
            admin_roles: vec!["service_role".to_owned(), "supabase_admin".to_owned()],
            default_group_name: "authenticated".to_owned(),
        }
    }
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            site_url: "http://localhost:8000".to_owned(),
            external_url: "http://localhost:8000/auth/v1".to_owned(),
            uri_allow_list: Vec::new(),
            disable_signup: false,
            external_email_enabled: true,
            external_email_magic_link_enabled: true,
            external_email_authorized_addresses: Vec::new(),
            external_phone_enabled: false,
            external_anonymous_users_enabled: false,
            mailer_autoconfirm: false,
            mailer_allow_unverified_email_sign_ins: false,
            mailer_secure_email_change_enabled: true,
            mailer_confirm_links: false,
            mailer_otp_exp: 86_400,
            mailer_otp_length: 6,
            mailer_max_frequency: 60,
            mailer_notifications_password_changed_enabled: false,
            mailer_notifications_email_changed_enabled: false,
            mailer_notifications_phone_changed_enabled: false,
            mailer_notifications_identity_linked_enabled: false,
            mailer_notifications_identity_unlinked_enabled: false,
            mailer_notifications_mfa_factor_enrolled_enabled: false,
            mailer_notifications_mfa_factor_unenrolled_enabled: false,
            mailer_sender_name: String::new(),
            mailer_letters: BTreeMap::new(),
            mailer_external_hosts: Vec::new(),
            mailer_recovery_tells_frequency: false,
            sms_autoconfirm: false,
            sms_otp_exp: 60,
            sms_otp_length: 6,
            sms_max_frequency: 60,
            password_min_length: 6,
            password_required_characters: String::new(),
            password_hibp_enabled: false,
            password_hibp_url: "https://api.pwnedpasswords.com/range/".to_owned(),
            password_argon2_memory: 19_456,
            password_argon2_iterations: 2,
            password_argon2_parallelism: 1,
            password_hash_concurrency: 0,
            password_hash_queue: 128,
            security_refresh_token_rotation_enabled: true,
            security_refresh_token_reuse_interval: 10,
            security_refresh_token_allow_reuse: false,
            security_update_password_require_reauthentication: false,
            security_update_password_require_current_password: false,
            security_manual_linking_enabled: false,
            sessions_timebox: 0,
            sessions_inactivity_timeout: 0,
            sessions_allow_low_aal: 0,
            sessions_single_per_user: false,
            sessions_tags: Vec::new(),
            rate_limit_token_refresh: 150,
            rate_limit_verify: 30,
            rate_limit_otp: 30,
            rate_limit_anonymous_users: 30,
            rate_limit_sign_in_failures: 20,
            rate_limit_email_sent: EmailRate::default(),
            rate_limit_sms_sent: 30,
            audit_log_disable_postgres: false,
            audit_log_retention: 0,
            db_cleanup_enabled: true,
            db_cleanup_interval: 600,
            db_cleanup_anonymous_users_after: 0,
            api_max_request_duration: 10,
            jwt: JwtConfig::default(),
        }
    }
}

impl AuthConfig {
    /// What is wrong with the values, as `(key, sentence)`; empty when they can be used. Every fault is listed, so
    /// that one start shows them all.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, key: &'static str, sentence: &str| {
            if !ok {
                faults.push((key, sentence.to_owned()));
            }
        };
        let is_http = |text: &str| {
            url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        };
        check(
            url::Url::parse(&self.site_url).is_ok(),
            "auth.site_url",
            "must be an absolute URL such as https://app.example.org",
        );
        check(
            self.uri_allow_list.iter().all(|entry| crate::http::redirect::is_glob(entry)),
            "auth.uri_allow_list",
            "must hold globs whose brackets are closed (a backslash takes one as it is)",
        );
        check(is_http(&self.external_url), "server.public_url", "must be an http or https URL");
        for (key, length) in
            [("auth.mailer_otp_length", self.mailer_otp_length), ("auth.sms_otp_length", self.sms_otp_length)]
        {
            check((6..=10).contains(&length), key, "must be 6 to 10");
        }
        check(
            self.password_min_length <= 72,
            "auth.password_min_length",
            "must not pass 72, the longest password",
        );
        check(
            crate::passwords::hasher::params(self).is_ok(),
            "auth.password_argon2_memory",
            "argon2 needs at least 8 KiB per lane, one pass and one lane, and at most 4 GiB",
        );
        check(
            !(self.mailer_autoconfirm && self.mailer_allow_unverified_email_sign_ins),
            "auth.mailer_allow_unverified_email_sign_ins",
            "cannot be on together with auth.mailer_autoconfirm",
        );
        check(is_http(&self.password_hibp_url), "auth.password_hibp_url", "must be an http or https URL");
        check(self.db_cleanup_interval > 0, "auth.db_cleanup_interval", "must be at least 1 second");
        check(self.jwt.exp > 0, "jwt.exp", "must be at least 1 second");
        check(
            self.api_max_request_duration > 0,
            "auth.api_max_request_duration",
            "must be at least 1 second",
        );
        faults
    }

    /// `iss` of tokens.
    pub(crate) fn issuer(&self) -> &str {
        if self.jwt.issuer.is_empty() { &self.external_url } else { &self.jwt.issuer }
    }

    /// Role of new users.
    pub(crate) fn default_role(&self) -> &str {
        if self.jwt.default_group_name.is_empty() { "authenticated" } else { &self.jwt.default_group_name }
    }

    /// Whether tokens of this role are admin tokens.
    pub(crate) fn is_admin_role(&self, role: &str) -> bool {
        self.jwt.admin_roles.iter().any(|admin| admin == role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_usable() {
        assert_eq!(AuthConfig::default().faults(), Vec::new());
    }

    #[test]
    fn every_fault_is_listed() {
        let config = AuthConfig {
            site_url: "nowhere".to_owned(),
            mailer_otp_length: 4,
            password_argon2_iterations: 0,
            jwt: JwtConfig { exp: 0, ..JwtConfig::default() },
            ..AuthConfig::default()
        };
        let keys: Vec<_> = config.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            ["auth.site_url", "auth.mailer_otp_length", "auth.password_argon2_memory", "jwt.exp"]
        );
    }

    #[test]
    fn an_unset_role_is_authenticated_but_an_unset_audience_stays_empty() {
        let mut config = AuthConfig::default();
        config.jwt.default_group_name.clear();
        config.jwt.aud.clear();
        assert_eq!(config.default_role(), "authenticated");
        assert_eq!(config.jwt.aud, "");
        assert_eq!(config.issuer(), "http://localhost:8000/auth/v1");
    }
}
