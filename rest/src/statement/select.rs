//! Levels: select list, lateral joins, conditions, order, window.

use std::collections::{BTreeMap, HashMap};

use basalt_pg::sql::Sql;

use super::{condition, number};
use crate::parse::range::RowRange;
use crate::parse::select::Aggregate;
use crate::plan::{ColumnRef, EmbedForm, EmbedPlan, OrderBy, Output, ReadPlan, Source, Value};
use crate::schema_cache::QualifiedName;
use crate::schema_cache::relationships::Link;

/// How columns of a row are addressed.
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

/// A level as a SELECT. Inside an embed, `join` ties its rows to the parent's.
pub(super) fn level(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>) -> Sql {
    windowed(read, join, read.range, &[])
}

/// The root level as it reaches us, the outputs at `as_json`, which is sorted, as JSON.
pub(super) fn rows(read: &ReadPlan, range: RowRange, as_json: &[usize]) -> Sql {
    windowed(read, None, range, as_json)
}

fn windowed(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>, range: RowRange, as_json: &[usize]) -> Sql {
    let row = Row(&read.source);
    // A level that shows nothing has rows without columns: `{}`.
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
        } else if !is_judged_by_conditions(embed, index, read) {
            sql.push(judged(embed, row));
        }
    }
    sql.push(restrictions(read, join, true));
    if read.is_grouped() {
        sql.push(group_by(&read.outputs, row));
    }
    sql.push(order_by(&read.order, read, row));
    sql.push(window(range));
    sql
}

/// WHERE holds everything of an embed that shows nothing: whether it has rows is asked there, and they have neither an
/// order nor embeds, which [`exists`] leaves out.
fn is_judged_by_conditions(embed: &EmbedPlan, index: usize, read: &ReadPlan) -> bool {
    let is_asked = embed.inner || read.conditions.iter().any(|condition| condition.asks_for(index));
    is_asked && embed.read.order.is_empty() && embed.read.embeds.is_empty()
}

/// An embed without output or effect. What it names must exist and fit its type all the same; PostgreSQL finds that out
/// when it takes the statement in, and then drops the join, which changes no row: there is one at most, or just the count.
fn judged(embed: &EmbedPlan, parent: Row<'_>) -> Sql {
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

/// The relations of a level and of the embeds below it. What a function gives is planned by what it says of itself.
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

/// The rows of a level without window, order and groups, for counting.
pub(crate) fn countable(read: &ReadPlan) -> Sql {
    Sql::text("SELECT 1").then(from(read, None)).then(restrictions(read, None, false))
}

/// Whether an embed has a row.
pub(super) fn exists(embed: &EmbedPlan, parent: Row<'_>) -> Sql {
    let join = Some((embed, parent));
    let mut sql = Sql::text("EXISTS (SELECT 1");
    sql.push(from(&embed.read, join));
    sql.push(restrictions(&embed.read, join, false));
    // A window of rows from the first on has a row whenever there is one; without it PostgreSQL can make a semi-join.
    if embed.read.range.offset > 0 || embed.read.range.limit == Some(0) {
        sql.push(window(embed.read.range));
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

/// WHERE: the join to the parent, the conditions, and inner embeds that are not joined.
fn restrictions(read: &ReadPlan, join: Option<(&EmbedPlan, Row<'_>)>, lateral: bool) -> Sql {
    let row = Row(&read.source);
    let mut all = join.map_or_else(Vec::new, |(embed, parent)| ties(embed, row, parent));
    all.extend(condition::all(&read.conditions, &read.embeds, row, lateral));
    let tested = read.embeds.iter().filter(|embed| embed.inner && !(lateral && embed.is_shown));
    all.extend(tested.map(|embed| exists(embed, row)));
    if all.is_empty() { Sql::new() } else { Sql::text(" WHERE ").then(Sql::join(all, " AND ")) }
}

/// The embed's rows belong to the parent's.
fn ties(embed: &EmbedPlan, row: Row<'_>, parent: Row<'_>) -> Vec<Sql> {
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
        // The function takes the parent's row itself.
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

/// The grammar lets only letters, digits, `_`, blanks and `$` into a type's name: it cannot be more than a name.
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

/// By position: repeating an expression with parameters would make it another expression. A domain that is shown as
/// JSON is grouped by its value: JSON cannot be compared.
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
    // By embed: a list may have thousands of terms, and so may what an embed shows.
    let mut shown: BTreeMap<usize, HashMap<&str, Shown>> = BTreeMap::new();
    let terms = order.iter().map(|term| {
        let embed = term.embed.and_then(|index| Some((index, read.embeds.get(index)?)));
        let mut sql = match embed {
            Some((index, embed)) => {
                let shown = shown.entry(index).or_insert_with(|| shown_values(read, index, embed));
                related(embed, shown, &term.column, row)
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

/// A value that a joined embed shows.
struct Shown {
    sql: Sql,
    /// It is a column as it is.
    is_plain: bool,
}

/// What a joined embed shows, by the keys under which it does: a spread shows it in the parent.
fn shown_values<'a>(read: &'a ReadPlan, index: usize, embed: &'a EmbedPlan) -> HashMap<&'a str, Shown> {
    let is_lifted = |output: &&Output| matches!(output.value, Value::Lifted { embed, .. } if embed == index);
    match embed.form {
        _ if !embed.is_shown => HashMap::new(),
        EmbedForm::SpreadObject | EmbedForm::SpreadArray => read
            .outputs
            .iter()
            .filter(is_lifted)
            .filter_map(|output| {
                let sql = value(output, read, Row(&read.source));
                Some((output.key()?, Shown { sql, is_plain: false }))
            })
            .collect(),
        EmbedForm::Object | EmbedForm::Array => {
            // A domain that is shown as JSON cannot be compared; its column can.
            let is_json =
                |value: &Value| matches!(value, Value::Column { cast: None, representation: Some(_), .. });
            let outputs = embed.read.outputs.iter().filter(|output| !is_json(&output.value));
            outputs
                .filter_map(|output| {
                    let key = output.key()?;
                    let sql = dotted(Sql::ident(&embed.lateral), key);
                    Some((key, Shown { sql, is_plain: output.is_plain() }))
                })
                .collect()
        }
    }
}

/// What a related order names: a key of the embed's output, else one of its columns, by a sub-select.
fn related(embed: &EmbedPlan, shown: &HashMap<&str, Shown>, column: &ColumnRef, parent: Row<'_>) -> Sql {
    if let Some(Shown { sql, is_plain }) = shown.get(column.name.as_str()) {
        return condition::stepped(sql.clone(), column, column.to_jsonb || !is_plain);
    }
    let join = Some((embed, parent));
    Sql::text("(SELECT ")
        .then(condition::column(column, Row(&embed.read.source)))
        .then(from(&embed.read, join))
        .then(restrictions(&embed.read, join, false))
        .then(window(embed.read.range))
        .then(Sql::text(")"))
}

fn window(range: RowRange) -> Sql {
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
