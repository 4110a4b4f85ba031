//! Filters and logic trees.

use super::super::dice::Dice;
use super::super::model::{Column, Relation};
use super::{Draft, Generator};

impl Generator<'_> {
    /// Up to `most` filters and logic trees on `relation`, embedded at `path`.
    pub(super) fn conditions(&mut self, draft: &mut Draft, relation: &Relation, path: &str, most: usize) {
        if relation.columns.is_empty() {
            return;
        }
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        for _ in 0..self.dice.below(most + 1) {
            if self.dice.once_in(4) {
                let operator = self.dice.pick(&["or", "and", "not.or", "not.and"]);
                let tree = self.tree(relation, 0);
                draft.add(format!("{prefix}{operator}"), tree);
            } else {
                let (column, condition) = self.condition(relation, false);
                draft.add(format!("{prefix}{column}"), condition);
            }
        }
    }

    fn tree(&mut self, relation: &Relation, depth: usize) -> String {
        let count = 1 + self.dice.below(3);
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(if depth < 2 && self.dice.once_in(5) {
                let operator = self.dice.pick(&["or", "and", "not.or", "not.and"]);
                format!("{operator}{}", self.tree(relation, depth + 1))
            } else {
                let (column, condition) = self.condition(relation, true);
                format!("{column}.{condition}")
            });
        }
        format!("({})", nodes.join(self.dice.pick(&[",", ",", ", "])))
    }

    /// A column, with a path into it where that makes sense, and `[not.]op.value`.
    pub(super) fn condition(&mut self, relation: &Relation, in_tree: bool) -> (String, String) {
        let column = &relation.columns[self.dice.below(relation.columns.len())];
        let mut key = if self.dice.misfit(60) { "no_such".to_owned() } else { self.name(&column.name) };
        if !in_tree
            && ["select", "columns", "on_conflict", "and", "or", "order", "limit", "offset"]
                .contains(&key.as_str())
        {
            // A parameter of that name is not about the column.
            key = self.quoted_name(&key);
        }
        let mut kind = column.clone();
        if is_json(column) && !self.dice.once_in(4) || "AC".contains(column.category) && self.dice.once_in(5)
        {
            key.push_str(json_path(&mut self.dice, column));
            kind.category = 'S';
            kind.kind = if key.contains("->>") { "text" } else { "jsonb" }.to_owned();
        }
        let not = if self.dice.once_in(6) { "not." } else { "" };
        let operator = self.operator(&kind);
        let value = self.operand(&kind, operator, in_tree);
        (key, format!("{not}{operator}.{value}"))
    }

    fn operator(&mut self, column: &Column) -> &'static str {
        let dice = &mut self.dice;
        if dice.once_in(7) {
            return "is";
        }
        if dice.misfit(40) {
            return dice.pick(&[
                "like",
                "cs",
                "fts",
                "gt",
                "match",
                "adj",
                "ov",
                "sl",
                "imatch(all)",
                "wfts(english)",
                "nope",
                "eq(some)",
                "in(any)",
            ]);
        }
        match column.category {
            _ if column.kind == "tsvector" => {
                dice.pick(&["fts", "plfts", "phfts", "wfts", "fts(english)", "wfts(simple)", "eq"])
            }
            'S' if column.kind != "jsonb" => dice.pick(&[
                "eq",
                "neq",
                "gt",
                "lte",
                "like",
                "ilike",
                "match",
                "imatch",
                "in",
                "isdistinct",
                "eq(any)",
                "like(any)",
                "ilike(all)",
                "match(any)",
                "fts",
                "plfts",
            ]),
            'A' => dice.pick(&["cs", "cd", "ov", "eq", "neq", "gt", "isdistinct"]),
            'R' => dice.pick(&["cs", "cd", "ov", "sl", "sr", "nxl", "nxr", "adj", "eq", "lt"]),
            _ if column.kind.ends_with("mood_d") => "is",
            'G' | 'C' | 'Z' => dice.pick(&["eq", "isdistinct", "neq"]),
            'B' => dice.pick(&["eq", "is", "neq", "isdistinct", "in"]),
            _ if column.kind == "json" || column.kind == "xml" => "is",
            _ if is_json(column) => dice.pick(&["eq", "cs", "cd", "neq", "gt", "in"]),
            _ => dice.pick(&[
                "eq",
                "neq",
                "gt",
                "gte",
                "lt",
                "lte",
                "in",
                "isdistinct",
                "eq(any)",
                "gt(all)",
                "lt(any)",
            ]),
        }
    }

    fn operand(&mut self, column: &Column, operator: &str, in_tree: bool) -> String {
        if operator == "is" {
            let words: &[&str] = if column.category == 'B' {
                &["null", "true", "false", "unknown", "TRUE"]
            } else {
                &["null", "null", "NULL"]
            };
            return self.dice.pick(words).to_owned();
        }
        if operator.contains("fts") {
            return self.dice.pick(&["fat", "wolf", "a", "fat cat", "'cat'", "norm"]).to_owned();
        }
        let mut values: Vec<String> =
            self.model.values(&column.kind).into_iter().map(|sample| sample.text).collect();
        if self.dice.misfit(25) {
            values = vec![
                self.dice
                    .pick(&["x", "", "{", "[", "1.5", "null", "(", "\\", "99999999999999999999"])
                    .to_owned(),
            ];
        }
        let value = values[self.dice.below(values.len())].clone();
        if operator == "in" {
            let count = self.dice.below(4);
            let items: Vec<_> = (0..count)
                .map(|_| {
                    let item = &values[self.dice.below(values.len())];
                    if self.dice.once_in(3) || item.contains([',', ')', '"', '(']) {
                        quoted(item)
                    } else {
                        item.clone()
                    }
                })
                .collect();
            return format!("({})", items.join(","));
        }
        if operator.contains("like") && !operator.contains('(') {
            let start: String = value.chars().take(self.dice.below(3)).collect();
            let value =
                format!("{}{start}{}", self.dice.pick(&["", "*", "%"]), self.dice.pick(&["", "*", "_*"]));
            return if in_tree { quoted(&value) } else { value };
        }
        if operator.contains('(') {
            let items: Vec<_> = values.iter().take(self.dice.below(4)).map(|item| quoted(item)).collect();
            return format!("{{{}}}", items.join(","));
        }
        let must_quote = in_tree && (value.contains([',', ')', '(', '"', '{', '}']) || value.is_empty());
        if must_quote && self.dice.once_in(10) {
            self.is_broken = true;
            return value;
        }
        if must_quote { quoted(&value) } else { value }
    }
}

pub(super) fn is_json(column: &Column) -> bool {
    column.kind == "json" || column.kind == "jsonb" || column.kind.ends_with("doc_d")
}

/// A path that leads somewhere in some rows of json, an array or a composite.
pub(super) fn json_path(dice: &mut Dice, column: &Column) -> &'static str {
    match column.category {
        'A' => dice.pick(&["->0", "->>1", "->-1", "->>0"]),
        'C' => dice.pick(&["->x", "->>y", "->at->x", "->tags->>0", "->>label"]),
        _ => dice.pick(&[
            "->a",
            "->>b",
            "->a->c",
            "->a->c->0",
            "->a->c->2->>d",
            "->0",
            "->>0",
            "->\"a b\"",
            "->>s",
            "->a->>c",
            "->-1",
            "->k",
            "->>masts",
            "->crew->min",
            "->spires->1",
        ]),
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
