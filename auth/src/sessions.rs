//! `auth.sessions`: how a session begins, refreshes and ends. Rotation and reuse detection live here; the text of
//! refresh tokens is [`crate::refresh_token`].
//!
//! A session row holds an HMAC key and a counter, so a refresh writes one row and inserts none, and moves on only from
//! where it was read ([`step`]). Within one process [`Turns`] queues refreshes of one session before they take a
//! connection, so that a storm on one session cannot occupy the pool.

use std::net::IpAddr;
use std::time::Duration;

use basalt_core::pool::Tx;
use basalt_core::random;
use jiff::Timestamp;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::refresh_token::SessionKey;
use crate::request::RequestContext;
use crate::users::{self, Account, User, belongings, column, user_columns};

/// A row of `auth.sessions`.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) id: Uuid,
    pub(crate) user_id: Uuid,
    pub(crate) created_at: Option<Timestamp>,
    pub(crate) refreshed_at: Option<Timestamp>,
    pub(crate) not_after: Option<Timestamp>,
    pub(crate) tag: Option<String>,
    pub(crate) oauth_client_id: Option<Uuid>,
    pub(crate) hmac_key: Option<String>,
    pub(crate) counter: i64,
}

/// How a session was signed in to, and when: an entry of the `amr` claim.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Amr {
    pub(crate) method: String,
    /// Seconds since 1970.
    pub(crate) timestamp: i64,
}

/// `aal2` when a second factor is among the methods.
pub(crate) fn aal(amr: &[Amr]) -> &'static str {
    let is_second_factor =
        |entry: &Amr| matches!(entry.method.as_str(), "totp" | "mfa/phone" | "mfa/webauthn");
    if amr.iter().any(is_second_factor) { "aal2" } else { "aal1" }
}

macro_rules! session_columns {
    () => {
        "s.id as session_id, s.user_id, s.created_at as session_created_at, \
         s.refreshed_at at time zone 'utc' as refreshed_at, \
         case when isfinite(s.not_after) then s.not_after end as not_after, s.tag, s.oauth_client_id, \
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
            hmac_key: column(row, "refresh_token_hmac_key")?,
            counter: column(row, "refresh_token_counter")?,
        })
    }

    /// When it was last proven to be in use.
    pub(crate) fn last_refresh(&self) -> Option<Timestamp> {
        self.refreshed_at.max(self.created_at)
    }

    /// The configured limits on a session's life, judged at refresh (auth.md §3.23).
    pub(crate) fn check_life(
        &self,
        config: &AuthConfig,
        has_verified_factor: bool,
        amr: &[Amr],
        now: Timestamp,
    ) -> Result<(), AuthError> {
        let is_past = |start: Option<Timestamp>, seconds: u64| {
            seconds > 0 && start.is_some_and(|start| age(start, now) >= Duration::from_secs(seconds))
        };
        if self.not_after.is_some_and(|end| end <= now) || is_past(self.created_at, config.sessions_timebox) {
            return Err(AuthError::SessionExpired(""));
        }
        if is_past(self.last_refresh(), config.sessions_inactivity_timeout) {
            return Err(AuthError::SessionExpired(" (Inactivity)"));
        }
        if has_verified_factor
            && aal(amr) == "aal1"
            && is_past(self.created_at, config.sessions_allow_low_aal)
        {
            return Err(AuthError::SessionExpired(" (Low AAL: User Needs MFA Verification)"));
        }
        Ok(())
    }
}

fn age(start: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(start)).unwrap_or(Duration::ZERO)
}

/// A session that just began.
pub(crate) struct Begun {
    pub(crate) session_id: Uuid,
    pub(crate) user: User,
    pub(crate) amr: Vec<Amr>,
    pub(crate) refresh_token: String,
}

/// What must still hold of a password for a session to begin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PasswordState<'a> {
    /// The hash that was verified: should it have changed since, the sign-in fails.
    pub(crate) verified: Option<&'a str>,
    /// What replaces it.
    pub(crate) rehashed: Option<&'a str>,
}

const BEGIN: &str = concat!(
    "with u as (
  update auth.users u
  set last_sign_in_at = $3, updated_at = $3, encrypted_password = coalesce($9, u.encrypted_password)
  where u.id = $2 and ($8::text is null or u.encrypted_password = $8)
  returning *
), session as (
  insert into auth.sessions (id, user_id, created_at, updated_at, aal, user_agent, ip, refresh_token_hmac_key,
    refresh_token_counter)
  select $1, u.id, $3, $3, 'aal1', $4, $5::text::inet, $6, 0 from u
  returning id
), claim as (
  insert into auth.mfa_amr_claims (id, session_id, created_at, updated_at, authentication_method)
  select $10, session.id, $3, $3, $7 from session
)
select ",
    user_columns!(),
    " from u"
);

/// Signs a user in: session, its first method, `last_sign_in_at`. `None` when the user is gone or their password
/// changed meanwhile.
pub(crate) async fn begin(
    tx: &Tx,
    request: &RequestContext,
    user_id: Uuid,
    method: &str,
    password: PasswordState<'_>,
    now: Timestamp,
) -> Result<Option<Begun>, AuthError> {
    let session_id = random::uuid();
    let key = SessionKey::generate();
    let address = request.address.to_string();
    let row = tx
        .query_opt(
            BEGIN,
            &[
                &session_id,
                &user_id,
                &now,
                &request.user_agent(),
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
    Ok(Some(Begun {
        session_id,
        user: User::from_row(&row)?,
        amr: vec![Amr { method: method.to_owned(), timestamp: now.as_second() }],
        refresh_token: key.token(session_id, 0),
    }))
}

const FIND: &str =
    concat!("select ", session_columns!(), " from auth.sessions s where s.id = $1 and s.user_id = $2");

/// A session of this user.
pub(crate) async fn find(tx: &Tx, id: Uuid, user_id: Uuid) -> Result<Option<Session>, AuthError> {
    let row = tx.query_opt(FIND, &[&id, &user_id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(Session::from_row).transpose()
}

/// A session with its user and its methods, newest first: all that a refresh judges.
pub(crate) struct Held {
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

/// A session and what hangs on it, by one statement and without a lock.
pub(crate) async fn hold(tx: &Tx, id: Uuid) -> Result<Option<Held>, AuthError> {
    const HOLD: &str = concat!(
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
    let row = tx.query_opt(HOLD, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref()
        .map(|row| {
            Ok(Held {
                session: Session::from_row(row)?,
                account: Account::from_row(row)?,
                amr: users::json_column(row, "amr")?,
            })
        })
        .transpose()
}

// Not FOR UPDATE: an insert of a method or a token into this session needs no wait.
const LOCK: &str = "select from auth.sessions where id = $1 for no key update";

/// Locks a session until the transaction ends; `None` when there is none.
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

/// Gives a session of upstream's v1 tokens a key, and counter 0.
pub(crate) async fn begin_signing(
    tx: &Tx,
    request: &RequestContext,
    session_id: Uuid,
    key: &SessionKey,
    now: Timestamp,
) -> Result<(), AuthError> {
    const BEGIN_SIGNING: &str = "\
update auth.sessions
set refresh_token_hmac_key = $2, refresh_token_counter = 0, refreshed_at = $3::timestamptz at time zone 'utc',
  updated_at = $3, user_agent = $4, ip = $5::text::inet
where id = $1";
    let address = request.address.to_string();
    tx.execute(BEGIN_SIGNING, &[&session_id, &key.as_column(), &now, &request.user_agent(), &address])
        .await?;
    Ok(())
}

/// Moves a session of v2 tokens on by one, and tells the audit log, in one statement. `false` when somebody else was
/// quicker, or the session has ended: nothing happened then.
pub(crate) async fn step(
    tx: &Tx,
    config: &AuthConfig,
    request: &RequestContext,
    held: &Held,
    now: Timestamp,
) -> Result<bool, AuthError> {
    const STEP: &str = "\
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
    let session = &held.session;
    let payload = (!config.audit_log_disable_postgres)
        .then(|| audit::payload(&held.account.user, Action::TokenRefreshed, None));
    let moved = tx
        .query_opt(
            STEP,
            &[
                &session.id,
                &session.hmac_key,
                &session.counter,
                &now,
                &request.user_agent(),
                &request.address.to_string(),
                &random::uuid(),
                &payload,
            ],
        )
        .await?;
    Ok(moved.is_some())
}

/// Whether another session of the user was refreshed later (`sessions.single_per_user`); with `sessions.tags`, another
/// one of the same tag. A session whose tag is none of those has the first.
pub(crate) async fn is_superseded(
    tx: &Tx,
    config: &AuthConfig,
    session: &Session,
) -> Result<bool, AuthError> {
    const NEWEST: &str = "\
select s.id
from auth.sessions s
where s.user_id = $1 and (cardinality($2::text[]) = 0
  or (case when s.tag = any($2) then s.tag else $2[1] end) = (case when $3::text = any($2) then $3 else $2[1] end))
order by greatest(s.refreshed_at at time zone 'utc', s.created_at) desc nulls last, s.id
limit 1";
    if !config.sessions_single_per_user {
        return Ok(false);
    }
    let row = tx.query_opt(NEWEST, &[&session.user_id, &config.sessions_tags, &session.tag]).await?;
    let newest: Option<Uuid> = row.as_ref().map(|row| column(row, "id")).transpose()?;
    Ok(newest.is_some_and(|newest| newest != session.id))
}

/// Whether the user has a session from this network: an IPv4 address, or an IPv6 /64.
pub(crate) async fn is_from(tx: &Tx, user_id: Uuid, network: IpAddr) -> Result<bool, AuthError> {
    const IS_FROM: &str = "\
select exists (select from auth.sessions s where s.user_id = $1 and s.ip <<= $2::text::inet) as is_known";
    let bits = if network.is_ipv4() { 32 } else { 64 };
    let row = tx.query_one(IS_FROM, &[&user_id, &format!("{network}/{bits}")]).await?;
    column(&row, "is_known")
}

/// Which sessions of a user end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All.
    Global,
    /// This one.
    Local(Uuid),
    /// All but this one.
    Others(Uuid),
}

/// Ends sessions; their tokens and methods go with them. Says how many there were.
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

/// A session as its user and admins see it.
pub(crate) struct Listed {
    pub(crate) session: Session,
    pub(crate) updated_at: Option<Timestamp>,
    pub(crate) user_agent: Option<String>,
    pub(crate) ip: Option<String>,
    pub(crate) amr: Vec<Amr>,
}

/// The sessions of a user, the one used last first.
pub(crate) async fn of_user(tx: &Tx, user_id: Uuid) -> Result<Vec<Listed>, AuthError> {
    const OF_USER: &str = concat!(
        "select ",
        session_columns!(),
        ", s.updated_at, s.user_agent, host(s.ip) as ip, ",
        amr_json!(),
        " from auth.sessions s where s.user_id = $1 \
         order by greatest(s.refreshed_at at time zone 'utc', s.created_at) desc nulls last, s.id limit 1000"
    );
    let rows = tx.query(OF_USER, &[&user_id]).await.map_err(AuthError::querying)?;
    rows.iter()
        .map(|row| {
            Ok(Listed {
                session: Session::from_row(row)?,
                updated_at: column(row, "updated_at")?,
                user_agent: column(row, "user_agent")?,
                ip: column(row, "ip")?,
                amr: users::json_column(row, "amr")?,
            })
        })
        .collect()
}

/// A row of `auth.refresh_tokens`: upstream's v1.
pub(crate) struct StoredToken {
    pub(crate) session_id: Option<Uuid>,
    pub(crate) is_revoked: bool,
    pub(crate) updated_at: Option<Timestamp>,
}

/// An imported v1 token.
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

/// Revokes a session's v1 tokens: from here on it has v2 tokens.
pub(crate) async fn retire_stored_tokens(tx: &Tx, session_id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    const RETIRE: &str = "\
update auth.refresh_tokens
set revoked = true, updated_at = $2
where session_id = $1 and not coalesce(revoked, false)";
    tx.execute(RETIRE, &[&session_id, &now]).await?;
    Ok(())
}

/// One queue per group of sessions: a session's id decides its group, so refreshes of one session come one after
/// the other, and those of others hardly ever meet.
pub(crate) struct Turns(Vec<Mutex<()>>);

/// How long a refresh waits for its turn; then the server is too busy and says so, since a 4xx would sign the
/// client out (auth.md §5.2).
const TURN_LIMIT: Duration = Duration::from_secs(5);

impl Turns {
    pub(crate) fn new() -> Self {
        Self(std::iter::repeat_with(|| Mutex::new(())).take(256).collect())
    }

    /// Waits for this session's turn.
    pub(crate) async fn take(&self, session_id: Uuid) -> Result<Option<MutexGuard<'_, ()>>, AuthError> {
        let [.., last] = *session_id.as_bytes();
        let Some(turn) = self.0.get(usize::from(last)) else { return Ok(None) };
        match tokio::time::timeout(TURN_LIMIT, turn.lock()).await {
            Ok(guard) => Ok(Some(guard)),
            Err(_elapsed) => Err(AuthError::Overloaded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(created: i64, refreshed: Option<i64>) -> Session {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        Session {
            id: Uuid::nil(),
            user_id: Uuid::nil(),
            created_at: Some(at(created)),
            refreshed_at: refreshed.map(at),
            not_after: None,
            tag: None,
            oauth_client_id: None,
            hmac_key: None,
            counter: 0,
        }
    }

    fn life(config: &AuthConfig, session: &Session, has_factor: bool, now: i64) -> Option<String> {
        let amr = [Amr { method: "password".to_owned(), timestamp: 0 }];
        let now = Timestamp::from_second(now).unwrap();
        session.check_life(config, has_factor, &amr, now).err().map(|error| error.to_string())
    }

    #[test]
    fn sessions_never_expire_by_default() {
        assert_eq!(life(&AuthConfig::default(), &session(0, None), true, 4_000_000_000), None);
    }

    #[test]
    fn each_limit_names_itself() {
        let config = AuthConfig {
            sessions_timebox: 1000,
            sessions_inactivity_timeout: 100,
            sessions_allow_low_aal: 50,
            ..AuthConfig::default()
        };
        let text = |suffix: &str| Some(format!("Invalid Refresh Token: Session Expired{suffix}"));
        assert_eq!(life(&config, &session(0, Some(990)), false, 1000), text(""));
        assert_eq!(life(&config, &session(0, Some(10)), false, 110), text(" (Inactivity)"));
        assert_eq!(
            life(&config, &session(0, Some(50)), true, 60),
            text(" (Low AAL: User Needs MFA Verification)")
        );
        assert_eq!(life(&config, &session(0, Some(50)), false, 60), None);
        let ended = Session { not_after: Timestamp::from_second(5).ok(), ..session(0, None) };
        assert_eq!(life(&config, &ended, false, 5), text(""));
    }

    #[test]
    fn a_second_factor_makes_aal2() {
        let amr = |method: &str| Amr { method: method.to_owned(), timestamp: 0 };
        assert_eq!(aal(&[amr("password")]), "aal1");
        assert_eq!(aal(&[amr("totp"), amr("password")]), "aal2");
    }
}
