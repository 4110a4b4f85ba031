//! Runs statements in one transaction and one flush, with the checks that must precede COMMIT (rest.md §3.16).

mod answer;
mod root;
mod scope;

use std::sync::Arc;

use basalt_core::convert::saturating;
use basalt_core::identity::Identity;
use basalt_pg::session::{Access, Answers, End, Row, SessionError, Sessions, Statement};
use http::HeaderMap;
use tokio::time::Instant;

pub(crate) use answer::Answer;

use crate::auth::Caller;
use crate::client_cpu::ClientCpu;
use crate::error::RestError;
use crate::parse::prefer::Count;
use crate::plan::call::CallResult;
use crate::plan::mutate::Mutation;
use crate::plan::{CallPlan, Common, Plan, TablePlan, WritePlan};
use crate::reload::Snapshot;
use crate::request::ApiRequest;
use crate::statement::{self, Form, Statements};

/// Everything needed to execute a plan.
pub(crate) struct ExecuteContext<'a> {
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) sessions: &'a Sessions,
    pub(crate) caller: &'a Caller,
    pub(crate) api: &'a ApiRequest,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) deadline: Instant,
    /// Identity charged for connections and long work.
    pub(crate) identity: Identity,
    pub(crate) cpu: ClientCpu<'a>,
    /// Permits for the root document.
    pub(crate) documents: ClientCpu<'a>,
}

/// Executes a plan. Returns `None` if PostgreSQL has to serialise the rows or decode the body instead: nothing was
/// changed, and the request must be prepared again for that.
pub(crate) async fn run(
    context: &ExecuteContext<'_>,
    plan: &Plan,
    statements: Option<Statements>,
) -> Result<Option<Answer>, RestError> {
    let statements = || statements.ok_or(RestError::Internal("plan without statements"));
    match plan {
        Plan::Info { .. } => Ok(Some(Answer::default())),
        Plan::Root => root::root(context).await.map(Some),
        Plan::Read(plan) => read(context, plan, statements()?).await,
        Plan::Write(plan) => write(context, plan, statements()?).await,
        Plan::Call(plan) => call(context, plan, statements()?).await,
    }
}

/// Reads a relation.
async fn read(
    context: &ExecuteContext<'_>,
    plan: &TablePlan,
    statements: Statements,
) -> Result<Option<Answer>, RestError> {
    let is_explained = plan.format.explain.is_some();
    let form = statements.form;
    let estimates = statements.estimates.len();
    let mut answers = transact(context, &plan.common, statements, None).await?;
    let rest = answers.split_off(answers.len().saturating_sub(estimates));
    let Some(mut answer) = answer::from_results(answers, form, is_explained, context).await? else {
        context.snapshot.disable_row_delivery();
        return Ok(None);
    };
    let own_rows = || rest.get(1)?.first()?.number(0);
    let estimate = || own_rows().or_else(|| answer::estimated_rows(rest.first()?.first()?));
    answer.total = match plan.common.count {
        Some(Count::Planned) => estimate(),
        Some(Count::Estimated) => match (answer.total, plan.max_rows.and_then(|cap| i64::try_from(cap).ok()))
        {
            // The count did not reach the cap, so it is exact.
            (Some(exact), Some(cap)) if exact <= cap => Some(exact),
            (exact, _) => exact.max(estimate()),
        },
        Some(Count::Exact) | None => answer.total,
    };
    if plan.row_cap.is_some() && statement::total_reveals_truncation(plan) {
        let end = saturating::<i64>(plan.read.range.offset).saturating_add(answer.page);
        answer.is_truncated = answer.page > 0 && answer.total.is_some_and(|total| total > end);
    }
    if !is_explained && plan.format.is_singular() && answer.page != 1 {
        return Err(RestError::NotSingular(answer.page));
    }
    Ok(Some(answer))
}

/// Writes to a relation. Results that must not be committed are detected before COMMIT.
async fn write(
    context: &ExecuteContext<'_>,
    plan: &WritePlan,
    statements: Statements,
) -> Result<Option<Answer>, RestError> {
    let check = RowCheck {
        singular: plan.format.is_singular(),
        put: matches!(plan.mutation, Mutation::Put { .. }),
        at_most: plan.common.max_affected,
    };
    let is_explained = plan.format.explain.is_some();
    match run_checked(context, &plan.common, statements, check, is_explained).await {
        // PostgreSQL rejects an invalid parameter value before it checks privileges, even if no row matches. It has
        // changed nothing yet: let it decode the JSON body and report the proper error.
        Err(RestError::Session(SessionError::Postgres(error)))
            if plan.has_values() && !error.has_run && error.is_class(DATA_EXCEPTION) =>
        {
            Ok(None)
        }
        other => other,
    }
}

/// SQLSTATE class of data exceptions.
const DATA_EXCEPTION: &str = "22";

/// Calls a function.
async fn call(
    context: &ExecuteContext<'_>,
    plan: &CallPlan,
    statements: Statements,
) -> Result<Option<Answer>, RestError> {
    let is_explained = plan.format.explain.is_some();
    let returns_many = matches!(plan.result, CallResult::Scalars | CallResult::Rows);
    let check = RowCheck {
        singular: plan.format.is_singular() && returns_many,
        put: false,
        at_most: plan.common.max_affected,
    };
    let Some(mut answer) = run_checked(context, &plan.common, statements, check, is_explained).await? else {
        context.snapshot.disable_row_delivery();
        return Ok(None);
    };
    answer.is_truncated = returns_many && is_full(context, &answer);
    Ok(Some(answer))
}

/// Whether a function returned as many rows as max-rows allows and more were requested. Whether more exist is
/// unknown, because the function cannot be called twice.
fn is_full(context: &ExecuteContext<'_>, answer: &Answer) -> bool {
    let Some(cap) = context.snapshot.config.max_rows else { return false };
    let is_capped = context.api.range.limit.is_none_or(|limit| limit > cap.into());
    is_capped
        && !answer.is_explained
        && i64::try_from(cap).is_ok_and(|cap| answer.page >= cap)
        && answer.page > 0
}

/// Runs statements and checks the number of rows: before COMMIT if there is something to roll back.
async fn run_checked(
    context: &ExecuteContext<'_>,
    common: &Common,
    statements: Statements,
    check: RowCheck,
    is_explained: bool,
) -> Result<Option<Answer>, RestError> {
    let is_needed = !is_explained && check.is_needed();
    // A read-only transaction has nothing to roll back, so COMMIT need not wait.
    let before_commit = (is_needed && common.access == Access::ReadWrite).then_some(check);
    let form = statements.form;
    let answers = transact(context, common, statements, before_commit).await?;
    let answer = answer::from_results(answers, form, is_explained, context).await?;
    if let (true, Some(answer)) = (is_needed, &answer) {
        check.verify(answer.page)?;
    }
    Ok(answer)
}

/// Limits on the number of rows.
#[derive(Debug, Clone, Copy)]
struct RowCheck {
    singular: bool,
    put: bool,
    at_most: Option<u64>,
}

impl RowCheck {
    const fn is_needed(self) -> bool {
        self.singular || self.put || self.at_most.is_some()
    }

    fn verify(self, rows: i64) -> Result<(), RestError> {
        if self.put && rows != 1 {
            return Err(RestError::PutPayload);
        }
        if self.singular && rows != 1 {
            return Err(RestError::NotSingular(rows));
        }
        match self.at_most {
            Some(most) if u64::try_from(rows).is_ok_and(|rows| rows > most) => {
                Err(RestError::MaxAffected(rows))
            }
            _ => Ok(()),
        }
    }
}

/// Runs the statements of a plan in one transaction, together with the steps that the configuration requires.
///
/// Returns the results of the main statement, of the response settings if it returns rows, and of the estimates, if
/// any.
async fn transact(
    context: &ExecuteContext<'_>,
    common: &Common,
    statements: Statements,
    check: Option<RowCheck>,
) -> Result<Answers, RestError> {
    let rollback = common.rollback.unwrap_or(context.snapshot.config.tx_end.rollback);
    let mut steps = Vec::with_capacity(5);
    let before = usize::from(context.snapshot.config.pre_request.is_some());
    if let Some(function) = &context.snapshot.config.pre_request {
        steps.push(function.call());
    }
    // Logs the text for `log-query`, never the values.
    tracing::debug!(target: "basalt::query", "{}", statements.main.text);
    steps.push(statements.main);
    if matches!(statements.form, Form::Rows { .. }) {
        steps.push(statement::response_settings());
    }
    steps.extend(statements.estimates);
    let wanted = steps.len() - before;
    if rollback && check.is_none() {
        // Without this, deferred constraints would never be checked.
        steps.push(Statement { text: Arc::from("SET CONSTRAINTS ALL IMMEDIATE"), params: Vec::new() });
    }
    let scope = scope::scope(context, common);
    let mut answers = if let Some(check) = check {
        // A wrong number of rows is reported before violations of deferred constraints.
        let kept = if rollback { End::RollbackChecked } else { End::Commit };
        let verify = move |answers: &[Vec<Row>]| {
            let rows = answers.get(before).and_then(|rows| rows.first());
            let rows = rows.and_then(|row| row.number(statement::PAGE));
            if rows.is_some_and(|rows| check.verify(rows).is_ok()) { kept } else { End::Rollback }
        };
        context.sessions.run_checked(scope, steps, verify).await?
    } else if rollback {
        context.sessions.run_rolled_back(scope, steps).await?
    } else {
        context.sessions.run(scope, steps).await?
    };
    answers.truncate(before + wanted);
    Ok(answers.split_off(before))
}
