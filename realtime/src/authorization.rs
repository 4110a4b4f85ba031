//! Private channels: the policies of `realtime.messages` decide what a caller may do (realtime.md 3.9). They
//! are evaluated in transactions that are rolled back, on a separate pool.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::identity::{Identity, network};
use basalt_pg::missing_grants;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::{Access, Answers, Isolation, Row, Scope, SessionError, Sessions, Statement};
use basalt_pg::sql::Param;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::token::Token;

/// Time limit of one evaluation.
const LIMIT: Duration = Duration::from_secs(5);
/// Time limit of a lease renewal, including the wait for a permit.
const RENEWAL_LIMIT: Duration = Duration::from_secs(10);
/// Concurrent lease renewals; the rest of the pool is left to joins and first writes.
const RENEWALS: usize = 3;
const STATEMENT_TIMEOUT: &str = "4s";
const SEARCH_PATH: &str = "public, extensions";

/// Value of the column `extension`, which policies test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Broadcast,
    Presence,
}

impl Extension {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Broadcast => "broadcast",
            Self::Presence => "presence",
        }
    }
}

/// What a channel may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Readable {
    pub(crate) broadcast: bool,
    pub(crate) presence: bool,
}

impl Readable {
    /// Permissions of public channels.
    pub(crate) const ALL: Self = Self { broadcast: true, presence: true };

    pub(crate) const fn is_nothing(self) -> bool {
        !self.broadcast && !self.presence
    }
}

/// Why policies could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PolicyError {
    /// A policy raised an error, or the role may not be assumed.
    Refused,
    /// The evaluation timed out.
    Cancelled,
    PoolExhausted,
    /// The current day has no partition.
    MissingPartition,
    Unreachable,
}

impl PolicyError {
    fn from_session(error: &SessionError) -> Self {
        match error {
            SessionError::Postgres(error) => Self::from_postgres(error),
            SessionError::PoolTimeout | SessionError::QueueFull => Self::PoolExhausted,
            SessionError::Deadline => Self::Cancelled,
            SessionError::Unreachable(_) | SessionError::Unavailable(_) => Self::Unreachable,
        }
    }

    fn from_postgres(error: &PgError) -> Self {
        match error.code.as_str() {
            "57014" => Self::Cancelled,
            "23514" if error.message.starts_with("no partition of relation") => Self::MissingPartition,
            "57P01" | "57P02" | "57P03" => Self::Unreachable,
            _ => Self::Refused,
        }
    }
}

/// The caller of a policy check, and the topic it is about.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) token: Token,
    /// Topic name without `realtime:`.
    pub(crate) topic: Arc<str>,
    /// `request.headers` as a JSON object.
    pub(crate) headers: Arc<str>,
    /// Key under which the channel tracks presence; empty over HTTP. Policies read it as the setting
    /// `realtime.presence_key` (decision 0087).
    pub(crate) presence_key: Arc<str>,
    /// Client address; callers without `sub` share connections by address.
    pub(crate) address: Option<IpAddr>,
}

impl Caller {
    fn identity(&self) -> Identity {
        Identity::new(self.token.claims.sub(), self.token.role(), self.address)
    }

    /// Identifies a client without `sub` by its network; all its channels share one time budget for filters.
    pub(crate) fn visitor(&self) -> Arc<str> {
        let network = self.address.map(network);
        network.map_or_else(|| "unknown address".into(), |network| network.to_string().into())
    }

    fn settings(&self) -> [(&'static str, &str); 8] {
        let claims = &self.token.claims;
        // PostgreSQL rejects NUL in settings.
        let subject = claims.sub().filter(|sub| !sub.contains('\0')).unwrap_or_default();
        [
            ("role", self.token.role()),
            ("realtime.topic", &self.topic),
            ("request.jwt.claims", claims.as_text()),
            ("request.jwt.claim.sub", subject),
            ("request.jwt.claim.role", self.token.role()),
            ("request.headers", &self.headers),
            ("realtime.presence_key", &self.presence_key),
            ("search_path", SEARCH_PATH),
        ]
    }
}

/// Evaluates the policies. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Authorization {
    sessions: Sessions,
    renewals: Arc<Semaphore>,
}

/// A channel's permissions after a lease renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewed {
    pub(crate) readable: Readable,
    /// `None` if the channel does not track presence.
    pub(crate) may_track: Option<bool>,
}

impl Authorization {
    pub(crate) fn new(sessions: Sessions) -> Self {
        Self { sessions, renewals: Arc::new(Semaphore::new(RENEWALS)) }
    }

    /// Re-evaluates the policies for a joined channel; at most [`RENEWALS`] run at a time.
    ///
    /// # Errors
    /// A policy raised an error, or the database did not respond in time.
    pub(crate) async fn renew(
        &self,
        caller: &Caller,
        includes_presence: bool,
        is_tracking: bool,
    ) -> Result<Renewed, PolicyError> {
        let renewal = async {
            let _permit = self.renewals.acquire().await.map_err(|_closed| PolicyError::Unreachable)?;
            let readable = self.readable(caller, includes_presence).await?;
            let may_track = if is_tracking && !readable.is_nothing() {
                Some(self.may_write(caller, Extension::Presence).await?)
            } else {
                None
            };
            Ok(Renewed { readable, may_track })
        };
        timeout(RENEWAL_LIMIT, renewal).await.unwrap_or(Err(PolicyError::PoolExhausted))
    }

    /// What the caller may read: inserts a probe row per extension and selects them as the caller.
    ///
    /// # Errors
    /// A policy raised an error, or the database did not respond.
    pub(crate) async fn readable(
        &self,
        caller: &Caller,
        includes_presence: bool,
    ) -> Result<Readable, PolicyError> {
        let broadcast = basalt_core::random::uuid().to_string();
        let presence = basalt_core::random::uuid().to_string();
        let mut steps = vec![insert(&broadcast, &caller.topic, Extension::Broadcast)];
        if includes_presence {
            steps.push(insert(&presence, &caller.topic, Extension::Presence));
        }
        let values = caller.settings();
        let params = values.into_iter().flat_map(|(name, value)| [Param::from(name), Param::from(value)]);
        steps.push(Statement { text: SET_EIGHT.into(), params: params.collect() });
        let ids = vec![Param::from(broadcast.as_str()), Param::from(presence.as_str())];
        steps.push(Statement { text: SELECT_PROBES.into(), params: ids });
        let rows = self
            .rolled_back(caller.identity(), vec![("role".into(), "service_role".to_owned())], steps)
            .await;
        let rows = rows.map_err(|error| report("read", caller, &error))?;
        let seen: Vec<&str> = rows.last().into_iter().flatten().filter_map(|row| row.text(0)).collect();
        Ok(Readable {
            broadcast: seen.contains(&broadcast.as_str()),
            presence: seen.contains(&presence.as_str()),
        })
    }

    /// Whether the caller may insert rows of this extension. A policy that raises an error denies it.
    ///
    /// # Errors
    /// The database did not respond.
    pub(crate) async fn may_write(&self, caller: &Caller, extension: Extension) -> Result<bool, PolicyError> {
        let settings = caller.settings().map(|(name, value)| (name.into(), value.to_owned()));
        let id = basalt_core::random::uuid().to_string();
        let steps = vec![insert(&id, &caller.topic, extension)];
        match self.rolled_back(caller.identity(), settings.into(), steps).await {
            Ok(_) => Ok(true),
            Err(SessionError::Postgres(error)) if error.code == "42501" => {
                missing_grants::log_once("realtime", caller.token.role(), &error);
                Ok(false)
            }
            Err(error) => match report("write", caller, &error) {
                PolicyError::Refused => Ok(false),
                other @ (PolicyError::Cancelled
                | PolicyError::PoolExhausted
                | PolicyError::MissingPartition
                | PolicyError::Unreachable) => Err(other),
            },
        }
    }

    /// Stored messages of a topic: the newest `limit`, newest first, as id, event, payload as JSON, payload
    /// as bytes.
    ///
    /// # Errors
    /// The database did not respond.
    pub(crate) async fn stored(
        &self,
        topic: &str,
        since_ms: i64,
        limit: i64,
    ) -> Result<Vec<Row>, PolicyError> {
        let settings = vec![("role".into(), "service_role".to_owned())];
        let params = vec![Param::from(topic), Param::from_display(since_ms), Param::from_display(limit)];
        let steps = vec![Statement { text: SELECT_STORED.into(), params }];
        let answers = self.rolled_back(Identity::SERVER, settings, steps).await.map_err(|error| {
            tracing::warn!(%error, topic, "could not read stored messages");
            PolicyError::from_session(&error)
        })?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    async fn rolled_back(
        &self,
        identity: Identity,
        mut settings: Vec<(Cow<'static, str>, String)>,
        steps: Vec<Statement>,
    ) -> Result<Answers, SessionError> {
        settings.push(("statement_timeout".into(), STATEMENT_TIMEOUT.to_owned()));
        let scope = Scope {
            identity,
            access: Access::ReadWrite,
            isolation: Isolation::ReadCommitted,
            settings,
            may_prepare: true,
            savepoints: false,
            room_for_values: false,
            deadline: Instant::now() + LIMIT,
        };
        self.sessions.run_rolled_back(scope, steps).await
    }
}

fn report(what: &'static str, caller: &Caller, error: &SessionError) -> PolicyError {
    let (role, topic) = (caller.token.role(), &*caller.topic);
    tracing::warn!(%error, role, topic, what, "RlsPolicyError: could not evaluate the policies of realtime.messages");
    PolicyError::from_session(error)
}

const SET_EIGHT: &str = "select pg_catalog.set_config($1, $2, true), pg_catalog.set_config($3, $4, true), \
    pg_catalog.set_config($5, $6, true), pg_catalog.set_config($7, $8, true), \
    pg_catalog.set_config($9, $10, true), pg_catalog.set_config($11, $12, true), \
    pg_catalog.set_config($13, $14, true), pg_catalog.set_config($15, $16, true)";

const SELECT_PROBES: &str = "select id::text from realtime.messages where id in ($1::uuid, $2::uuid)";

const SELECT_STORED: &str = "select id::text, event, payload::text, binary_payload from realtime.messages \
    where topic = $1 and private and extension = 'broadcast' and event is not null \
    and (payload is not null or binary_payload is not null) \
    and inserted_at >= (pg_catalog.to_timestamp($2::bigint / 1000.0) at time zone 'utc') \
    and inserted_at < (pg_catalog.now() at time zone 'utc') + interval '1 minute' \
    order by inserted_at desc limit $3::bigint";

fn insert(id: &str, topic: &str, extension: Extension) -> Statement {
    Statement {
        text: "insert into realtime.messages (id, topic, extension) values ($1::uuid, $2, $3)".into(),
        params: vec![Param::from(id), Param::from(topic), Param::from(extension.as_str())],
    }
}
