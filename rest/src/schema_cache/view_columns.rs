//! Maps view columns to the table columns they show. [`basalt_pg::view_origins`] derives this from the stored query
//! trees.

use basalt_pg::view_origins::ViewOrigins;

use super::QualifiedName;
use super::name::Name;
use super::relationships::{ShownColumn, ShownColumns};

/// A view and its query tree.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ViewTree {
    /// Oid of the view, as used in other trees.
    pub oid: u32,
    /// Name of the view.
    pub view: QualifiedName,
    /// Text of `ev_action`.
    pub tree: String,
}

/// Relations and columns by oid and attribute number, as used in query trees.
pub trait CatalogLookup {
    /// Looks up a relation.
    fn relation(&self, oid: u32) -> Option<QualifiedName>;
    /// Looks up a column.
    fn column(&self, oid: u32, number: i32) -> Option<Name>;
}

/// Maps every view to the table columns it shows.
#[must_use]
pub fn shown_columns(views: &[ViewTree], relations: &impl CatalogLookup) -> ShownColumns {
    let origins = ViewOrigins::read(views.iter().map(|view| (view.oid, view.tree.as_str())));
    let mut shown = ShownColumns::new();
    for view in views {
        let columns = origins.of_view(view.oid).filter_map(|origin| {
            Some(ShownColumn {
                view_column: relations.column(view.oid, origin.position)?,
                table: relations.relation(origin.relation)?,
                table_column: relations.column(origin.relation, origin.column)?,
            })
        });
        shown.insert(view.view.clone(), columns.collect());
    }
    shown
}
