//! Running statements: one transaction, one flush, and the checks that must come before COMMIT (rest.md §3.16).

mod cut;

use std::borrow::Cow;
use std::sync::Arc;

use basalt_core::session::{Access, Answers, End, Row, Scope, Sessions, Statement};
use basalt_core::sql::Param;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{COOKIE, HOST};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::auth::Caller;
use crate::config::{OpenApiMode, RestConfig};
use crate::error::RestError;
use crate::openapi::{self, Accessible, Server};
use crate::parse::prefer::Count;
use crate::plan::mutate::Mutation;
use crate::plan::{self, CallPlan, Common, TablePlan, WritePlan};
use crate::request::ApiRequest;
use crate::schema_cache::SchemaCache;
use crate::statement::{self, Statements};

/// Everything around a plan.
pub(crate) struct Scene<'a> {
    pub(crate) config: &'a RestConfig,
    pub(crate) cache: &'a SchemaCache,
    pub(crate) sessions: &'a Sessions,
    pub(crate) caller: &'a Caller,
    pub(crate) api: &'a ApiRequest,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) deadline: Instant,
}

/// What a statement answered.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Rows without the window, if they were counted.
    pub(crate) total: Option<i64>,
    /// Rows in the window, or affected.
    pub(crate) page: i64,
    /// The body.
    pub(crate) body: Option<Bytes>,
    /// `response.headers`
    pub(crate) headers: Option<String>,
    /// `response.status`
    pub(crate) status: Option<String>,
    /// Key of one of the written rows, as a JSON array.
    pub(crate) location: Option<String>,
    /// Rows an upsert inserted.
    pub(crate) inserted: Option<i64>,
    /// The answer is a query plan, and says nothing about rows.
    pub(crate) is_explained: bool,
    /// Max-rows kept rows back.
    pub(crate) is_cut: bool,
}

/// Reads a relation.
pub(crate) async fn read(
    scene: &Scene<'_>,
    plan: &TablePlan,
    statements: Statements,
) -> Result<Answer, RestError> {
    let is_explained = plan.format.explain.is_some();
    let mut answers = run(scene, &plan.common, statements, None).await?;
    let estimate = plan.common.count.filter(|count| *count != Count::Exact).and_then(|_| {
        let rows = answers.pop()?;
        estimated_rows(rows.first()?)
    });
    let mut answer = main_answer(answers, is_explained)?;
    answer.total = match plan.common.count {
        Some(Count::Planned) => estimate,
        Some(Count::Estimated) => match (answer.total, plan.max_rows.and_then(|cap| i64::try_from(cap).ok()))
        {
            // Not more than the cap: the count is exact.
            (Some(exact), Some(cap)) if exact <= cap => Some(exact),
            (exact, _) => exact.max(estimate),
        },
        Some(Count::Exact) | None => answer.total,
    };
    if !is_explained && plan.format.is_singular() && answer.page != 1 {
        return Err(RestError::NotSingular(answer.page));
    }
    answer.is_cut = cut::of_read(scene, &plan.common, &plan.read, &answer).await?;
    Ok(answer)
}

/// Writes to a relation. What must not be committed is found out before COMMIT.
pub(crate) async fn write(
    scene: &Scene<'_>,
    plan: &WritePlan,
    statements: Statements,
) -> Result<Answer, RestError> {
    let is_explained = plan.format.explain.is_some();
    let check = RowCheck {
        singular: plan.format.is_singular(),
        put: matches!(plan.mutation, Mutation::Put { .. }),
        at_most: plan.common.max_affected,
    };
    checked(scene, &plan.common, statements, check, is_explained).await
}

/// Calls a function.
pub(crate) async fn call(
    scene: &Scene<'_>,
    plan: &CallPlan,
    statements: Statements,
) -> Result<Answer, RestError> {
    let is_explained = plan.format.explain.is_some();
    let returns_many = matches!(plan.result, plan::call::CallResult::Scalars | plan::call::CallResult::Rows);
    let check = RowCheck {
        singular: plan.format.is_singular() && returns_many,
        put: false,
        at_most: plan.common.max_affected,
    };
    let mut answer = checked(scene, &plan.common, statements, check, is_explained).await?;
    answer.is_cut = returns_many && cut::is_full(scene, &answer);
    Ok(answer)
}

async fn checked(
    scene: &Scene<'_>,
    common: &Common,
    statements: Statements,
    check: RowCheck,
    is_explained: bool,
) -> Result<Answer, RestError> {
    if is_explained || !check.is_needed() {
        return main_answer(run(scene, common, statements, None).await?, is_explained);
    }
    // A read-only transaction has nothing to undo: no need to hold COMMIT back.
    let before_commit = (common.access == Access::ReadWrite).then_some(check);
    let answer = main_answer(run(scene, common, statements, before_commit).await?, false)?;
    check.judge(answer.page)?;
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
/// The answers are those of the main statement and of the estimate, if there is one.
async fn run(
    scene: &Scene<'_>,
    common: &Common,
    statements: Statements,
    check: Option<RowCheck>,
) -> Result<Answers, RestError> {
    let rollback = common.rollback.unwrap_or(scene.config.tx_end.rollback);
    let mut steps = Vec::with_capacity(4);
    let before = usize::from(scene.config.pre_request.is_some());
    if let Some(function) = &scene.config.pre_request {
        steps.push(function.call());
    }
    // `log-query`: the text, never the values.
    tracing::debug!(target: "basalt::query", "{}", statements.main.text);
    steps.push(statements.main);
    let wanted = 1 + usize::from(statements.estimate.is_some());
    steps.extend(statements.estimate);
    if rollback {
        // Deferred constraints would otherwise never be looked at.
        steps.push(Statement { text: Arc::from("SET CONSTRAINTS ALL IMMEDIATE"), params: Vec::new() });
    }
    let scope = scope(scene, common);
    let mut answers = if rollback {
        scene.sessions.run_rolled_back(scope, steps).await?
    } else if let Some(check) = check {
        let judge = move |answers: &[Vec<Row>]| {
            let rows = answers.get(before).and_then(|rows| rows.first());
            let rows = rows.and_then(|row| row.number(statement::PAGE));
            if rows.is_some_and(|rows| check.judge(rows).is_ok()) { End::Commit } else { End::Rollback }
        };
        scene.sessions.run_checked(scope, steps, judge).await?
    } else {
        scene.sessions.run(scope, steps).await?
    };
    answers.truncate(before + wanted);
    Ok(answers.split_off(before))
}

/// Access, isolation and settings, in the order of rest.md §3.16: what the role brings along is set before it is taken
/// on, because it may not be allowed to set it itself.
fn scope(scene: &Scene<'_>, common: &Common) -> Scope {
    let caller = scene.caller;
    let role = scene.cache.role(&caller.role);
    let isolation = common
        .isolation
        .or_else(|| role.and_then(|role| role.isolation.as_deref()).map(plan::isolation))
        .unwrap_or_default();
    let mut settings: Vec<(Cow<'static, str>, String)> = Vec::with_capacity(12);
    settings.push(("search_path".into(), search_path(&scene.api.schema, scene.config)));
    for (name, value) in role.into_iter().flat_map(|role| &role.settings) {
        settings.push((name.clone().into(), value.clone()));
    }
    settings.push(("role".into(), caller.role.clone()));
    settings.push(("request.jwt.claims".into(), caller.claims.clone()));
    settings.push(("request.method".into(), scene.api.method.as_str().to_owned()));
    settings.push(("request.path".into(), scene.api.path.clone()));
    settings.push(("request.headers".into(), headers_json(scene.headers)));
    settings.push(("request.cookies".into(), cookies_json(scene.headers)));
    if let Some(zone) = &scene.api.prefer.timezone {
        settings.push(("timezone".into(), zone.clone()));
    }
    for (name, value) in &common.settings {
        settings.push((name.clone().into(), value.clone()));
    }
    for (name, value) in &scene.config.app_settings {
        settings.push((format!("app.settings.{name}").into(), value.clone()));
    }
    Scope { access: common.access, isolation, settings, deadline: scene.deadline }
}

fn search_path(schema: &str, config: &RestConfig) -> String {
    let mut path = String::new();
    for name in std::iter::once(schema).chain(config.extra_search_path.iter().map(String::as_str)) {
        if !path.is_empty() {
            path.push_str(", ");
        }
        basalt_core::sql::push_quoted(&mut path, name, '"');
    }
    path
}

/// All headers but cookies; of repeated ones the values joined.
fn headers_json(headers: &HeaderMap) -> String {
    let mut json = String::with_capacity(512);
    json.push('{');
    for name in headers.keys().filter(|name| **name != COOKIE) {
        if json.len() > 1 {
            json.push(',');
        }
        json.push('"');
        // A header's name has no character that JSON would escape.
        json.push_str(name.as_str());
        json.push_str("\":");
        let mut values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let first = values.next().unwrap_or_default();
        let joined = values.fold(first, |joined, value| Cow::Owned(format!("{joined}, {value}")));
        push_json_string(&mut json, &joined);
    }
    json.push('}');
    json
}

fn push_json_string(json: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\')) {
        json.push_str(&Value::from(text).to_string());
    } else {
        json.push('"');
        json.push_str(text);
        json.push('"');
    }
}

fn cookies_json(headers: &HeaderMap) -> String {
    if !headers.contains_key(COOKIE) {
        return "{}".to_owned();
    }
    let mut shown = Map::new();
    for header in headers.get_all(COOKIE) {
        let text = String::from_utf8_lossy(header.as_bytes());
        for pair in text.split(';').map(str::trim_start).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            shown.insert(name.to_owned(), Value::String(value.to_owned()));
        }
    }
    Value::Object(shown).to_string()
}

fn main_answer(mut answers: Answers, is_explained: bool) -> Result<Answer, RestError> {
    let rows = if answers.is_empty() { Vec::new() } else { answers.swap_remove(0) };
    if is_explained {
        return Ok(Answer { body: Some(plan_text(&rows)), is_explained, ..Answer::default() });
    }
    let row = rows.first().ok_or(RestError::Internal("the statement gave no row"))?;
    let text = |column| row.text(column).map(str::to_owned);
    Ok(Answer {
        total: row.number(statement::TOTAL),
        page: row.number(statement::PAGE).unwrap_or_default(),
        body: row.bytes(statement::BODY),
        headers: text(statement::HEADERS),
        status: text(statement::STATUS),
        location: text(statement::LOCATION),
        inserted: row.number(statement::INSERTED),
        is_explained,
        is_cut: false,
    })
}

/// The lines of a plan, or its one JSON value.
fn plan_text(rows: &[Row]) -> Bytes {
    let mut text = Vec::new();
    for row in rows {
        if let Some(line) = row.bytes(0) {
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
    }
    Bytes::from(text)
}

/// `Plan Rows` of the root of a JSON plan.
fn estimated_rows(row: &Row) -> Option<i64> {
    let plan: Value = serde_json::from_str(row.text(0)?).ok()?;
    plan.get(0)?.get("Plan")?.get("Plan Rows")?.as_i64()
}

/// The document of the root: of a function, or made of what the caller may use.
pub(crate) async fn root(scene: &Scene<'_>) -> Result<Answer, RestError> {
    let common = Common::document();
    if let Some(function) = &scene.config.root_spec {
        let statements = Statements { main: function.call(), estimate: None };
        let document = single_value(&run(scene, &common, statements, None).await?);
        return Ok(Answer { body: document, ..Answer::default() });
    }
    let accessible = match scene.config.openapi_mode {
        OpenApiMode::FollowPrivileges => {
            let main = Statement {
                text: Arc::from(include_str!("accessible.sql")),
                params: vec![Param::from(&*scene.api.schema)],
            };
            let answers = run(scene, &common, Statements { main, estimate: None }, None).await?;
            let list = single_value(&answers).ok_or(RestError::Internal("the privileges gave no row"))?;
            let list = serde_json::from_slice::<Accessible>(&list);
            Some(list.map_err(|_| RestError::Internal("the privileges cannot be read"))?)
        }
        OpenApiMode::IgnorePrivileges | OpenApiMode::Disabled => None,
    };
    let host = scene.headers.get(HOST).and_then(|host| host.to_str().ok());
    let server = Server::of(scene.config, host);
    let document =
        openapi::document(&scene.api.schema, scene.cache, accessible.as_ref(), &server, scene.config);
    Ok(Answer { body: Some(Bytes::from(document.to_string())), ..Answer::default() })
}

fn single_value(answers: &Answers) -> Option<Bytes> {
    answers.first()?.first()?.bytes(0)
}
