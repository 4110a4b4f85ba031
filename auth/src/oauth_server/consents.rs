//! `auth.oauth_consents`: which clients a user lets act for them, and with which scopes.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use super::clients::{OAuthClient, client_columns};
use super::scopes::Scopes;
use crate::database::column;
use crate::error::AuthError;

/// A consent that is not revoked.
pub(crate) struct Consent {
    pub(crate) client: OAuthClient,
    pub(crate) scopes: Scopes,
    pub(crate) granted_at: Timestamp,
}

/// The scopes that a user has granted to a client; `None` without consent.
pub(crate) async fn find(tx: &Tx, user_id: Uuid, client_id: Uuid) -> Result<Option<Scopes>, AuthError> {
    const FIND: &str = "\
select c.scopes from auth.oauth_consents c where c.user_id = $1 and c.client_id = $2 and c.revoked_at is null";
    let row = tx.query_opt(FIND, &[&user_id, &client_id]).await.map_err(AuthError::querying)?;
    row.map_or(Ok(None), |row| Ok(Some(Scopes::stored(column(&row, "scopes")?))))
}

/// Stores the scopes that a user grants, replacing earlier ones.
pub(crate) async fn grant(
    tx: &Tx,
    user_id: Uuid,
    client_id: Uuid,
    scopes: &Scopes,
    now: Timestamp,
) -> Result<(), AuthError> {
    const GRANT: &str = "\
insert into auth.oauth_consents (id, user_id, client_id, scopes, granted_at)
values ($1, $2, $3, $4, $5)
on conflict (user_id, client_id) do update
set scopes = excluded.scopes, granted_at = excluded.granted_at, revoked_at = null";
    tx.execute(GRANT, &[&random::uuid(), &user_id, &client_id, &scopes.to_string(), &now]).await?;
    Ok(())
}

/// Revokes a consent and ends the client's sessions and open requests of the user. `false` without consent.
pub(crate) async fn revoke(
    tx: &Tx,
    user_id: Uuid,
    client_id: Uuid,
    now: Timestamp,
) -> Result<bool, AuthError> {
    const REVOKE: &str = "\
update auth.oauth_consents
set revoked_at = greatest($3, granted_at)
where user_id = $1 and client_id = $2 and revoked_at is null";
    const END_SESSIONS: &str = "delete from auth.sessions where user_id = $1 and oauth_client_id = $2";
    const END_REQUESTS: &str = "delete from auth.oauth_authorizations where user_id = $1 and client_id = $2";
    let revoked = tx.execute(REVOKE, &[&user_id, &client_id, &now]).await?;
    tx.execute(END_REQUESTS, &[&user_id, &client_id]).await?;
    tx.execute(END_SESSIONS, &[&user_id, &client_id]).await?;
    Ok(revoked > 0)
}

/// The consents of a user, newest first.
pub(crate) async fn list(tx: &Tx, user_id: Uuid) -> Result<Vec<Consent>, AuthError> {
    const LIST: &str = concat!(
        "select ",
        client_columns!(),
        ", k.scopes, k.granted_at from auth.oauth_consents k join auth.oauth_clients c on c.id = k.client_id \
         where k.user_id = $1 and k.revoked_at is null and c.deleted_at is null \
         order by k.granted_at desc, k.id limit 1000"
    );
    let rows = tx.query(LIST, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            Ok(Consent {
                client: OAuthClient::from_row(row)?,
                scopes: Scopes::stored(column(row, "scopes")?),
                granted_at: column(row, "granted_at")?,
            })
        })
        .collect()
}
