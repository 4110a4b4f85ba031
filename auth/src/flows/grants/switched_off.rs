//! The grants `id_token` and `web3` without an enabled provider (auth.md §3.5). They validate like upstream, and then report
//! that the provider is not enabled.

use serde::Deserialize;

use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::fields::text;

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

/// The relevant fields of an `id_token` grant.
#[derive(Deserialize)]
pub(crate) struct IdTokenGrant {
    provider: Option<String>,
    id_token: Option<String>,
    client_id: Option<String>,
    issuer: Option<String>,
}

impl IdTokenGrant {
    /// The error of the grant, which always fails.
    pub(crate) fn refusal(&self) -> AuthError {
        let (provider, issuer) = (text(&self.provider), text(&self.issuer));
        if text(&self.id_token).is_empty() {
            return AuthError::InvalidRequest("id_token required");
        }
        if provider.is_empty() && (text(&self.client_id).is_empty() || issuer.is_empty()) {
            return AuthError::InvalidRequest("provider or client_id and issuer required");
        }
        if provider.is_empty() {
            return AuthError::IssuerDisabled(issuer.to_owned());
        }
        match ISSUERS.iter().find(|(name, _)| *name == provider) {
            Some((_, issuer)) => AuthError::IssuerDisabled((*issuer).to_owned()),
            None if OTHERS.contains(&provider) => AuthError::IssuerDisabled(issuer.to_owned()),
            None => AuthError::Validation(format!("Custom OIDC provider \"{provider}\" not allowed").into()),
        }
    }
}

/// The relevant fields of a `web3` grant.
#[derive(Deserialize)]
pub(crate) struct Web3Grant {
    chain: Option<String>,
}

impl Web3Grant {
    /// The error of the grant, which always fails.
    pub(crate) fn refusal(&self) -> AuthError {
        match self.chain.as_deref() {
            Some("solana" | "ethereum") => AuthError::SwitchedOff(Feature::WEB3),
            _ => AuthError::UnsupportedChain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        serde_json::from_str::<IdTokenGrant>(body).unwrap().refusal().to_string()
    }

    #[test]
    fn reports_missing_fields_before_disabled_provider() {
        assert_eq!(refusal("{}"), "id_token required");
        assert_eq!(refusal(r#"{"id_token":"a"}"#), "provider or client_id and issuer required");
        assert_eq!(
            refusal(r#"{"id_token":"a","provider":"google"}"#),
            r#"Provider (issuer "https://accounts.google.com") is not enabled"#
        );
        assert_eq!(
            refusal(r#"{"id_token":"a","client_id":"b","issuer":"https://issuer.example"}"#),
            r#"Provider (issuer "https://issuer.example") is not enabled"#
        );
        assert_eq!(
            refusal(r#"{"id_token":"a","provider":"github"}"#),
            r#"Custom OIDC provider "github" not allowed"#
        );
    }
}
