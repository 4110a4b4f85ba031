//! Converts the results of a plan's statements.

use std::sync::Arc;

use basalt_core::convert::saturating;
use basalt_pg::session::{Answers, Row};
use bytes::Bytes;
use serde_json::Value;

use super::ExecuteContext;
use crate::client_cpu;
use crate::error::RestError;
use crate::rows::{self, Frame};
use crate::statement::{self, Form};

/// Result of a plan's statements.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Number of rows without limit and offset, if they were counted.
    pub(crate) total: Option<i64>,
    /// Number of rows in the page, or of affected rows.
    pub(crate) page: i64,
    /// Response body.
    pub(crate) body: Option<Bytes>,
    /// Value of `response.headers`.
    pub(crate) headers: Option<String>,
    /// Value of `response.status`.
    pub(crate) status: Option<String>,
    /// Key of one written row, as a JSON array.
    pub(crate) location: Option<String>,
    /// Number of rows that an upsert inserted.
    pub(crate) inserted: Option<i64>,
    /// Whether the body is a query plan; the row counts are then meaningless.
    pub(crate) is_explained: bool,
    /// Whether max-rows truncated the result.
    pub(crate) is_truncated: bool,
}

/// Converts the results of a plan's statements; `None` if the rows cannot be serialised here.
pub(super) async fn from_results(
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
        Form::Value => next().first().map(from_value_row).map(Some).ok_or(NO_ROW),
        Form::Written => {
            let rows = next();
            let setting = |column| {
                let text = rows.first().and_then(|row| row.text(column));
                text.filter(|text| !text.is_empty()).map(str::to_owned)
            };
            Ok(Some(Answer {
                page: saturating::<i64>(rows.len()),
                headers: setting(0),
                status: setting(1),
                ..Answer::default()
            }))
        }
        Form::Rows { frame, row_cap, counts } => {
            let (mut rows, settings) = (next(), next());
            let cap = row_cap.and_then(|cap| usize::try_from(cap).ok());
            let is_truncated = cap.is_some_and(|cap| rows.len() > cap);
            rows.truncate(cap.unwrap_or(usize::MAX));
            let page = saturating::<i64>(rows.len());
            let Some(body) = to_json(rows, frame, context).await? else { return Ok(None) };
            let settings = settings.first().ok_or(NO_ROW)?;
            Ok(Some(Answer {
                total: counts.then_some(page),
                page,
                body: Some(body),
                headers: settings.text(0).map(str::to_owned),
                status: settings.text(1).map(str::to_owned),
                is_truncated,
                ..Answer::default()
            }))
        }
    }
}

/// Serialises rows as JSON; large results outside the runtime's threads.
async fn to_json(
    rows: Vec<Row>,
    frame: Frame,
    context: &ExecuteContext<'_>,
) -> Result<Option<Bytes>, RestError> {
    if !client_cpu::is_long(rows.iter().map(Row::byte_len).sum()) {
        return Ok(rows::to_json(rows, &context.snapshot.cache.text_types, frame));
    }
    let snapshot = Arc::clone(context.snapshot);
    context.cpu.run(move || rows::to_json(rows, &snapshot.cache.text_types, frame)).await
}

const NO_ROW: RestError = RestError::Internal("expected one row, got none");

fn from_value_row(row: &Row) -> Answer {
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
        is_truncated: row.text(statement::TRUNCATED) == Some("t"),
    }
}

/// The lines of a text plan, or the value of a JSON plan.
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

/// `Plan Rows` at the root of a JSON plan.
pub(super) fn estimated_rows(row: &Row) -> Option<i64> {
    let plan: Value = serde_json::from_str(row.text(0)?).ok()?;
    plan.get(0)?.get("Plan")?.get("Plan Rows")?.as_i64()
}
