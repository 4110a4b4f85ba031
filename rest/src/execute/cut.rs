//! Whether max-rows kept rows back, for the header `Basalt-Truncated` (rest.md §7.1, ours).

use basalt_core::sql::Sql;

use super::{Answer, Scene, run};
use crate::error::RestError;
use crate::plan::{Common, ReadPlan};
use crate::statement::{self, Statements};

/// A read whose page is as full as the cap allows is looked at once more, for one row behind it. Nothing is asked where
/// the page has room or the caller's own limit was not above the cap: which is nearly always.
///
/// # Errors
/// The second look failed.
pub(super) async fn of_read(
    scene: &Scene<'_>,
    common: &Common,
    read: &ReadPlan,
    answer: &Answer,
) -> Result<bool, RestError> {
    if !is_full(scene, answer) {
        return Ok(false);
    }
    // Groups cannot be counted by rows, and a function that runs before each request may mind running twice.
    if read.is_grouped() || scene.config.pre_request.is_some() {
        return Ok(true);
    }
    let behind = read.range.offset.saturating_add(scene.config.max_rows.unwrap_or_default().into());
    let main = Sql::text("SELECT 1 FROM (")
        .then(statement::select::countable(read))
        .then(Sql::text(") AS pgrst_counted LIMIT 1 OFFSET "))
        .then(statement::number(behind));
    let statements = Statements { main: main.into(), estimate: None };
    let answers = run(scene, common, statements, None).await?;
    Ok(answers.first().is_some_and(|rows| !rows.is_empty()))
}

/// The page has as many rows as the cap allows, and more were wanted. Of a function's rows no more is known: it cannot
/// be called twice.
pub(super) fn is_full(scene: &Scene<'_>, answer: &Answer) -> bool {
    let Some(cap) = scene.config.max_rows else { return false };
    let is_capped = scene.api.range.limit.is_none_or(|limit| limit > cap.into());
    is_capped
        && !answer.is_explained
        && i64::try_from(cap).is_ok_and(|cap| answer.page >= cap)
        && answer.page > 0
}
