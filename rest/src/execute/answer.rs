//! What the statements of a plan answered, in whichever form.

use std::sync::Arc;

use basalt_pg::session::{Answers, Row};
use bytes::Bytes;
use serde_json::Value;

use super::ExecuteContext;
use crate::cpu_permits;
use crate::error::RestError;
use crate::rows::{self, Frame};
use crate::statement::{self, Form};

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

/// Takes the answer out of those of a plan's statements; `None` when rows came that cannot be written here.
pub(super) async fn of(
    answers: Answers,
    form: Form,
    is_explained: bool,
    context: &ExecuteContext<'_>,
) -> Result<Option<Answer>, RestError> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or_default();
    match form {
        Form::Value if is_explained => {
            Ok(Some(Answer { body: Some(plan_text(&next())), is_explained, ..Answer::default() }))
        }
        Form::Value => next().first().map(of_value).map(Some).ok_or(NO_ROW),
        Form::Written => {
            let rows = next();
            let said = |column| {
                let text = rows.first().and_then(|row| row.text(column));
                text.filter(|text| !text.is_empty()).map(str::to_owned)
            };
            Ok(Some(Answer {
                page: i64::try_from(rows.len()).unwrap_or(i64::MAX),
                headers: said(0),
                status: said(1),
                ..Answer::default()
            }))
        }
        Form::Rows { frame, cut_at, counts } => {
            let (mut rows, settings) = (next(), next());
            let cap = cut_at.and_then(|cap| usize::try_from(cap).ok());
            let is_cut = cap.is_some_and(|cap| rows.len() > cap);
            rows.truncate(cap.unwrap_or(usize::MAX));
            let page = i64::try_from(rows.len()).unwrap_or(i64::MAX);
            let Some(body) = to_json(rows, frame, context).await? else { return Ok(None) };
            let settings = settings.first().ok_or(NO_ROW)?;
            Ok(Some(Answer {
                total: counts.then_some(page),
                page,
                body: Some(body),
                headers: settings.text(0).map(str::to_owned),
                status: settings.text(1).map(str::to_owned),
                is_cut,
                ..Answer::default()
            }))
        }
    }
}

/// Writes rows as JSON; of many, off the runtime's threads.
async fn to_json(
    rows: Vec<Row>,
    frame: Frame,
    context: &ExecuteContext<'_>,
) -> Result<Option<Bytes>, RestError> {
    if !cpu_permits::is_long(rows.iter().map(Row::byte_len).sum()) {
        return Ok(rows::to_json(rows, &context.snapshot.cache.text_types, frame));
    }
    let snapshot = Arc::clone(context.snapshot);
    context.cpu.run(move || rows::to_json(rows, &snapshot.cache.text_types, frame)).await
}

const NO_ROW: RestError = RestError::Internal("the statement gave no row");

fn of_value(row: &Row) -> Answer {
    let text = |column| row.text(column).map(str::to_owned);
    Answer {
        total: row.number(statement::TOTAL),
        page: row.number(statement::PAGE).unwrap_or_default(),
        body: row.bytes(statement::BODY),
        headers: text(statement::HEADERS),
        status: text(statement::STATUS),
        location: text(statement::LOCATION),
        inserted: row.number(statement::INSERTED),
        is_explained: false,
        is_cut: row.text(statement::CUT) == Some("t"),
    }
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
pub(super) fn estimated_rows(row: &Row) -> Option<i64> {
    let plan: Value = serde_json::from_str(row.text(0)?).ok()?;
    plan.get(0)?.get("Plan")?.get("Plan Rows")?.as_i64()
}
