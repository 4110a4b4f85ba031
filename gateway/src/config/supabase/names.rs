//! The keys of `config.toml`, and the setting that each becomes.

use super::super::foreign::{Form, Meaning, Name};
use Meaning::{AlwaysOn, As, Ignored, Instead, Later, List, Same, Special};

/// Those with a function of their own, in the modules beside this one, are `Special`.
pub(super) const NAMES: &[(&str, Meaning)] = &[
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

pub(super) fn form() -> Form {
    Form {
        server: "Supabase's CLI",
        prefix: "",
        names: NAMES.iter().map(|(name, meaning)| Name::new(name, *meaning)).collect(),
        defaults: &[],
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
