//! SQL for function calls (rest.md §3.10, §3.17).

use basalt_pg::sql::Sql;

use super::{Form, RESPONSE_SETTINGS, Statements, array_literal, body, explained, select, total};
use crate::plan::call::{Arguments, CallResult, Literal};
use crate::plan::{CallPlan, Delivery, Returned};
use crate::request::payload::JsonShape;
use crate::schema_cache::routines::RoutineParam;

/// Statements of a function call.
#[must_use]
pub fn for_call(plan: &CallPlan) -> Statements {
    let (Delivery::Rows { frame, as_json }, None) = (&plan.delivery, plan.common.count) else {
        return for_call_as_value(plan);
    };
    let mut sql = Sql::text("WITH pgrst_source AS (");
    sql.push(source(plan));
    sql.push_text(") ");
    sql.push(select::rows(&plan.read, plan.read.range, as_json));
    let form = Form::Rows { frame: *frame, row_cap: None, counts: false };
    Statements { main: sql.into(), form, estimates: Vec::new() }
}

/// Statements of a function call whose result is one row, whatever the plan's delivery.
#[must_use]
pub fn for_call_as_value(plan: &CallPlan) -> Statements {
    // A result that is not a set counts as one row.
    let is_set = matches!(plan.result, CallResult::Scalars | CallResult::Rows);
    let mut sql = Sql::text("WITH pgrst_source AS (");
    sql.push(source(plan));
    sql.push_text(") SELECT ");
    sql.push(match plan.common.count {
        Some(_) if !is_set => Sql::text("1::int8"),
        count => total(&plan.read, count, None),
    });
    sql.push_text(" AS total_result_set, ");
    // If no body is built, `count(pgrst_t)` makes PostgreSQL evaluate the function. It would drop an unused result of
    // a function that is not volatile, and with it any error that the function raises.
    let shows_nothing = plan.head || plan.result == CallResult::Void;
    sql.push_text(match (is_set, shows_nothing) {
        (true, true) => "count(pgrst_t)",
        (true, false) => "count(*)",
        (false, true) => "greatest(count(pgrst_t), 1)",
        (false, false) => "greatest(count(*), 1)",
    });
    sql.push_text(" AS page_total, ");
    sql.push(if plan.head {
        body::nothing()
    } else {
        body::from_call_result(plan.result, &plan.format.shape)
    });
    sql.push_text(" AS body, ");
    sql.push_text(RESPONSE_SETTINGS);
    sql.push_text(" FROM (");
    sql.push(select::level(&plan.read, None));
    sql.push_text(") AS pgrst_t");
    let main = explained(sql, plan.format.explain.as_ref());
    Statements { main: main.into(), form: Form::Value, estimates: Vec::new() }
}

/// Rows of the function: the columns of a row type, or a value as `pgrst_scalar`.
fn source(plan: &CallPlan) -> Sql {
    let call = plan.routine.sql().then(Sql::text("(")).then(arguments(&plan.arguments)).then(Sql::text(")"));
    let argument_row = argument_row(&plan.arguments);
    match plan.result {
        CallResult::Void | CallResult::Scalar | CallResult::Scalars => {
            let sql = Sql::text("SELECT ").then(call).then(Sql::text(" AS pgrst_scalar"));
            match argument_row {
                Some(argument_row) => sql.then(Sql::text(" FROM ")).then(argument_row),
                None => sql,
            }
        }
        CallResult::Row | CallResult::Rows => {
            let sql = Sql::text("SELECT ").then(columns(&plan.returned)).then(Sql::text(" FROM "));
            let sql = match argument_row {
                Some(argument_row) => sql.then(argument_row).then(Sql::text(", LATERAL ")),
                None => sql,
            };
            sql.then(call).then(Sql::text(" AS pgrst_call"))
        }
    }
}

/// Selects only the columns in use, so that PostgreSQL can inline the function and skip the rest.
fn columns(returned: &Returned) -> Sql {
    match returned {
        Returned::Nothing => Sql::text("1"),
        Returned::Star => Sql::text("pgrst_call.*"),
        Returned::Columns { names, row: false } if names.is_empty() => Sql::text("1"),
        Returned::Columns { names, row } => {
            let mut list: Vec<Sql> =
                names.iter().map(|name| Sql::text("pgrst_call.").then(Sql::ident(name))).collect();
            if *row {
                list.push(Sql::text("pgrst_call AS pgrst_row"));
            }
            Sql::join(list, ", ")
        }
    }
}

/// A JSON body as the row `pgrst_args`.
fn argument_row(arguments: &Arguments) -> Option<Sql> {
    let Arguments::Json { bytes, shape, params } = arguments else { return None };
    let definitions = params.iter().map(|param| {
        Sql::ident(&param.name).then(Sql::text(" ")).then(Sql::catalog(param.wide_type.clone()))
    });
    let row = Sql::text(") AS pgrst_args(").then(Sql::join(definitions, ", ")).then(Sql::text(")"));
    let payload = Sql::param(bytes.clone());
    Some(match shape {
        JsonShape::Object => Sql::text("json_to_record(").then(payload).then(row),
        JsonShape::Array | JsonShape::Mixed | JsonShape::Empty => {
            Sql::text("(SELECT * FROM json_to_recordset(")
                .then(payload)
                .then(row)
                .then(Sql::text(" LIMIT 1) AS pgrst_args"))
        }
    })
}

fn arguments(arguments: &Arguments) -> Sql {
    match arguments {
        Arguments::None => Sql::new(),
        Arguments::Json { params, .. } => Sql::join(
            params
                .iter()
                .map(|param| named(param).then(Sql::text("pgrst_args.")).then(Sql::ident(&param.name))),
            ", ",
        ),
        Arguments::Literals(literals) => Sql::join(
            literals.iter().map(|(param, literal)| {
                let text = match literal {
                    Literal::One(text) => text.clone(),
                    Literal::Many(elements) => array_literal(elements),
                };
                named(param).then(typed(text.into(), param))
            }),
            ", ",
        ),
        Arguments::Body { bytes, param } => {
            if param.type_name == "bytea" {
                return typed(format!("\\x{}", hex::encode(bytes)).into(), param);
            }
            typed(bytes.clone().into(), param)
        }
    }
}

fn typed(value: basalt_pg::sql::Param, param: &RoutineParam) -> Sql {
    Sql::param(value).then(Sql::text("::")).then(Sql::catalog(param.wide_type.clone()))
}

fn named(param: &RoutineParam) -> Sql {
    let sql = if param.variadic { Sql::text("VARIADIC ") } else { Sql::new() };
    sql.then(Sql::ident(&param.name)).then(Sql::text(" := "))
}
