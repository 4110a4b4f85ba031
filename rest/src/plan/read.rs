//! Reads: the tree of a request made into a [`ReadPlan`] (rest.md §3.3–§3.8).

mod level;

use super::mutate::Answer;
use super::tree::Node;
use super::{Common, Delivery, ReadPlan, Source, TablePlan, delivery, media, preferences};
use crate::config::RestConfig;
use crate::error::{Named, Object, RELATION, RestError};
use crate::parse::range::RowRange;
use crate::request::ApiRequest;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};
use crate::suggest;
use level::Builder;

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
    let format = media::for_relation(request, Some(relation), config, cache)?;
    preferences::check(request)?;
    let applied = preferences::applied(request, config, None);
    let is_capped = |cap: &u64| request.range.limit.is_none_or(|limit| limit > u128::from(*cap));
    let delivery = if head { Delivery::Value } else { delivery::of(&read, Some(relation), &format, cache) };
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
    /// is made of rows that hold what is selected, but the client does not see them sorted.
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
        let mut builder = Builder::new(cache, max_rows);
        Ok(builder.level(&self.root, source, &origin, relation, false).0)
    }
}
