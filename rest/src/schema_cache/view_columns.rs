//! Which table column a view column shows, read from the stored query tree of the view.
//!
//! PostgreSQL keeps a view's query as text in `pg_rewrite.ev_action`. Its top target list names, for every output
//! column, the relation and column it came from (`:resorigtbl`, `:resorigcol`), through joins, subqueries and CTEs;
//! zero for expressions. A view over a view names the inner view, so origins are followed to a table.
//!
//! There is no catalog view with this. PostgREST rewrites the same text to JSON inside SQL; reading it
//! here is simpler and costs the database nothing.

use std::collections::HashMap;

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

/// (position in the view, origin relation, origin attribute number)
type Origin = (i32, u32, i32);

/// For every view, the table columns it shows.
#[must_use]
pub fn shown_columns(views: &[ViewTree], relations: &impl Numbered) -> ShownColumns {
    let origins: HashMap<u32, Vec<Origin>> = views.iter().map(|v| (v.oid, origins(&v.tree))).collect();
    let mut shown = ShownColumns::new();
    for view in views {
        let columns = origins.get(&view.oid).into_iter().flatten().filter_map(|(position, oid, number)| {
            let (table, number) = follow(&origins, *oid, *number)?;
            Some(ShownColumn {
                view_column: relations.column(view.oid, *position)?,
                table: relations.relation(table)?,
                table_column: relations.column(table, number)?,
            })
        });
        shown.insert(view.view.clone(), columns.collect());
    }
    shown
}

/// Goes through views until a table is reached. Views cannot be circular, but a bound costs nothing.
fn follow(origins: &HashMap<u32, Vec<Origin>>, mut oid: u32, mut number: i32) -> Option<(u32, i32)> {
    for _ in 0..64 {
        let Some(columns) = origins.get(&oid) else { return Some((oid, number)) };
        let (_, next_oid, next_number) = columns.iter().find(|(position, ..)| *position == number)?;
        (oid, number) = (*next_oid, *next_number);
    }
    None
}

/// The entries of the outermost target list that come from a column.
fn origins(tree: &str) -> Vec<Origin> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    // Depth of the entry being read, once inside the outermost target list.
    let mut list_depth = None;
    let mut pending: Option<&str> = None;
    let (mut position, mut oid) = (0, 0);
    for token in Tokens(tree) {
        match token {
            "{" | "(" => {
                depth += 1;
                // `({QUERY … :targetList (` opens at depth 3.
                if token == "(" && pending == Some(":targetList") && depth == 3 && list_depth.is_none() {
                    list_depth = Some(depth);
                }
            }
            "}" | ")" => {
                if list_depth == Some(depth) {
                    return found;
                }
                depth = depth.saturating_sub(1);
            }
            value => {
                if list_depth.is_some_and(|list| depth == list + 1) {
                    match pending {
                        Some(":resno") => position = value.parse().unwrap_or(0),
                        Some(":resorigtbl") => oid = value.parse().unwrap_or(0),
                        Some(":resorigcol") => {
                            let number: i32 = value.parse().unwrap_or(0);
                            if oid != 0 && number > 0 {
                                found.push((position, oid, number));
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        pending = token.starts_with(':').then_some(token);
    }
    found
}

/// Braces, parentheses and words of a node tree; a backslash keeps the next character from meaning anything.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let mut escaped = false;
        let mut end = text.len();
        for (at, c) in text.char_indices() {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if "{}()".contains(c) {
                end = if at == 0 { c.len_utf8() } else { at };
                break;
            } else if c.is_whitespace() {
                end = at;
                break;
            }
        }
        let (token, rest) = text.split_at_checked(end)?;
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outermost_target_list_counts() {
        let tree = "({QUERY :commandType 1 :rtable ({RANGETBLENTRY :subquery {QUERY :targetList ({TARGETENTRY :expr {VAR} :resno 1 :resname a :resorigtbl 9 :resorigcol 9 :resjunk false})}}) \
                    :targetList ({TARGETENTRY :expr {FUNCEXPR :args ({VAR :varno 1})} :resno 1 :resname x\\ \\( :ressortgroupref 0 :resorigtbl 0 :resorigcol 0 :resjunk false} \
                    {TARGETENTRY :expr {VAR :varno 1} :resno 2 :resname id :ressortgroupref 0 :resorigtbl 77 :resorigcol 3 :resjunk false}) :override 0 :returningList <>})";
        assert_eq!(origins(tree), [(2, 77, 3)]);
    }
}
