//! Plans as SQL (rest.md §3.17). Pure.
//!
//! Text is our own literals, quoted identifiers and what the catalog gave us (types, defaults); request data is
//! parameters, except the keys of JSON paths, which are quoted literals so that indexes on such expressions apply.
//!
//! Every statement answers one row: `total_result_set, page_total, body, response_headers, response_status`, and for
//! writes `location, inserted`. PostgreSQL builds the body; it is passed on untouched.

pub mod body;
pub mod call;
pub mod condition;
pub mod mutate;
pub mod select;

use basalt_core::session::Statement;
use basalt_core::sql::Sql;

use crate::parse::media::PlanMedia;
use crate::parse::prefer::Count;
use crate::plan::{ReadPlan, TablePlan};

/// The statements of a plan.
#[derive(Debug, Clone)]
pub struct Statements {
    /// The one that answers.
    pub main: Statement,
    /// `EXPLAIN` of the count, for planned and estimated counts.
    pub estimate: Option<Statement>,
}

/// Column of `total_result_set` in the answer.
pub const TOTAL: usize = 0;
/// Column of `page_total`.
pub const PAGE: usize = 1;
/// Column of `body`.
pub const BODY: usize = 2;
/// Column of `response_headers`.
pub const HEADERS: usize = 3;
/// Column of `response_status`.
pub const STATUS: usize = 4;
/// Column of `location`; writes only.
pub const LOCATION: usize = 5;
/// Column of `inserted`; writes only.
pub const INSERTED: usize = 6;

/// The statements of a read.
#[must_use]
pub fn of_read(plan: &TablePlan) -> Statements {
    let mut main = Sql::text("SELECT ");
    main.push(total(&plan.read, plan.common.count, plan.max_rows));
    main.push_text(" AS total_result_set, count(*) AS page_total, ");
    main.push(if plan.head { body::nothing() } else { body::of_rows(&plan.format.shape) });
    main.push_text(" AS body, ");
    main.push_text(RESPONSE_SETTINGS);
    main.push_text(" FROM (");
    main.push(select::level(&plan.read, None));
    main.push_text(") AS pgrst_t");
    let main = explained(main, plan.format.explain.as_ref());
    let estimate = match plan.common.count {
        Some(Count::Planned | Count::Estimated) => {
            Some(Sql::text("EXPLAIN (FORMAT JSON) ").then(select::countable(&plan.read)).into())
        }
        Some(Count::Exact) | None => None,
    };
    Statements { main: main.into(), estimate }
}

/// What the transaction says about the response; read last, so that it sees what the statement did.
const RESPONSE_SETTINGS: &str = "nullif(current_setting('response.headers', true), '') AS response_headers, \
     nullif(current_setting('response.status', true), '') AS response_status";

/// `EXPLAIN` before the whole statement, if it is asked for.
fn explained(main: Sql, explain: Option<&PlanMedia>) -> Sql {
    let Some(plan) = explain else { return main };
    let mut sql = Sql::text(if plan.json { "EXPLAIN (FORMAT JSON" } else { "EXPLAIN (FORMAT TEXT" });
    for option in &plan.options {
        sql.push_text(option.as_sql());
    }
    sql.push_text(") ");
    sql.then(main)
}

/// The number of rows without the window.
///
/// When the page is not full, it is offset plus page and nothing is counted; PostgreSQL evaluates the sub-select only
/// if the CASE gets there.
fn total(read: &ReadPlan, count: Option<Count>, cap: Option<u64>) -> Sql {
    let cap = match count {
        None | Some(Count::Planned) => return Sql::text("null::int8"),
        Some(Count::Exact) => None,
        // One more than the cap tells "more than that".
        Some(Count::Estimated) => cap.map(|cap| cap.saturating_add(1)),
    };
    if read.range.is_all() {
        return Sql::text("count(*)");
    }
    if read.is_grouped() {
        // The rows that match, not the groups: the page says nothing about them.
        return counted(read, cap);
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
    sql.push(counted(read, cap));
    sql.push_text(" END");
    sql
}

/// The matching rows, counted up to `cap`.
fn counted(read: &ReadPlan, cap: Option<u64>) -> Sql {
    let mut sql = Sql::text("(SELECT count(*) FROM (");
    sql.push(select::countable(read));
    if let Some(cap) = cap {
        sql.push_text(" LIMIT ");
        sql.push(number(cap.into()));
    }
    sql.push_text(") AS pgrst_counted)");
    sql
}

/// A number, as a parameter: statements that differ in a number only are prepared once.
pub(crate) fn number(value: u128) -> Sql {
    Sql::param(value.to_string()).then(Sql::text("::int8"))
}

/// The text of an array of texts: `{"a","b"}`.
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
