//! Sign-in by password: begins the session, writes the audit log and reads the account in one statement, so that the database
//! adds only a round trip to the hash.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use super::{Amr, PasswordState, begin_session};
use crate::audit::{self, Action, AuditLog};
use crate::error::AuthError;
use crate::origin::Client;
use crate::sessions::access_token::Granted;
use crate::sessions::refresh_token::SessionKey;
use crate::users::{Account, User, belongings, user_columns};

/// An idempotent sign-in, which can be retried when the connection breaks.
pub(crate) struct SignIn {
    session_id: Uuid,
    claim_id: Uuid,
    audit_id: Uuid,
    key: SessionKey,
    now: Timestamp,
}

impl SignIn {
    pub(crate) fn new(now: Timestamp) -> Self {
        let (session_id, claim_id, audit_id) = (random::uuid(), random::uuid(), random::uuid());
        Self { session_id, claim_id, audit_id, key: SessionKey::generate(), now }
    }

    /// Signs `user` in with `provider`. `None` if the user was deleted or the password has changed.
    pub(crate) async fn begin(
        &self,
        tx: &Tx,
        audit_log: AuditLog,
        client: &Client,
        user: &User,
        provider: &str,
        password: PasswordState<'_>,
    ) -> Result<Option<Granted>, AuthError> {
        const METHOD: &str = "password";
        const SIGN_IN: &str = concat!(
            begin_session!(),
            ", recorded as (
  insert into auth.audit_log_entries (instance_id, id, payload, created_at, ip_address)
  select '00000000-0000-0000-0000-000000000000', $11, $12, $3, $5 from u where $12::json is not null
  on conflict (id) do nothing
)
select ",
            user_columns!(),
            ", ",
            belongings!(),
            " from u"
        );
        let payload = audit_log.payload(user, Action::Login, audit::provider(provider));
        let row = tx
            .query_opt(
                SIGN_IN,
                &[
                    &self.session_id,
                    &user.id,
                    &self.now,
                    &client.user_agent,
                    &client.address.to_string(),
                    &self.key.as_column(),
                    &METHOD,
                    &password.verified,
                    &password.rehashed,
                    &self.claim_id,
                    &self.audit_id,
                    &payload,
                ],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Granted {
            account: Account::from_row(&row)?,
            session_id: self.session_id,
            amr: vec![Amr { method: METHOD.to_owned(), timestamp: self.now.as_second() }],
            refresh_token: self.key.token(self.session_id, 0),
            now: self.now,
            weak_password: None,
            provider_tokens: None,
            client: None,
            is_refresh: false,
        }))
    }
}
