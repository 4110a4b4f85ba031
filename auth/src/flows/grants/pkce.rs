//! Grant `pkce` (auth.md §3.5): exchanges an authorization code and the verifier that only the requesting client knows.

use serde::Deserialize;

use crate::audit::{self, Action};
use crate::codes::flow_state;
use crate::database;
use crate::error::AuthError;
use crate::fields::filled;
use crate::flows::verify;
use crate::origin::Origin;
use crate::sessions::access_token::Granted;
use crate::state::Auth;
use crate::users;

#[derive(Deserialize)]
pub(crate) struct PkceGrant {
    auth_code: Option<String>,
    code_verifier: Option<String>,
}

impl PkceGrant {
    /// Exchanges the code, in one transaction with the start of the session.
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<Granted, AuthError> {
        let (Some(code), Some(verifier)) = (filled(&self.auth_code), filled(&self.code_verifier)) else {
            return Err(AuthError::validation(
                "invalid request: both auth code and code verifier should be non-empty",
            ));
        };
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let granted = async {
            let flow = flow_state::exchange(&tx, code, verifier, now).await?;
            let user = users::find(&tx, flow.user_id).await?.ok_or(AuthError::FlowStateNotFound)?;
            if user.is_banned(now) {
                return Err(AuthError::SignInBanned);
            }
            let traits = audit::provider(&flow.provider);
            auth.audit_log(&origin.client).record(&tx, &user, Action::Login, traits, now).await?;
            let method = &flow.authentication_method;
            let granted = verify::sign_in(&tx, &origin.client, user.id, method, now).await?;
            Ok(Granted { provider_tokens: flow.tokens, ..granted })
        }
        .await;
        database::finish(tx, granted).await
    }
}
