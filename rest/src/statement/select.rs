//! SQL for levels: select list, lateral joins, conditions, order, limit and offset.

use std::collections::{BTreeMap, HashMap};

use basalt_pg::sql::Sql;

use super::{condition, number};
use crate::parse::range::RowRange;
use crate::parse::select::Aggregate;
use crate::plan::{ColumnRef, EmbedForm, EmbedPlan, OrderBy, Output, ReadPlan, Source, Value};
use crate::schema_cache::QualifiedName;
use crate::schema_cache::relationships::Link;

/// A row of a source, for references to its columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a>(pub(super) &'a Source);

impl Row<'_> {
    pub(super) fn sql(self) -> Sql {
        match self.0 {
            Source::Relation(name) => name.sql(),
            Source::Aliased { alias, .. } | Source::Computed { alias, .. } => Sql::ident(alias),
            Source::Returned => Sql::text("pgrst_source"),
        }
    }
}

/// A level as a SELECT. For an embed, `join` restricts its rows to those of the parent.
pub(super) fn level(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>) -> Sql {
    select(read, join, read.range, &[])
}

/// The root level as returned to the server. Outputs with an index in `as_json`, which is sorted, are converted to
/// JSON.
pub(super) fn rows(read: &ReadPlan, range: RowRange, as_json: &[usize]) -> Sql {
    select(read, None, range, as_json)
}

fn select(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>, range: RowRange, as_json: &[usize]) -> Sql {
    let row = Row(&read.source);
    // A level without outputs has rows without columns, `{}`.
    let mut sql = Sql::text("SELECT");
    if !read.outputs.is_empty() {
        sql.push_text(" ");
        let outputs = read.outputs.iter().enumerate();
        let outputs =
            outputs.map(|(at, output)| self::output(output, read, row, as_json.binary_search(&at).is_ok()));
        sql.push(Sql::join(outputs, ", "));
    }
    sql.push(from(read, join));
    for (index, embed) in read.embeds.iter().enumerate() {
        if embed.is_shown {
            sql.push(lateral(embed, row));
        } else if !is_checked_by_conditions(embed, index, read) {
            sql.push(validation_join(embed, row));
        }
    }
    sql.push(restrictions(read, join, true));
    if read.is_grouped() {
        sql.push(group_by(&read.outputs, row));
    }
    sql.push(order_by(&read.order, read, row));
    sql.push(limit_offset(range));
    sql
}

/// Whether the WHERE clause refers to everything in an embed without output. It tests for rows, but [`exists`] omits
/// order and nested embeds, so there must be none.
fn is_checked_by_conditions(embed: &EmbedPlan, index: usize, read: &ReadPlan) -> bool {
    let is_needed = embed.inner || read.conditions.iter().any(|condition| condition.tests_embed(index));
    is_needed && embed.read.order.is_empty() && embed.read.embeds.is_empty()
}

/// An embed without output or effect. PostgreSQL must still check that its columns exist and have suitable types,
/// which it does when it analyses the statement. It then removes the join, which changes no row, because it yields at
/// most one row or just a count.
fn validation_join(embed: &EmbedPlan, parent: Row<'_>) -> Sql {
    let rows = level(&embed.read, Some((embed, parent)));
    let name = || Sql::ident(&embed.lateral);
    let body = match embed.form {
        EmbedForm::Object | EmbedForm::SpreadObject => rows,
        EmbedForm::Array | EmbedForm::SpreadArray => {
            Sql::text("SELECT count(*) FROM (").then(rows).then(Sql::text(") AS ")).then(name())
        }
    };
    Sql::text(" LEFT JOIN LATERAL (")
        .then(body)
        .then(Sql::text(") AS "))
        .then(name())
        .then(Sql::text(" ON TRUE"))
}

/// Collects the relations of a level and of its embeds. Functions are left out: PostgreSQL estimates their rows from
/// their own declarations.
pub(super) fn relations<'a>(read: &'a ReadPlan, found: &mut Vec<&'a QualifiedName>) {
    match &read.source {
        Source::Relation(name) | Source::Aliased { relation: name, .. } => found.push(name),
        Source::Computed { .. } | Source::Returned => {}
    }
    for embed in &read.embeds {
        if let Link::ManyToMany(junction) = &embed.link {
            found.push(&junction.relation);
        }
        relations(&embed.read, found);
    }
}

/// Rows of a level without limit, offset, order and groups, for counting.
pub(crate) fn countable(read: &ReadPlan) -> Sql {
    Sql::text("SELECT 1").then(from(read, None)).then(restrictions(read, None, false))
}

/// Tests whether an embed has a row.
pub(super) fn exists(embed: &EmbedPlan, parent: Row<'_>) -> Sql {
    let join = Some((embed, parent));
    let mut sql = Sql::text("EXISTS (SELECT 1");
    sql.push(from(&embed.read, join));
    sql.push(restrictions(&embed.read, join, false));
    // A limit without offset does not affect existence; without either PostgreSQL can plan a semi-join.
    if embed.read.range.offset > 0 || embed.read.range.limit == Some(0) {
        sql.push(limit_offset(embed.read.range));
    }
    sql.push_text(")");
    sql
}

fn from(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>) -> Sql {
    let mut sql = Sql::text(" FROM ");
    match &read.source {
        Source::Relation(name) => sql.push(name.sql()),
        Source::Aliased { relation, alias } => {
            sql.push(relation.sql());
            sql.push_text(" AS ");
            sql.push_ident(alias);
        }
        Source::Computed { function, alias, origin } => {
            sql.push(function.sql());
            sql.push_text("(");
            match join.map(|(_, parent)| parent) {
                Some(Row(Source::Returned)) => sql.push_text("pgrst_source.pgrst_row"),
                Some(parent) => {
                    sql.push_text("(");
                    sql.push(parent.sql());
                    sql.push_text(".*)::");
                    sql.push(origin.sql());
                }
                None => {}
            }
            sql.push_text(") AS ");
            sql.push_ident(alias);
        }
        Source::Returned => sql.push_text("pgrst_source"),
    }
    if let Some((EmbedPlan { link: Link::ManyToMany(junction), junction_alias: Some(alias), .. }, _)) = join {
        sql.push_text(" INNER JOIN ");
        sql.push(junction.relation.sql());
        sql.push_text(" AS ");
        sql.push_ident(alias);
        sql.push_text(" ON ");
        let row = Row(&read.source);
        let pairs = junction.target_columns.iter().map(|(between, target)| {
            dotted(Sql::ident(alias), between).then(Sql::text(" = ")).then(dotted(row.sql(), target))
        });
        sql.push(Sql::join(pairs, " AND "));
    }
    sql
}

fn dotted(row: Sql, column: &str) -> Sql {
    row.then(Sql::text(".")).then(Sql::ident(column))
}

/// WHERE clause: the join with the parent, the conditions, and inner embeds that are not joined.
fn restrictions(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>, lateral: bool) -> Sql {
    let row = Row(&read.source);
    let mut all = join.map_or_else(Vec::new, |(embed, parent)| join_conditions(embed, row, parent));
    all.extend(condition::all(&read.conditions, &read.embeds, row, lateral));
    let tested = read.embeds.iter().filter(|embed| embed.inner && !(lateral && embed.is_shown));
    all.extend(tested.map(|embed| exists(embed, row)));
    if all.is_empty() { Sql::new() } else { Sql::text(" WHERE ").then(Sql::join(all, " AND ")) }
}

/// Conditions that restrict the embed's rows to those of the parent.
fn join_conditions(embed: &EmbedPlan, row: Row<'_>, parent: Row<'_>) -> Vec<Sql> {
    let equal = |left: Sql, right: Sql| left.then(Sql::text(" = ")).then(right);
    match &embed.link {
        Link::ManyToOne(keys) | Link::OneToMany(keys) | Link::OneToOne { keys, .. } => keys
            .columns
            .iter()
            .map(|(origin, target)| equal(dotted(row.sql(), target), dotted(parent.sql(), origin)))
            .collect(),
        Link::ManyToMany(junction) => {
            let alias = embed.junction_alias.as_deref().unwrap_or_default();
            junction
                .origin_columns
                .iter()
                .map(|(origin, between)| {
                    equal(dotted(Sql::ident(alias), between), dotted(parent.sql(), origin))
                })
                .collect()
        }
        // The function takes the parent row as its argument.
        Link::Computed { .. } => Vec::new(),
    }
}

fn lateral(embed: &EmbedPlan, parent: Row<'_>) -> Sql {
    let rows = level(&embed.read, Some((embed, parent)));
    let name = || Sql::ident(&embed.lateral);
    let aggregated = |list: Sql| {
        Sql::text("SELECT ")
            .then(list)
            .then(Sql::text(" FROM ("))
            .then(rows.clone())
            .then(Sql::text(") AS "))
            .then(name())
    };
    let (body, present) = match embed.form {
        EmbedForm::Object | EmbedForm::SpreadObject => (rows, Sql::text("TRUE")),
        EmbedForm::Array => {
            let list = Sql::text("json_agg(").then(name()).then(Sql::text(")::jsonb AS ")).then(name());
            (aggregated(list), dotted(name(), &embed.lateral).then(Sql::text(" IS NOT NULL")))
        }
        EmbedForm::SpreadArray => {
            let names: Vec<&str> =
                embed.read.outputs.iter().filter_map(|output| output.name.as_deref()).collect();
            let list = names.iter().map(|column| {
                Sql::text("json_agg(")
                    .then(dotted(name(), column))
                    .then(Sql::text(")::jsonb AS "))
                    .then(Sql::ident(column))
            });
            let first = names.first().copied().unwrap_or_default();
            (aggregated(Sql::join(list, ", ")), dotted(name(), first).then(Sql::text(" IS NOT NULL")))
        }
    };
    let mut sql = Sql::text(if embed.inner { " INNER JOIN LATERAL (" } else { " LEFT JOIN LATERAL (" });
    sql.push(body);
    sql.push_text(") AS ");
    sql.push(name());
    sql.push_text(" ON ");
    sql.push(if embed.inner { present } else { Sql::text("TRUE") });
    sql
}

fn value(output: &Output, read: &ReadPlan, row: Row<'_>) -> Sql {
    let mut sql = match &output.value {
        Value::Star if output.aggregate.is_some() => Sql::text("*"),
        Value::Star => row.sql().then(Sql::text(".*")),
        Value::Presence => Sql::text("1"),
        Value::Column { column, cast, representation } => {
            let mut sql = condition::column(column, row);
            if let Some(function) = representation {
                sql = function.sql().then(Sql::text("(")).then(sql).then(Sql::text(")"));
            }
            match cast {
                Some(cast) => cast_to(sql, cast.as_str()),
                None => sql,
            }
        }
        Value::Embed(index) => match read.embeds.get(*index) {
            Some(embed) if embed.form == EmbedForm::Object => {
                Sql::text("row_to_json(").then(Sql::ident(&embed.lateral)).then(Sql::text(".*)::jsonb"))
            }
            Some(embed) => Sql::text("coalesce(")
                .then(dotted(Sql::ident(&embed.lateral), &embed.lateral))
                .then(Sql::text(", '[]')")),
            None => Sql::text("null"),
        },
        Value::Lifted { embed, column } => match read.embeds.get(*embed) {
            Some(embed) if embed.form == EmbedForm::SpreadArray => Sql::text("coalesce(")
                .then(dotted(Sql::ident(&embed.lateral), column))
                .then(Sql::text(", '[]')")),
            Some(embed) => dotted(Sql::ident(&embed.lateral), column),
            None => Sql::text("null"),
        },
    };
    if let Some((function, cast)) = &output.aggregate {
        sql = aggregate(*function).then(sql).then(Sql::text(")"));
        if let Some(cast) = cast {
            sql = cast_to(sql, cast.as_str());
        }
    }
    sql
}

fn output(output: &Output, read: &ReadPlan, row: Row<'_>, as_json: bool) -> Sql {
    let mut sql = value(output, read, row);
    let mut name = output.name.as_ref();
    if as_json {
        sql = Sql::text("to_json(").then(sql).then(Sql::text(")"));
        // PostgreSQL would name the column after the function.
        if let Value::Column { column, .. } = &output.value {
            name = name.or(Some(&column.name));
        }
    }
    if let Some(name) = name {
        sql.push_text(" AS ");
        sql.push_ident(name);
    }
    sql
}

/// The grammar permits only letters, digits, `_`, blanks and `$` in a type name, so it cannot contain other SQL.
fn cast_to(value: Sql, type_name: &str) -> Sql {
    Sql::text("CAST(")
        .then(value)
        .then(Sql::text(" AS "))
        .then(Sql::catalog(type_name.to_owned()))
        .then(Sql::text(")"))
}

fn aggregate(function: Aggregate) -> Sql {
    Sql::text(match function {
        Aggregate::Sum => "sum(",
        Aggregate::Avg => "avg(",
        Aggregate::Count => "count(",
        Aggregate::Max => "max(",
        Aggregate::Min => "min(",
    })
}

/// Groups by position, because a repeated expression with parameters would be a different expression. A domain
/// represented as JSON is grouped by its column, because JSON cannot be compared.
fn group_by(outputs: &[Output], row: Row<'_>) -> Sql {
    let grouped = outputs.iter().enumerate().filter(|(_, output)| output.aggregate.is_none());
    let terms: Vec<Sql> = grouped
        .map(|(index, output)| {
            if let Value::Column { column, representation: Some(_), .. } = &output.value {
                condition::column(column, row)
            } else {
                Sql::catalog((index + 1).to_string())
            }
        })
        .collect();
    if terms.is_empty() { Sql::new() } else { Sql::text(" GROUP BY ").then(Sql::join(terms, ", ")) }
}

fn order_by(order: &[OrderBy], read: &ReadPlan, row: Row<'_>) -> Sql {
    if order.is_empty() {
        return Sql::new();
    }
    // Cached per embed: an order may have thousands of terms, and an embed thousands of outputs.
    let mut outputs_by_embed: BTreeMap<usize, HashMap<&str, OutputValue>> = BTreeMap::new();
    let terms = order.iter().map(|term| {
        let embed = term.embed.and_then(|index| Some((index, read.embeds.get(index)?)));
        let mut sql = match embed {
            Some((index, embed)) => {
                let outputs =
                    outputs_by_embed.entry(index).or_insert_with(|| output_values(read, index, embed));
                related(embed, outputs, &term.column, row)
            }
            None => condition::column(&term.column, row),
        };
        if let Some(direction) = term.direction {
            sql.push_text(direction.as_sql());
        }
        if let Some(nulls) = term.nulls {
            sql.push_text(nulls.as_sql());
        }
        sql
    });
    Sql::text(" ORDER BY ").then(Sql::join(terms, ", "))
}

/// A value in the output of a joined embed.
struct OutputValue {
    sql: Sql,
    /// Whether it is an unmodified column.
    is_plain: bool,
}

/// The output of a joined embed by key; the output of a spread is in the parent.
fn output_values<'a>(
    read: &'a ReadPlan,
    index: usize,
    embed: &'a EmbedPlan,
) -> HashMap<&'a str, OutputValue> {
    let is_lifted = |output: &&Output| matches!(output.value, Value::Lifted { embed, .. } if embed == index);
    match embed.form {
        _ if !embed.is_shown => HashMap::new(),
        EmbedForm::SpreadObject | EmbedForm::SpreadArray => read
            .outputs
            .iter()
            .filter(is_lifted)
            .filter_map(|output| {
                let sql = value(output, read, Row(&read.source));
                Some((output.key()?, OutputValue { sql, is_plain: false }))
            })
            .collect(),
        EmbedForm::Object | EmbedForm::Array => {
            // A domain represented as JSON cannot be compared; its column can.
            let is_json =
                |value: &Value| matches!(value, Value::Column { cast: None, representation: Some(_), .. });
            let outputs = embed.read.outputs.iter().filter(|output| !is_json(&output.value));
            outputs
                .filter_map(|output| {
                    let key = output.key()?;
                    let sql = dotted(Sql::ident(&embed.lateral), key);
                    Some((key, OutputValue { sql, is_plain: output.is_plain() }))
                })
                .collect()
        }
    }
}

/// Sort expression of a related order: an output of the embed by key, or else a column from a sub-select.
fn related(
    embed: &EmbedPlan,
    outputs: &HashMap<&str, OutputValue>,
    column: &ColumnRef,
    parent: Row<'_>,
) -> Sql {
    if let Some(OutputValue { sql, is_plain }) = outputs.get(column.name.as_str()) {
        return condition::apply_path(sql.clone(), column, column.to_jsonb || !is_plain);
    }
    let join = Some((embed, parent));
    Sql::text("(SELECT ")
        .then(condition::column(column, Row(&embed.read.source)))
        .then(from(&embed.read, join))
        .then(restrictions(&embed.read, join, false))
        .then(limit_offset(embed.read.range))
        .then(Sql::text(")"))
}

fn limit_offset(range: RowRange) -> Sql {
    let mut sql = Sql::new();
    if let Some(limit) = range.limit {
        sql.push_text(" LIMIT ");
        sql.push(number(limit));
    }
    if range.offset > 0 {
        sql.push_text(" OFFSET ");
        sql.push(number(range.offset));
    }
    sql
}
