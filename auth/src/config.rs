//! The settings of accounts and tokens. Field names are the keys of auth.md §3.24 in lower case, so that `[auth]` in
//! `basalt.toml` matches upstream's `GOTRUE_…` variables. The gateway reads them, adds values from other sections, and
//! validates the result ([`AuthConfig::faults`]). All times are in whole seconds.

pub(crate) mod email_rate;
pub(crate) mod hooks;
pub(crate) mod providers;
pub(crate) mod relying_party;
pub(crate) mod secret;

use std::collections::BTreeMap;
use std::path::Path;

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, ByOr, Is};
use basalt_core::settings::kinds::{Parsed, Seconds, Whole};
use basalt_core::settings::{Reader, Setting};
use jiff::Timestamp;

use crate::hook_types::HookKind;
use crate::passwords::hasher::HasherSettings;
use crate::redirects;
use crate::templates::{EmailSettings, TemplateSource, TextTemplate};
use email_rate::EmailRate;
use hooks::HookSettings;
use providers::ProviderSettings;
use secret::SecretSetting;

settings! {
    /// `[auth]`, and the part of `[jwt]` that auth needs.
    #[derive(Debug, Clone, PartialEq)]
    pub struct AuthConfig in "auth" with r {
        /// URL of the app: the default target of links in mails and of redirects.
        site_url: String = ByOr("`server.public_url`", "http://localhost:8000");
        /// Globs of further allowed `redirect_to` targets besides `auth.site_url`.
        uri_allow_list: Vec<String> = Is("");
        /// Disable sign-up; admins can still create users.
        disable_signup: bool = Is("false");
        /// Sign-up and sign-in by e-mail.
        external_email_enabled: bool = Is("true");
        /// Sign-in by a mailed link or code.
        external_email_magic_link_enabled: bool = Is("true");
        /// The only addresses that may receive mail, for testing; `+suffix` in the local part is ignored. Empty for all.
        external_email_authorized_addresses: Vec<String> = Is("");
        /// Sign-up and sign-in by phone.
        external_phone_enabled: bool = Is("false");
        /// Accounts without address or password.
        external_anonymous_users_enabled: bool = Is("false");
        /// Confirm e-mail addresses without sending a mail.
        mailer_autoconfirm: bool = ByOr("true in development without `mail.smtp_url`, else false", "false");
        /// Allow sign-ins through other providers with an unverified address.
        mailer_allow_unverified_email_sign_ins: bool = Is("false");
        /// A change of address must be confirmed at both addresses.
        mailer_secure_email_change_enabled: bool = Is("true");
        /// Links in mails open a page with a button, and are used only when it is pressed. For mail scanners that open links.
        mailer_confirm_links: bool = Is("false");
        /// Lifetime of mailed codes and links.
        mailer_otp_exp: u64 as Seconds<1> = Is("86400");
        /// Number of digits of mailed codes.
        mailer_otp_length: u8 as Whole<6, 10> = Is("6");
        /// Notify users by mail when their password is changed.
        mailer_notifications_password_changed_enabled: bool = Is("false");
        /// Notify users at the old address when their address is changed.
        mailer_notifications_email_changed_enabled: bool = Is("false");
        /// Notify users by mail when their phone number is changed.
        mailer_notifications_phone_changed_enabled: bool = Is("false");
        /// Notify users by mail when a sign-in method is linked.
        mailer_notifications_identity_linked_enabled: bool = Is("false");
        /// Notify users by mail when a sign-in method is removed.
        mailer_notifications_identity_unlinked_enabled: bool = Is("false");
        /// Notify users by mail when a verification method is added.
        mailer_notifications_mfa_factor_enrolled_enabled: bool = Is("false");
        /// Notify users by mail when a verification method is removed.
        mailer_notifications_mfa_factor_unenrolled_enabled: bool = Is("false");
        /// Further host names of this server, with port unless it is the default: if a request came through one of them (`X-Forwarded-Host`), links in its mails use it.
        mailer_external_hosts: Vec<String> = Is("");
        /// `/recover` returns 429 within `mail.max_frequency` of the last mail, as GoTrue does. Reveals that the account exists.
        mailer_recovery_tells_frequency: bool = Is("false");
        /// Confirm phone numbers without sending a message.
        sms_autoconfirm: bool = Is("false");
        /// Lifetime of SMS codes.
        sms_otp_exp: u64 as Seconds<1> = Is("60");
        /// Number of digits of SMS codes.
        sms_otp_length: u8 as Whole<6, 10> = Is("6");
        /// Minimum time between two messages of one kind to a user; 0 for none.
        sms_max_frequency: u64 as Seconds = Is("60");
        /// Who sends text messages: `twilio`. Without a provider, a development server without `mail.smtp_url` puts them into the mailbox, and other servers send none unless `auth.hook_send_sms_enabled`.
        sms_provider: String = Is("");
        /// Text of messages: a template with `.Code`.
        sms_template: String = Is("Your code is {{ .Code }}");
        /// Country codes, or longer prefixes, of numbers that may receive messages, such as `+49`. Empty for all.
        sms_allowed_prefixes: Vec<String> = Is("");
        /// Numbers that receive no message, with their fixed codes, for tests.
        sms_test_otp: Vec<(String, String)> = Is("");
        /// When the fixed codes end, such as `2030-01-01T00:00:00Z`.
        sms_test_otp_valid_until: Option<Timestamp> as Option<Parsed> = By("never");
        /// Account SID of Twilio.
        sms_twilio_account_sid: String = Is("");
        /// Auth token of Twilio.
        sms_twilio_auth_token: Option<SecretSetting> = By("none"), secret;
        /// Sender: SID of a Twilio messaging service, or a number of yours.
        sms_twilio_message_service_sid: String = Is("");
        /// SID of the Twilio template for messages over WhatsApp, whose variable 1 is the code.
        sms_twilio_content_sid: String = Is("");
        /// URL of Twilio, or of a service with the same API.
        sms_twilio_url: String = Is("https://api.twilio.com");
        /// Minimum length of passwords, in bytes.
        password_min_length: usize as Whole<6, 72> = Is("6");
        /// Character sets separated by `:`; a password needs a character of each. `\:` is a colon.
        password_required_characters: String = Is("");
        /// Reject passwords known from breaches.
        password_hibp_enabled: bool = Is("false");
        /// URL of the breach list. Only the first five digits of a password's SHA-1 are sent, appended to the URL.
        password_hibp_url: String = Is("https://api.pwnedpasswords.com/range/");
        /// argon2id memory per hash, in KiB.
        password_argon2_memory: u32 as Whole<8, 4_194_304> = Is("19456");
        /// argon2id iterations.
        password_argon2_iterations: u32 as Whole<1, 1000> = Is("2");
        /// argon2id lanes.
        password_argon2_parallelism: u32 as Whole<1, 255> = Is("1");
        /// Password hashes computed concurrently; 0 for one less than the number of cores, but at least one.
        password_hash_concurrency: usize as Whole<0, 1024> = Is("0");
        /// Requests that may wait for a hash; further ones get 503 `unexpected_failure` with `Retry-After: 1`.
        password_hash_queue: usize as Whole<0, 100_000> = Is("128");
        /// Rotate refresh tokens, and end a session if an old token is reused.
        security_refresh_token_rotation_enabled: bool = Is("true");
        /// How long after a refresh older tokens are still accepted; 0 for not at all.
        security_refresh_token_reuse_interval: u64 as Seconds = Is("10");
        /// Always accept older refresh tokens.
        security_refresh_token_allow_reuse: bool = Is("false");
        /// Changing the password requires a recent session or a mailed nonce.
        security_update_password_require_reauthentication: bool = Is("false");
        /// Changing the password requires the current one.
        security_update_password_require_current_password: bool = Is("false");
        /// Users may link and unlink sign-in providers themselves.
        security_manual_linking_enabled: bool = Is("false");
        /// Sign-ups, sign-ins and requests for codes need a captcha.
        security_captcha_enabled: bool = Is("false");
        /// Captcha service: `hcaptcha` or `turnstile`.
        security_captcha_provider: String = Is("hcaptcha");
        /// Secret key of the captcha service.
        security_captcha_secret: Option<SecretSetting> = By("none"), secret;
        /// Time for the captcha service to answer.
        security_captcha_timeout: u64 as Seconds<1> = Is("10");
        /// URL of the captcha service's verification.
        security_captcha_url: Option<String> = By("the service's public address");
        /// Users may add an authenticator app (TOTP) as a second factor.
        mfa_totp_enroll_enabled: bool = Is("true");
        /// Codes of authenticator apps are accepted.
        mfa_totp_verify_enabled: bool = Is("true");
        /// Users may add a phone number as a second factor.
        mfa_phone_enroll_enabled: bool = Is("false");
        /// Codes sent to phone numbers are accepted as a second factor.
        mfa_phone_verify_enabled: bool = Is("false");
        /// Number of digits of codes sent to phone numbers.
        mfa_phone_otp_length: u8 as Whole<6, 10> = Is("6");
        /// Text of messages with a second factor's code: a template with `.Code`.
        mfa_phone_template: String = Is("Your code is {{ .Code }}");
        /// Minimum time between two messages for a second factor; 0 for none.
        mfa_phone_max_frequency: u64 as Seconds = Is("60");
        /// Users may create recovery codes, each of which replaces a second factor once.
        mfa_recovery_codes_enroll_enabled: bool = Is("true");
        /// Recovery codes are accepted.
        mfa_recovery_codes_verify_enabled: bool = Is("true");
        /// A challenge of a second factor can only be answered from the address that requested it. Phones change their address when they change networks.
        mfa_challenge_same_address: bool = Is("false");
        /// Second factors a user may have, including unfinished enrolments.
        mfa_max_enrolled_factors: usize as Whole<1, 100> = Is("10");
        /// Verified second factors a user may have.
        mfa_max_verified_factors: usize as Whole<1, 100> = Is("10");
        /// Users can let other programs act for them (OAuth 2.1).
        oauth_server_enabled: bool = Is("false");
        /// Programs can register themselves as OAuth clients.
        oauth_server_allow_dynamic_registration: bool = Is("false");
        /// The app's page that asks for the user's consent, below `auth.site_url`; it gets `authorization_id` in its query.
        oauth_server_authorization_path: String = Is("/oauth/consent");
        /// Time that a user has to decide.
        oauth_server_authorization_ttl: u64 as Seconds<1> = Is("10m");
        /// Users may register passkeys and sign in with them.
        passkey_enabled: bool = Is("false");
        /// Passkeys a user may have.
        passkey_max_passkeys_per_user: usize as Whole<1, 100> = Is("10");
        /// Users may add a WebAuthn authenticator as a second factor.
        mfa_web_authn_enroll_enabled: bool = Is("false");
        /// WebAuthn authenticators are accepted as second factors.
        mfa_web_authn_verify_enabled: bool = Is("false");
        /// The domain that passkeys and WebAuthn factors belong to. Changing it makes all of them unusable.
        webauthn_rp_id: Option<String> as Option<String> = By("the host of `auth.site_url`; `localhost` for a loopback address");
        /// The name that authenticators show.
        webauthn_rp_display_name: Option<String> as Option<String> = By("`auth.webauthn_rp_id`");
        /// Origins of the pages that may use passkeys and WebAuthn factors, such as `https://app.example.org`. On localhost, the port does not matter.
        webauthn_rp_origins: Vec<String> = ByOr("the origin of `auth.site_url`", "");
        /// Time to answer a passkey's challenge.
        webauthn_challenge_expiry_duration: u64 as Seconds<1> = Is("5m");
        /// Admins can add OAuth 2 and OpenID Connect providers at run time.
        custom_oauth_enabled: bool = Is("true");
        /// Custom providers that can exist; 0 for no limit.
        custom_oauth_max_providers: u32 as Whole<0, 1_000_000> = Is("0");
        /// Custom providers may be on private addresses and without TLS, for tests. Lets admins reach services behind the firewall.
        custom_oauth_allow_private_addresses: bool = Is("false");
        /// Maximum age of a session, checked at refresh; 0 for none.
        sessions_timebox: u64 as Seconds = Is("0");
        /// Maximum time between refreshes; 0 for none.
        sessions_inactivity_timeout: u64 as Seconds = Is("0");
        /// Lifetime of sessions without second factor, for users who have one; 0 for no limit.
        sessions_allow_low_aal: u64 as Seconds = Is("0");
        /// Only the most recently used session of a user can refresh.
        sessions_single_per_user: bool = Is("false");
        /// With `auth.sessions_single_per_user`: one session per tag; a session without tag counts as the first.
        sessions_tags: Vec<String> = Is("");
        /// Sign-ins and refreshes per address in five minutes; 0 for no limit.
        rate_limit_token_refresh: u32 as Whole<0, 4_000_000_000> = Is("150");
        /// Attempted codes and links per address in five minutes; 0 for no limit.
        rate_limit_verify: u32 as Whole<0, 4_000_000_000> = Is("30");
        /// Challenges and codes of second factors (each) per address in a minute; 0 for no limit.
        mfa_rate_limit_challenge_and_verify: u32 as Whole<0, 4_000_000_000> = Is("15");
        /// Sign-ups, recoveries, magic links and user changes (each) per address in five minutes; 0 for no limit.
        rate_limit_otp: u32 as Whole<0, 4_000_000_000> = Is("30");
        /// Anonymous sign-ins per address in an hour; 0 for no limit.
        rate_limit_anonymous_users: u32 as Whole<0, 4_000_000_000> = Is("30");
        /// OAuth clients that register themselves per address in five minutes; 0 for no limit.
        rate_limit_oauth_dynamic_client_register: u32 as Whole<0, 4_000_000_000> = Is("10");
        /// Passkey registrations and sign-ins begun per address in five minutes; 0 for no limit.
        rate_limit_passkey: u32 as Whole<0, 4_000_000_000> = Is("30");
        /// Wrong passwords for an account before its sign-in is locked for a second, then two, then four, up to 15 minutes. Addresses with a session of the account are counted separately, so that attackers cannot lock the owner out; 0 for no limit.
        rate_limit_sign_in_failures: u32 as Whole<0, 4_000_000_000> = Is("20");
        /// Mails of the whole server per hour, or per period (`30/10m`); 0 for no limit.
        rate_limit_email_sent: EmailRate = Is("30");
        /// Messages of the whole server per hour; 0 for no limit.
        rate_limit_sms_sent: u32 as Whole<0, 4_000_000_000> = Is("30");
        /// Messages to numbers of one country per hour; 0 for no limit.
        rate_limit_sms_per_country: u32 as Whole<0, 4_000_000_000> = Is("0");
        /// Messages to one number per hour; 0 for no limit.
        rate_limit_sms_per_number: u32 as Whole<0, 4_000_000_000> = Is("10");
        /// Do not write to `auth.audit_log_entries`.
        audit_log_disable_postgres: bool = Is("false");
        /// Age at which rows of `auth.audit_log_entries` are removed; 0 for never.
        audit_log_retention: u64 as Seconds = Is("0");
        /// Remove expired codes, flows, tokens and sessions in the background.
        db_cleanup_enabled: bool = Is("true");
        /// Time between two clean-ups.
        db_cleanup_interval: u64 as Seconds<1> = Is("10m");
        /// Age at which anonymous users are removed, with everything that references them; 0 for never.
        db_cleanup_anonymous_users_after: u64 as Seconds = Is("0");
        /// Time limit of a request, after which it gets 504.
        api_max_request_duration: u64 as Seconds<1> = Is("10");
    } also {
        /// Public URL of this service, without a trailing slash: `server.public_url` + `/auth/v1`.
        external_url: String = "http://localhost:8000/auth/v1".to_owned();
        /// Least time between two mails of one kind to one user, in seconds: `mail.max_frequency`.
        mailer_max_frequency: u64 = 60;
        /// The app's name in e-mails (`mail.sender_name`); empty for the host of `site_url`.
        mailer_sender_name: String = String::new();
        /// Overrides of the built-in e-mails by kind: `confirmation`, `recovery`, … (auth.md §3.21).
        mailer_letters: BTreeMap<String, EmailSettings> = emails(r);
        /// External sign-in providers by name, also disabled ones.
        external: Vec<(&'static str, ProviderSettings)> = providers::read(r);
        /// Hooks by kind, also disabled ones.
        hooks: Vec<(HookKind, HookSettings)> = hooks::read(r);
        /// `[jwt]`.
        jwt: JwtConfig = JwtConfig::read(r);
    }
}

settings! {
    /// The claims of tokens; the rest of `[jwt]` belongs to `basalt_core::keys`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct JwtConfig in "jwt" with r {
        /// Lifetime of access tokens.
        exp: u32 as Seconds<1> = Is("3600");
        /// `aud` of new users and their tokens.
        aud: String = Is("authenticated");
        /// `role` of new users and their tokens.
        default_group_name: String = Is("authenticated");
        /// `iss` of access tokens.
        issuer: String = ByOr("`server.public_url` + `/auth/v1`", "");
        /// Roles that can call the auth service's admin routes.
        admin_roles: Vec<String> = Is("service_role,supabase_admin");
    }
}

/// The settings of the e-mails of one kind.
struct Email {
    name: &'static str,
    subject: Setting,
    body: Setting,
    url_path: Setting,
    has_link: bool,
}

macro_rules! email {
    ($name:literal, $emails:literal, has_link: $has_link:literal) => {
        Email {
            name: $name,
            subject: Setting::new::<Option<String>, Option<String>>(
                concat!("auth.mailer_subjects_", $name),
                By("ours"),
                concat!("Subject of ", $emails, ": a text template."),
            ),
            body: Setting::new::<Option<String>, Option<String>>(
                concat!("auth.mailer_templates_", $name),
                By("ours"),
                concat!(
                    "Body of ",
                    $emails,
                    ": HTML with variables, the path of a file of such HTML in the project, or a URL to fetch it \
                     from (and again after ten minutes).",
                ),
            ),
            url_path: Setting::new::<Option<String>, Option<String>>(
                concat!("auth.mailer_url_paths_", $name),
                By("`/verify` of this service"),
                concat!(
                    "Where the link in ",
                    $emails,
                    " leads: a path of the service's host, or a URL of your own page, which then redeems the `token`.",
                ),
            ),
            has_link: $has_link,
        }
    };
}

static EMAILS: [Email; 13] = [
    email!("confirmation", "mails that confirm a sign-up", has_link: true),
    email!("invite", "invitations", has_link: true),
    email!("magic_link", "mails with a sign-in link", has_link: true),
    email!("recovery", "password recovery mails", has_link: true),
    email!("email_change", "mails that confirm a new address", has_link: true),
    email!("reauthentication", "mails with a verification code", has_link: false),
    email!("password_changed", "notifications of a changed password", has_link: false),
    email!("email_changed", "notifications of a changed address", has_link: false),
    email!("phone_changed", "notifications of a changed phone number", has_link: false),
    email!("identity_linked", "notifications of a linked provider", has_link: false),
    email!("identity_unlinked", "notifications of an unlinked provider", has_link: false),
    email!("mfa_factor_enrolled", "notifications of an added second factor", has_link: false),
    email!("mfa_factor_unenrolled", "notifications of a removed second factor", has_link: false),
];

/// Every setting that auth reads, in the order they are documented.
pub fn settings() -> impl Iterator<Item = &'static Setting> {
    let emails = EMAILS.iter().flat_map(|email| {
        let url_path = email.has_link.then_some(&email.url_path);
        [&email.subject, &email.body].into_iter().chain(url_path)
    });
    AuthConfig::SETTINGS
        .iter()
        .chain(providers::settings())
        .chain(hooks::settings())
        .chain(emails)
        .chain(&JwtConfig::SETTINGS)
}

/// Reads the settings of all kinds of e-mail.
fn emails(r: &mut Reader) -> BTreeMap<String, EmailSettings> {
    let mut emails = BTreeMap::new();
    for email in &EMAILS {
        let mut text = |setting| r.get::<Option<String>, Option<String>>(setting);
        let (subject, body) = (text(&email.subject), text(&email.body));
        let url_path = email.has_link.then(|| text(&email.url_path)).flatten().unwrap_or_default();
        let body = body.and_then(|text| {
            template(r.project_dir(), &text).map_err(|fault| r.fault(email.body.key, &fault)).ok()
        });
        let settings = EmailSettings { subject, body, url_path };
        for (key, fault) in
            [(email.subject.key, settings.subject_fault()), (email.body.key, settings.body_fault())]
        {
            if let Some(fault) = fault {
                r.fault(key, &format!("is not a template: {fault}"));
            }
        }
        if settings != EmailSettings::default() {
            emails.insert(email.name.to_owned(), settings);
        }
    }
    emails
}

/// Parses a template setting: inline HTML (contains `<`, `{{` or a line break), a URL (starts with a scheme), or the path of a
/// file.
fn template(project_dir: &Path, text: &str) -> Result<TemplateSource, String> {
    /// Largest template file in bytes (auth.md §3.21).
    const MAX_BYTES: u64 = 1_048_576;
    let is_url = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
    if is_url && !text.contains(char::is_whitespace) {
        let url = url::Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
        return Ok(TemplateSource::Url(url));
    }
    if text.contains(['<', '\n']) || text.contains("{{") {
        return Ok(TemplateSource::Text(text.to_owned()));
    }
    let path = project_dir.join(text);
    if std::fs::metadata(&path).is_ok_and(|file| file.len() > MAX_BYTES) {
        return Err(format!("names {}, which is larger than 1 MB", path.display()));
    }
    std::fs::read_to_string(&path)
        .map(TemplateSource::Text)
        .map_err(|error| format!("names {}, which Basalt cannot read: {error}", path.display()))
}

/// Whether the text consists of digits, at least one and at most `most`.
fn has_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl AuthConfig {
    /// Invalid values beyond type errors, as `(key, sentence)`. All are returned, so that one start reports them all.
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
            self.uri_allow_list.iter().all(|entry| redirects::is_glob(entry)),
            "auth.uri_allow_list",
            "must contain globs with balanced brackets (escape a bracket with a backslash)",
        );
        check(is_http(&self.external_url), "server.public_url", "must be an http or https URL");
        check(
            self.hasher_settings().params().is_ok(),
            "auth.password_argon2_memory",
            "argon2 needs at least 8 KiB per lane, one pass and one lane, and at most 4 GiB",
        );
        check(
            !(self.mailer_autoconfirm && self.mailer_allow_unverified_email_sign_ins),
            "auth.mailer_allow_unverified_email_sign_ins",
            "cannot be on together with auth.mailer_autoconfirm",
        );
        if let Err((key, sentence)) = self.relying_party() {
            check(false, key, &sentence);
        }
        if self.security_captcha_enabled {
            check(
                matches!(self.security_captcha_provider.as_str(), "hcaptcha" | "turnstile"),
                "auth.security_captcha_provider",
                "must be hcaptcha or turnstile",
            );
            check(
                self.security_captcha_secret.is_some(),
                "auth.security_captcha_secret",
                "is required for captchas: copy it from the captcha service",
            );
            check(
                self.security_captcha_url.as_deref().is_none_or(is_http),
                "auth.security_captcha_url",
                "must be an http or https URL",
            );
        }
        check(is_http(&self.sms_twilio_url), "auth.sms_twilio_url", "must be an http or https URL");
        check(
            self.sms_test_otp
                .iter()
                .all(|(phone, code)| has_digits(phone.trim_start_matches('+'), 15) && has_digits(code, 10)),
            "auth.sms_test_otp",
            "must contain phone numbers with codes of up to ten digits",
        );
        check(
            self.sms_allowed_prefixes.iter().all(|prefix| has_digits(prefix.trim_start_matches('+'), 15)),
            "auth.sms_allowed_prefixes",
            "must contain country codes such as +49",
        );
        for (key, template) in
            [("auth.sms_template", &self.sms_template), ("auth.mfa_phone_template", &self.mfa_phone_template)]
        {
            if let Some(fault) = TextTemplate::fault(template) {
                check(false, key, &format!("is not a template: {fault}"));
            }
        }
        check(is_http(&self.password_hibp_url), "auth.password_hibp_url", "must be an http or https URL");
        faults
    }

    /// Parameters and bounds of password hashing.
    pub(crate) const fn hasher_settings(&self) -> HasherSettings {
        HasherSettings {
            memory_kib: self.password_argon2_memory,
            iterations: self.password_argon2_iterations,
            lanes: self.password_argon2_parallelism,
            concurrency: self.password_hash_concurrency,
            queue: self.password_hash_queue,
        }
    }

    /// The limit on mails of the whole server. None under autoconfirm: no sign-up waits for those mails.
    pub(crate) fn email_rate(&self) -> Option<EmailRate> {
        (!self.mailer_autoconfirm).then_some(self.rate_limit_email_sent)
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
    fn defaults_are_valid() {
        assert_eq!(AuthConfig::default().faults(), Vec::new());
    }

    #[test]
    fn faults_lists_every_invalid_value() {
        let config = AuthConfig {
            site_url: "nowhere".to_owned(),
            uri_allow_list: vec!["https://{a".to_owned()],
            password_argon2_iterations: 0,
            external_url: "nowhere".to_owned(),
            ..AuthConfig::default()
        };
        let keys: Vec<_> = config.faults().into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            keys,
            ["auth.site_url", "auth.uri_allow_list", "server.public_url", "auth.password_argon2_memory"]
        );
    }

    #[test]
    fn autoconfirm_lifts_the_limit_on_mails() {
        let mut config = AuthConfig::default();
        assert_eq!(config.email_rate(), Some(EmailRate::default()));
        config.mailer_autoconfirm = true;
        assert_eq!(config.email_rate(), None);
    }

    #[test]
    fn empty_role_has_a_default_but_empty_audience_stays() {
        let mut config = AuthConfig::default();
        config.jwt.default_group_name.clear();
        config.jwt.aud.clear();
        assert_eq!(config.default_role(), "authenticated");
        assert_eq!(config.jwt.aud, "");
        assert_eq!(config.issuer(), "http://localhost:8000/auth/v1");
    }
}
