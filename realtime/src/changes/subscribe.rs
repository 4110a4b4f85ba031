//! Validates the bindings of a join as the caller's role (realtime.md 3.5, 3.6). Error texts are upstream's.

use std::sync::Arc;

use basalt_core::claims::Claims;
use basalt_pg::session::{SessionError, Statement};
use basalt_pg::sql::{Param, Sql};

use super::catalog::{Catalog, Column, Privileges, Published, Table};
use super::filter::{self, Comparison, Condition, MAX_ITEMS, Operand, Operator, Test, Truth, quoted};
use super::subscriptions::{CheckedBinding, Target};
use super::types::{SqlType, array_items};
use super::visibility::Evaluator;
use super::{Binding, SubscribeError};

/// SQLSTATE and condition name of an error raised in PL/pgSQL.
const RAISED: (&str, &str) = ("P0001", "raise_exception");

/// Validates all bindings; the first invalid one fails the join.
pub(super) async fn check(
    catalog: &Catalog,
    evaluator: &Evaluator,
    claims: &Claims,
    bindings: &[Binding],
) -> Result<Vec<CheckedBinding>, SubscribeError> {
    let role: Arc<str> = claims.role().unwrap_or_default().into();
    let mut parsed = Vec::with_capacity(bindings.len());
    for binding in bindings {
        let conditions = filter::parse(binding.filter.as_deref().unwrap_or_default());
        let conditions = conditions
            .map_err(|reason| SubscribeError::Rejected(format!("Error parsing `filter` params: {reason}")))?;
        parsed.push((binding, conditions));
    }
    let has_role = catalog.has_role(&role).await.map_err(unavailable)?;
    let mut published = catalog.published().await.map_err(unavailable)?;
    let mut checked = Vec::with_capacity(parsed.len());
    for (binding, conditions) in parsed {
        if !has_role {
            let message = format!("role {} does not exist", quoted(&role));
            return Err(refused(binding, &conditions, ("42704", "undefined_object"), &message));
        }
        let target = target(binding);
        if !has_tables(&published, &target) {
            // The table may have been published just now.
            published = catalog.published_now().await.map_err(unavailable)?;
        }
        if !has_tables(&published, &target) {
            return Err(SubscribeError::Rejected(format!(
                "Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given \
                 connect parameters: {}",
                dump(binding, &conditions)
            )));
        }
        let table = match &target {
            Target::Table(schema, name) => match published.get(&(schema.to_string(), name.to_string())) {
                Some(oid) => catalog.table(*oid).await.map_err(unavailable)?,
                None => None,
            },
            Target::Schema(_) | Target::All => None,
        };
        let select = binding.select.as_ref().filter(|select| !select.is_empty());
        if select.is_some() && table.is_none() {
            let text = "Column selection is not supported for wildcard subscriptions. Provide an explicit schema and table name.";
            return Err(SubscribeError::Rejected(text.to_owned()));
        }
        let mut tests = Vec::with_capacity(conditions.len());
        if let Some(table) = &table {
            let privileges = catalog.privileges(table, &role).await.map_err(unavailable)?;
            let is_readable = |name: &str| readable(table, &privileges, name).is_some();
            if let Some(column) = select.into_iter().flatten().find(|column| !is_readable(column)) {
                let message = format!("invalid column for select {column}");
                return Err(refused(binding, &conditions, RAISED, &message));
            }
            for condition in &conditions {
                let Some(column) = readable(table, &privileges, &condition.column) else {
                    let message = format!("invalid column for filter {}", condition.column);
                    return Err(refused(binding, &conditions, RAISED, &message));
                };
                let test = checked_test(evaluator, &role, condition, column).await;
                tests.push(test.map_err(|error| error.into_subscribe_error(binding, &conditions))?);
            }
        } else if let Some(condition) = conditions.first() {
            let message = format!("invalid column for filter {}", condition.column);
            return Err(refused(binding, &conditions, RAISED, &message));
        }
        let select = select.map(|select| select.clone().into());
        checked.push(CheckedBinding { id: binding.id, event: binding.event, target, tests, select });
    }
    Ok(checked)
}

fn target(binding: &Binding) -> Target {
    let table = binding.table.as_deref().filter(|table| *table != "*");
    match (binding.schema.as_str(), table) {
        ("*", _) => Target::All,
        (schema, None) => Target::Schema(schema.into()),
        (schema, Some(table)) => Target::Table(schema.into(), table.into()),
    }
}

fn has_tables(published: &Published, target: &Target) -> bool {
    match target {
        Target::Table(schema, name) => published.contains_key(&(schema.to_string(), name.to_string())),
        Target::Schema(schema) => published.keys().any(|(known, _)| **known == **schema),
        Target::All => !published.is_empty(),
    }
}

fn readable<'a>(table: &'a Table, privileges: &Privileges, name: &str) -> Option<&'a Column> {
    let position = table.column(name)?;
    privileges
        .columns
        .get(position)
        .copied()
        .unwrap_or_default()
        .then(|| table.columns.get(position))
        .flatten()
}

/// Why a condition was rejected.
enum ConditionError {
    Raised(String),
    Database(SessionError),
}

impl ConditionError {
    fn into_subscribe_error(self, binding: &Binding, conditions: &[Condition]) -> SubscribeError {
        match self {
            Self::Raised(message) => refused(binding, conditions, RAISED, &message),
            Self::Database(SessionError::Postgres(error)) if !error.is_fatal && !error.is_unavailable() => {
                refused(binding, conditions, (&error.code, condition_name(&error.code)), &error.message)
            }
            Self::Database(error) => unavailable(error),
        }
    }
}

async fn checked_test(
    evaluator: &Evaluator,
    role: &Arc<str>,
    condition: &Condition,
    column: &Column,
) -> Result<Test, ConditionError> {
    let Condition { operator, is_negated, value, .. } = condition;
    let raised = |message: String| Err(ConditionError::Raised(message));
    let mut test = Test {
        column: column.name.as_str().into(),
        type_oid: column.type_oid,
        sql_type: Arc::clone(&column.sql_type),
        operator: *operator,
        is_negated: *is_negated,
        operand: Operand::One(value.as_str().into()),
        comparison: column.comparison,
    };
    match operator {
        Operator::Is => {
            let Some(truth) = Truth::parse(value) else {
                return raised(
                    "invalid value for is filter: must be null, true, false, or unknown".to_owned(),
                );
            };
            if truth != Truth::Null && column.comparison != Comparison::Bool {
                let shown_type = &column.shown_type;
                return raised(format!("is {value} filter requires a boolean column, got {shown_type}"));
            }
            test.operand = Operand::Truth(truth);
        }
        Operator::Like | Operator::ILike | Operator::Match | Operator::IMatch => {
            if !column.is_text {
                let (operator, shown_type) = (operator.name(), &column.shown_type);
                return raised(format!(
                    "operator {operator} requires a text-compatible column type, got {shown_type}"
                ));
            }
            // Rejects an invalid pattern now instead of at every change.
            evaluator.passes(role, &test, "").await.map_err(|error| pattern_error(*operator, error))?;
        }
        Operator::In => {
            let array_of = |sql_type: &Arc<SqlType>| sql_type.array.clone();
            let Some(array) = array_of(&column.sql_type) else {
                return raised(format!(
                    "operator in is not supported for columns of type {}",
                    column.shown_type
                ));
            };
            let domain = column.domain.as_ref().and_then(array_of);
            let items = cast(evaluator, role, (&array, domain.as_ref()), value).await?;
            let items = array_items(&items, b',').unwrap_or_default();
            if items.len() > MAX_ITEMS {
                return raised(format!("too many values for `in` filter. Maximum {MAX_ITEMS}"));
            }
            let has_null = items.iter().any(Option::is_none);
            let items = items.into_iter().flatten().map(Arc::from).collect();
            test.operand = Operand::Many { items, has_null, literal: value.as_str().into() };
        }
        Operator::Eq
        | Operator::Neq
        | Operator::Lt
        | Operator::Lte
        | Operator::Gt
        | Operator::Gte
        | Operator::IsDistinct => {
            let domain = column.domain.as_ref().map(|domain| &domain.name);
            let text: Arc<str> = cast(evaluator, role, (&column.sql_type.name, domain), value).await?.into();
            test.operand = Operand::One(Arc::clone(&text));
            if column.comparison == Comparison::Postgres {
                // The type may not have the operator.
                evaluator.passes(role, &test, &text).await.map_err(ConditionError::Database)?;
            }
        }
    }
    Ok(test)
}

/// Uses upstream's wording if the error is about the pattern.
fn pattern_error(operator: Operator, error: SessionError) -> ConditionError {
    if let SessionError::Postgres(error) = &error
        && (error.code == "2201B" || error.exceeds_limit())
    {
        let reason = error.message.strip_prefix("invalid regular expression: ").unwrap_or(&error.message);
        let operator = operator.name();
        return ConditionError::Raised(format!("invalid regular expression for {operator} filter: {reason}"));
    }
    ConditionError::Database(error)
}

/// The value as its type prints it. Cast to the base type of a domain, as in `where column = 'value'`; a
/// value the domain rejects is an error nevertheless.
async fn cast(
    evaluator: &Evaluator,
    role: &Arc<str>,
    (sql_type, domain): (&Arc<str>, Option<&Arc<str>>),
    value: &str,
) -> Result<String, ConditionError> {
    let mut sql = Sql::text("select v.v");
    if let Some(domain) = domain {
        sql.push(Sql::text(", (v.v)::"));
        sql.push(Sql::catalog(domain.to_string()));
    }
    sql.push(Sql::text(" from (select ($1::varchar)::"));
    sql.push(Sql::catalog(sql_type.to_string()));
    sql.push(Sql::text(") as v(v)"));
    let statement = Statement { text: sql.render().0.into(), params: vec![Param::from(value)] };
    let answers = evaluator.run_formatted(role, vec![statement]).await.map_err(ConditionError::Database)?;
    let text = answers.first().and_then(|rows| rows.first()?.text(0)).unwrap_or(value);
    Ok(text.to_owned())
}

fn refused(
    binding: &Binding,
    conditions: &[Condition],
    (code, name): (&str, &str),
    message: &str,
) -> SubscribeError {
    SubscribeError::Rejected(format!(
        "Unable to subscribe to changes with given parameters. An exception happened so please check your connect \
         parameters: {}. Exception: ERROR {code} ({name}) {message}",
        dump(binding, conditions)
    ))
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
pub(super) fn unavailable(error: SessionError) -> SubscribeError {
    SubscribeError::Unavailable(format!("Row changes cannot be subscribed to now: {error}"))
}

/// A binding in upstream's notation.
fn dump(binding: &Binding, conditions: &[Condition]) -> String {
    let filters: Vec<String> = conditions
        .iter()
        .map(|condition| {
            let Condition { column, operator, is_negated, value } = condition;
            let (column, operator, value) = (quoted(column), quoted(operator.name()), quoted(value));
            format!("{{{column}, {operator}, {value}, {is_negated}}}")
        })
        .collect();
    let select = binding.select.as_ref().map_or_else(
        || "nil".to_owned(),
        |select| format!("[{}]", select.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(", ")),
    );
    let Binding { event, schema, table, .. } = binding;
    let table = table.as_deref().unwrap_or("*");
    let filters = filters.join(", ");
    let event = event.as_str();
    format!("[event: {event}, schema: {schema}, table: {table}, filters: [{filters}], select: {select}]")
}

/// PostgreSQL's condition name of an SQLSTATE that an invalid value or role can cause.
fn condition_name(code: &str) -> &'static str {
    match code {
        "22P02" => "invalid_text_representation",
        "22003" => "numeric_value_out_of_range",
        "22007" => "invalid_datetime_format",
        "22008" => "datetime_field_overflow",
        "22023" => "invalid_parameter_value",
        "22025" => "invalid_escape_sequence",
        "22026" => "string_data_length_mismatch",
        "2201B" => "invalid_regular_expression",
        "23514" => "check_violation",
        "42501" => "insufficient_privilege",
        "42704" => "undefined_object",
        "42883" => "undefined_function",
        "0A000" => "feature_not_supported",
        "57014" => "query_canceled",
        _ => "error",
    }
}
