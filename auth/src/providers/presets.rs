//! What is known about each provider: its addresses, scopes and the format of its users (auth.md §3.16).

use super::external_user::{self, Context, ExternalUser};
use serde_json::Value;

/// How the client authenticates at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// `client_id` and `client_secret` in the form.
    Form,
    /// HTTP basic authentication.
    Basic,
}

/// Where the provider tells who the user is.
#[derive(Debug, Clone, Copy)]
pub(super) enum UserSource {
    /// The ID token. The string is the issuer, a suffix of the base if it starts with `/`.
    IdToken(&'static str),
    /// JSON from a URL, a suffix of the base if it starts with `/`.
    Endpoint(&'static str),
    /// As `Endpoint`, and the addresses of the user from a second URL.
    EndpointAndEmails(&'static str, &'static str),
}

/// One provider.
pub(super) struct Preset {
    pub(super) name: &'static str,
    /// The address that `auth.external_<name>_url` replaces; empty if the setting is required.
    pub(super) base: &'static str,
    /// Like the other endpoints, a suffix of the base if it starts with `/`.
    pub(super) authorize: &'static str,
    pub(super) token: &'static str,
    pub(super) source: UserSource,
    pub(super) scopes: &'static str,
    pub(super) auth: ClientAuth,
    /// Whether the provider supports PKCE.
    pub(super) pkce: bool,
    /// Parameters added to the authorization request.
    pub(super) extra: &'static [(&'static str, &'static str)],
    /// Converts the user of the source.
    pub(super) user: fn(&Value, &Context<'_>) -> Option<ExternalUser>,
}

/// OpenID Connect providers may be replaced as a whole: if a URL is configured, it is the issuer, and its discovery document has
/// the endpoints.
pub(super) const DISCOVERED: [&str; 4] = ["google", "apple", "linkedin_oidc", "slack_oidc"];

/// The defaults of custom providers.
pub(super) static CUSTOM_OIDC: Preset = Preset {
    name: "custom",
    base: "",
    authorize: "",
    token: "",
    source: UserSource::IdToken(""),
    scopes: "openid email profile",
    auth: ClientAuth::Form,
    pkce: true,
    extra: &[],
    user: external_user::openid,
};
/// As [`CUSTOM_OIDC`]; the endpoint is the provider's `userinfo_url`.
pub(super) static CUSTOM_OAUTH2: Preset =
    Preset { source: UserSource::Endpoint(""), scopes: "", ..CUSTOM_OIDC };

const FORM: ClientAuth = ClientAuth::Form;
const BASIC: ClientAuth = ClientAuth::Basic;

pub(super) static PRESETS: [Preset; 18] = [
    Preset {
        name: "apple",
        base: "https://appleid.apple.com",
        authorize: "/auth/authorize",
        token: "/auth/token",
        source: UserSource::IdToken(""),
        scopes: "email name",
        auth: FORM,
        pkce: false,
        // Apple requires a POST if the scopes contain the address.
        extra: &[("response_mode", "form_post")],
        user: external_user::apple,
    },
    Preset {
        name: "azure",
        base: "https://login.microsoftonline.com/common",
        authorize: "/oauth2/v2.0/authorize",
        token: "/oauth2/v2.0/token",
        source: UserSource::IdToken("/v2.0"),
        scopes: "openid",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::azure,
    },
    Preset {
        name: "bitbucket",
        base: "https://bitbucket.org",
        authorize: "/site/oauth2/authorize",
        token: "/site/oauth2/access_token",
        source: UserSource::EndpointAndEmails(
            "https://api.bitbucket.org/2.0/user",
            "https://api.bitbucket.org/2.0/user/emails",
        ),
        scopes: "account email",
        auth: BASIC,
        pkce: false,
        extra: &[],
        user: external_user::bitbucket,
    },
    Preset {
        name: "discord",
        base: "https://discord.com",
        authorize: "/api/oauth2/authorize",
        token: "/api/oauth2/token",
        source: UserSource::Endpoint("/api/users/@me"),
        scopes: "email identify",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::discord,
    },
    Preset {
        name: "facebook",
        base: "https://www.facebook.com",
        authorize: "/dialog/oauth",
        token: "https://graph.facebook.com/oauth/access_token",
        source: UserSource::Endpoint(
            "https://graph.facebook.com/me?fields=email,first_name,last_name,name,picture",
        ),
        scopes: "email",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::facebook,
    },
    Preset {
        name: "figma",
        base: "https://www.figma.com",
        authorize: "/oauth",
        token: "https://api.figma.com/v1/oauth/token",
        source: UserSource::Endpoint("https://api.figma.com/v1/me"),
        scopes: "current_user:read",
        auth: BASIC,
        pkce: true,
        extra: &[],
        user: external_user::figma,
    },
    Preset {
        name: "github",
        base: "https://github.com",
        authorize: "/login/oauth/authorize",
        token: "/login/oauth/access_token",
        source: UserSource::EndpointAndEmails(
            "https://api.github.com/user",
            "https://api.github.com/user/emails",
        ),
        scopes: "user:email",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::github,
    },
    Preset {
        name: "gitlab",
        base: "https://gitlab.com",
        authorize: "/oauth/authorize",
        token: "/oauth/token",
        source: UserSource::Endpoint("/api/v4/user"),
        scopes: "read_user",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::gitlab,
    },
    Preset {
        name: "google",
        base: "https://accounts.google.com",
        authorize: "/o/oauth2/v2/auth",
        token: "https://oauth2.googleapis.com/token",
        source: UserSource::IdToken(""),
        scopes: "openid email profile",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::openid,
    },
    Preset {
        name: "kakao",
        base: "https://kauth.kakao.com",
        authorize: "/oauth/authorize",
        token: "/oauth/token",
        source: UserSource::Endpoint("https://kapi.kakao.com/v2/user/me"),
        scopes: "account_email profile_image profile_nickname",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::kakao,
    },
    Preset {
        name: "keycloak",
        base: "",
        authorize: "/protocol/openid-connect/auth",
        token: "/protocol/openid-connect/token",
        source: UserSource::Endpoint("/protocol/openid-connect/userinfo"),
        scopes: "openid profile email",
        auth: FORM,
        pkce: true,
        extra: &[],
        user: external_user::openid,
    },
    Preset {
        name: "linkedin_oidc",
        base: "https://www.linkedin.com/oauth",
        authorize: "/v2/authorization",
        token: "/v2/accessToken",
        source: UserSource::IdToken(""),
        scopes: "openid email profile",
        auth: FORM,
        pkce: false,
        extra: &[],
        user: external_user::openid,
    },
    Preset {
        name: "notion",
        base: "https://api.notion.com",
        authorize: "/v1/oauth/authorize",
        token: "/v1/oauth/token",
        source: UserSource::Endpoint("/v1/users/me"),
        scopes: "",
        auth: BASIC,
        pkce: false,
        extra: &[("owner", "user")],
        user: external_user::notion,
    },
    Preset {
        name: "slack_oidc",
        base: "https://slack.com",
        authorize: "/openid/connect/authorize",
        token: "/api/openid.connect.token",
        source: UserSource::IdToken(""),
        scopes: "openid profile email",
        auth: FORM,
        pkce: false,
        extra: &[],
        user: external_user::openid,
    },
    Preset {
        name: "spotify",
        base: "https://accounts.spotify.com",
        authorize: "/authorize",
        token: "/api/token",
        source: UserSource::Endpoint("https://api.spotify.com/v1/me"),
        scopes: "user-read-email",
        auth: BASIC,
        pkce: true,
        extra: &[],
        user: external_user::spotify,
    },
    Preset {
        name: "twitch",
        base: "https://id.twitch.tv",
        authorize: "/oauth2/authorize",
        token: "/oauth2/token",
        source: UserSource::Endpoint("https://api.twitch.tv/helix/users"),
        scopes: "user:read:email",
        auth: FORM,
        pkce: false,
        extra: &[],
        user: external_user::twitch,
    },
    Preset {
        name: "workos",
        base: "https://api.workos.com",
        authorize: "/sso/authorize",
        token: "/sso/token",
        source: UserSource::Endpoint("/sso/profile"),
        scopes: "",
        auth: FORM,
        pkce: false,
        extra: &[],
        user: external_user::workos,
    },
    Preset {
        name: "zoom",
        base: "https://zoom.us",
        authorize: "/oauth/authorize",
        token: "/oauth/token",
        source: UserSource::Endpoint("https://api.zoom.us/v2/users/me"),
        scopes: "",
        auth: BASIC,
        pkce: true,
        extra: &[],
        user: external_user::zoom,
    },
];
