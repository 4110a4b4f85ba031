//! Running statements: one transaction, one flush, and the checks that must come before COMMIT (rest.md §3.16).

mod answer;
mod root;
mod scope;

use std::sync::Arc;

use basalt_core::session::{Access, Answers, End, Row, SessionError, Sessions, Statement};
use http::HeaderMap;
use tokio::time::Instant;

pub(crate) use answer::Answer;
pub(crate) use root::root;

use crate::auth::Caller;
use crate::error::RestError;
use crate::long_work::Turns;
use crate::parse::prefer::Count;
use crate::plan::call::CallResult;
use crate::plan::mutate::Mutation;
use crate::plan::{CallPlan, Common, TablePlan, WritePlan};
use crate::reload::Snapshot;
use crate::request::ApiRequest;
use crate::statement::{self, Form, Statements};

/// Everything around a plan.
pub(crate) struct Scene<'a> {
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) sessions: &'a Sessions,
    pub(crate) caller: &'a Caller,
    pub(crate) api: &'a ApiRequest,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) deadline: Instant,
    /// Whose turn it is to have the root's document made.
    pub(crate) documents: &'a Turns,
}

/// Makes the statements anew, in the form that leaves everything to PostgreSQL: for rows that cannot be written here, and
/// for values that it refused.
pub(crate) type AsValue<'a> = &'a (dyn Fn() -> Result<Statements, RestError> + Sync);

/// Reads a relation.
pub(crate) async fn read(
    scene: &Scene<'_>,
    plan: &TablePlan,
    statements: Statements,
    as_value: AsValue<'_>,
) -> Result<Answer, RestError> {
    let is_explained = plan.format.explain.is_some();
    let (mut answer, rest) = match once(scene, &plan.common, statements, is_explained).await? {
        Some(answered) => answered,
        None => {
            scene.snapshot.cache.deliver_no_more_rows();
            once(scene, &plan.common, as_value()?, is_explained).await?.ok_or(UNWRITABLE)?
        }
    };
    let estimate = || answer::estimated_rows(rest.first()?.first()?);
    answer.total = match plan.common.count {
        Some(Count::Planned) => estimate(),
        Some(Count::Estimated) => match (answer.total, plan.max_rows.and_then(|cap| i64::try_from(cap).ok()))
        {
            // Not more than the cap: the count is exact.
            (Some(exact), Some(cap)) if exact <= cap => Some(exact),
            (exact, _) => exact.max(estimate()),
        },
        Some(Count::Exact) | None => answer.total,
    };
    if plan.cut_at.is_some() && statement::total_tells_cut(plan) {
        let end = i64::try_from(plan.read.range.offset).unwrap_or(i64::MAX).saturating_add(answer.page);
        answer.is_cut = answer.page > 0 && answer.total.is_some_and(|total| total > end);
    }
    if !is_explained && plan.format.is_singular() && answer.page != 1 {
        return Err(RestError::NotSingular(answer.page));
    }
    Ok(answer)
}

/// Writes to a relation. What must not be committed is found out before COMMIT.
pub(crate) async fn write(
    scene: &Scene<'_>,
    plan: &WritePlan,
    statements: Statements,
    as_json: AsValue<'_>,
) -> Result<Answer, RestError> {
    let check = RowCheck {
        singular: plan.format.is_singular(),
        put: matches!(plan.mutation, Mutation::Put { .. }),
        at_most: plan.common.max_affected,
    };
    let is_explained = plan.format.explain.is_some();
    let answer = match checked(scene, &plan.common, statements, check, is_explained).await {
        // A value among the parameters is refused before rights are looked at, and where no row is met. Nothing was done
        // yet: let PostgreSQL read the JSON and say what is wrong.
        Err(RestError::Session(SessionError::Postgres(error)))
            if plan.has_values() && !error.has_run && error.is_class(DATA_EXCEPTION) =>
        {
            checked(scene, &plan.common, as_json()?, check, is_explained).await?
        }
        other => other?,
    };
    answer.ok_or(UNWRITABLE)
}

/// Errors of values.
const DATA_EXCEPTION: &str = "22";

/// Calls a function.
pub(crate) async fn call(
    scene: &Scene<'_>,
    plan: &CallPlan,
    statements: Statements,
    as_value: AsValue<'_>,
) -> Result<Answer, RestError> {
    let is_explained = plan.format.explain.is_some();
    let returns_many = matches!(plan.result, CallResult::Scalars | CallResult::Rows);
    let check = RowCheck {
        singular: plan.format.is_singular() && returns_many,
        put: false,
        at_most: plan.common.max_affected,
    };
    let mut answer = match checked(scene, &plan.common, statements, check, is_explained).await? {
        Some(answer) => answer,
        None => {
            scene.snapshot.cache.deliver_no_more_rows();
            checked(scene, &plan.common, as_value()?, check, is_explained).await?.ok_or(UNWRITABLE)?
        }
    };
    answer.is_cut = returns_many && is_full(scene, &answer);
    Ok(answer)
}

const UNWRITABLE: RestError = RestError::Internal("one row that cannot be written");

/// Whether a function's rows are as many as max-rows allows, and more were wanted. More is not known: it cannot be called
/// twice.
fn is_full(scene: &Scene<'_>, answer: &Answer) -> bool {
    let Some(cap) = scene.snapshot.config.max_rows else { return false };
    let is_capped = scene.api.range.limit.is_none_or(|limit| limit > cap.into());
    is_capped
        && !answer.is_explained
        && i64::try_from(cap).is_ok_and(|cap| answer.page >= cap)
        && answer.page > 0
}

/// Runs statements and takes out the answer, leaving that of the estimate; `None` when rows came that cannot be written
/// here.
async fn once(
    scene: &Scene<'_>,
    common: &Common,
    statements: Statements,
    is_explained: bool,
) -> Result<Option<(Answer, Answers)>, RestError> {
    let (form, estimates) = (statements.form, usize::from(statements.estimate.is_some()));
    let mut answers = run(scene, common, statements, None).await?;
    let rest = answers.split_off(answers.len().saturating_sub(estimates));
    let answer = answer::of(answers, form, is_explained, scene.snapshot).await?;
    Ok(answer.map(|answer| (answer, rest)))
}

async fn checked(
    scene: &Scene<'_>,
    common: &Common,
    statements: Statements,
    check: RowCheck,
    is_explained: bool,
) -> Result<Option<Answer>, RestError> {
    let is_needed = !is_explained && check.is_needed();
    // A read-only transaction has nothing to undo: no need to hold COMMIT back.
    let before_commit = (is_needed && common.access == Access::ReadWrite).then_some(check);
    let form = statements.form;
    let answers = run(scene, common, statements, before_commit).await?;
    let answer = answer::of(answers, form, is_explained, scene.snapshot).await?;
    if let (true, Some(answer)) = (is_needed, &answer) {
        check.judge(answer.page)?;
    }
    Ok(answer)
}

/// How many rows there may be.
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

    fn judge(self, rows: i64) -> Result<(), RestError> {
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

/// Runs the statements of a plan, with whatever the configuration puts around them.
///
/// The answers are those of the main statement, of the response's settings where it answers with rows, and of the
/// estimate, if there is one.
async fn run(
    scene: &Scene<'_>,
    common: &Common,
    statements: Statements,
    check: Option<RowCheck>,
) -> Result<Answers, RestError> {
    let rollback = common.rollback.unwrap_or(scene.snapshot.config.tx_end.rollback);
    let mut steps = Vec::with_capacity(5);
    let before = usize::from(scene.snapshot.config.pre_request.is_some());
    if let Some(function) = &scene.snapshot.config.pre_request {
        steps.push(function.call());
    }
    // `log-query`: the text, never the values.
    tracing::debug!(target: "basalt::query", "{}", statements.main.text);
    steps.push(statements.main);
    if matches!(statements.form, Form::Rows { .. }) {
        steps.push(statement::response_settings());
    }
    steps.extend(statements.estimate);
    let wanted = steps.len() - before;
    if rollback && check.is_none() {
        // Deferred constraints would otherwise never be looked at.
        steps.push(Statement { text: Arc::from("SET CONSTRAINTS ALL IMMEDIATE"), params: Vec::new() });
    }
    let scope = scope::scope(scene, common);
    let mut answers = if let Some(check) = check {
        // The number of rows is told before deferred constraints are.
        let kept = if rollback { End::RollbackChecked } else { End::Commit };
        let judge = move |answers: &[Vec<Row>]| {
            let rows = answers.get(before).and_then(|rows| rows.first());
            let rows = rows.and_then(|row| row.number(statement::PAGE));
            if rows.is_some_and(|rows| check.judge(rows).is_ok()) { kept } else { End::Rollback }
        };
        scene.sessions.run_checked(scope, steps, judge).await?
    } else if rollback {
        scene.sessions.run_rolled_back(scope, steps).await?
    } else {
        scene.sessions.run(scope, steps).await?
    };
    answers.truncate(before + wanted);
    Ok(answers.split_off(before))
}
