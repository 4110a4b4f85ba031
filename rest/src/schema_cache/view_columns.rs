//! Which table column a view column shows, by name. [`basalt_pg::view_origins`] reads it from the stored query trees.

use basalt_pg::view_origins::ViewOrigins;

use super::QualifiedName;
use super::name::Name;
use super::relationships::{ShownColumn, ShownColumns};

/// A view as loaded: its tree and the names of its columns.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ViewTree {
    /// Object id, as it appears in other trees.
    pub oid: u32,
    /// The view.
    pub view: QualifiedName,
    /// `ev_action` as text.
    pub tree: String,
}

/// The relations that trees refer to, by their object ids.
pub trait Numbered {
    /// The relation.
    fn relation(&self, oid: u32) -> Option<QualifiedName>;
    /// A column by its attribute number.
    fn column(&self, oid: u32, number: i32) -> Option<Name>;
}

/// For every view, the table columns it shows.
#[must_use]
pub fn shown_columns(views: &[ViewTree], relations: &impl Numbered) -> ShownColumns {
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
