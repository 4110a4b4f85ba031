//! `GET /settings`: the enabled sign-in methods (auth.md §3.14).

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Map, Value, json};

use crate::state::Auth;

/// Upstream's built-in providers, in upstream's order. Some are not implemented, and always reported as disabled.
const PROVIDERS: [&str; 23] = [
    "apple",
    "azure",
    "bitbucket",
    "discord",
    "facebook",
    "snapchat",
    "figma",
    "fly",
    "github",
    "gitlab",
    "google",
    "keycloak",
    "kakao",
    "linkedin",
    "linkedin_oidc",
    "notion",
    "spotify",
    "slack",
    "slack_oidc",
    "workos",
    "twitch",
    "twitter",
    "zoom",
];

/// Whether upstream has a provider of this name.
pub(crate) fn is_provider(name: &str) -> bool {
    PROVIDERS.contains(&name)
}

pub(crate) async fn get(State(auth): State<Arc<Auth>>) -> Json<Value> {
    let config = &auth.config;
    let mut external = Map::new();
    external.insert("anonymous_users".to_owned(), config.external_anonymous_users_enabled.into());
    for provider in PROVIDERS {
        if provider == "zoom" {
            external.insert("email".to_owned(), config.external_email_enabled.into());
            external.insert("phone".to_owned(), config.external_phone_enabled.into());
        }
        external.insert(provider.to_owned(), auth.providers.find(provider).is_some().into());
    }
    Json(json!({
        "external": external,
        "disable_signup": config.disable_signup,
        "mailer_autoconfirm": config.mailer_autoconfirm,
        "phone_autoconfirm": config.sms_autoconfirm,
        "sms_provider": config.sms_provider,
        "saml_enabled": false,
        "saml_private_key_next_configured": false,
        "passkeys_enabled": config.passkey_enabled
    }))
}
