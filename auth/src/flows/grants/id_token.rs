//! Grant `id_token` (auth.md §3.5): sign-in with an ID token that the app got from the provider itself.

use std::sync::Arc;

use serde::Deserialize;
use uuid::Uuid;

use crate::error::AuthError;
use crate::fields::{filled, text};
use crate::flows::external;
use crate::origin::Origin;
use crate::providers::{Provider, custom};
use crate::sessions::access_token::Granted;
use crate::state::Auth;

/// Providers with a fixed issuer.
const ISSUERS: [(&str, &str); 5] = [
    ("apple", "https://appleid.apple.com"),
    ("google", "https://accounts.google.com"),
    ("facebook", "https://www.facebook.com"),
    ("kakao", "https://kauth.kakao.com"),
    ("vercel_marketplace", "https://marketplace.vercel.com"),
];
/// Providers whose issuer depends on the tenant.
const OTHERS: [&str; 3] = ["azure", "keycloak", "snapchat"];

#[derive(Deserialize)]
pub(crate) struct IdTokenGrant {
    provider: Option<String>,
    id_token: Option<String>,
    access_token: Option<String>,
    nonce: Option<String>,
    client_id: Option<String>,
    issuer: Option<String>,
    link_identity: Option<bool>,
}

impl IdTokenGrant {
    /// Whether the identity is to be linked to the caller.
    pub(crate) fn links(&self) -> bool {
        self.link_identity == Some(true)
    }

    /// Verifies the token, and signs in or links. `caller` is the user to link to.
    pub(crate) async fn run(
        &self,
        auth: &Auth,
        origin: &Origin,
        caller: Option<Uuid>,
    ) -> Result<Granted, AuthError> {
        let token = filled(&self.id_token).ok_or(AuthError::InvalidRequest("id_token required"))?;
        let provider = self.provider(auth, origin).await?;
        let now = auth.now().as_second();
        let user = auth.providers.verify_id_token(&provider, token, filled(&self.nonce), now).await?;
        external::sign_in_with_id_token(auth, origin, &provider, &user, filled(&self.access_token), caller)
            .await
    }

    async fn provider(&self, auth: &Auth, origin: &Origin) -> Result<Arc<Provider>, AuthError> {
        let (name, issuer) = (text(&self.provider), text(&self.issuer));
        if name.is_empty() && (text(&self.client_id).is_empty() || issuer.is_empty()) {
            return Err(AuthError::InvalidRequest("provider or client_id and issuer required"));
        }
        let name = match ISSUERS.iter().find(|(_, known)| name.is_empty() && *known == issuer) {
            Some((name, _)) => name,
            None if name.is_empty() => return Err(AuthError::IssuerDisabled(issuer.to_owned())),
            None => name,
        };
        let known = ISSUERS.iter().find(|(known, _)| *known == name);
        if known.is_none() && !OTHERS.contains(&name) {
            let custom = external::find_provider(auth, origin, name).await?;
            if let Some(custom) = custom.filter(|_custom| name.starts_with(custom::PREFIX)) {
                return Ok(custom);
            }
            return Err(AuthError::Validation(format!("Custom OIDC provider \"{name}\" not allowed").into()));
        }
        let issuer = known.map_or(issuer, |(_, issuer)| *issuer);
        auth.providers.find(name).ok_or_else(|| AuthError::IssuerDisabled(issuer.to_owned()))
    }
}
