//! Renders plans as SQL (rest.md §3.17). Pure.
//!
//! Text consists of our own literals, quoted identifiers and text from the catalog (types, defaults). Request data is
//! passed as parameters, except the keys of JSON paths, which are quoted literals so that expression indexes on them
//! apply.
//!
//! A statement returns either the rows themselves, which this server serialises as JSON, or one row:
//! `total_result_set, page_total, body, response_headers, response_status`, then for reads `is_truncated` and for
//! writes `location, inserted`. PostgreSQL builds that body and it is passed on unchanged. The text depends only on
//! the shape of the request (columns, operators, embeds, limits), not on its values.

pub mod body;
pub mod call;
pub mod condition;
pub mod mutate;
pub mod select;

use std::sync::{Arc, LazyLock};

use basalt_pg::session::Statement;
use basalt_pg::sql::Sql;

use crate::parse::media::PlanMedia;
use crate::parse::prefer::Count;
use crate::parse::range::RowRange;
use crate::plan::{Delivery, ReadPlan, TablePlan};
use crate::rows::Frame;

/// SQL statements of a plan.
#[derive(Debug, Clone)]
pub struct Statements {
    /// Main statement.
    pub main: Statement,
    /// Form of its result.
    pub form: Form,
    /// For planned and estimated counts: `EXPLAIN` of the count, and a count of the rows visible to the role.
    pub estimates: Vec<Statement>,
}

/// Form of the main statement's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One row with the columns listed below.
    Value,
    /// The rows themselves. [`response_settings`] reads what the transaction sets for the response.
    Rows {
        /// JSON around the rows.
        frame: Frame,
        /// Maximum number of rows to return. The statement fetches one more, which shows that max-rows truncated the
        /// result.
        row_cap: Option<u64>,
        /// Whether the number of rows is also the total.
        counts: bool,
    },
    /// One row per written row, with `response_headers` and `response_status`.
    Written,
}

/// Index of column `total_result_set`.
pub const TOTAL: usize = 0;
/// Index of column `page_total`.
pub const PAGE: usize = 1;
/// Index of column `body`.
pub const BODY: usize = 2;
/// Index of column `response_headers`.
pub const HEADERS: usize = 3;
/// Index of column `response_status`.
pub const STATUS: usize = 4;
/// Index of column `is_truncated`; reads only.
pub const TRUNCATED: usize = 5;
/// Index of column `location`; writes only.
pub const LOCATION: usize = 5;
/// Index of column `inserted`; writes only.
pub const INSERTED: usize = 6;

/// Statements of a read.
#[must_use]
pub fn for_read(plan: &TablePlan) -> Statements {
    let Delivery::Rows { frame, as_json } = &plan.delivery else { return for_read_as_value(plan) };
    let counts = match plan.common.count {
        None | Some(Count::Planned) => false,
        Some(Count::Exact | Count::Estimated) if plan.read.range.is_all() => true,
        Some(Count::Exact | Count::Estimated) => return for_read_as_value(plan),
    };
    let range = match plan.row_cap {
        Some(cap) => RowRange { limit: Some(u128::from(cap) + 1), ..plan.read.range },
        None => plan.read.range,
    };
    Statements {
        main: select::rows(&plan.read, range, as_json).into(),
        form: Form::Rows { frame: *frame, row_cap: plan.row_cap, counts },
        estimates: estimates(plan),
    }
}

/// Statements of a read whose result is one row, whatever the plan's delivery.
#[must_use]
pub fn for_read_as_value(plan: &TablePlan) -> Statements {
    let mut main = Sql::text("SELECT ");
    main.push(total(&plan.read, plan.common.count, plan.max_rows));
    main.push_text(" AS total_result_set, count(*) AS page_total, ");
    main.push(if plan.head { body::nothing() } else { body::from_rows(&plan.format.shape) });
    main.push_text(" AS body, ");
    main.push_text(RESPONSE_SETTINGS);
    if let Some(cap) = plan.row_cap.filter(|_| !total_reveals_truncation(plan)) {
        main.push_text(", ");
        main.push(is_truncated(&plan.read, cap));
        main.push_text(" AS is_truncated");
    }
    main.push_text(" FROM (");
    main.push(select::level(&plan.read, None));
    main.push_text(") AS pgrst_t");
    let main = explained(main, plan.format.explain.as_ref());
    Statements { main: main.into(), form: Form::Value, estimates: estimates(plan) }
}

fn estimates(plan: &TablePlan) -> Vec<Statement> {
    match plan.common.count {
        Some(Count::Planned | Count::Estimated) => {
            let planned = Sql::text("EXPLAIN (FORMAT JSON) ").then(select::countable(&plan.read));
            vec![planned.into(), visible_rows(plan).into()]
        }
        Some(Count::Exact) | None => Vec::new(),
    }
}

/// Replaces PostgreSQL's estimate if row-level security filters some relation for this role, because the estimate
/// covers the rows of all roles: counts the rows visible to the role, up to one cap beyond the page. Null otherwise.
/// A view is checked through the relations below it.
fn visible_rows(plan: &TablePlan) -> Sql {
    let mut relations = Vec::new();
    select::relations(&plan.read, &mut relations);
    relations.sort_unstable();
    relations.dedup();
    let names = relations.into_iter().map(|name| {
        let pair = [Sql::literal(&name.schema), Sql::literal(&name.name)];
        Sql::text("(").then(Sql::join(pair, ", ")).then(Sql::text(")"))
    });
    let cap = plan.max_rows.map(|cap| plan.read.range.offset.saturating_add(u128::from(cap) + 1));
    Sql::text(
        "WITH RECURSIVE pgrst_below(oid) AS (SELECT c.oid FROM pg_catalog.pg_class c \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE (n.nspname, c.relname) IN (",
    )
    .then(Sql::join(names, ", "))
    .then(Sql::text(
        ") UNION SELECT d.refobjid FROM pgrst_below b JOIN pg_catalog.pg_rewrite r ON r.ev_class = b.oid \
         JOIN pg_catalog.pg_depend d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid \
         AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass) SELECT CASE WHEN \
         (SELECT bool_or(pg_catalog.row_security_active(oid)) FROM pgrst_below) THEN ",
    ))
    .then(count_rows(&plan.read, cap))
    .then(Sql::text(" END"))
}

/// Whether the total shows that max-rows truncated the result. It does not for groups, because it counts rows.
pub(crate) fn total_reveals_truncation(plan: &TablePlan) -> bool {
    plan.common.count == Some(Count::Exact) && !plan.read.is_grouped()
}

/// Tests for a row beyond a page of max-rows rows. Groups cannot be counted by rows, so a full page counts as
/// truncated.
fn is_truncated(read: &ReadPlan, cap: u64) -> Sql {
    let is_full = Sql::text("count(*) >= ").then(number(cap.into()));
    if read.is_grouped() {
        return is_full;
    }
    Sql::text("CASE WHEN ")
        .then(is_full)
        .then(Sql::text(" THEN EXISTS (SELECT FROM ("))
        .then(select::countable(read))
        .then(Sql::text(") AS pgrst_counted LIMIT 1 OFFSET "))
        .then(number(read.range.offset.saturating_add(cap.into())))
        .then(Sql::text(") END"))
}

/// Reads what the transaction set for the response, if the main statement returns rows: columns `response_headers`
/// and `response_status`.
#[must_use]
pub fn response_settings() -> Statement {
    static TEXT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(format!("SELECT {RESPONSE_SETTINGS}")));
    Statement { text: Arc::clone(&TEXT), params: Vec::new() }
}

/// Headers and status that the transaction set for the response; evaluated last, so that they reflect the statement.
const RESPONSE_SETTINGS: &str = "nullif(current_setting('response.headers', true), '') AS response_headers, \
     nullif(current_setting('response.status', true), '') AS response_status";

/// Prefixes the statement with `EXPLAIN` if the request asks for its plan.
fn explained(main: Sql, explain: Option<&PlanMedia>) -> Sql {
    let Some(plan) = explain else { return main };
    let mut sql = Sql::text(if plan.json { "EXPLAIN (FORMAT JSON" } else { "EXPLAIN (FORMAT TEXT" });
    for option in &plan.options {
        sql.push_text(option.as_sql());
    }
    sql.push_text(") ");
    sql.then(main)
}

/// Number of rows without limit and offset.
///
/// If the page is not full, that is offset plus page size and nothing is counted; PostgreSQL evaluates the sub-select
/// only when the CASE reaches it.
fn total(read: &ReadPlan, count: Option<Count>, cap: Option<u64>) -> Sql {
    let cap = match count {
        None | Some(Count::Planned) => return Sql::text("null::int8"),
        Some(Count::Exact) => None,
        // One more than the cap means "more than that".
        Some(Count::Estimated) => cap.map(|cap| u128::from(cap) + 1),
    };
    if read.range.is_all() {
        return Sql::text("count(*)");
    }
    if read.is_grouped() {
        // Counts matching rows rather than groups, which the page size does not show.
        return count_rows(read, cap);
    }
    let mut sql = Sql::text("CASE WHEN ");
    if read.range.offset > 0 {
        sql.push_text("count(*) > 0");
    }
    if let Some(limit) = read.range.limit {
        if read.range.offset > 0 {
            sql.push_text(" AND ");
        }
        sql.push_text("count(*) < ");
        sql.push(number(limit));
    }
    sql.push_text(" THEN ");
    sql.push(number(read.range.offset));
    sql.push_text(" + count(*) ELSE ");
    sql.push(count_rows(read, cap));
    sql.push_text(" END");
    sql
}

/// Counts the matching rows, up to `cap`.
fn count_rows(read: &ReadPlan, cap: Option<u128>) -> Sql {
    let mut sql = Sql::text("(SELECT count(*) FROM (");
    sql.push(select::countable(read));
    if let Some(cap) = cap {
        sql.push_text(" LIMIT ");
        sql.push(number(cap));
    }
    sql.push_text(") AS pgrst_counted)");
    sql
}

/// A number as a parameter, so that statements that differ only in a number share one prepared statement.
pub(crate) fn number(value: u128) -> Sql {
    Sql::param(value.to_string()).then(Sql::text("::int8"))
}

/// Text of an array of strings: `{"a","b"}`.
#[must_use]
pub fn array_literal<T: AsRef<str>>(elements: &[T]) -> String {
    let mut literal = String::from("{");
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            literal.push(',');
        }
        literal.push('"');
        for c in element.as_ref().chars() {
            if matches!(c, '"' | '\\') {
                literal.push('\\');
            }
            literal.push(c);
        }
        literal.push('"');
    }
    literal.push('}');
    literal
}

#[cfg(test)]
mod tests {
    use super::array_literal;

    #[test]
    fn array_elements_are_quoted() {
        assert_eq!(array_literal(&["a", "b\"c\\", "", "null"]), r#"{"a","b\"c\\","","null"}"#);
        assert_eq!(array_literal::<String>(&[]), "{}");
    }
}
