//! What PostgreSQL has to say about changes: whether their transaction is visible yet, which rows a subscriber may see, and
//! conditions that only it can judge.
//!
//! A change arrives before other sessions see its transaction: the log is flushed first. So the batch waits until a snapshot has
//! it; a row that was asked for earlier would be missing, and the change be lost.
//!
//! Rows are asked for by key, as each subscriber, in one transaction for many: claims are set, a statement runs, and what its
//! policies have set is undone before the next claims are set. A statement for several claims at once would answer for the first
//! alone, because PostgreSQL evaluates `(select auth.uid())` once. An error ends the transaction, so the group is asked again in
//! halves, until those who cause the error are alone with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use basalt_core::session::{Access, Answers, Isolation, Scope, Sessions, Statement};
use basalt_core::sql::{Param, Sql};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::catalog::Table;
use super::filter::{Operator, Test};
use super::stream::SESSION_SETTINGS;
use super::subscriptions::Identity;
use super::types::push_array_literal;

pub(super) use basalt_core::session::SessionError;

/// For one statement of a policy.
const STATEMENT_LIMIT: &str = "2000";
/// For one transaction with all its statements.
const BATCH_LIMIT: Duration = Duration::from_secs(10);
/// Claims that are asked for in one transaction.
const GROUP: usize = 64;
/// Statements for each of them: one that undoes what the policies of the one before have set, claims, rows.
const STEPS: usize = 3;
/// How long a commit may take to become visible: synchronous replication waits for another server.
const VISIBLE_LIMIT: Duration = Duration::from_secs(60);
/// How long a snapshot tells about transactions. It knows the lower halves of their ids, which come again after 2³² of them.
pub(super) const SNAPSHOT_AGE: Duration = Duration::from_secs(600);

/// Rows a subscriber asks about, by their place among the keys of a batch.
pub(super) struct Question {
    pub(super) identity: Arc<Identity>,
    pub(super) keys: Vec<usize>,
}

/// What came of a question: the keys that are visible, and errors of policies.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) visible: Vec<usize>,
    pub(super) failure: Option<Failure>,
}

/// A policy failed.
#[derive(Clone)]
pub(super) struct Failure {
    pub(super) message: String,
}

/// A snapshot: which transactions are over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// All before are over.
    min: u64,
    /// None from here on is.
    max: u64,
    /// Those in between that are not.
    running: Vec<u64>,
}

impl Snapshot {
    /// From `pg_snapshot`'s text, `10:20:10,14,15`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (min, max, running) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
        let running = running.split(',').filter(|xid| !xid.is_empty()).map(|xid| xid.parse().ok());
        Some(Self { min, max, running: running.collect::<Option<_>>()? })
    }

    /// Whether the transaction with this lower half of its id is over. It is a recent one: at most 2³¹ away.
    pub(super) fn has(&self, xid: u32) -> bool {
        let epoch = self.max & !0xffff_ffff;
        let mut full = epoch | u64::from(xid);
        if full > self.max.saturating_add(1 << 31) {
            full = full.saturating_sub(1 << 32);
        } else if full.saturating_add(1 << 31) < self.max {
            full += 1 << 32;
        }
        full < self.min || (full < self.max && !self.running.contains(&full))
    }
}

/// Asks PostgreSQL.
pub(super) struct Judge {
    sessions: Sessions,
    /// Transactions at a time.
    permits: Semaphore,
    /// Counts looks at which transactions are over, as they begin.
    looks: AtomicU64,
    /// The last one; held to read and to replace it only.
    seen: Mutex<Option<Look>>,
    /// One look at a time: it serves all who wait.
    looking: tokio::sync::Mutex<()>,
}

/// A look at which transactions are over.
#[derive(Clone)]
struct Look {
    number: u64,
    at: Instant,
    snapshot: Arc<Snapshot>,
}

impl Judge {
    pub(super) fn new(sessions: Sessions, checks: usize) -> Self {
        Self {
            sessions,
            permits: Semaphore::new(checks.max(1)),
            looks: AtomicU64::new(0),
            seen: Mutex::default(),
            looking: tokio::sync::Mutex::default(),
        }
    }

    fn seen(&self) -> Option<Look> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn knows(&self, xid: u32) -> bool {
        self.seen().is_some_and(|look| look.at.elapsed() < SNAPSHOT_AGE && look.snapshot.has(xid))
    }

    /// Which transactions are over now. One look serves all who asked for it before it began.
    ///
    /// # Errors
    /// PostgreSQL cannot be asked.
    pub(super) async fn look(&self) -> Result<Arc<Snapshot>, SessionError> {
        let before = self.looks.load(Ordering::Acquire);
        let _alone = self.looking.lock().await;
        if let Some(look) = self.seen()
            && look.number > before
        {
            return Ok(look.snapshot);
        }
        let number = self.looks.fetch_add(1, Ordering::AcqRel) + 1;
        let at = Instant::now();
        let text: Arc<str> = "select pg_catalog.pg_current_snapshot()::text".into();
        let answers =
            self.sessions.run(scope(Vec::new()), vec![Statement { text, params: Vec::new() }]).await?;
        let told = answers.first().and_then(|rows| rows.first()?.text(0));
        let snapshot = told.and_then(Snapshot::parse);
        let snapshot = Arc::new(snapshot.ok_or_else(|| SessionError::Unavailable("no snapshot".to_owned()))?);
        let look = Look { number, at, snapshot: Arc::clone(&snapshot) };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(look);
        Ok(snapshot)
    }

    /// Waits until the transaction is visible to other sessions.
    pub(super) async fn wait_visible(&self, xid: u32) -> Result<(), SessionError> {
        const FIRST_PAUSE: Duration = Duration::from_micros(500);
        const LONGEST_PAUSE: Duration = Duration::from_millis(20);
        let end = Instant::now() + VISIBLE_LIMIT;
        let mut pause = FIRST_PAUSE;
        while !self.knows(xid) && !self.look().await?.has(xid) {
            if Instant::now() > end {
                return Err(SessionError::Deadline);
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Which of the rows with these keys each subscriber may see. `questions` are of one role.
    ///
    /// # Errors
    /// PostgreSQL cannot be asked.
    pub(super) async fn visible(
        &self,
        table: &Table,
        keys: &[Vec<String>],
        role: &Arc<str>,
        questions: &[Question],
    ) -> Result<Vec<Answer>, SessionError> {
        let began = std::time::Instant::now();
        let text = check_text(table);
        let asked = Asked { text: &text, keys, role };
        let mut groups: FuturesUnordered<_> = questions
            .chunks(GROUP)
            .enumerate()
            .map(|(number, group)| async move {
                let group: Vec<(&Identity, &[usize])> =
                    group.iter().map(|question| (&*question.identity, &*question.keys)).collect();
                self.ask_group(&asked, &group).await.map(|answers| (number, answers))
            })
            .collect();
        let mut answered: Vec<(usize, Vec<Answer>)> = Vec::new();
        while let Some(group) = groups.next().await {
            answered.push(group?);
        }
        answered.sort_by_key(|(number, _)| *number);
        metrics::histogram!("basalt_realtime_visibility_seconds").record(began.elapsed().as_secs_f64());
        Ok(answered.into_iter().flat_map(|(_, answers)| answers).collect())
    }

    /// Asks in one transaction; where that fails, in halves. Boxed, because it calls itself.
    fn ask_group<'a>(
        &'a self,
        asked: &'a Asked<'a>,
        group: &'a [(&'a Identity, &'a [usize])],
    ) -> BoxFuture<'a, Result<Vec<Answer>, SessionError>> {
        Box::pin(async move {
            let error = match self.ask(asked, group).await {
                Ok(answers) => return Ok(answers),
                Err(SessionError::Postgres(error)) if !error.is_fatal && !error.is_unavailable() => error,
                Err(error) => return Err(error),
            };
            match group {
                [] => Ok(Vec::new()),
                // All of its rows at once: a policy that takes too long would take that long for each.
                [(_, keys)] if keys.len() <= 1 || error.code == "57014" => {
                    let failure = Some(Failure { message: error.message });
                    Ok(vec![Answer { visible: Vec::new(), failure }])
                }
                [(identity, keys)] => {
                    let (left, right) = keys.split_at(keys.len() / 2);
                    let mut whole = Answer::default();
                    for half in [left, right] {
                        for answer in self.ask_group(asked, &[(identity, half)]).await? {
                            whole.visible.extend(answer.visible);
                            whole.failure = whole.failure.or(answer.failure);
                        }
                    }
                    Ok(vec![whole])
                }
                _ => {
                    let (left, right) = group.split_at(group.len() / 2);
                    let mut answers = self.ask_group(asked, left).await?;
                    answers.extend(self.ask_group(asked, right).await?);
                    Ok(answers)
                }
            }
        })
    }

    async fn ask(
        &self,
        asked: &Asked<'_>,
        group: &[(&Identity, &[usize])],
    ) -> Result<Vec<Answer>, SessionError> {
        let claims_text = claims_text();
        let mut steps = Vec::with_capacity(STEPS * group.len());
        // Most ask about the same rows.
        let mut before: Option<(&[usize], Vec<Param>)> = None;
        for (number, (identity, keys)) in group.iter().enumerate() {
            let text = if number == 0 { "savepoint subscriber" } else { "rollback to savepoint subscriber" };
            steps.push(Statement { text: text.into(), params: Vec::new() });
            let claims = Param::from(identity.claims.as_text());
            steps.push(Statement { text: Arc::clone(&claims_text), params: vec![claims] });
            let params = match before.take() {
                Some((same, params)) if same == *keys => params,
                Some(_) | None => asked.params(keys),
            };
            before = Some((keys, params.clone()));
            steps.push(Statement { text: Arc::clone(asked.text), params });
        }
        let answers = self.run(asked.role, steps).await?;
        let seen = answers.chunks(STEPS).zip(group).map(|(answered, (_, keys))| {
            let rows = answered.last().map(Vec::as_slice).unwrap_or_default();
            // Counted from 1.
            let place = |number: i64| keys.get(usize::try_from(number).ok()?.checked_sub(1)?).copied();
            let visible = rows.iter().filter_map(|row| place(row.number(0)?)).collect();
            Answer { visible, failure: None }
        });
        Ok(seen.collect())
    }

    async fn run(&self, role: &str, steps: Vec<Statement>) -> Result<Answers, SessionError> {
        // Never closed.
        let _permit = self.permits.acquire().await.map_err(|_| SessionError::PoolTimeout)?;
        let settings = vec![
            ("statement_timeout".into(), STATEMENT_LIMIT.to_owned()),
            // Of the settings of the stream, the only one that decides how a key is read.
            ("intervalstyle".into(), "postgres".to_owned()),
            ("role".into(), role.to_owned()),
        ];
        self.sessions.run(Scope { savepoints: true, ..scope(settings) }, steps).await
    }

    /// Judges a condition for each value, as `role`: the places of the values that pass.
    ///
    /// # Errors
    /// PostgreSQL refuses the comparison, or cannot be asked.
    pub(super) async fn passing(
        &self,
        role: &str,
        test: &Test,
        values: &[&str],
    ) -> Result<Vec<usize>, SessionError> {
        let mut literal = String::new();
        push_array_literal(&mut literal, values.iter().map(|value| Some(*value)));
        let params = vec![Param::from(literal), Param::from(test.operand_text())];
        let steps = vec![Statement { text: condition_text(test), params }];
        let answers = self.run_formatted(role, steps).await?;
        let rows = answers.into_iter().next().unwrap_or_default();
        Ok(rows.iter().filter_map(|row| usize::try_from(row.number(0)?).ok()?.checked_sub(1)).collect())
    }

    /// Runs statements as `role` with the settings under which the stream prints values.
    pub(super) async fn run_formatted(
        &self,
        role: &str,
        steps: Vec<Statement>,
    ) -> Result<Answers, SessionError> {
        let _permit = self.permits.acquire().await.map_err(|_| SessionError::PoolTimeout)?;
        let mut settings = vec![("statement_timeout".into(), STATEMENT_LIMIT.to_owned())];
        settings.extend(SESSION_SETTINGS.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())));
        settings.push(("role".into(), role.to_owned()));
        self.sessions.run(scope(settings), steps).await
    }
}

fn scope(settings: Vec<(std::borrow::Cow<'static, str>, String)>) -> Scope {
    Scope {
        identity: basalt_core::identity::Identity::SERVER,
        access: Access::ReadOnly,
        isolation: Isolation::default(),
        settings,
        // What policies call.
        may_prepare: true,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + BATCH_LIMIT,
    }
}

/// What a group is asked.
#[derive(Clone, Copy)]
struct Asked<'a> {
    text: &'a Arc<str>,
    keys: &'a [Vec<String>],
    role: &'a Arc<str>,
}

impl Asked<'_> {
    /// One array for each column of the key.
    fn params(&self, keys: &[usize]) -> Vec<Param> {
        let width = self.keys.first().map_or(0, Vec::len);
        let column = |column: usize| {
            let values = keys.iter().map(|key| self.keys.get(*key)?.get(column).map(String::as_str));
            let mut literal = String::new();
            push_array_literal(&mut literal, values);
            Param::from(literal)
        };
        (0..width).map(column).collect()
    }
}

/// Returns no rows: the claims are not sent back.
fn claims_text() -> Arc<str> {
    "select where pg_catalog.set_config('request.jwt.claims', $1, true) is null".into()
}

/// Keys arrive as texts and are cast one by one: `unnest` of a typed array would take keys that are arrays or composites apart.
///
/// `offset 0` keeps the inner query as it is, so that each key is looked up by its index, whatever the policies are. With `= any`
/// one change cost three times as much (realtime.md 8.2).
fn check_text(table: &Table) -> Arc<str> {
    let mut sql =
        Sql::text("select k.n from ").then(keys_from(table)).then(Sql::text(", lateral (select from "));
    // A row of a child table may have the same key.
    sql.push(Sql::text(if table.is_partitioned { "" } else { "only " }));
    sql.push(Sql::qualified(&table.schema, &table.name));
    sql.push(Sql::text(" as t where "));
    sql.push(key_equals(table));
    sql.push(Sql::text(" offset 0) as v"));
    sql.render().0.into()
}

/// Keys as `k(k0, k1, …, n)`, from one array of texts for each column, first to last.
pub(super) fn keys_from(table: &Table) -> Sql {
    let arrays = (1..=table.key.len()).map(|number| Sql::catalog(format!("${number}::varchar[]")));
    let names = (0..table.key.len()).map(|number| Sql::catalog(format!("k{number}")));
    Sql::text("unnest(")
        .then(Sql::join(arrays, ", "))
        .then(Sql::text(") with ordinality as k("))
        .then(Sql::join(names, ", "))
        .then(Sql::text(", n)"))
}

/// The row `t` has the key `k`.
pub(super) fn key_equals(table: &Table) -> Sql {
    let columns = table.key.iter().filter_map(|place| table.columns.get(*place));
    let conditions = columns.enumerate().map(|(number, column)| {
        let key = column.sql_type.cast(Sql::catalog(format!("k.k{number}")));
        Sql::text("t.").then(Sql::ident(&column.name)).then(column.sql_type.operator("=")).then(key)
    });
    Sql::join(conditions, " and ")
}

fn condition_text(test: &Test) -> Arc<str> {
    let sql_type = &test.sql_type;
    let value = sql_type.cast(Sql::text("u.v"));
    let operand = match test.operator {
        Operator::In => {
            let array = sql_type.array.as_deref().unwrap_or_default();
            Sql::text("any (($2::varchar)::").then(Sql::catalog(array.to_owned())).then(Sql::text(")"))
        }
        Operator::Like | Operator::ILike | Operator::Match | Operator::IMatch => Sql::text("$2::text"),
        Operator::Eq
        | Operator::Neq
        | Operator::Lt
        | Operator::Lte
        | Operator::Gt
        | Operator::Gte
        | Operator::Is
        | Operator::IsDistinct => sql_type.cast(Sql::text("$2::varchar")),
    };
    let condition = value.then(sql_type.operator(test.operator.symbol())).then(operand);
    // Neither side is NULL here: distinct is not equal.
    let is_negated = test.is_negated != (test.operator == Operator::IsDistinct);
    Sql::text("select u.n from unnest($1::varchar[]) with ordinality as u(v, n) where coalesce(")
        .then(Sql::text(if is_negated { "not (" } else { "(" }))
        .then(condition)
        .then(Sql::text("), false)"))
        .render()
        .0
        .into()
}

/// Groups by what is asked: each group is one statement.
pub(super) fn by_role<'a>(
    questions: impl Iterator<Item = (&'a Arc<Identity>, usize)>,
) -> HashMap<Arc<str>, Vec<Question>> {
    let mut by_identity: HashMap<*const Identity, Question> = HashMap::new();
    for (identity, key) in questions {
        let question = by_identity
            .entry(Arc::as_ptr(identity))
            .or_insert_with(|| Question { identity: Arc::clone(identity), keys: Vec::new() });
        if question.keys.last() != Some(&key) {
            question.keys.push(key);
        }
    }
    let mut roles: HashMap<Arc<str>, Vec<Question>> = HashMap::new();
    for mut question in by_identity.into_values() {
        question.keys.sort_unstable();
        question.keys.dedup();
        roles.entry(Arc::clone(&question.identity.role)).or_default().push(question);
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_tells_what_is_over() {
        let snapshot = Snapshot::parse("10:20:10,14").unwrap();
        assert!(snapshot.has(9) && snapshot.has(11) && snapshot.has(19));
        assert!(!snapshot.has(10) && !snapshot.has(14) && !snapshot.has(20));
        assert!(Snapshot::parse("10:10:").unwrap().has(9));
        assert_eq!(Snapshot::parse("10:x:"), None);
    }

    #[test]
    fn ids_are_completed_across_the_turn_of_their_lower_half() {
        let turned = Snapshot { min: (1 << 32) + 5, max: (1 << 32) + 5, running: Vec::new() };
        assert!(turned.has(u32::MAX) && turned.has(4) && !turned.has(5));
        let before = Snapshot { min: (1 << 32) - 2, max: (1 << 32) - 2, running: Vec::new() };
        assert!(before.has(u32::MAX - 2) && !before.has(3));
    }
}
