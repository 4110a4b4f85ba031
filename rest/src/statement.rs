//! Plans as SQL (rest.md §3.17). Pure.
//!
//! Text is our own literals, quoted identifiers and what the catalog gave us (types, defaults); request data is
//! parameters, except the keys of JSON paths, which are quoted literals so that indexes on such expressions apply.
//!
//! A statement answers with the rows themselves, written as JSON here, or with one row: `total_result_set, page_total,
//! body, response_headers, response_status`, then for reads `is_cut` and for writes `location, inserted`; PostgreSQL
//! builds that body and it is passed on untouched. The text depends on nothing but the request's shape: which columns,
//! operators, embeds, limits there are, not what their values are.

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

/// The statements of a plan.
#[derive(Debug, Clone)]
pub struct Statements {
    /// The one that answers.
    pub main: Statement,
    /// How it answers.
    pub form: Form,
    /// For planned and estimated counts: `EXPLAIN` of the count, and the count of the role's own rows.
    pub estimates: Vec<Statement>,
}

/// How the main statement answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One row, with the columns below.
    Value,
    /// The rows themselves. What the transaction says about the response is asked by [`response_settings`].
    Rows {
        /// What stands around them as JSON.
        frame: Frame,
        /// There may be one more than this, which says that max-rows kept rows back.
        cut_at: Option<u64>,
        /// As many rows as there are is the total, too.
        counts: bool,
    },
    /// A row for each row written: `response_headers` and `response_status`.
    Written,
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
/// Column of `is_cut`; reads only.
pub const CUT: usize = 5;
/// Column of `location`; writes only.
pub const LOCATION: usize = 5;
/// Column of `inserted`; writes only.
pub const INSERTED: usize = 6;

/// The statements of a read.
#[must_use]
pub fn of_read(plan: &TablePlan) -> Statements {
    let Delivery::Rows { frame, as_json } = &plan.delivery else { return of_read_as_value(plan) };
    let counts = match plan.common.count {
        None | Some(Count::Planned) => false,
        Some(Count::Exact | Count::Estimated) if plan.read.range.is_all() => true,
        Some(Count::Exact | Count::Estimated) => return of_read_as_value(plan),
    };
    let range = match plan.cut_at {
        Some(cap) => RowRange { limit: Some(u128::from(cap) + 1), ..plan.read.range },
        None => plan.read.range,
    };
    Statements {
        main: select::rows(&plan.read, range, as_json).into(),
        form: Form::Rows { frame: *frame, cut_at: plan.cut_at, counts },
        estimates: estimates(plan),
    }
}

/// The statements of a read that answer with one row, whatever the plan says.
#[must_use]
pub fn of_read_as_value(plan: &TablePlan) -> Statements {
    let mut main = Sql::text("SELECT ");
    main.push(total(&plan.read, plan.common.count, plan.max_rows));
    main.push_text(" AS total_result_set, count(*) AS page_total, ");
    main.push(if plan.head { body::nothing() } else { body::of_rows(&plan.format.shape) });
    main.push_text(" AS body, ");
    main.push_text(RESPONSE_SETTINGS);
    if let Some(cap) = plan.cut_at.filter(|_| !total_tells_cut(plan)) {
        main.push_text(", ");
        main.push(is_cut(&plan.read, cap));
        main.push_text(" AS is_cut");
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
            vec![planned.into(), own_rows(plan).into()]
        }
        Some(Count::Exact) | None => Vec::new(),
    }
}

/// Where policies choose among the rows of some relation for this role, what stands in the place of PostgreSQL's estimate,
/// which is made of everybody's rows: the role's own rows, counted up to one cap behind the page. Otherwise null.
/// A view counts as what is below it.
fn own_rows(plan: &TablePlan) -> Sql {
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
    .then(counted(&plan.read, cap))
    .then(Sql::text(" END"))
}

/// Whether the total tells if max-rows kept rows back; of groups it does not tell how many there are.
pub(crate) fn total_tells_cut(plan: &TablePlan) -> bool {
    plan.common.count == Some(Count::Exact) && !plan.read.is_grouped()
}

/// Whether there is a row behind a page that is as full as max-rows allows. Groups cannot be counted by rows.
fn is_cut(read: &ReadPlan, cap: u64) -> Sql {
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

/// What the transaction says about the response, where the main statement answers with rows: the columns
/// `response_headers` and `response_status`.
#[must_use]
pub fn response_settings() -> Statement {
    static TEXT: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(format!("SELECT {RESPONSE_SETTINGS}")));
    Statement { text: Arc::clone(&TEXT), params: Vec::new() }
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
        Some(Count::Estimated) => cap.map(|cap| u128::from(cap) + 1),
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
fn counted(read: &ReadPlan, cap: Option<u128>) -> Sql {
    let mut sql = Sql::text("(SELECT count(*) FROM (");
    sql.push(select::countable(read));
    if let Some(cap) = cap {
        sql.push_text(" LIMIT ");
        sql.push(number(cap));
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
