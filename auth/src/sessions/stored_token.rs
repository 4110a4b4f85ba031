//! `auth.refresh_tokens`: v1 tokens of imported sessions. The first refresh upgrades a session to v2.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::database::column;
use crate::error::AuthError;
use crate::origin::Client;
use crate::sessions::refresh_token::SessionKey;

/// A row of `auth.refresh_tokens`.
pub(crate) struct StoredToken {
    pub(crate) session_id: Option<Uuid>,
    pub(crate) is_revoked: bool,
    pub(crate) updated_at: Option<Timestamp>,
}

/// Finds an imported v1 token.
pub(crate) async fn find_stored_token(tx: &Tx, token: &str) -> Result<Option<StoredToken>, AuthError> {
    const STORED: &str = "\
select t.session_id, coalesce(t.revoked, false) as revoked, t.updated_at
from auth.refresh_tokens t
where t.token = $1";
    let row = tx.query_opt(STORED, &[&token]).await.map_err(AuthError::querying)?;
    row.as_ref()
        .map(|row| {
            Ok(StoredToken {
                session_id: column(row, "session_id")?,
                is_revoked: column(row, "revoked")?,
                updated_at: column(row, "updated_at")?,
            })
        })
        .transpose()
}

/// Revokes a session's v1 tokens.
pub(crate) async fn retire_stored_tokens(tx: &Tx, session_id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    const RETIRE: &str = "\
update auth.refresh_tokens
set revoked = true, updated_at = $2
where session_id = $1 and not coalesce(revoked, false)";
    tx.execute(RETIRE, &[&session_id, &now]).await?;
    Ok(())
}

/// Gives a session a new key with counter 0: its earlier tokens become unknown.
pub(crate) async fn begin_signing(
    tx: &Tx,
    client: &Client,
    session_id: Uuid,
    key: &SessionKey,
    now: Timestamp,
) -> Result<(), AuthError> {
    const BEGIN_SIGNING: &str = "\
update auth.sessions
set refresh_token_hmac_key = $2, refresh_token_counter = 0, refreshed_at = $3::timestamptz at time zone 'utc',
  updated_at = $3, user_agent = $4, ip = $5::text::inet
where id = $1";
    let address = client.address.to_string();
    tx.execute(BEGIN_SIGNING, &[&session_id, &key.as_column(), &now, &client.user_agent, &address]).await?;
    Ok(())
}
