//! Plans reads: turns the tree of a request into a [`ReadPlan`] (rest.md §3.3–§3.8).

mod level;

use super::returned::Answer;
use super::tree::Node;
use super::{Common, Delivery, ReadPlan, Source, TablePlan, delivery, media, preferences};
use crate::config::RestConfig;
use crate::error::{Named, Object, RELATION, RestError};
use crate::parse::range::RowRange;
use crate::request::ApiRequest;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};
use crate::suggest;
use level::Builder;

/// Plans GET and HEAD on a relation.
///
/// # Errors
/// The first violation found in steps 9 to 15 of rest.md §1.2.
pub fn plan(
    request: &ApiRequest,
    name: &str,
    head: bool,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<TablePlan, RestError> {
    let relation = relation(&request.schema, name, cache)?;
    let mut tree = Tree::for_read(request, config)?;
    let read =
        tree.read(Source::Relation(relation.qualified_name()), Some(relation), config.max_rows, cache)?;
    let legacy_names = tree.legacy_names;
    let format = media::for_relation(request, Some(relation), config, cache)?;
    preferences::check(request)?;
    let applied = preferences::applied(request, config, None);
    let is_capped = |cap: &u64| request.range.limit.is_none_or(|limit| limit > u128::from(*cap));
    let delivery =
        if head { Delivery::Value } else { delivery::choose(&read, Some(relation), &format, cache) };
    Ok(TablePlan {
        common: Common {
            legacy_names,
            embeds: !read.embeds.is_empty(),
            applied,
            ..Common::reading(request, config)
        },
        read,
        format,
        head,
        max_rows: config.max_rows,
        row_cap: config.max_rows.filter(|cap| *cap > 0 && is_capped(cap)),
        delivery,
    })
}

/// Looks up a relation in a schema.
///
/// # Errors
/// The relation is unknown (PGRST205); the error suggests similar names.
pub fn relation<'a>(schema: &str, name: &str, cache: &'a SchemaCache) -> Result<&'a Relation, RestError> {
    cache.relation(schema, name).ok_or_else(|| {
        let names = cache.relations_in(schema).map(|relation| &*relation.name);
        let similar = if cache.is_searched(schema) {
            suggest::ranked(names, name, suggest::NAME_SIMILARITY)
        } else {
            Vec::new()
        };
        let named = |name: &str| Named { text: name.to_owned(), object: Object::new(schema, name, RELATION) };
        let similar = similar.into_iter().map(named).collect();
        RestError::RelationUnknown { schema: schema.to_owned(), name: name.to_owned(), similar }
    })
}

/// The tree of a request, from which its plan is built.
pub(super) struct Tree<'a> {
    root: Node<'a>,
    schema: &'a str,
    aggregates: bool,
    pub(super) legacy_names: Vec<(String, String)>,
}

impl<'a> Tree<'a> {
    /// Builds the tree of a request that reads a relation or the rows of a call.
    pub(super) fn for_read(request: &'a ApiRequest, config: &RestConfig) -> Result<Self, RestError> {
        let mut legacy_names = Vec::new();
        let query = &request.query;
        let root = Node::root(query, &query.select, request.range, config, &mut legacy_names)?;
        Ok(Self { root, schema: &request.schema, aggregates: config.aggregates, legacy_names })
    }

    /// Builds the tree of a write. Its root filters, limit and offset select the rows to write, not those to return.
    /// If the response has no rows, `select` only defines the names that filters and orders of embeds may use. A
    /// `Location` is built from the selected rows, which need no order.
    pub(super) fn for_write(
        request: &'a ApiRequest,
        answer: &Answer,
        config: &RestConfig,
    ) -> Result<Self, RestError> {
        let mut tree = Self::for_read(request, config)?;
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

    /// Validates the tree and builds the plan. `relation` is `None` for rows whose type is not a relation.
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
            // Without a relation there are no relationships; the name appears only in the error.
            (Source::Aliased { .. } | Source::Computed { .. } | Source::Returned, None) => {
                QualifiedName::new(self.schema, "record")
            }
        };
        self.root.relate(&origin, self.schema, cache)?;
        self.root.check_related_orders(&origin.name)?;
        self.root.check_aggregates(self.aggregates)?;
        let mut builder = Builder::new(cache, max_rows);
        Ok(builder.level(&self.root, source, &origin, relation, false).0)
    }
}
