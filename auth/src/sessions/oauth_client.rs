//! Sessions of OAuth clients: the user lets a client act for them. They have no influence on the user's own sessions.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::AuthError;
use crate::origin::Client;
use crate::sessions::Amr;
use crate::sessions::refresh_token::SessionKey;

/// The method of these sessions.
const METHOD: &str = "oauth_provider/authorization_code";

/// A session to begin.
pub(crate) struct NewClientSession<'a> {
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) client_id: Uuid,
    pub(crate) scope: &'a str,
}

impl NewClientSession<'_> {
    /// Begins the session and returns its methods and refresh token.
    pub(crate) async fn begin(
        &self,
        tx: &Tx,
        client: &Client,
        now: Timestamp,
    ) -> Result<(Vec<Amr>, String), AuthError> {
        const BEGIN: &str = "\
insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, refresh_token_hmac_key,
  refresh_token_counter, oauth_client_id, scopes)
values ($1, $2, $3, $3, 'aal1', $4, $5::text::inet, $6, 0, $7, $8)";
        const CLAIM: &str = "\
insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
values ($1, $2, $3, $3, $4)";
        let key = SessionKey::generate();
        let address = client.address.to_string();
        let Self { id, user_id, client_id, scope } = self;
        tx.execute(
            BEGIN,
            &[id, user_id, &now, &client.user_agent, &address, &key.as_column(), client_id, scope],
        )
        .await?;
        tx.execute(CLAIM, &[&random::uuid(), id, &now, &METHOD]).await?;
        let amr = vec![Amr { method: METHOD.to_owned(), timestamp: now.as_second() }];
        Ok((amr, key.token(*id, 0)))
    }
}
