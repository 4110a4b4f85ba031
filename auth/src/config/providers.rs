//! The settings of external sign-in providers, `auth.external_<name>_…` (auth.md §3.16): the same seven for each provider.

use basalt_core::settings::Fallback::{By, Is};
use basalt_core::settings::{Reader, Setting};
use secrecy::{ExposeSecret, SecretString};

/// The settings of one provider.
#[derive(Debug, Clone, Default)]
pub struct ProviderSettings {
    /// Whether users can sign in with it.
    pub enabled: bool,
    /// The ids that the provider issued. The first is used for redirects; ID tokens may name any of them as audience.
    pub client_ids: Vec<String>,
    /// The secret that the provider issued.
    pub secret: SecretString,
    /// The registered redirect URI; empty for `/callback` of this service.
    pub redirect_uri: String,
    /// The provider's own address, for providers that can be self-hosted or have tenants.
    pub url: String,
    /// Accept ID tokens whatever their nonce.
    pub skip_nonce_check: bool,
    /// Accept users without an e-mail address.
    pub email_optional: bool,
}

impl PartialEq for ProviderSettings {
    fn eq(&self, other: &Self) -> bool {
        let plain = |settings: &Self| {
            (
                settings.enabled,
                settings.client_ids.clone(),
                settings.redirect_uri.clone(),
                settings.url.clone(),
                settings.skip_nonce_check,
                settings.email_optional,
            )
        };
        plain(self) == plain(other) && self.secret.expose_secret() == other.secret.expose_secret()
    }
}

/// The settings of a provider, in documented order.
struct Group {
    name: &'static str,
    settings: [Setting; 7],
}

macro_rules! group {
    ($name:literal, $label:literal) => {
        Group {
            name: $name,
            settings: [
                Setting::new::<bool, bool>(
                    concat!("auth.external_", $name, "_enabled"),
                    Is("false"),
                    concat!("Users can sign in with ", $label, "."),
                ),
                Setting::new::<Vec<String>, Vec<String>>(
                    concat!("auth.external_", $name, "_client_id"),
                    Is(""),
                    concat!(
                        "Client id that ",
                        $label,
                        " issued. Further ones are accepted as audience of ID tokens."
                    ),
                ),
                Setting::new::<Option<SecretString>, Option<SecretString>>(
                    concat!("auth.external_", $name, "_secret"),
                    By("none"),
                    concat!("Client secret that ", $label, " issued."),
                )
                .secret(),
                Setting::new::<Option<String>, Option<String>>(
                    concat!("auth.external_", $name, "_redirect_uri"),
                    By("`server.public_url` + `/auth/v1/callback`"),
                    concat!("Redirect URI registered with ", $label, "."),
                ),
                Setting::new::<Option<String>, Option<String>>(
                    concat!("auth.external_", $name, "_url"),
                    By("the provider's public address"),
                    concat!(
                        "Address of ",
                        $label,
                        ": of an own installation, a tenant, or an OpenID Connect issuer."
                    ),
                ),
                Setting::new::<bool, bool>(
                    concat!("auth.external_", $name, "_skip_nonce_check"),
                    Is("false"),
                    concat!("Accept ID tokens of ", $label, " whatever their nonce."),
                ),
                Setting::new::<bool, bool>(
                    concat!("auth.external_", $name, "_email_optional"),
                    Is("false"),
                    concat!("Users of ", $label, " need no e-mail address."),
                ),
            ],
        }
    };
}

static GROUPS: [Group; 18] = [
    group!("apple", "Apple"),
    group!("azure", "Microsoft Azure"),
    group!("bitbucket", "Bitbucket"),
    group!("discord", "Discord"),
    group!("facebook", "Facebook"),
    group!("figma", "Figma"),
    group!("github", "GitHub"),
    group!("gitlab", "GitLab"),
    group!("google", "Google"),
    group!("kakao", "Kakao"),
    group!("keycloak", "Keycloak"),
    group!("linkedin_oidc", "LinkedIn"),
    group!("notion", "Notion"),
    group!("slack_oidc", "Slack"),
    group!("spotify", "Spotify"),
    group!("twitch", "Twitch"),
    group!("workos", "WorkOS"),
    group!("zoom", "Zoom"),
];

/// Every setting of every provider.
pub(super) fn settings() -> impl Iterator<Item = &'static Setting> {
    GROUPS.iter().flat_map(|group| &group.settings)
}

/// The settings of all providers, by name.
pub(super) fn read(r: &mut Reader) -> Vec<(&'static str, ProviderSettings)> {
    GROUPS.iter().map(|group| (group.name, group.read(r))).collect()
}

impl Group {
    fn read(&self, r: &mut Reader) -> ProviderSettings {
        let [enabled, client_ids, secret, redirect_uri, url, skip_nonce_check, email_optional] =
            &self.settings;
        let mut text = |setting| r.get::<Option<String>, Option<String>>(setting).unwrap_or_default();
        let values = (text(redirect_uri), text(url));
        let settings = ProviderSettings {
            enabled: r.get::<bool, bool>(enabled),
            client_ids: r.get::<Vec<String>, Vec<String>>(client_ids),
            secret: r.get::<Option<SecretString>, Option<SecretString>>(secret).unwrap_or_default(),
            redirect_uri: values.0,
            url: values.1.trim_end_matches('/').to_owned(),
            skip_nonce_check: r.get::<bool, bool>(skip_nonce_check),
            email_optional: r.get::<bool, bool>(email_optional),
        };
        for (setting, value) in [(redirect_uri, &settings.redirect_uri), (url, &settings.url)] {
            if !value.is_empty() && !is_http(value) {
                r.fault(setting.key, "must be an http or https URL");
            }
        }
        settings
    }
}

fn is_http(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}
