//! SQL for writes (rest.md §3.9, §3.17).

use basalt_pg::sql::{Param, Sql};
use bytes::Bytes;

use super::select::{self, Row};
use super::{Form, RESPONSE_SETTINGS, Statements, body, condition, explained};
use crate::parse::prefer::Resolution;
use crate::plan::mutate::{Body, BodyColumn, Conflict, Mutation};
use crate::plan::returned::Answer;
use crate::plan::{Condition, Returned, Source, WritePlan};
use crate::request::payload::JsonShape;
use crate::schema_cache::QualifiedName;

/// Statements of a write.
#[must_use]
pub fn for_write(plan: &WritePlan) -> Statements {
    if is_single_row_insert(plan) {
        let main = mutation(plan, Sql::text(RETURNING_SETTINGS));
        return Statements { main: main.into(), form: Form::Written, estimates: Vec::new() };
    }
    let mut sql = Sql::text("WITH pgrst_source AS (");
    sql.push(mutation(plan, returning_list(&plan.relation, &plan.returned)));
    sql.push_text(") SELECT null::int8 AS total_result_set, count(*) AS page_total, ");
    sql.push(match plan.answer {
        Answer::Rows => body::from_rows(&plan.format.shape),
        Answer::Nothing | Answer::Location(_) => body::nothing(),
    });
    sql.push_text(" AS body, ");
    sql.push_text(RESPONSE_SETTINGS);
    sql.push_text(", ");
    sql.push(location(&plan.answer));
    sql.push_text(" AS location, ");
    sql.push_text(match &plan.mutation {
        mutation if counts_inserts(mutation) && may_stop_early(plan) => {
            "CASE WHEN (SELECT count(*) FROM pgrst_source) >= 0 \
             THEN nullif(current_setting('pgrst.inserted', true), '')::int8 END"
        }
        mutation if counts_inserts(mutation) => "nullif(current_setting('pgrst.inserted', true), '')::int8",
        _ => "null::int8",
    });
    sql.push_text(" AS inserted FROM (");
    match plan.answer {
        Answer::Rows => sql.push(select::level(&plan.read, None)),
        Answer::Nothing | Answer::Location(_) => sql.push_text("SELECT 1 FROM pgrst_source"),
    }
    sql.push_text(") AS pgrst_t");
    let main = explained(sql, plan.format.explain.as_ref());
    Statements { main: main.into(), form: Form::Value, estimates: Vec::new() }
}

/// Evaluated in RETURNING of a single-row insert, so before AFTER triggers run. That is also the case in a statement
/// around the INSERT, which costs a fifth more.
const RETURNING_SETTINGS: &str =
    "current_setting('response.headers', true), current_setting('response.status', true)";

/// Whether the write inserts exactly one row, whose insertion no trigger can suppress, and returns no content.
/// Without a row, RETURNING would not yield the response settings.
fn is_single_row_insert(plan: &WritePlan) -> bool {
    let Mutation::Insert { body, conflict: None } = &plan.mutation else { return false };
    body.values.is_some()
        && body.shape == JsonShape::Object
        && plan.answer == Answer::Nothing
        && !plan.may_drop_rows
        && plan.format.explain.is_none()
        && !plan.format.is_singular()
}

/// Key values of one written row; the response uses them only if there is a single row.
fn location(answer: &Answer) -> Sql {
    let Answer::Location(columns) = answer else { return Sql::text("null::text") };
    if columns.is_empty() {
        return Sql::text("null::text");
    }
    // Uses the text that JSON has for each value: ISO 8601 dates, and numbers with all digits.
    let columns = columns.iter().map(|column| {
        Sql::text("json_extract_path_text(to_json(pgrst_source.")
            .then(Sql::ident(column))
            .then(Sql::text("), VARIADIC '{}')"))
    });
    Sql::text("(SELECT json_build_array(")
        .then(Sql::join(columns, ", "))
        .then(Sql::text(")::text FROM pgrst_source LIMIT 1)"))
}

fn mutation(plan: &WritePlan, returning: Sql) -> Sql {
    let relation = &plan.relation;
    let mut sql = match &plan.mutation {
        Mutation::Insert { body, conflict } => insert(relation, body, conflict.as_ref()),
        Mutation::Put { body, key } => put(relation, body, key),
        Mutation::Update { body, conditions } => update(relation, body, conditions),
        Mutation::Delete { conditions } => {
            Sql::text("DELETE FROM ").then(relation.sql()).then(where_clause(relation, conditions))
        }
        Mutation::Nothing => {
            return Sql::text("SELECT ")
                .then(returning)
                .then(Sql::text(" FROM "))
                .then(relation.sql())
                .then(Sql::text(" WHERE false"));
        }
    };
    sql.push_text(" RETURNING ");
    sql.push(returning);
    sql
}

/// `RETURNING 1` requires no SELECT privilege.
fn returning_list(relation: &QualifiedName, returned: &Returned) -> Sql {
    match returned {
        Returned::Nothing => Sql::text("1"),
        Returned::Star => relation.sql().then(Sql::text(".*")),
        Returned::Columns { names, row: false } if names.is_empty() => Sql::text("1"),
        Returned::Columns { names, row } => {
            let mut list: Vec<Sql> =
                names.iter().map(|name| relation.sql().then(Sql::text(".")).then(Sql::ident(name))).collect();
            if *row {
                let row_value = Sql::text("(").then(relation.sql()).then(Sql::text(".*)::"));
                list.push(row_value.then(relation.sql()).then(Sql::text(" AS pgrst_row")));
            }
            Sql::join(list, ", ")
        }
    }
}

fn where_clause(relation: &QualifiedName, conditions: &[Condition]) -> Sql {
    if conditions.is_empty() {
        return Sql::new();
    }
    let source = Source::Relation(relation.clone());
    Sql::text(" WHERE ").then(Sql::join(condition::all(conditions, &[], Row(&source), false), " AND "))
}

fn names(columns: &[BodyColumn]) -> Sql {
    Sql::join(columns.iter().map(|column| Sql::ident(&column.name)), ", ")
}

/// Values of the body, with domains converted by their functions.
fn values(columns: &[BodyColumn]) -> Sql {
    Sql::join(
        columns.iter().map(|column| {
            let value = Sql::text("pgrst_body.").then(Sql::ident(&column.name));
            match &column.representation {
                Some(function) => function.sql().then(Sql::text("(")).then(value).then(Sql::text(")")),
                None => value,
            }
        }),
        ", ",
    )
}

/// A function accepts at most a hundred arguments, two per pair.
const MAX_PAIRS: usize = 50;

/// The body as rows `pgrst_body`.
fn rows(body: &Body) -> Sql {
    if let Some(values) = &body.values {
        return decoded_rows(body, values);
    }
    let definitions = body.columns.iter().map(|column| {
        let type_name = match &column.representation {
            Some(_) => Sql::text(" json"),
            None => Sql::text(" ").then(Sql::catalog(column.type_name.to_string())),
        };
        Sql::ident(&column.name).then(type_name)
    });
    let definitions = Sql::text(" AS pgrst_body(").then(Sql::join(definitions, ", ")).then(Sql::text(")"));
    let is_object = body.shape == JsonShape::Object;
    let payload = Sql::param(body.bytes.clone());
    if !body.defaults {
        let function = if is_object { "json_to_record(" } else { "json_to_recordset(" };
        return Sql::text(function).then(payload).then(Sql::text(")")).then(definitions);
    }
    let elements = if is_object {
        Sql::text("(SELECT ").then(payload).then(Sql::text("::jsonb AS pgrst_element) AS pgrst_payload"))
    } else {
        Sql::text("jsonb_array_elements(").then(payload).then(Sql::text(") AS pgrst_payload(pgrst_element)"))
    };
    let defaults = body.columns.iter().filter_map(|column| {
        let default = column.default.as_ref()?.to_string();
        Some(Sql::literal(&column.name).then(Sql::text(", ")).then(Sql::catalog(default)))
    });
    let mut sql = elements.then(Sql::text(", LATERAL jsonb_to_record(jsonb_build_object("));
    for (index, default) in defaults.enumerate() {
        match index {
            0 => {}
            full if full % MAX_PAIRS == 0 => sql.push_text(") || jsonb_build_object("),
            _ => sql.push_text(", "),
        }
        sql.push(default);
    }
    sql.then(Sql::text(") || pgrst_payload.pgrst_element)")).then(definitions)
}

/// The decoded values as rows `pgrst_body`.
fn decoded_rows(body: &Body, values: &[Option<Bytes>]) -> Sql {
    let is_object = body.shape == JsonShape::Object;
    let params = body.columns.iter().zip(values).map(|(column, value)| {
        // A cast applies the length of a numeric, but would silently truncate a text.
        let type_name = match column.literal_type() {
            Some("numeric") => Sql::catalog(column.type_name.to_string()),
            known => Sql::text(known.unwrap_or("text")),
        };
        let typed = Sql::param(Param(value.clone())).then(Sql::text("::")).then(type_name);
        match is_object {
            true => typed.then(Sql::text(" AS ")).then(Sql::ident(&column.name)),
            false => typed.then(Sql::text("[]")),
        }
    });
    let params = Sql::join(params, ", ");
    if is_object {
        Sql::text("(SELECT ").then(params).then(Sql::text(") AS pgrst_body"))
    } else {
        Sql::text("unnest(")
            .then(params)
            .then(Sql::text(") AS pgrst_body("))
            .then(names(&body.columns))
            .then(Sql::text(")"))
    }
}

/// Counts a row that may be inserted; always true. Unlike `RETURNING xmax`, counting requires no SELECT privilege.
const COUNT_CANDIDATE: &str = "set_config('pgrst.inserted', \
     (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) + 1)::text, true) <> '0'";
/// Uncounts a row that already existed; always true.
const UNCOUNT_UPDATED: &str = "set_config('pgrst.inserted', \
     (coalesce(nullif(current_setting('pgrst.inserted', true), '')::int8, 0) - 1)::text, true) <> '-1'";

/// Whether PostgreSQL may write rows only after the body is built: an inner join with an embed without rows need not
/// read the written ones. The count of inserted rows would then be incomplete.
fn may_stop_early(plan: &WritePlan) -> bool {
    plan.answer == Answer::Rows && plan.read.embeds.iter().any(|embed| embed.inner)
}

fn counts_inserts(mutation: &Mutation) -> bool {
    match mutation {
        Mutation::Insert { body, conflict: Some(conflict) } => {
            conflict.resolution == Resolution::MergeDuplicates && !body.columns.is_empty()
        }
        Mutation::Put { .. } => true,
        Mutation::Insert { conflict: None, .. }
        | Mutation::Update { .. }
        | Mutation::Delete { .. }
        | Mutation::Nothing => false,
    }
}

fn insert(relation: &QualifiedName, body: &Body, conflict: Option<&Conflict>) -> Sql {
    let mut sql = Sql::text("INSERT INTO ").then(relation.sql());
    let merges = conflict.is_some_and(|conflict| conflict.resolution == Resolution::MergeDuplicates);
    if body.columns.is_empty() {
        if body.shape == JsonShape::Object {
            sql.push_text(" DEFAULT VALUES");
        } else {
            sql.push_text(" SELECT FROM json_array_elements(");
            sql.push_param(body.bytes.clone());
            sql.push_text(")");
        }
    } else {
        sql.push_text("(");
        sql.push(names(&body.columns));
        sql.push_text(") SELECT ");
        sql.push(values(&body.columns));
        sql.push_text(" FROM ");
        sql.push(rows(body));
        if merges {
            sql.push_text(" WHERE ");
            sql.push_text(COUNT_CANDIDATE);
        }
    }
    if let Some(conflict) = conflict {
        sql.push(on_conflict(conflict, if merges { &body.columns } else { &[] }));
    }
    sql
}

/// Renders `ON CONFLICT`, which updates `columns`, or does nothing if there are none.
fn on_conflict(conflict: &Conflict, columns: &[BodyColumn]) -> Sql {
    let key = Sql::join(conflict.columns.iter().map(|column| Sql::ident(column)), ", ");
    let mut sql = Sql::text(" ON CONFLICT (").then(key).then(Sql::text(")"));
    if let Some(predicate) = &conflict.predicate {
        sql = sql.then(Sql::text(" WHERE (")).then(Sql::catalog(predicate.clone())).then(Sql::text(")"));
    }
    if columns.is_empty() {
        return sql.then(Sql::text(" DO NOTHING"));
    }
    let sets = columns.iter().map(|column| {
        Sql::ident(&column.name).then(Sql::text(" = EXCLUDED.")).then(Sql::ident(&column.name))
    });
    sql.then(Sql::text(" DO UPDATE SET "))
        .then(Sql::join(sets, ", "))
        .then(Sql::text(" WHERE "))
        .then(Sql::text(UNCOUNT_UPDATED))
}

fn put(relation: &QualifiedName, body: &Body, key: &[(String, String)]) -> Sql {
    let mut sql = Sql::text("INSERT INTO ").then(relation.sql()).then(Sql::text("("));
    sql.push(names(&body.columns));
    sql.push_text(") SELECT ");
    sql.push(values(&body.columns));
    sql.push_text(" FROM ");
    sql.push(rows(body));
    sql.push_text(" WHERE ");
    for (column, value) in key {
        sql.push_text("pgrst_body.");
        sql.push_ident(column);
        sql.push_text(" = ");
        sql.push_param(&**value);
        sql.push_text(" AND ");
    }
    sql.push_text(COUNT_CANDIDATE);
    let mut columns: Vec<String> = key.iter().map(|(column, _)| column.clone()).collect();
    columns.dedup();
    let conflict = Conflict { columns, predicate: None, resolution: Resolution::MergeDuplicates };
    sql.then(on_conflict(&conflict, &body.columns))
}

fn update(relation: &QualifiedName, body: &Body, conditions: &[Condition]) -> Sql {
    let sets = body.columns.iter().map(|column| {
        Sql::ident(&column.name).then(Sql::text(" = pgrst_values.")).then(Sql::ident(&column.name))
    });
    // Without LIMIT PostgreSQL needs no join, but checks the length of a value only if a row matches.
    let has_length = body.columns.iter().any(|column| column.type_name.contains('('));
    let is_single = body.values.is_some() && body.shape == JsonShape::Object && !has_length;
    let aliased = body.columns.iter().map(|column| {
        let value = values(std::slice::from_ref(column));
        value.then(Sql::text(" AS ")).then(Sql::ident(&column.name))
    });
    Sql::text("UPDATE ")
        .then(relation.sql())
        .then(Sql::text(" SET "))
        .then(Sql::join(sets, ", "))
        .then(Sql::text(" FROM (SELECT "))
        .then(Sql::join(aliased, ", "))
        .then(Sql::text(" FROM "))
        .then(rows(body))
        // Only the first of several objects applies; a join with all of them would pick one arbitrarily.
        .then(Sql::text(if is_single { ") AS pgrst_values" } else { " LIMIT 1) AS pgrst_values" }))
        .then(where_clause(relation, conditions))
}
