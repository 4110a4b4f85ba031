//! The select list as a tree, with filters, orders, ranges and relationships attached to its levels.
//!
//! The tree is built in passes, because the order of errors is part of the contract: first everything that names an
//! embed (PGRST108), then relationships (PGRST200, PGRST201), related orders (PGRST118) and aggregates (PGRST123,
//! PGRST127).

use crate::config::RestConfig;
use crate::error::{
    Named, Object, RELATION, RelationshipAmbiguous, RelationshipText, RelationshipUnknown, RestError,
};
use crate::parse::filter::Filter;
use crate::parse::logic::LogicTree;
use crate::parse::order::OrderTerm;
use crate::parse::query::QueryParams;
use crate::parse::range::RowRange;
use crate::parse::select::{JoinType, SelectColumn, SelectEmbed, SelectItem};
use crate::schema_cache::name::Name;
use crate::schema_cache::relationships::{self, Link, Relationship};
use crate::schema_cache::{QualifiedName, SchemaCache};
use crate::suggest;

/// One level of the request.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The embed in the select list; `None` at the root.
    pub(super) embed: Option<&'a SelectEmbed>,
    /// Columns of this level, in order.
    pub(super) columns: Vec<&'a SelectItem>,
    pub(super) children: Vec<Node<'a>>,
    pub(super) filters: Vec<&'a Filter>,
    pub(super) logic: Vec<&'a LogicTree>,
    pub(super) order: &'a [OrderTerm],
    pub(super) range: RowRange,
    /// Relationship with the parent level; set by [`Node::relate`].
    pub(super) relationship: Option<Relationship>,
}

impl<'a> Node<'a> {
    /// Builds the tree of a query, and attaches filters, orders, ranges and logic trees to their levels.
    pub(super) fn root(
        query: &'a QueryParams,
        select: &'a [SelectItem],
        range: RowRange,
        config: &RestConfig,
        legacy_names: &mut Vec<(String, String)>,
    ) -> Result<Self, RestError> {
        let mut root = Self::new(None, select);
        let mut find = |root: &mut Self, path: &[String], attach: &mut dyn FnMut(&mut Self)| {
            root.find(path, config.url_use_legacy_target_names, legacy_names).map(attach)
        };
        for (path, filter) in &query.filters {
            find(&mut root, path, &mut |node| node.filters.push(filter))?;
        }
        for (path, terms) in &query.orders {
            find(&mut root, path, &mut |node| node.order = terms)?;
        }
        for (path, range) in &query.ranges {
            find(&mut root, path, &mut |node| node.range = *range)?;
        }
        for (path, tree) in &query.logic {
            find(&mut root, path, &mut |node| node.logic.push(tree))?;
        }
        root.range = range;
        Ok(root)
    }

    fn new(embed: Option<&'a SelectEmbed>, items: &'a [SelectItem]) -> Self {
        let mut node = Self {
            embed,
            columns: Vec::new(),
            children: Vec::new(),
            filters: Vec::new(),
            logic: Vec::new(),
            order: &[],
            range: RowRange::ALL,
            relationship: None,
        };
        for item in items {
            match item {
                SelectItem::Embed(embed) => node.children.push(Self::new(Some(embed), &embed.select)),
                SelectItem::Star | SelectItem::Count { .. } | SelectItem::Column(_) => {
                    node.columns.push(item)
                }
            }
        }
        node
    }

    fn find(
        &mut self,
        path: &[String],
        legacy: bool,
        legacy_names: &mut Vec<(String, String)>,
    ) -> Result<&mut Self, RestError> {
        let Some((name, rest)) = path.split_first() else { return Ok(self) };
        let by_name = self.children.iter().position(|child| child.name() == name);
        let by_target = || self.children.iter().position(|child| legacy && child.target() == Some(name));
        let position = by_name.or_else(by_target).ok_or_else(|| {
            match self.children.iter().find(|child| child.target() == Some(name)) {
                Some(aliased) => {
                    RestError::NamedByTarget { target: name.clone(), alias: aliased.name().to_owned() }
                }
                None => RestError::NotEmbedded(name.clone()),
            }
        })?;
        let child = self.children.get_mut(position).ok_or(RestError::Internal("embed index out of range"))?;
        if by_name.is_none() {
            let names = (name.clone(), child.name().to_owned());
            if !legacy_names.contains(&names) {
                legacy_names.push(names);
            }
        }
        child.find(rest, legacy, legacy_names)
    }

    /// Alias, or else target; empty at the root.
    pub(super) fn name(&self) -> &'a str {
        self.embed.map_or("", |embed| embed.alias.as_deref().unwrap_or(&embed.target))
    }

    /// Target of an embed: a relation, foreign key, column or function.
    pub(super) fn target(&self) -> Option<&'a String> {
        self.embed.map(|embed| &embed.target)
    }

    pub(super) fn is_spread(&self) -> bool {
        self.embed.is_some_and(|embed| embed.spread)
    }

    pub(super) fn is_inner(&self) -> bool {
        self.embed.is_some_and(|embed| embed.join == Some(JoinType::Inner))
    }

    pub(super) fn is_to_one(&self) -> bool {
        self.relationship.as_ref().is_none_or(|relationship| relationship.link.is_to_one())
    }

    /// Whether this level or one below it is part of the output.
    pub(super) fn is_shown(&self) -> bool {
        !self.columns.is_empty() || self.children.iter().any(Self::is_shown)
    }

    /// Index of the child that a condition or related order names. An aliased child is found by its alias only,
    /// because its target may also be the name of a column (`select=boss:boss_id(name)&boss_id=is.null`).
    pub(super) fn child_named(&self, name: &str) -> Option<usize> {
        self.children.iter().position(|child| child.name() == name)
    }

    /// Resolves the relationships of all embeds below a level over `origin`.
    pub(super) fn relate(
        &mut self,
        origin: &QualifiedName,
        schema: &str,
        cache: &SchemaCache,
    ) -> Result<(), RestError> {
        for child in &mut self.children {
            let Some(embed) = child.embed else { continue };
            let candidates = cache.relationships_of(&origin.schema, &origin.name);
            let found = relationships::resolve(candidates, schema, &embed.target, embed.hint.as_deref());
            let relationship = match found.as_slice() {
                [one] => (*one).clone(),
                [] => return Err(unknown(origin, embed, schema, cache)),
                many => return Err(ambiguous(origin, embed, many)),
            };
            let target = relationship.target.clone();
            child.relationship = Some(relationship);
            child.relate(&target, schema, cache)?;
        }
        Ok(())
    }

    /// Checks that related orders name to-one embeds of this level.
    pub(super) fn check_related_orders(&self, relation: &str) -> Result<(), RestError> {
        for name in self.order.iter().filter_map(|term| term.relation.as_deref()) {
            let child = self.child_named(name).and_then(|index| self.children.get(index));
            let child = child.ok_or_else(|| RestError::NotEmbedded(name.to_owned()))?;
            if !child.is_to_one() {
                return Err(RestError::RelatedOrder {
                    relation: relation.to_owned(),
                    embed: name.to_owned(),
                });
            }
        }
        self.children.iter().try_for_each(|child| {
            let target = child.relationship.as_ref().map_or("", |relationship| &relationship.target.name);
            child.check_related_orders(target)
        })
    }

    /// Checks that aggregates are enabled and not used in a to-many spread.
    pub(super) fn check_aggregates(&self, allowed: bool) -> Result<(), RestError> {
        if !allowed && self.any(&|node| node.has_aggregate()) {
            return Err(RestError::AggregatesDisabled);
        }
        let in_array_spread = |node: &Self| node.is_spread() && !node.is_to_one() && node.hoists_aggregate();
        if self.any(&in_array_spread) {
            return Err(RestError::AggregateInSpread);
        }
        Ok(())
    }

    fn any(&self, test: &dyn Fn(&Self) -> bool) -> bool {
        test(self) || self.children.iter().any(|child| child.any(test))
    }

    fn has_aggregate(&self) -> bool {
        self.columns.iter().any(|item| match item {
            SelectItem::Count { .. } => true,
            SelectItem::Column(SelectColumn { aggregate, .. }) => aggregate.is_some(),
            SelectItem::Star | SelectItem::Embed(_) => false,
        })
    }

    /// Whether the parent level must group the rows, because this level or a spread below it has an aggregate.
    fn hoists_aggregate(&self) -> bool {
        self.has_aggregate()
            || self.children.iter().any(|child| child.is_spread() && child.hoists_aggregate())
    }

    /// Whether this level is grouped, by its own aggregates or by ones spread into it.
    pub(super) fn is_grouped(&self) -> bool {
        self.hoists_aggregate()
    }
}

fn unknown(origin: &QualifiedName, embed: &SelectEmbed, schema: &str, cache: &SchemaCache) -> RestError {
    let target = &embed.target;
    let related = cache.relationships_of(&origin.schema, &origin.name);
    let named = |schema: &str, similar: Vec<&str>| {
        let named = |name: &str| Named { text: name.to_owned(), object: Object::new(schema, name, RELATION) };
        similar.into_iter().map(named).collect::<Vec<_>>()
    };
    let similar = if !cache.is_searched(schema) {
        (Vec::new(), String::new())
    } else if cache.relation(&origin.schema, &origin.name).is_none() {
        let origins = cache.origins_in(schema);
        let similar = suggest::ranked(origins, &origin.name, suggest::LOOSE_SIMILARITY);
        (named(schema, similar), origin.name.to_string())
    } else {
        let reachable = related.iter().filter(|relationship| *relationship.target.schema == *schema);
        let names = reachable.map(|relationship| &*relationship.target.name);
        let mut similar = suggest::ranked(names, target, suggest::LOOSE_SIMILARITY);
        // The relationship exists but the hint does not match, so there is nothing to suggest.
        if similar.first().is_some_and(|better| better.eq_ignore_ascii_case(target)) {
            similar.clear();
        }
        (named(schema, similar), target.clone())
    };
    RestError::RelationshipUnknown(Box::new(RelationshipUnknown {
        origin: origin.name.to_string(),
        target: target.clone(),
        hint: embed.hint.clone(),
        schema: schema.to_owned(),
        similar,
    }))
}

fn ambiguous(origin: &QualifiedName, embed: &SelectEmbed, found: &[&Relationship]) -> RestError {
    let mut sorted = found.to_vec();
    sorted.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    RestError::RelationshipAmbiguous(Box::new(RelationshipAmbiguous {
        origin: origin.name.to_string(),
        target: embed.target.clone(),
        candidates: sorted.into_iter().map(describe).collect(),
    }))
}

/// Describes a relationship in the format of PGRST201.
fn describe(relationship: &Relationship) -> RelationshipText {
    let (origin, target) = (&relationship.origin.name, &relationship.target.name);
    let list =
        |columns: &mut dyn Iterator<Item = &Name>| columns.map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    let keys = |keys: &relationships::KeyPairs| {
        format!(
            "{} using {origin}({}) and {target}({})",
            keys.constraint,
            list(&mut keys.columns.iter().map(|(a, _)| a)),
            list(&mut keys.columns.iter().map(|(_, b)| b)),
        )
    };
    let (cardinality, text, hint) = match &relationship.link {
        Link::OneToMany(k) => ("one-to-many", keys(k), k.constraint.clone()),
        Link::ManyToOne(k) => ("many-to-one", keys(k), k.constraint.clone()),
        Link::OneToOne { keys: k, .. } => ("one-to-one", keys(k), k.constraint.clone()),
        Link::ManyToMany(junction) => {
            let text = format!(
                "{} using {}({}) and {}({})",
                junction.relation.name,
                junction.origin_constraint,
                list(&mut junction.origin_columns.iter().map(|(_, column)| column)),
                junction.target_constraint,
                list(&mut junction.target_columns.iter().map(|(column, _)| column)),
            );
            ("many-to-many", text, junction.relation.name.clone())
        }
        Link::Computed { function, .. } => ("computed", function.name.to_string(), function.name.clone()),
    };
    let junction = match &relationship.link {
        Link::ManyToMany(junction) => Some(&junction.relation),
        Link::OneToMany(_) | Link::ManyToOne(_) | Link::OneToOne { .. } | Link::Computed { .. } => None,
    };
    let relations = [&relationship.origin, &relationship.target].into_iter().chain(junction);
    let objects = relations.map(|name| Object::new(&name.schema, &name.name, RELATION)).collect();
    RelationshipText {
        objects,
        cardinality,
        embedding: format!("{origin} with {target}"),
        relationship: text,
        choice: format!("{target}!{hint}"),
    }
}
