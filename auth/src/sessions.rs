//! `auth.sessions`: beginning, advancing and ending sessions. Limits are in [`mod@life`], queues for refreshes in
//! [`mod@refresh_locks`], sign-in by password in [`mod@password`], imported v1 tokens in [`mod@stored_token`], and the format of
//! refresh tokens in [`mod@refresh_token`].
//!
//! A session row contains an HMAC key and a counter, so a refresh updates one row, provided that it is unchanged since it was
//! read ([`advance`]).

pub(crate) mod access_token;
mod life;
mod oauth_client;
mod password;
mod refresh_locks;
pub(crate) mod refresh_token;
mod stored_token;

use std::net::IpAddr;

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use crate::audit::{Action, AuditLog};
use crate::database::{column, json_column};
use crate::error::AuthError;
use crate::origin::Client;
use crate::sessions::refresh_token::SessionKey;
use crate::users::{Account, User, belongings, user_columns};
pub(crate) use life::{SessionLimits, is_superseded};
pub(crate) use oauth_client::NewClientSession;
pub(crate) use password::SignIn;
pub(crate) use refresh_locks::RefreshLocks;
pub(crate) use stored_token::{StoredToken, begin_signing, find_stored_token, retire_stored_tokens};

/// A row of `auth.sessions`. No `Debug`, so that no log can show the key.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) refreshed_at: Option<Timestamp>,
    pub(crate) not_after: Option<Timestamp>,
    pub(crate) tag: Option<String>,
    pub(crate) oauth_client_id: Option<Uuid>,
    /// What the user has granted to that client.
    pub(crate) scopes: Option<String>,
    pub(crate) hmac_key: Option<String>,
    pub(crate) counter: i64,
}

/// An entry of the `amr` claim: how and when the session was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Amr {
    pub(crate) method: String,
    /// Seconds since 1970.
    pub(crate) timestamp: i64,
}

/// `aal2` when a second factor is among the methods.
pub(crate) fn aal(amr: &[Amr]) -> &'static str {
    let is_second_factor = |entry: &Amr| {
        matches!(entry.method.as_str(), "totp" | "mfa/phone" | "mfa/webauthn" | "mfa/recovery_code")
    };
    if amr.iter().any(is_second_factor) { "aal2" } else { "aal1" }
}

macro_rules! session_columns {
    () => {
        "s.id as session_id, s.user_id, s.created_at as session_created_at, \
         s.refreshed_at at time zone 'utc' as refreshed_at, \
         case when isfinite(s.not_after) then s.not_after end as not_after, s.tag, s.oauth_client_id, \
         s.scopes, \
         s.refresh_token_hmac_key, coalesce(s.refresh_token_counter, 0) as refresh_token_counter"
    };
}

impl Session {
    fn from_row(row: &Row) -> Result<Self, AuthError> {
        Ok(Self {
            id: column(row, "session_id")?,
            user_id: column(row, "user_id")?,
            created_at: column(row, "session_created_at")?,
            refreshed_at: column(row, "refreshed_at")?,
            not_after: column(row, "not_after")?,
            tag: column(row, "tag")?,
            oauth_client_id: column(row, "oauth_client_id")?,
            scopes: column(row, "scopes")?,
            hmac_key: column(row, "refresh_token_hmac_key")?,
            counter: column(row, "refresh_token_counter")?,
        })
    }
}

/// A new session.
pub(crate) struct NewSession {
    pub(crate) session_id: Uuid,
    pub(crate) user: User,
    pub(crate) amr: Vec<Amr>,
    pub(crate) refresh_token: String,
}

/// The password state that a new session requires.
#[derive(Clone, Copy, Default)]
pub(crate) struct PasswordState<'a> {
    /// The verified hash. If it has changed since, the sign-in fails.
    pub(crate) verified: Option<&'a str>,
    /// The new hash, if it is to be replaced.
    pub(crate) rehashed: Option<&'a str>,
}

/// Updates the user and inserts session and method. Idempotent for equal ids.
macro_rules! begin_session {
    () => {
        "with u as (
  update auth.users u
  set last_sign_in_at = $3, updated_at = $3, encrypted_password = coalesce($9, u.encrypted_password)
  where u.id = $2 and ($8::text is null or u.encrypted_password = $8)
  returning *
), session as (
  insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, refresh_token_hmac_key,
    refresh_token_counter)
  select $1, u.id, $3, $3, 'aal1', $4, $5::text::inet, $6, 0 from u
  on conflict (id) do nothing
  returning id
), claim as (
  insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
  select $10, session.id, $3, $3, $7 from session
)"
    };
}
use begin_session;

const BEGIN: &str = concat!(begin_session!(), " select ", user_columns!(), " from u");

/// Begins a session: its row, its first method, and `last_sign_in_at`. `None` if the user was deleted or the password has
/// changed.
pub(crate) async fn begin(
    tx: &Tx,
    client: &Client,
    user_id: Uuid,
    method: &str,
    password: PasswordState<'_>,
    now: Timestamp,
) -> Result<Option<NewSession>, AuthError> {
    let session_id = random::uuid();
    let key = SessionKey::generate();
    let address = client.address.to_string();
    let row = tx
        .query_opt(
            BEGIN,
            &[
                &session_id,
                &user_id,
                &now,
                &client.user_agent,
                &address,
                &key.as_column(),
                &method,
                &password.verified,
                &password.rehashed,
                &random::uuid(),
            ],
        )
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(NewSession {
        session_id,
        user: User::from_row(&row)?,
        amr: vec![Amr { method: method.to_owned(), timestamp: now.as_second() }],
        refresh_token: key.token(session_id, 0),
    }))
}

const FIND: &str =
    concat!("select ", session_columns!(), " from auth.sessions s where s.id = $1 and s.user_id = $2");

/// Finds a session of a user.
pub(crate) async fn find(tx: &Tx, id: Uuid, user_id: Uuid) -> Result<Option<Session>, AuthError> {
    let row = tx.query_opt(FIND, &[&id, &user_id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(Session::from_row).transpose()
}

/// A session with its account and its methods, newest first: the input of a refresh.
pub(crate) struct SessionDetails {
    pub(crate) session: Session,
    pub(crate) account: Account,
    pub(crate) amr: Vec<Amr>,
}

macro_rules! amr_json {
    () => {
        "(select coalesce(json_agg(json_build_object('method', c.authentication_method, \
         'timestamp', floor(extract(epoch from c.updated_at))::bigint) order by c.updated_at desc, c.id), '[]') \
         from auth.mfa_amr_claims c where c.session_id = s.id) as amr"
    };
}

/// Loads a session with account and methods in one statement, without locks.
pub(crate) async fn find_details(tx: &Tx, id: Uuid) -> Result<Option<SessionDetails>, AuthError> {
    const FIND_DETAILS: &str = concat!(
        "select ",
        session_columns!(),
        ", ",
        amr_json!(),
        ", ",
        user_columns!(),
        ", ",
        belongings!(),
        " from auth.sessions s join auth.users u on u.id = s.user_id where s.id = $1"
    );
    let row = tx.query_opt(FIND_DETAILS, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref()
        .map(|row| {
            Ok(SessionDetails {
                session: Session::from_row(row)?,
                account: Account::from_row(row)?,
                amr: json_column(row, "amr")?,
            })
        })
        .transpose()
}

// Not FOR UPDATE, which would block inserts of methods and tokens that reference the session.
const LOCK: &str = "select from auth.sessions where id = $1 for no key update";

/// Locks a session until the transaction ends; `None` if it does not exist.
pub(crate) async fn lock(tx: &Tx, id: Uuid) -> Result<Option<()>, AuthError> {
    let row = tx.query_opt(LOCK, &[&id]).await.map_err(AuthError::querying)?;
    Ok(row.map(|_locked| ()))
}

/// The methods of a session, newest first.
pub(crate) async fn amr(tx: &Tx, session_id: Uuid) -> Result<Vec<Amr>, AuthError> {
    const METHODS: &str = "\
select c.authentication_method, c.updated_at
from auth.mfa_amr_claims c
where c.session_id = $1
order by c.updated_at desc, c.id";
    let rows = tx.query(METHODS, &[&session_id]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            let at: Timestamp = column(row, "updated_at")?;
            Ok(Amr { method: column(row, "authentication_method")?, timestamp: at.as_second() })
        })
        .collect()
}

/// Increments the counter and writes the audit log, in one statement. `false`, without effects, if a concurrent request
/// advanced the session or it has ended.
pub(crate) async fn advance(
    tx: &Tx,
    audit_log: AuditLog,
    client: &Client,
    details: &SessionDetails,
    now: Timestamp,
) -> Result<bool, AuthError> {
    const ADVANCE: &str = "\
with stepped as (
  update auth.sessions
  set refresh_token_counter = $3 + 1, refreshed_at = $4::timestamptz at time zone 'utc', updated_at = $4,
    user_agent = $5, ip = $6::text::inet
  where id = $1 and refresh_token_hmac_key = $2 and coalesce(refresh_token_counter, 0) = $3
  returning id
), recorded as (
  insert into auth.audit_log_entries (instance_id, id, payload, created_at, ip_address)
  select '00000000-0000-0000-0000-000000000000', $7, $8, $4, $6 from stepped where $8::json is not null
)
select from stepped";
    let session = &details.session;
    let payload = audit_log.payload(&details.account.user, Action::TokenRefreshed, None);
    let moved = tx
        .query_opt(
            ADVANCE,
            &[
                &session.id,
                &session.hmac_key,
                &session.counter,
                &now,
                &client.user_agent,
                &client.address.to_string(),
                &random::uuid(),
                &payload,
            ],
        )
        .await?;
    Ok(moved.is_some())
}

/// Raises a session to aal2 after the user has proven a second factor, and returns its new refresh token. Tokens issued at aal1
/// become unknown: whoever holds one must not get an aal2 session with it.
///
/// # Errors
/// The session has ended ([`AuthError::NoSuchSession`]), or the database failed.
pub(crate) async fn raise(
    tx: &Tx,
    client: &Client,
    session_id: Uuid,
    factor_id: Uuid,
    method: &str,
    now: Timestamp,
) -> Result<String, AuthError> {
    const RAISE: &str = "update auth.sessions set aal = 'aal2', factor_id = $2 where id = $1";
    const CLAIM: &str = "\
insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
values ($1, $2, $3, $3, $4)
on conflict (session_id, authentication_method) do update set updated_at = excluded.updated_at";
    if tx.execute(RAISE, &[&session_id, &factor_id]).await? == 0 {
        return Err(AuthError::NoSuchSession);
    }
    tx.execute(CLAIM, &[&random::uuid(), &session_id, &now, &method]).await?;
    retire_stored_tokens(tx, session_id, now).await?;
    let key = SessionKey::generate();
    begin_signing(tx, client, session_id, &key, now).await?;
    Ok(key.token(session_id, 0))
}

/// Ends the user's other sessions without a second factor.
pub(crate) async fn end_below_aal2(tx: &Tx, user_id: Uuid, kept: Uuid) -> Result<(), AuthError> {
    const END: &str = "\
delete from auth.sessions where user_id = $1 and id <> $2 and coalesce(aal, 'aal1') < 'aal2'";
    tx.execute(END, &[&user_id, &kept]).await?;
    Ok(())
}

/// Returns the sessions that used a factor to aal1, from their next access token on.
pub(crate) async fn lower(tx: &Tx, factor_id: Uuid, method: &str, now: Timestamp) -> Result<(), AuthError> {
    const FORGET: &str = "\
delete from auth.mfa_amr_claims c
using auth.sessions s
where s.id = c.session_id and s.factor_id = $1 and c.authentication_method = $2";
    const LOWER: &str = "\
update auth.sessions set aal = 'aal1', factor_id = null, updated_at = $2 where factor_id = $1";
    tx.execute(FORGET, &[&factor_id, &method]).await?;
    tx.execute(LOWER, &[&factor_id, &now]).await?;
    Ok(())
}

/// Whether the user has a session from a network: an IPv4 address, or an IPv6 /64. Sessions of OAuth clients, which are on other
/// machines, do not count.
pub(crate) async fn has_session_from(tx: &Tx, user_id: Uuid, network: IpAddr) -> Result<bool, AuthError> {
    const HAS_SESSION_FROM: &str = "\
select exists (
  select from auth.sessions s where s.user_id = $1 and s.ip <<= $2::text::inet and s.oauth_client_id is null
) as is_known";
    let bits = if network.is_ipv4() { 32 } else { 64 };
    let row = tx.query_one(HAS_SESSION_FROM, &[&user_id, &format!("{network}/{bits}")]).await?;
    column(&row, "is_known")
}

/// The sessions of a user to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Global,
    /// This one.
    Local(Uuid),
    /// All but this one.
    Others(Uuid),
}

/// Ends sessions, including their tokens and methods, and returns their number.
pub(crate) async fn end(tx: &Tx, user_id: Uuid, scope: Scope) -> Result<u64, AuthError> {
    const ALL: &str = "delete from auth.sessions where user_id = $1";
    const ONE: &str = "delete from auth.sessions where user_id = $1 and id = $2";
    const OTHERS: &str = "delete from auth.sessions where user_id = $1 and id <> $2";
    let ended = match scope {
        Scope::Global => tx.execute(ALL, &[&user_id]).await?,
        Scope::Local(id) => tx.execute(ONE, &[&user_id, &id]).await?,
        Scope::Others(id) => tx.execute(OTHERS, &[&user_id, &id]).await?,
    };
    Ok(ended)
}

/// A session in a list.
pub(crate) struct SessionEntry {
    pub(crate) session: Session,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) user_agent: Option<String>,
    pub(crate) ip: Option<String>,
    pub(crate) amr: Vec<Amr>,
}

/// The sessions of a user, most recently used first.
pub(crate) async fn list(tx: &Tx, user_id: Uuid) -> Result<Vec<SessionEntry>, AuthError> {
    const LIST: &str = concat!(
        "select ",
        session_columns!(),
        ", s.updated_at, s.user_agent, host(s.ip) as ip, ",
        amr_json!(),
        " from auth.sessions s where s.user_id = $1 \
         order by greatest(s.refreshed_at at time zone 'utc', s.created_at) desc nulls last, s.id limit 1000"
    );
    let rows = tx.query(LIST, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            Ok(SessionEntry {
                session: Session::from_row(row)?,
                updated_at: column(row, "updated_at")?,
                user_agent: column(row, "user_agent")?,
                ip: column(row, "ip")?,
                amr: json_column(row, "amr")?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_factor_makes_aal2() {
        let amr = |method: &str| Amr { method: method.to_owned(), timestamp: 0 };
        assert_eq!(aal(&[amr("password")]), "aal1");
        assert_eq!(aal(&[amr("totp"), amr("password")]), "aal2");
    }
}
