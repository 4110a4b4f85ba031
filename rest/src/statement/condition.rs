//! SQL for columns and conditions.

use basalt_pg::sql::{Param, Sql};

use super::array_literal;
use super::select::{self, Row};
use crate::parse::JsonOperand;
use crate::parse::filter::{Operation, Operator, Quantifier};
use crate::plan::{ColumnRef, Condition, EmbedForm, EmbedPlan};
use crate::schema_cache::QualifiedName;

/// A column of a row, with its path applied.
pub(super) fn column(column: &ColumnRef, row: Row<'_>) -> Sql {
    let mut plain = row.sql();
    plain.push_text(".");
    plain.push_ident(&column.name);
    apply_path(plain, column, column.to_jsonb)
}

/// Applies the path of a column to a value.
pub(super) fn apply_path(value: Sql, column: &ColumnRef, to_jsonb: bool) -> Sql {
    if column.path.is_empty() {
        return value;
    }
    let mut sql = if to_jsonb { Sql::text("to_jsonb(").then(value).then(Sql::text(")")) } else { value };
    for step in &column.path {
        sql.push_text(step.arrow.as_sql());
        match &step.operand {
            JsonOperand::Key(key) => sql.push(Sql::literal(key)),
            JsonOperand::Index(index) => {
                sql.push(Sql::literal(index));
                sql.push_text("::int");
            }
        }
    }
    Sql::text("(").then(sql).then(Sql::text(")"))
}

/// Renders all conditions of a level, for the caller to join.
pub(super) fn all(conditions: &[Condition], embeds: &[EmbedPlan], row: Row<'_>, lateral: bool) -> Vec<Sql> {
    conditions.iter().map(|condition| one(condition, embeds, row, lateral)).collect()
}

/// Renders one condition. `lateral` states whether embeds with output are joined, so that their result can be tested.
fn one(condition: &Condition, embeds: &[EmbedPlan], row: Row<'_>, lateral: bool) -> Sql {
    match condition {
        Condition::Test { column: tested, negated, operation, to_tsvector, representation } => {
            let tested = column(tested, row);
            let test = test(tested, operation, *to_tsvector, representation.as_ref());
            if *negated { Sql::text("NOT (").then(test).then(Sql::text(")")) } else { test }
        }
        Condition::Group { negated, connective, conditions } => {
            let inner = all(conditions, embeds, row, lateral);
            let mut sql = Sql::text(if *negated { "NOT (" } else { "(" });
            sql.push(Sql::join(inner, connective.as_sql()));
            sql.push_text(")");
            sql
        }
        Condition::Embed { embed, exists } => match embeds.get(*embed) {
            Some(embed) => presence(embed, *exists, row, lateral),
            None => Sql::text("true"),
        },
    }
}

/// Tests whether an embed has a row: through its joined result if there is one, or else with a sub-select.
fn presence(embed: &EmbedPlan, exists: bool, row: Row<'_>, lateral: bool) -> Sql {
    let joined = lateral && embed.is_shown;
    let result = match embed.form {
        EmbedForm::Object if joined => Sql::ident(&embed.lateral),
        EmbedForm::Array if joined => {
            Sql::ident(&embed.lateral).then(Sql::text(".")).then(Sql::ident(&embed.lateral))
        }
        EmbedForm::Object | EmbedForm::Array | EmbedForm::SpreadObject | EmbedForm::SpreadArray => {
            let subselect = select::exists(embed, row);
            return if exists { subselect } else { Sql::text("NOT ").then(subselect) };
        }
    };
    result.then(Sql::text(if exists { " IS DISTINCT FROM NULL" } else { " IS NOT DISTINCT FROM NULL" }))
}

fn test(
    tested: Sql,
    operation: &Operation,
    to_tsvector: bool,
    representation: Option<&QualifiedName>,
) -> Sql {
    let value = operand(operation).map_or_else(Sql::new, Sql::param);
    match operation {
        Operation::Compare { operator, quantifier, .. } => {
            // A pattern is not a value of the domain.
            let representation = representation.filter(|_| !operator.is_pattern());
            let sql = tested.then(Sql::text(operator.as_sql()));
            match quantifier {
                None => sql.then(parse_domain(value, representation)),
                Some(quantifier) => sql
                    .then(Sql::text(match quantifier {
                        Quantifier::Any => "ANY (",
                        Quantifier::All => "ALL (",
                    }))
                    .then(parse_each_domain(value, representation))
                    .then(Sql::text(")")),
            }
        }
        Operation::In(_) => {
            let sql = tested.then(Sql::text(Operator::Eq.as_sql()));
            sql.then(Sql::text("ANY (")).then(parse_each_domain(value, representation)).then(Sql::text(")"))
        }
        Operation::Is(constant) => tested.then(Sql::text(constant.as_sql())),
        Operation::IsDistinct(_) => tested.then(Sql::text(" IS DISTINCT FROM ")).then(value),
        Operation::TextSearch { operator, config, .. } => {
            let config = || match config {
                Some(config) => Sql::param(config.clone()).then(Sql::text(", ")),
                None => Sql::new(),
            };
            let vector = if to_tsvector {
                Sql::text("to_tsvector(").then(config()).then(tested).then(Sql::text(")"))
            } else {
                tested
            };
            vector.then(Sql::text(operator.as_sql())).then(config()).then(value).then(Sql::text(")"))
        }
    }
}

/// Parameter bound by a test. It is the only part that varies between requests of one shape.
pub(crate) fn operand(operation: &Operation) -> Option<Param> {
    Some(match operation {
        Operation::Compare { operator, value, .. } if operator.is_pattern() => {
            Param::from(value.replace('*', "%"))
        }
        Operation::Compare { value, .. } | Operation::IsDistinct(value) => Param::from(value.as_str()),
        Operation::In(elements) => Param::from(array_literal(elements)),
        Operation::TextSearch { query, .. } => Param::from(query.as_str()),
        Operation::Is(_) => return None,
    })
}

/// Converts a value with the function that parses its domain from text, if there is one.
fn parse_domain(value: Sql, representation: Option<&QualifiedName>) -> Sql {
    match representation {
        None => value,
        Some(function) => function.sql().then(Sql::text("(")).then(value).then(Sql::text("::text)")),
    }
}

/// Converts each element of an array given as text.
fn parse_each_domain(list: Sql, representation: Option<&QualifiedName>) -> Sql {
    match representation {
        None => list,
        Some(function) => Sql::text("ARRAY(SELECT ")
            .then(function.sql())
            .then(Sql::text("(pgrst_element) FROM unnest("))
            .then(list)
            .then(Sql::text("::text[]) AS pgrst_element)")),
    }
}
