//! Determines the columns that a write or call must return for the read over its rows.

use std::collections::HashSet;

use super::{Condition, EmbedPlan, Output, ReadPlan, Returned, Value};
use crate::plan::ColumnRef;
use crate::schema_cache::Relation;
use crate::schema_cache::relationships::Link;

/// Content of the response to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No content.
    Nothing,
    /// A `Location` header with these key columns.
    Location(Vec<String>),
    /// The written rows.
    Rows,
}

/// Collects the columns that `read` uses, plus `also`; expands `*` if other columns are returned besides.
///
/// Only columns in use are returned, so that the role needs read privileges on those alone and PostgreSQL can inline
/// a function.
pub(super) fn returned(read: &mut ReadPlan, relation: Option<&Relation>, also: &[String]) -> Returned {
    let mut needed = Needed::default();
    for output in &read.outputs {
        match &output.value {
            Value::Star if output.aggregate.is_none() => needed.star = true,
            Value::Column { column, .. } => needed.add(&column.name),
            Value::Star | Value::Presence | Value::Embed(_) | Value::Lifted { .. } => {}
        }
    }
    for order in read.order.iter().filter(|order| order.embed.is_none()) {
        needed.add(&order.column.name);
    }
    for condition in &read.conditions {
        needed.add_condition(condition);
    }
    for embed in &read.embeds {
        needed.add_embed(embed);
    }
    for name in also {
        needed.add(name);
    }
    if !needed.star {
        return Returned::Columns { names: needed.names, row: needed.row };
    }
    let Some(relation) = relation else { return Returned::Star };
    let computed: Vec<String> =
        needed.names.into_iter().filter(|name| relation.column(name).is_none()).collect();
    if computed.is_empty() && !needed.row {
        return Returned::Star;
    }
    let columns = || relation.columns.iter().map(|column| column.name.to_string());
    read.outputs = std::mem::take(&mut read.outputs)
        .into_iter()
        .flat_map(|output| match output {
            Output { value: Value::Star, aggregate: None, .. } => columns().map(plain_output).collect(),
            other => vec![other],
        })
        .collect();
    Returned::Columns { names: columns().chain(computed).collect(), row: needed.row }
}

fn plain_output(name: String) -> Output {
    let column = ColumnRef { name, path: Vec::new(), to_jsonb: false };
    Output { value: Value::Column { column, cast: None, representation: None }, aggregate: None, name: None }
}

#[derive(Default)]
struct Needed {
    star: bool,
    row: bool,
    /// Names in order of first use.
    names: Vec<String>,
    seen: HashSet<String>,
}

impl Needed {
    fn add(&mut self, name: &str) {
        if self.seen.insert(name.to_owned()) {
            self.names.push(name.to_owned());
        }
    }

    fn add_condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Test { column, .. } => self.add(&column.name),
            Condition::Group { conditions, .. } => {
                conditions.iter().for_each(|inner| self.add_condition(inner))
            }
            Condition::Embed { .. } => {}
        }
    }

    fn add_embed(&mut self, embed: &EmbedPlan) {
        self.row |= matches!(embed.link, Link::Computed { .. });
        for column in embed.link.origin_columns() {
            self.add(column);
        }
    }
}
