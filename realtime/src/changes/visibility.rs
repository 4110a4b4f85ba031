//! Evaluates in PostgreSQL which rows a subscriber may see, and which values pass a filter that their text
//! alone does not decide.
//!
//! Rows are looked up by key, as each subscriber, in one transaction for many: the claims are set, a
//! statement runs, and everything its policies have set is rolled back before the next claims are set. One
//! statement for several claims would use the first claims for all, because PostgreSQL evaluates `(select
//! auth.uid())` once per statement.
//!
//! Filters run afterwards, in separate statements, on the values of visible rows only: neither the cost nor
//! an error of a filter reveals anything about a row its subscriber may not see.
//!
//! Each subscriber has a time budget. An error or an exceeded budget ends the transaction; the results
//! before it are used, the subscriber that caused it is reported to the caller, and the rest runs again
//! without it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::convert::saturating;
use basalt_pg::pg_error::PgError;
use basalt_pg::session::{Access, Answers, Isolation, Partial, Scope, Sessions, Statement};
use basalt_pg::sql::{Param, Sql};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::catalog::Table;
use super::filter::{Operator, Test};
use super::identity::Identity;
use super::policies;
use super::stream::SESSION_SETTINGS;
use super::types::push_array_literal;

pub(super) use basalt_pg::session::SessionError;

/// Time budget of a subscriber per batch; [`BUDGET_PER_ROW`] is added for each row.
pub(super) const BUDGET: Duration = Duration::from_millis(100);
const BUDGET_PER_ROW: Duration = Duration::from_millis(1);
/// Time limit of a statement in a slow lane or a join, where the budget does not apply.
const STATEMENT_LIMIT: Duration = Duration::from_secs(2);
/// Time limit of a transaction with all its statements.
const BATCH_LIMIT: Duration = Duration::from_secs(10);
/// Most subscribers per transaction.
pub(super) const GROUP: usize = 64;
/// Statements per subscriber: rollback to the savepoint, claims, rows.
const STEPS: usize = 3;
/// Concurrent filter transactions: fewer than all, so that visibility checks never wait for filters alone.
const FILTER_CHECKS: usize = 2;
/// Concurrent reads of policies.
const POLICY_READS: usize = 2;
/// Concurrent transactions for joins.
const JOIN_CHECKS: usize = 1;

/// Rows to check for a subscriber, as sorted indexes of the batch's keys.
pub(super) struct VisibilityCheck {
    pub(super) identity: Arc<Identity>,
    pub(super) keys: Vec<usize>,
}

/// A filter, and the values of visible rows it applies to.
pub(super) struct FilterCheck<'a> {
    pub(super) test: &'a Test,
    pub(super) values: Vec<&'a str>,
}

/// Statement and keys for looking up rows of a table.
pub(super) struct Lookup<'a> {
    text: Arc<str>,
    keys: &'a [Vec<String>],
}

/// Runs policies and filters as subscribers.
pub(super) struct Evaluator {
    sessions: Sessions,
    /// All transactions except slow lanes.
    permits: Semaphore,
    /// Additional limit for filter transactions.
    filters: Semaphore,
    /// Slow lanes, in addition to `permits`.
    slow_lanes: Semaphore,
    /// Additional limit for joins.
    joins: Semaphore,
    /// Reads of policies, in addition to `permits`: they never wait for policies or filters.
    policy_reads: Semaphore,
}

impl Evaluator {
    pub(super) fn new(sessions: Sessions, checks: usize) -> Self {
        Self {
            sessions,
            permits: Semaphore::new(checks.max(1)),
            filters: Semaphore::new(FILTER_CHECKS),
            slow_lanes: Semaphore::new(1),
            joins: Semaphore::new(JOIN_CHECKS),
            policy_reads: Semaphore::new(POLICY_READS),
        }
    }

    /// What decides about the visibility of a table's rows for `role`: the result of [`policies::QUERY`], or
    /// `None` if the table does not exist any more.
    ///
    /// # Errors
    /// PostgreSQL rejected the query, perhaps because the role does not exist, or did not respond.
    pub(super) async fn read_policies(&self, role: &str, table: u32) -> Result<Option<String>, SessionError> {
        let _permit = permit(&self.policy_reads).await?;
        let settings = vec![
            ("statement_timeout".into(), STATEMENT_LIMIT.as_millis().to_string()),
            ("role".into(), role.to_owned()),
        ];
        let statement = Statement { text: policies::QUERY.into(), params: vec![Param::from_display(table)] };
        let scope = Scope { may_prepare: false, ..scope(settings) };
        let answers = self.sessions.run(scope, vec![statement]).await?;
        Ok(answers.first().and_then(|rows| rows.first()?.text(0)).map(str::to_owned))
    }

    /// Which rows each subscriber may see; `None` if its policies failed or exceeded the budget. `checks`
    /// must have one role and at most [`GROUP`] entries.
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn visible(
        &self,
        lookup: &Lookup<'_>,
        checks: &[VisibilityCheck],
    ) -> Result<Vec<Option<Vec<usize>>>, SessionError> {
        let rows = checks.iter().map(|check| check.keys.len()).max().unwrap_or(0);
        let started = Instant::now();
        let _permit = permit(&self.permits).await?;
        let mut outcomes = Vec::with_capacity(checks.len());
        while let Some(rest @ [_, ..]) = checks.get(outcomes.len()..) {
            let claims_and_keys: Vec<(&Identity, &[usize])> =
                rest.iter().map(|check| (&*check.identity, &*check.keys)).collect();
            let evaluated = self.run_lookup(lookup, &claims_and_keys, budget(rows)).await;
            append_outcomes(&mut outcomes, checks.len(), evaluated)?;
        }
        metrics::histogram!("basalt_realtime_visibility_seconds").record(started.elapsed().as_secs_f64());
        Ok(outcomes)
    }

    /// Like [`Self::visible`] for one subscriber in a slow lane: until `until`, row by row if a policy
    /// fails. Also returns the first failure, for the log.
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn visible_slowly(
        &self,
        lookup: &Lookup<'_>,
        check: &VisibilityCheck,
        until: Instant,
    ) -> Result<(Vec<usize>, Option<String>), SessionError> {
        let (mut visible, mut failed) = (Vec::new(), None);
        let mut parts: Vec<&[usize]> = vec![&check.keys];
        while let Some(keys) = parts.pop() {
            if Instant::now() > until {
                failed.get_or_insert_with(|| "the time limit was exceeded".to_owned());
                break;
            }
            let claims_and_keys = [(&*check.identity, keys)];
            match self.run_lookup(lookup, &claims_and_keys, STATEMENT_LIMIT).await? {
                PartialResults { outcomes, failure: None } => visible.extend(outcomes.into_iter().flatten()),
                PartialResults { failure: Some(error), .. } => {
                    // After a timeout the rows are not split: each may take as long again.
                    let is_timeout = error.code == "57014";
                    failed.get_or_insert(error.message);
                    if keys.len() > 1 && !is_timeout {
                        let (left, right) = keys.split_at(keys.len() / 2);
                        parts.extend([right, left]);
                    }
                }
            }
        }
        visible.sort_unstable();
        Ok((visible, failed))
    }

    async fn run_lookup(
        &self,
        lookup: &Lookup<'_>,
        claims_and_keys: &[(&Identity, &[usize])],
        limit: Duration,
    ) -> Result<PartialResults<Vec<usize>>, SessionError> {
        let Some(role) = claims_and_keys.first().map(|(identity, _)| Arc::clone(&identity.role)) else {
            return Ok(PartialResults { outcomes: Vec::new(), failure: None });
        };
        let claims_text = claims_text();
        let mut steps = Vec::with_capacity(STEPS * claims_and_keys.len());
        // Most subscribers check the same rows, so the parameters are reused.
        let mut before: Option<(&[usize], Vec<Param>)> = None;
        for (number, (identity, keys)) in claims_and_keys.iter().enumerate() {
            let text = if number == 0 { "savepoint subscriber" } else { "rollback to savepoint subscriber" };
            steps.push(Statement { text: text.into(), params: Vec::new() });
            let claims = Param::from(identity.claims.as_text());
            steps.push(Statement { text: Arc::clone(&claims_text), params: vec![claims] });
            let params = match before.take() {
                Some((same, params)) if same == *keys => params,
                Some(_) | None => lookup.params(keys),
            };
            before = Some((keys, params.clone()));
            steps.push(Statement { text: Arc::clone(&lookup.text), params });
        }
        let settings = vec![
            ("statement_timeout".into(), limit.as_millis().to_string()),
            // The only setting of the stream that affects how keys are parsed.
            ("intervalstyle".into(), "postgres".to_owned()),
            ("role".into(), role.to_string()),
        ];
        let scope = Scope { savepoints: true, ..scope(settings) };
        let Partial { answers, failure } = self.sessions.run_until_error(scope, steps).await?;
        let complete = answers.chunks_exact(STEPS).zip(claims_and_keys).map(|(results, (_, keys))| {
            let rows = results.last().map(Vec::as_slice).unwrap_or_default();
            // `with ordinality` counts from 1.
            let place = |number: i64| keys.get(usize::try_from(number).ok()?.checked_sub(1)?).copied();
            let mut visible: Vec<usize> = rows.iter().filter_map(|row| place(row.number(0)?)).collect();
            visible.sort_unstable();
            visible
        });
        Ok(PartialResults { outcomes: complete.collect(), failure })
    }

    /// Which values pass, as (filter, value); `None` if the filters failed or exceeded the budget. Each
    /// entry of `checks` holds the filters of one account; there are at most [`GROUP`].
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn passing(
        &self,
        role: &str,
        checks: &[Vec<FilterCheck<'_>>],
    ) -> Result<Vec<Option<HashSet<(usize, usize)>>>, SessionError> {
        let rows = |of: &Vec<FilterCheck<'_>>| of.iter().map(|check| check.values.len()).sum();
        let rows = checks.iter().map(rows).max().unwrap_or(0);
        let _few = permit(&self.filters).await?;
        let _permit = permit(&self.permits).await?;
        let mut outcomes = Vec::with_capacity(checks.len());
        while let Some(rest @ [_, ..]) = checks.get(outcomes.len()..) {
            let evaluated = self.run_filters(role, rest, budget(rows)).await;
            append_outcomes(&mut outcomes, checks.len(), evaluated)?;
        }
        Ok(outcomes)
    }

    /// Like [`Self::passing`] for one filter in a slow lane: the indexes of the values that pass, or
    /// PostgreSQL's error.
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn passing_slowly(
        &self,
        role: &str,
        test: &Test,
        values: &[&str],
    ) -> Result<Result<HashSet<usize>, Box<PgError>>, SessionError> {
        let check = [vec![FilterCheck { test, values: values.to_vec() }]];
        let PartialResults { outcomes, failure } = self.run_filters(role, &check, STATEMENT_LIMIT).await?;
        Ok(match failure {
            Some(error) => Err(error),
            None => Ok(outcomes.into_iter().flatten().map(|(_, value)| value).collect()),
        })
    }

    async fn run_filters(
        &self,
        role: &str,
        checks: &[Vec<FilterCheck<'_>>],
        limit: Duration,
    ) -> Result<PartialResults<HashSet<(usize, usize)>>, SessionError> {
        let steps = checks.iter().map(|of| filter_statement(of)).collect();
        let scope = scope(formatted(role, limit));
        let Partial { answers, failure } = self.sessions.run_until_error(scope, steps).await?;
        let passing = answers.iter().map(|rows| {
            let number = |row: &basalt_pg::session::Row, column| usize::try_from(row.number(column)?).ok();
            // `with ordinality` counts from 1.
            let passing =
                rows.iter().filter_map(|row| Some((number(row, 0)?, number(row, 1)?.checked_sub(1)?)));
            passing.collect()
        });
        Ok(PartialResults { outcomes: passing.collect(), failure })
    }

    /// Waits for the permit of the slow lanes.
    pub(super) async fn enter_slow_lane(&self) -> Result<SemaphorePermit<'_>, SessionError> {
        permit(&self.slow_lanes).await
    }

    /// Evaluates a filter on one value, for a join.
    ///
    /// # Errors
    /// PostgreSQL rejected the comparison, or did not respond.
    pub(super) async fn passes(&self, role: &str, test: &Test, value: &str) -> Result<bool, SessionError> {
        let statement = filter_statement(&[FilterCheck { test, values: vec![value] }]);
        let answers = self.run_formatted(role, vec![statement]).await?;
        Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
    }

    /// Runs statements for a join as `role`, with the settings under which the stream prints values.
    ///
    /// # Errors
    /// PostgreSQL rejected a statement, or did not respond.
    pub(super) async fn run_formatted(
        &self,
        role: &str,
        steps: Vec<Statement>,
    ) -> Result<Answers, SessionError> {
        let _few = permit(&self.joins).await?;
        let _permit = permit(&self.permits).await?;
        self.sessions.run(scope(formatted(role, STATEMENT_LIMIT)), steps).await
    }
}

/// Results of the statements before the first failure.
struct PartialResults<T> {
    outcomes: Vec<T>,
    failure: Option<Box<PgError>>,
}

/// Appends results: the item that failed becomes `None`; those after it have to be evaluated again.
fn append_outcomes<T>(
    outcomes: &mut Vec<Option<T>>,
    total: usize,
    evaluated: Result<PartialResults<T>, SessionError>,
) -> Result<(), SessionError> {
    match evaluated {
        Ok(PartialResults { outcomes: some, failure }) => {
            outcomes.extend(some.into_iter().map(Some));
            match failure {
                Some(_) if outcomes.len() < total => outcomes.push(None),
                None if outcomes.len() < total => {
                    return Err(SessionError::Unavailable("a statement returned no result".to_owned()));
                }
                Some(_) | None => {}
            }
        }
        // Each statement stayed within its budget, but all together exceeded the deadline.
        Err(SessionError::Deadline) => outcomes.resize_with(total, || None),
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn permit(of: &Semaphore) -> Result<SemaphorePermit<'_>, SessionError> {
    // The semaphore is never closed.
    of.acquire().await.map_err(|_| SessionError::PoolTimeout)
}

fn budget(rows: usize) -> Duration {
    BUDGET + BUDGET_PER_ROW * saturating::<u32>(rows)
}

type Settings = Vec<(std::borrow::Cow<'static, str>, String)>;

fn formatted(role: &str, limit: Duration) -> Settings {
    let mut settings: Settings = vec![("statement_timeout".into(), limit.as_millis().to_string())];
    settings.extend(SESSION_SETTINGS.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())));
    settings.push(("role".into(), role.to_owned()));
    settings
}

pub(super) fn scope(settings: Settings) -> Scope {
    Scope {
        identity: basalt_core::identity::Identity::SERVER,
        access: Access::ReadOnly,
        isolation: Isolation::default(),
        settings,
        // Policies may call functions that prepare statements.
        may_prepare: true,
        savepoints: false,
        room_for_values: false,
        deadline: Instant::now() + BATCH_LIMIT,
    }
}

impl<'a> Lookup<'a> {
    /// Looks up rows with these keys.
    pub(super) fn new(table: &Table, keys: &'a [Vec<String>]) -> Self {
        Self { text: lookup_text(table), keys }
    }

    /// One array per key column.
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

/// Returns no rows, so that the claims are not sent back.
fn claims_text() -> Arc<str> {
    "select where pg_catalog.set_config('request.jwt.claims', $1, true) is null".into()
}

/// Keys are passed as text and cast one by one: `unnest` of a typed array would flatten keys that are arrays
/// or composites.
///
/// `offset 0` prevents PostgreSQL from rewriting the inner query, so that each key is looked up by index
/// whatever the policies are. With `= any` one change took three times as long (realtime.md 8.2).
fn lookup_text(table: &Table) -> Arc<str> {
    let mut sql =
        Sql::text("select k.n from ").then(keys_from(table)).then(Sql::text(", lateral (select from "));
    // Without `only`, a row of a child table with the same key would match.
    sql.push(Sql::text(if table.is_partitioned { "" } else { "only " }));
    sql.push(Sql::qualified(&table.schema, &table.name));
    sql.push(Sql::text(" as t where "));
    sql.push(key_equals(table));
    sql.push(Sql::text(" offset 0) as v"));
    sql.render().0.into()
}

/// Keys as `k(k0, k1, …, n)`, from one text array per key column.
pub(super) fn keys_from(table: &Table) -> Sql {
    let arrays = (1..=table.key.len()).map(|number| Sql::catalog(format!("${number}::varchar[]")));
    let names = (0..table.key.len()).map(|number| Sql::catalog(format!("k{number}")));
    Sql::text("unnest(")
        .then(Sql::join(arrays, ", "))
        .then(Sql::text(") with ordinality as k("))
        .then(Sql::join(names, ", "))
        .then(Sql::text(", n)"))
}

/// Condition that row `t` has key `k`.
pub(super) fn key_equals(table: &Table) -> Sql {
    let columns = table.key.iter().filter_map(|place| table.columns.get(*place));
    let conditions = columns.enumerate().map(|(number, column)| {
        let key = column.sql_type.cast(Sql::catalog(format!("k.k{number}")));
        Sql::text("t.").then(Sql::ident(&column.name)).then(column.sql_type.operator("=")).then(key)
    });
    Sql::join(conditions, " and ")
}

/// Selects `(filter, value)` of the values that pass.
fn filter_statement(checks: &[FilterCheck<'_>]) -> Statement {
    let parts = checks.iter().enumerate().map(|(number, FilterCheck { test, values })| {
        let mut literal = String::new();
        push_array_literal(&mut literal, values.iter().map(|value| Some(*value)));
        Sql::catalog(format!("select {number}::int8, u.n from unnest("))
            .then(Sql::param(literal))
            .then(Sql::text("::varchar[]) with ordinality as u(v, n) where coalesce("))
            .then(condition(test))
            .then(Sql::text(", false)"))
    });
    Sql::join(parts, " union all ").into()
}

fn condition(test: &Test) -> Sql {
    let sql_type = &test.sql_type;
    let operand = Sql::param(test.operand_text());
    let operand = match test.operator {
        Operator::In => {
            let array = sql_type.array.as_deref().unwrap_or_default().to_owned();
            Sql::text("any ((")
                .then(operand)
                .then(Sql::text("::varchar)::"))
                .then(Sql::catalog(array))
                .then(Sql::text(")"))
        }
        Operator::Like | Operator::ILike | Operator::Match | Operator::IMatch => {
            operand.then(Sql::text("::text"))
        }
        Operator::Eq
        | Operator::Neq
        | Operator::Lt
        | Operator::Lte
        | Operator::Gt
        | Operator::Gte
        | Operator::Is
        | Operator::IsDistinct => sql_type.cast(operand.then(Sql::text("::varchar"))),
    };
    // Neither side is NULL here, so `is distinct from` is `<>`.
    let is_negated = test.is_negated != (test.operator == Operator::IsDistinct);
    Sql::text(if is_negated { "not (" } else { "(" })
        .then(sql_type.cast(Sql::text("u.v")))
        .then(sql_type.operator(test.operator.symbol()))
        .then(operand)
        .then(Sql::text(")"))
}
