//! The settings of hooks, `auth.hook_<name>_…` (auth.md §3.20): the same three for each hook.

use basalt_core::settings::Fallback::{By, Is};
use basalt_core::settings::{Reader, Setting};

use super::secret::SecretSetting;
use crate::hook_types::{HookKind, HookUri, Secret};

/// The settings of one hook.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookSettings {
    /// Whether the hook runs.
    pub enabled: bool,
    /// A PostgreSQL function (`pg-functions://postgres/schema/function`), or an HTTP endpoint.
    pub uri: String,
    /// The secrets that sign requests to an HTTP endpoint: `v1,whsec_<base64>`, separated by `|`.
    pub secrets: SecretSetting,
}

/// The settings of a hook, in documented order.
struct Group {
    kind: HookKind,
    settings: [Setting; 3],
}

macro_rules! group {
    ($kind:ident, $name:literal, $help:literal) => {
        Group {
            kind: HookKind::$kind,
            settings: [
                Setting::new::<bool, bool>(concat!("auth.hook_", $name, "_enabled"), Is("false"), $help),
                Setting::new::<Option<String>, Option<String>>(
                    concat!("auth.hook_", $name, "_uri"),
                    By("none"),
                    concat!(
                        "Where the hook `",
                        $name,
                        "` runs: `pg-functions://postgres/<schema>/<function>`, or an `https` URL (`http` for localhost)."
                    ),
                ),
                Setting::new::<Option<SecretSetting>, Option<SecretSetting>>(
                    concat!("auth.hook_", $name, "_secrets"),
                    By("none"),
                    concat!(
                        "Secrets that sign HTTP requests of the hook `",
                        $name,
                        "`: `v1,whsec_<base64>`, separated by `|`."
                    ),
                )
                .secret(),
            ],
        }
    };
}

static GROUPS: [Group; 7] = [
    group!(CustomAccessToken, "custom_access_token", "A hook changes the claims of access tokens."),
    group!(BeforeUserCreated, "before_user_created", "A hook decides whether a new user is created."),
    group!(AfterUserCreated, "after_user_created", "A hook is notified of each new user."),
    group!(
        PasswordVerificationAttempt,
        "password_verification_attempt",
        "A hook decides about each attempt to sign in with a password."
    ),
    group!(
        MfaVerificationAttempt,
        "mfa_verification_attempt",
        "A hook decides about each attempt to verify a second factor."
    ),
    group!(SendSms, "send_sms", "A hook sends text messages, instead of a provider."),
    group!(
        SendEmail,
        "send_email",
        "A hook sends the mails that contain a code, instead of the mail server."
    ),
];

/// Every setting of every hook.
pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|group| &group.settings)
}

/// The settings of all hooks.
pub(super) fn read(r: &mut Reader) -> Vec<(HookKind, HookSettings)> {
    GROUPS.iter().map(|group| (group.kind, group.read(r))).collect()
}

impl Group {
    fn read(&self, r: &mut Reader) -> HookSettings {
        let [enabled, uri, secrets] = &self.settings;
        let settings = HookSettings {
            enabled: r.get::<bool, bool>(enabled),
            uri: r.get::<Option<String>, Option<String>>(uri).unwrap_or_default(),
            secrets: r.get::<Option<SecretSetting>, Option<SecretSetting>>(secrets).unwrap_or_default(),
        };
        if !settings.enabled {
            return settings;
        }
        match HookUri::parse(&settings.uri) {
            Err(fault) => r.fault(uri.key, &fault),
            Ok(HookUri::Http(_)) => {
                if let Err(fault) = Secret::parse_all(settings.secrets.expose()) {
                    r.fault(secrets.key, &fault);
                }
            }
            Ok(HookUri::Function { .. }) => {}
        }
        settings
    }
}
