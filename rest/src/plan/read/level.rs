//! Levels of a read: outputs, embeds, conditions and orders of one relation (rest.md §3.3, §3.7, §3.8).
//!
//! The tree has found what can be wrong with them. The columns of a spread, and those that were spread into it, are
//! lifted into the parent, which also applies their aggregates.

use super::super::condition::{Conditions, column_ref, is_json_text};
use super::super::tree::Node;
use super::super::{Condition, EmbedForm, EmbedPlan, OrderBy, Output, ReadPlan, Source, Value};
use crate::parse::Field;
use crate::parse::order::OrderTerm;
use crate::parse::select::{Aggregate, CastType, SelectItem};
use crate::schema_cache::relationships::Link;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};

/// A column that a spread lifts into its parent.
pub(super) struct Lift {
    /// Its name in the lateral query.
    inner: String,
    /// Its key in the parent.
    output: String,
    /// Aggregate that the parent applies.
    aggregate: Option<(Aggregate, Option<CastType>)>,
}

/// Makes the levels of one request.
pub(super) struct Builder<'c> {
    cache: &'c SchemaCache,
    max_rows: Option<u64>,
    aliases: usize,
}

impl<'c> Builder<'c> {
    pub(super) const fn new(cache: &'c SchemaCache, max_rows: Option<u64>) -> Self {
        Self { cache, max_rows, aliases: 0 }
    }

    /// One level. With `is_spread`, aggregates are left to the parent and every output has a known name.
    pub(super) fn level(
        &mut self,
        node: &Node<'_>,
        source: Source,
        name: &QualifiedName,
        relation: Option<&Relation>,
        is_spread: bool,
    ) -> (ReadPlan, Vec<Lift>) {
        let expand = is_spread || node.is_grouped() || self.has_representations(relation);
        let mut outputs = Vec::new();
        for item in &node.columns {
            self.output(item, relation, expand, &mut outputs);
        }
        let mut lifts = Vec::new();
        if is_spread {
            for output in &mut outputs {
                lifts.push(self.lift(output));
            }
        }
        let mut embeds = Vec::new();
        for child in &node.children {
            let Some(relationship) = &child.relationship else { continue };
            let (embed, lifted) = self.embed(child, &relationship.link, name, &relationship.target);
            let index = embeds.len();
            match embed.form {
                _ if !embed.is_shown => {}
                EmbedForm::Object | EmbedForm::Array => {
                    outputs.push(Output {
                        value: Value::Embed(index),
                        aggregate: None,
                        name: Some(embed.name.clone()),
                    });
                    if is_spread {
                        let name = embed.name.clone();
                        lifts.push(Lift { inner: name.clone(), output: name, aggregate: None });
                    }
                }
                EmbedForm::SpreadObject | EmbedForm::SpreadArray => {
                    for lift in lifted {
                        let mut output = Output {
                            value: Value::Lifted { embed: index, column: lift.inner },
                            aggregate: lift.aggregate,
                            name: Some(lift.output),
                        };
                        if is_spread {
                            lifts.push(self.lift(&mut output));
                        }
                        outputs.push(output);
                    }
                }
            }
            embeds.push(embed);
        }
        let known = Conditions { relation, level: Some(node), cache: self.cache };
        let mut conditions: Vec<Condition> =
            node.filters.iter().map(|filter| known.filter_condition(filter)).collect();
        conditions.extend(node.logic.iter().map(|tree| known.tree_condition(tree)));
        let order = node.order.iter().map(|term| self.order_by(term, node, relation)).collect();
        // One row at most is there anyway, and a LIMIT would keep PostgreSQL from joining.
        let capped = node.relationship.as_ref().is_none_or(|relationship| !relationship.link.is_to_one());
        let range = if capped { node.range.capped(self.max_rows) } else { node.range };
        (ReadPlan { source, outputs, conditions, order, range, embeds }, lifts)
    }

    fn embed(
        &mut self,
        node: &Node<'_>,
        link: &Link,
        origin: &QualifiedName,
        target: &QualifiedName,
    ) -> (EmbedPlan, Vec<Lift>) {
        self.aliases += 1;
        let alias = self.alias(&target.name);
        let lateral = self.alias(&format!("{}_{}", origin.name, node.name()));
        let junction_alias = match link {
            Link::ManyToMany(junction) => Some(self.alias(&format!("{}_junction", junction.relation.name))),
            Link::ManyToOne(_) | Link::OneToMany(_) | Link::OneToOne { .. } | Link::Computed { .. } => None,
        };
        let source = match link {
            Link::Computed { function, .. } => {
                Source::Computed { function: function.clone(), alias, origin: origin.clone() }
            }
            Link::ManyToOne(_) | Link::OneToMany(_) | Link::OneToOne { .. } | Link::ManyToMany(_) => {
                Source::Aliased { relation: target.clone(), alias }
            }
        };
        let relation = self.cache.relation(&target.schema, &target.name);
        let (read, lifts) = self.level(node, source, target, relation, node.is_spread());
        let form = match (node.is_spread(), link.is_to_one()) {
            (false, true) => EmbedForm::Object,
            (false, false) => EmbedForm::Array,
            (true, true) => EmbedForm::SpreadObject,
            (true, false) => EmbedForm::SpreadArray,
        };
        let embed = EmbedPlan {
            name: node.name().to_owned(),
            lateral,
            inner: node.is_inner(),
            form,
            is_shown: node.is_shown(),
            link: link.clone(),
            junction_alias,
            read,
        };
        (embed, lifts)
    }

    /// A name of the statement: the number makes it unique, and it stays within PostgreSQL's 63 bytes.
    fn alias(&self, name: &str) -> String {
        let short: String =
            name.char_indices().take_while(|(at, c)| at + c.len_utf8() <= 50).map(|(_, c)| c).collect();
        format!("{short}_{}", self.aliases)
    }

    fn has_representations(&self, relation: Option<&Relation>) -> bool {
        let shown = &self.cache.representations().to_json;
        !shown.is_empty()
            && relation.is_some_and(|r| r.columns.iter().any(|column| shown.contains_key(&column.type_name)))
    }

    fn output(
        &self,
        item: &SelectItem,
        relation: Option<&Relation>,
        expand: bool,
        outputs: &mut Vec<Output>,
    ) {
        match item {
            SelectItem::Star => match relation.filter(|_| expand) {
                Some(known) => outputs.extend(known.columns.iter().map(|column| {
                    let value = self.column_value(&Field::plain(&*column.name), None, relation);
                    // PostgreSQL would name the column after the function that shows it.
                    let is_shown = matches!(&value, Value::Column { representation: Some(_), .. });
                    Output { value, aggregate: None, name: is_shown.then(|| column.name.to_string()) }
                })),
                None => outputs.push(Output { value: Value::Star, aggregate: None, name: None }),
            },
            SelectItem::Count { alias, cast } => outputs.push(Output {
                value: Value::Star,
                aggregate: Some((Aggregate::Count, cast.clone())),
                name: Some(alias.clone().unwrap_or_else(|| "count".to_owned())),
            }),
            SelectItem::Column(column) => {
                let key = match (&column.alias, &column.aggregate) {
                    (Some(alias), _) => Some(alias.clone()),
                    (None, Some((function, _))) => Some(function.as_sql().to_owned()),
                    (None, None) => None,
                };
                let value = self.column_value(&column.field, column.cast.as_ref(), relation);
                let is_plain = matches!(
                    &value,
                    Value::Column { column, cast: None, representation: None } if column.path.is_empty()
                );
                let name = key.or_else(|| (!is_plain).then(|| column.field.output_name().to_owned()));
                outputs.push(Output { value, aggregate: column.aggregate.clone(), name });
            }
            SelectItem::Embed(_) => {}
        }
    }

    fn column_value(&self, field: &Field, cast: Option<&CastType>, relation: Option<&Relation>) -> Value {
        let shown = &self.cache.representations().to_json;
        let representation = relation
            .filter(|_| field.path.is_empty())
            .and_then(|relation| relation.column(&field.name))
            .and_then(|column| shown.get(&column.type_name))
            .cloned();
        Value::Column { column: column_ref(field, relation), cast: cast.cloned(), representation }
    }

    /// Takes the aggregate off a spread's output and gives it a name the parent can use.
    fn lift(&mut self, output: &mut Output) -> Lift {
        let name = output.name.clone().unwrap_or_else(|| match &output.value {
            Value::Column { column, .. } => column.name.clone(),
            Value::Lifted { column, .. } => column.clone(),
            Value::Star | Value::Presence | Value::Embed(_) => String::new(),
        });
        let Some((function, cast)) = output.aggregate.take() else {
            output.name = Some(name.clone());
            return Lift { inner: name.clone(), output: name, aggregate: None };
        };
        self.aliases += 1;
        let inner = format!("pgrst_aggregate_{}", self.aliases);
        if output.value == Value::Star {
            output.value = Value::Presence;
        }
        output.name = Some(inner.clone());
        Lift { inner, output: name, aggregate: Some((function, cast)) }
    }

    fn order_by(&self, term: &OrderTerm, node: &Node<'_>, relation: Option<&Relation>) -> OrderBy {
        let embed = term.relation.as_deref().and_then(|name| node.child_named(name));
        let related = embed
            .and_then(|index| node.children.get(index))
            .and_then(|child| child.relationship.as_ref())
            .and_then(|relationship| {
                self.cache.relation(&relationship.target.schema, &relationship.target.name)
            });
        let relation = if embed.is_some() { related } else { relation };
        let mut column = column_ref(&term.field, relation);
        // The rows of an embed can be sorted by a part of a `json` value, which itself cannot be compared.
        column.to_jsonb |= node.embed.is_some() && is_json_text(&term.field, relation);
        OrderBy { embed, column, direction: term.direction, nulls: term.nulls }
    }
}
