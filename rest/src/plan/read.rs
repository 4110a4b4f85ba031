//! Reads: the tree of a request made into a [`ReadPlan`] (rest.md §3.3–§3.8).

use super::mutate::Answer;
use super::tree::Node;
use super::{
    ColumnRef, Common, Condition, Delivery, EmbedForm, EmbedPlan, OrderBy, Output, ReadPlan, Source,
    TablePlan, Value, delivery, media, preferences,
};
use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::filter::{Filter, IsValue, Operation};
use crate::parse::logic::{LogicNode, LogicTree};
use crate::parse::order::OrderTerm;
use crate::parse::range::RowRange;
use crate::parse::select::{Aggregate, CastType, SelectItem};
use crate::parse::{Arrow, Field};
use crate::request::ApiRequest;
use crate::schema_cache::relationships::Link;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};
use crate::suggest;

/// Plans GET and HEAD of a relation.
///
/// # Errors
/// Steps 9 to 15 of rest.md §1.2.
pub fn plan(
    request: &ApiRequest,
    name: &str,
    head: bool,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<TablePlan, RestError> {
    let relation = relation(&request.schema, name, cache)?;
    let mut tree = Tree::of(request, config)?;
    let read =
        tree.read(Source::Relation(relation.qualified_name()), Some(relation), config.max_rows, cache)?;
    let legacy_names = tree.legacy_names;
    let format = media::for_relation(&request.accept, request, Some(relation), config, cache)?;
    preferences::check(request)?;
    let applied = preferences::applied(request, config, None);
    let is_capped = |cap: &u64| request.range.limit.is_none_or(|limit| limit > u128::from(*cap));
    let delivery = if head { Delivery::Value } else { delivery::of(&read, Some(relation), &format, cache) };
    Ok(TablePlan {
        common: Common { legacy_names, applied, ..Common::reading(request, config) },
        read,
        format,
        head,
        max_rows: config.max_rows,
        cut_at: config.max_rows.filter(|cap| *cap > 0 && is_capped(cap)),
        delivery,
    })
}

/// A relation of a schema.
///
/// # Errors
/// PGRST205, with a relation of a similar name.
pub fn relation<'a>(schema: &str, name: &str, cache: &'a SchemaCache) -> Result<&'a Relation, RestError> {
    cache.relation(schema, name).ok_or_else(|| {
        let names = cache.relations_in(schema).map(|relation| relation.name.as_str());
        let similar = cache
            .is_searched(schema)
            .then(|| suggest::best(names, name, suggest::NAME_SIMILARITY).map(str::to_owned))
            .flatten();
        RestError::RelationUnknown { schema: schema.to_owned(), name: name.to_owned(), similar }
    })
}

/// The tree of a request, ready to be made into a plan.
pub(super) struct Tree<'a> {
    root: Node<'a>,
    schema: &'a str,
    aggregates: bool,
    pub(super) legacy_names: Vec<(String, String)>,
}

impl<'a> Tree<'a> {
    /// The tree of a request that reads a relation or the rows of a call.
    pub(super) fn of(request: &'a ApiRequest, config: &RestConfig) -> Result<Self, RestError> {
        let mut legacy_names = Vec::new();
        let query = &request.query;
        let root = Node::root(query, &query.select, request.range, config, &mut legacy_names)?;
        Ok(Self { root, schema: &request.schema, aggregates: config.aggregates, legacy_names })
    }

    /// The tree of a request that writes: its root filters and window choose what is written, not what is shown.
    /// Where nothing is answered, of `select` only the names count that filters and orders of embeds use; a `Location`
    /// is made of rows that hold what is selected, but nobody sees them sorted.
    pub(super) fn of_write(
        request: &'a ApiRequest,
        answer: &Answer,
        config: &RestConfig,
    ) -> Result<Self, RestError> {
        let mut tree = Self::of(request, config)?;
        tree.root.filters.clear();
        tree.root.logic.clear();
        tree.root.range = RowRange::ALL;
        if *answer != Answer::Rows {
            tree.root.order = &[];
        }
        if *answer == Answer::Nothing {
            tree.root.columns.clear();
            tree.root.children.clear();
        }
        Ok(tree)
    }

    /// Checks the tree and makes the plan. `relation` is `None` for rows whose type is no relation's.
    pub(super) fn read(
        &mut self,
        source: Source,
        relation: Option<&Relation>,
        max_rows: Option<u64>,
        cache: &SchemaCache,
    ) -> Result<ReadPlan, RestError> {
        let origin = match (&source, relation) {
            (_, Some(relation)) => relation.qualified_name(),
            (Source::Relation(name), None) => name.clone(),
            // Rows of no relation have no relationships; the name is for the error.
            (Source::Aliased { .. } | Source::Computed { .. } | Source::Returned, None) => {
                QualifiedName::new(self.schema, "record")
            }
        };
        self.root.relate(&origin, self.schema, cache)?;
        self.root.check_related_orders(&origin.name)?;
        self.root.check_aggregates(self.aggregates)?;
        let mut builder = Builder { cache, max_rows, aliases: 0 };
        Ok(builder.level(&self.root, source, &origin, relation, false).0)
    }
}

/// A column that a spread lifts into its parent.
struct Lift {
    /// Its name in the lateral query.
    inner: String,
    /// Its key in the parent.
    output: String,
    /// Aggregate that the parent applies.
    aggregate: Option<(Aggregate, Option<CastType>)>,
}

struct Builder<'c> {
    cache: &'c SchemaCache,
    max_rows: Option<u64>,
    aliases: usize,
}

impl Builder<'_> {
    /// One level. With `is_spread`, aggregates are left to the parent and every output has a known name.
    fn level(
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
        let mut conditions: Vec<Condition> =
            node.filters.iter().map(|filter| self.condition(filter, node, relation)).collect();
        conditions.extend(node.logic.iter().map(|tree| self.group(tree, node, relation)));
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

    fn condition(&self, filter: &Filter, node: &Node<'_>, relation: Option<&Relation>) -> Condition {
        let test = &filter.test;
        if filter.field.path.is_empty()
            && let Operation::Is(is @ (IsValue::Null | IsValue::NotNull)) = test.operation
            && let Some(embed) = node.child_named(&filter.field.name)
        {
            return Condition::Embed { embed, exists: (is == IsValue::NotNull) != test.negated };
        }
        filter_condition(filter, relation, self.cache)
    }

    fn group(&self, tree: &LogicTree, node: &Node<'_>, relation: Option<&Relation>) -> Condition {
        let conditions = tree
            .nodes
            .iter()
            .map(|inner| match inner {
                LogicNode::Filter(filter) => self.condition(filter, node, relation),
                LogicNode::Tree(tree) => self.group(tree, node, relation),
            })
            .collect();
        Condition::Group { negated: tree.negated, connective: tree.connective, conditions }
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

/// A filter as a condition on a column; embeds are not looked for.
pub(super) fn filter_condition(
    filter: &Filter,
    relation: Option<&Relation>,
    cache: &SchemaCache,
) -> Condition {
    let known = relation.and_then(|relation| relation.column(&filter.field.name));
    let plain = filter.field.path.is_empty();
    let is_tsvector = plain && known.is_some_and(crate::schema_cache::Column::is_tsvector);
    let readers = &cache.representations().from_text;
    Condition::Test {
        column: column_ref(&filter.field, relation),
        negated: filter.test.negated,
        operation: filter.test.operation.clone(),
        to_tsvector: matches!(filter.test.operation, Operation::TextSearch { .. }) && !is_tsvector,
        representation: known.filter(|_| plain).and_then(|column| readers.get(&column.type_name)).cloned(),
    }
}

/// A logic tree of filters on columns; embeds are not looked for.
pub(super) fn logic_condition(
    tree: &LogicTree,
    relation: Option<&Relation>,
    cache: &SchemaCache,
) -> Condition {
    let conditions = tree
        .nodes
        .iter()
        .map(|node| match node {
            LogicNode::Filter(filter) => filter_condition(filter, relation, cache),
            LogicNode::Tree(tree) => logic_condition(tree, relation, cache),
        })
        .collect();
    Condition::Group { negated: tree.negated, connective: tree.connective, conditions }
}

/// Whether a path into a column of type `json` ends in a value of that type.
fn is_json_text(field: &Field, relation: Option<&Relation>) -> bool {
    let column = relation.and_then(|relation| relation.column(&field.name));
    let ends_in_json = field.path.last().is_some_and(|step| step.arrow == Arrow::Json);
    ends_in_json && column.is_some_and(|column| column.base_type.as_str() == "json")
}

fn column_ref(field: &Field, relation: Option<&Relation>) -> ColumnRef {
    let is_json =
        relation.and_then(|relation| relation.column(&field.name)).is_some_and(|column| column.is_json());
    ColumnRef {
        name: field.name.clone(),
        path: field.path.clone(),
        to_jsonb: !field.path.is_empty() && !is_json,
    }
}
