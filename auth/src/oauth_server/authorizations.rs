//! `auth.oauth_authorizations`: requests of clients from `/oauth/authorize` to the exchange of the code. A request is `pending`
//! until the user decides, then `denied` or `approved`, and `expired` once its code was used. Used codes are kept until the
//! clean-up, so that a second use is recognised.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Row;
use uuid::Uuid;

use super::scopes::Scopes;
use super::{generate, stored};
use crate::codes::challenge::Challenge;
use crate::database::column;
use crate::error::AuthError;

/// Time limit from the approval to the exchange.
const CODE_LIFE: SignedDuration = SignedDuration::from_mins(5);

/// A valid request of a client.
pub(crate) struct NewAuthorization<'a> {
    pub(crate) client_id: Uuid,
    pub(crate) redirect_uri: &'a str,
    pub(crate) scopes: &'a Scopes,
    pub(crate) state: Option<&'a str>,
    pub(crate) resource: Option<&'a str>,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) challenge: &'a Challenge,
    pub(crate) lifetime: SignedDuration,
}

impl NewAuthorization<'_> {
    /// Stores the request and returns its id for the consent page.
    pub(crate) async fn insert(&self, tx: &Tx, now: Timestamp) -> Result<String, AuthError> {
        const INSERT: &str = "\
insert into auth.oauth_authorizations (id, authorization_id, client_id, redirect_uri, scope, state, resource, code_challenge,
  code_challenge_method, nonce, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::auth.code_challenge_method, $10, $11, $12)";
        let authorization_id = generate();
        let method = self.challenge.method.to_ascii_lowercase();
        tx.execute(
            INSERT,
            &[
                &random::uuid(),
                &authorization_id,
                &self.client_id,
                &self.redirect_uri,
                &self.scopes.to_string(),
                &self.state,
                &self.resource,
                &self.challenge.text,
                &method,
                &self.nonce,
                &now,
                &later(now, self.lifetime),
            ],
        )
        .await?;
        Ok(authorization_id)
    }
}

/// A stored request.
pub(crate) struct Authorization {
    /// Also the id of the session that its code begins.
    pub(crate) id: Uuid,
    pub(crate) authorization_id: String,
    pub(crate) client_id: Uuid,
    /// The user who has opened the consent page.
    pub(crate) user_id: Option<Uuid>,
    pub(crate) redirect_uri: String,
    pub(crate) scopes: Scopes,
    pub(crate) state: Option<String>,
    pub(crate) resource: Option<String>,
    pub(crate) nonce: Option<String>,
    pub(crate) challenge: Challenge,
    pub(crate) approved_at: Option<Timestamp>,
    status: String,
    expires_at: Timestamp,
}

macro_rules! authorization_columns {
    () => {
        "a.id, a.authorization_id, a.client_id, a.user_id, a.redirect_uri, a.scope, a.state, a.resource, a.nonce, \
         coalesce(a.code_challenge, '') as code_challenge, \
         coalesce(a.code_challenge_method::text, '') as code_challenge_method, a.approved_at, a.status::text as status, \
         a.expires_at"
    };
}

impl Authorization {
    fn from_row(row: &Row) -> Result<Self, AuthError> {
        Ok(Self {
            id: column(row, "id")?,
            authorization_id: column(row, "authorization_id")?,
            client_id: column(row, "client_id")?,
            user_id: column(row, "user_id")?,
            redirect_uri: column(row, "redirect_uri")?,
            scopes: Scopes::stored(column(row, "scope")?),
            state: column(row, "state")?,
            resource: column(row, "resource")?,
            nonce: column(row, "nonce")?,
            challenge: Challenge {
                text: column(row, "code_challenge")?,
                method: column(row, "code_challenge_method")?,
            },
            approved_at: column(row, "approved_at")?,
            status: column(row, "status")?,
            expires_at: column(row, "expires_at")?,
        })
    }

    pub(crate) fn is_pending(&self, now: Timestamp) -> bool {
        self.status == "pending" && now < self.expires_at
    }

    /// Whether its code can be exchanged.
    pub(crate) fn is_redeemable(&self, now: Timestamp) -> bool {
        self.status == "approved" && now < self.expires_at
    }

    /// Whether its code was exchanged.
    pub(crate) fn is_used(&self) -> bool {
        self.status == "expired"
    }

    /// Binds the request to the user who sees it.
    pub(crate) async fn bind(&self, tx: &Tx, user_id: Uuid) -> Result<(), AuthError> {
        const BIND: &str = "update auth.oauth_authorizations set user_id = $2 where id = $1";
        tx.execute(BIND, &[&self.id, &user_id]).await?;
        Ok(())
    }

    /// Approves the request and returns its code.
    pub(crate) async fn approve(&self, tx: &Tx, user_id: Uuid, now: Timestamp) -> Result<String, AuthError> {
        const APPROVE: &str = "\
update auth.oauth_authorizations
set user_id = $2, status = 'approved', authorization_code = $3, approved_at = $4, expires_at = $5
where id = $1";
        let code = generate();
        tx.execute(APPROVE, &[&self.id, &user_id, &stored(&code), &now, &later(now, CODE_LIFE)]).await?;
        Ok(code)
    }

    pub(crate) async fn deny(&self, tx: &Tx, user_id: Uuid) -> Result<(), AuthError> {
        const DENY: &str = "\
update auth.oauth_authorizations set user_id = $2, status = 'denied' where id = $1";
        tx.execute(DENY, &[&self.id, &user_id]).await?;
        Ok(())
    }

    /// Marks the code as used.
    pub(crate) async fn mark_used(&self, tx: &Tx) -> Result<(), AuthError> {
        const USE: &str = "update auth.oauth_authorizations set status = 'expired' where id = $1";
        tx.execute(USE, &[&self.id]).await?;
        Ok(())
    }
}

/// Finds and locks a request.
pub(crate) async fn lock(tx: &Tx, authorization_id: &str) -> Result<Option<Authorization>, AuthError> {
    const LOCK: &str = concat!(
        "select ",
        authorization_columns!(),
        " from auth.oauth_authorizations a where a.authorization_id = $1 for update"
    );
    let row = tx.query_opt(LOCK, &[&authorization_id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(Authorization::from_row).transpose()
}

/// Finds and locks the request of a code.
pub(crate) async fn lock_by_code(tx: &Tx, code: &str) -> Result<Option<Authorization>, AuthError> {
    const LOCK: &str = concat!(
        "select ",
        authorization_columns!(),
        " from auth.oauth_authorizations a where a.authorization_code = $1 for update"
    );
    let row = tx.query_opt(LOCK, &[&stored(code)]).await.map_err(AuthError::querying)?;
    row.as_ref().map(Authorization::from_row).transpose()
}

fn later(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}
