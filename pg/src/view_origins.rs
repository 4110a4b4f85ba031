//! Maps the columns of a view to the table columns they come from, by reading the view's stored query tree.
//!
//! PostgreSQL keeps a view's query as text in `pg_rewrite.ev_action`. For every output column, the top-level target
//! list names the relation and column it came from (`:resorigtbl`, `:resorigcol`), through joins, subqueries and
//! CTEs; both are zero for expressions. A view over a view names the inner view, so origins are followed to a table.
//!
//! No catalog view offers this. PostgREST rewrites the same text to JSON in SQL; parsing it here is simpler and costs
//! the database nothing.

use std::collections::HashMap;

/// The table column that a view column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// Attribute number of the view's column.
    pub position: i32,
    /// OID of the table.
    pub relation: u32,
    /// Attribute number of the table's column.
    pub column: i32,
}

/// The origins of the columns of a set of views.
#[derive(Debug, Clone, Default)]
pub struct ViewOrigins(HashMap<u32, Vec<Origin>>);

impl ViewOrigins {
    /// Parses query trees: pairs of a view's OID and its `ev_action` as text.
    pub fn read<'a>(trees: impl IntoIterator<Item = (u32, &'a str)>) -> Self {
        Self(trees.into_iter().map(|(view, tree)| (view, origins(tree))).collect())
    }

    /// The columns of `view` that come from a table column, with their origins.
    pub fn of_view(&self, view: u32) -> impl Iterator<Item = Origin> {
        self.0.get(&view).into_iter().flatten().filter_map(|origin| {
            let (relation, column) = self.follow(origin.relation, origin.column)?;
            Some(Origin { position: origin.position, relation, column })
        })
    }

    /// Follows views to a table. Views cannot be circular; the bound is a safeguard.
    fn follow(&self, mut relation: u32, mut column: i32) -> Option<(u32, i32)> {
        for _ in 0..64 {
            let Some(columns) = self.0.get(&relation) else { return Some((relation, column)) };
            let next = columns.iter().find(|origin| origin.position == column)?;
            (relation, column) = (next.relation, next.column);
        }
        None
    }
}

/// The entries of the outermost target list that refer to a column.
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
                                found.push(Origin { position, relation: oid, column: number });
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

/// Splits a node tree into braces, parentheses and words; a backslash escapes the next character.
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
    fn only_the_outermost_target_list_is_read() {
        let tree = "({QUERY :commandType 1 :rtable ({RANGETBLENTRY :subquery {QUERY :targetList ({TARGETENTRY :expr {VAR} :resno 1 :resname a :resorigtbl 9 :resorigcol 9 :resjunk false})}}) \
                    :targetList ({TARGETENTRY :expr {FUNCEXPR :args ({VAR :varno 1})} :resno 1 :resname x\\ \\( :ressortgroupref 0 :resorigtbl 0 :resorigcol 0 :resjunk false} \
                    {TARGETENTRY :expr {VAR :varno 1} :resno 2 :resname id :ressortgroupref 0 :resorigtbl 77 :resorigcol 3 :resjunk false}) :override 0 :returningList <>})";
        assert_eq!(origins(tree), [Origin { position: 2, relation: 77, column: 3 }]);
    }

    #[test]
    fn a_view_over_a_view_is_traced_to_the_table() {
        let tree = |relation: u32, column: i32| {
            format!(
                "({{QUERY :targetList ({{TARGETENTRY :resno 1 :resorigtbl {relation} :resorigcol {column}}})}})"
            )
        };
        let (inner, outer) = (tree(10, 3), tree(20, 1));
        let views = ViewOrigins::read([(20, inner.as_str()), (30, outer.as_str())]);
        let table_column = Origin { position: 1, relation: 10, column: 3 };
        assert_eq!(views.of_view(30).collect::<Vec<_>>(), [table_column]);
    }
}
