//! Plans filters and logic trees, using the types of the columns they name (rest.md §3.4, §3.7).

use super::tree::Node;
use super::{ColumnRef, Condition};
use crate::parse::filter::{Filter, IsValue, Operation};
use crate::parse::logic::{LogicNode, LogicTree};
use crate::parse::{Arrow, Field};
use crate::schema_cache::{Relation, SchemaCache};

/// Context in which conditions are planned.
pub(super) struct Conditions<'a> {
    /// Relation whose columns they name, if any.
    pub(super) relation: Option<&'a Relation>,
    /// Level whose embeds `is.null` may name; `None` where the conditions select rows to write.
    pub(super) level: Option<&'a Node<'a>>,
    pub(super) cache: &'a SchemaCache,
}

impl Conditions<'_> {
    pub(super) fn filter_condition(&self, filter: &Filter) -> Condition {
        let test = &filter.test;
        let plain = filter.field.path.is_empty();
        if let Operation::Is(is @ (IsValue::Null | IsValue::NotNull)) = test.operation
            && plain
            && let Some(embed) = self.level.and_then(|node| node.child_named(&filter.field.name))
        {
            return Condition::Embed { embed, exists: (is == IsValue::NotNull) != test.negated };
        }
        let named = self.relation.and_then(|relation| relation.column(&filter.field.name));
        let plain_column = named.filter(|_| plain);
        let readers = &self.cache.representations().from_text;
        let mut column = column_ref(&filter.field, self.relation);
        // `json` values cannot be compared. An embed addressed by a key or column is compared without a cast, as in
        // PostgREST, which treats it as a relation without known columns.
        let target = self.level.and_then(Node::target);
        let by_its_name =
            self.relation.is_some_and(|relation| target.is_none_or(|target| *relation.name == **target));
        column.to_jsonb |= !by_its_name && is_json_text(&filter.field, self.relation);
        Condition::Test {
            column,
            negated: test.negated,
            operation: test.operation.clone(),
            // The type of a computed column is unknown; it may be `tsvector`, and text needs no conversion.
            to_tsvector: matches!(test.operation, Operation::TextSearch { .. })
                && named.is_some_and(|column| !column.is_tsvector()),
            representation: plain_column.and_then(|column| readers.get(&column.type_name)).cloned(),
        }
    }

    pub(super) fn tree_condition(&self, tree: &LogicTree) -> Condition {
        let conditions = tree
            .nodes
            .iter()
            .map(|node| match node {
                LogicNode::Filter(filter) => self.filter_condition(filter),
                LogicNode::Tree(tree) => self.tree_condition(tree),
            })
            .collect();
        Condition::Group { negated: tree.negated, connective: tree.connective, conditions }
    }
}

/// References a column of a relation, or of rows without a known relation.
pub(super) fn column_ref(field: &Field, relation: Option<&Relation>) -> ColumnRef {
    let is_json =
        relation.and_then(|relation| relation.column(&field.name)).is_some_and(|column| column.is_json());
    ColumnRef {
        name: field.name.clone(),
        path: field.path.clone(),
        to_jsonb: !field.path.is_empty() && !is_json,
    }
}

/// Whether the field is a path into a `json` column that ends in a `json` value.
pub(super) fn is_json_text(field: &Field, relation: Option<&Relation>) -> bool {
    let column = relation.and_then(|relation| relation.column(&field.name));
    let ends_in_json = field.path.last().is_some_and(|step| step.arrow == Arrow::Json);
    ends_in_json && column.is_some_and(|column| &*column.base_type == "json")
}
