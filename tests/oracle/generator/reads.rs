//! Reads: select lists, embeds, spreads, aggregates, order and pages.

use super::super::model::{Column, Embed, Relation};
use super::conditions::{is_json, json_path};
use super::{Draft, Generator};

impl Generator<'_> {
    pub(super) fn read(&mut self) -> Draft {
        let model = self.model;
        let index = self.dice.below(model.relations.len());
        let relation = &model.relations[index];
        let mut draft = Draft::get(format!("/{}", relation.name));
        self.query(&mut draft, index);
        if self.dice.once_in(4) {
            let limit = self.dice.pick(&[
                "1",
                "1",
                "2",
                "2",
                "3",
                "0",
                "-1",
                "x",
                "2 ",
                "01",
                "1.5",
                "+1",
                "",
                "99999999999999999999",
            ]);
            draft.add("limit", limit);
        }
        if self.dice.once_in(5) {
            let offset = self.dice.pick(&["0", "1", "2", "3", "100", "x", "-1", "", "99999999999999999999"]);
            draft.add("offset", offset);
        }
        draft
    }

    /// `select`, filters and order of a relation.
    pub(super) fn query(&mut self, draft: &mut Draft, index: usize) {
        let relation = &self.model.relations[index];
        if !self.dice.once_in(10) {
            let is_aggregate = self.dice.once_in(15);
            let select =
                if is_aggregate { self.aggregates(relation) } else { self.select(draft, index, "", 0) };
            if is_aggregate {
                // Groups come in any order.
                let (mut items, mut groups) = select;
                if self.dice.once_in(3) {
                    (items, groups) = self.grouped_by_embed(index);
                }
                let select = (items, ());
                if !groups.is_empty() {
                    draft.add("order", groups.join(","));
                }
                draft.parameters.insert(0, ("select".to_owned(), select.0));
                self.conditions(draft, relation, "", 2);
                return;
            }
            draft.parameters.insert(0, ("select".to_owned(), select.0));
        }
        self.conditions(draft, relation, "", 3);
        self.order(draft, relation, "");
    }

    /// The text of the list, and nothing.
    fn select(&mut self, draft: &mut Draft, index: usize, path: &str, depth: usize) -> (String, Vec<String>) {
        let relation = &self.model.relations[index];
        let mut items = Vec::new();
        if self.dice.once_in(5) || relation.columns.is_empty() {
            items.push("*".to_owned());
        } else {
            let columns = self.dice.some(&relation.columns, 1, 4);
            items.extend(columns.iter().map(|column| self.field(column)));
        }
        let mut embeds = &self.model.embeds[index];
        let mut count = if depth < 3 { self.dice.below(3 - depth.min(1)) } else { 0 };
        if count > 0 && self.dice.misfit(20) {
            embeds = &self.model.misleading[index];
            count = 1;
        }
        let mut taken: Vec<(String, bool)> = Vec::new();
        let chosen = self.dice.some(embeds, count, count);
        for embed in &chosen {
            let number = items.len();
            let is_only = chosen.iter().filter(|other| other.name == embed.name).count() == 1;
            let alias = self.dice.once_in(3).then(|| format!("e{number}"));
            let own = alias.clone().unwrap_or_else(|| embed.name.clone());
            // Two embeds of one name cannot be distinguished in filters.
            let has_alias = alias.is_some();
            if taken.iter().any(|(name, other)| *name == embed.name && !(has_alias && *other)) {
                continue;
            }
            taken.push((embed.name.clone(), has_alias));
            // By the name of the target, although it has another; of two that have an alias the contract does not say which is meant.
            let called = if is_only && self.dice.once_in(15) { &embed.name } else { &own };
            let item = self.embed(draft, embed, alias, called, path, depth);
            self.mention(draft, relation, embed, &item, &own, path);
            items.push(item);
        }
        let comma = self.dice.pick(&[",", ",", ", "]);
        (items.join(comma), Vec::new())
    }

    /// What a level may say of an embed of its own: a null filter in a logic tree, and an order by a column it shows.
    fn mention(
        &mut self,
        draft: &mut Draft,
        relation: &Relation,
        embed: &Embed,
        item: &str,
        own: &str,
        path: &str,
    ) {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let is_spread = item.starts_with("...");
        let own = self.name(if is_spread { &embed.name } else { own });
        if self.dice.once_in(12) && !is_spread {
            let (column, condition) = self.condition(relation, true);
            let operator = self.dice.pick(&["or", "and", "not.or"]);
            let test = self.dice.pick(&["is.null", "not.is.null"]);
            draft.add(format!("{prefix}{operator}"), format!("({own}.{test},{column}.{condition})"));
        }
        // Not what an embed inside it shows.
        let inside =
            item.split_once('(').and_then(|(_, inside)| inside.strip_suffix(')')).unwrap_or_default();
        let shown: Vec<_> = match inside.contains('(') {
            true => Vec::new(),
            false => inside.split(',').map(str::trim).collect(),
        };
        let target = &self.model.relations[embed.target];
        let sortable = target
            .columns
            .iter()
            .filter(|column| "NSBDETIV".contains(column.category) && shown.contains(&column.name.as_str()));
        let sortable: Vec<_> = sortable.collect();
        let key = relation.sort_key();
        let documents: Vec<_> = target.columns.iter().filter(|column| is_json(column)).collect();
        if (embed.to_one || self.dice.misfit(10))
            && !sortable.is_empty()
            && !key.is_empty()
            && self.dice.once_in(5)
        {
            let column = self.dice.pick(&sortable);
            let direction = self.dice.pick(&["", ".desc", ".desc.nullslast", ".nullsfirst"]);
            let mut terms = vec![format!("{own}({}){direction}", self.name(&column.name))];
            if !documents.is_empty() && self.dice.once_in(3) {
                let document = self.dice.pick(&documents);
                let place = json_path(&mut self.dice, document);
                terms.insert(0, format!("{own}({}{place})", self.name(&document.name)));
            }
            terms.extend(key.into_iter().map(|column| self.name(column)));
            draft.add(format!("{prefix}order"), terms.join(","));
        }
    }

    fn embed(
        &mut self,
        draft: &mut Draft,
        embed: &Embed,
        alias: Option<String>,
        own: &str,
        path: &str,
        depth: usize,
    ) -> String {
        let is_spread = embed.to_one && alias.is_none() && self.dice.once_in(4);
        let own = self.name(if is_spread { &embed.name } else { own });
        let path = if path.is_empty() { own } else { format!("{path}.{own}") };
        let target = &self.model.relations[embed.target];
        let inside = if !is_spread && self.dice.once_in(12) {
            String::new()
        } else if !is_spread && self.dice.once_in(12) {
            // The column that PostgreSQL takes for the aggregate is the whole list; or there are aggregates.
            let (items, groups) = if self.dice.once_in(2) {
                let item = self.dice.pick(&["count", "count", "n:count", "count::text"]);
                (item.to_owned(), Vec::new())
            } else {
                self.aggregates(target)
            };
            if !groups.is_empty() {
                draft.add(format!("{path}.order"), groups.join(","));
            }
            if self.dice.once_in(3) {
                self.conditions(draft, target, &path, 2);
            }
            let prefix = alias.map_or_else(String::new, |alias| format!("{alias}:"));
            let hint = embed.hint.as_deref().map(|hint| format!("!{}", self.name(hint))).unwrap_or_default();
            return format!("{prefix}{}{hint}({items})", self.name(&embed.name));
        } else if is_spread && self.dice.once_in(8) {
            self.aggregates(target).0
        } else {
            self.select(draft, embed.target, &path, depth + 1).0
        };
        let hint = embed.hint.as_deref().map(|hint| format!("!{}", self.name(hint))).unwrap_or_default();
        let join = self.dice.pick(&["", "", "", "", "!inner", "!left"]);
        let modifiers = if self.dice.once_in(2) { format!("{hint}{join}") } else { format!("{join}{hint}") };
        if self.dice.once_in(3) {
            self.conditions(draft, target, &path, 2);
        }
        self.order(draft, target, &path);
        if self.dice.once_in(6) {
            let limit = self.dice.pick(&["1", "2", "0"]);
            draft.add(format!("{path}.limit"), limit);
        }
        if self.dice.once_in(10) {
            draft.add(format!("{path}.offset"), "1");
        }
        if self.dice.once_in(8) {
            let test = self.dice.pick(&["is.null", "not.is.null"]);
            draft.add(path, test);
        }
        let prefix = match alias {
            _ if is_spread => "...".to_owned(),
            Some(alias) => format!("{alias}:"),
            None => String::new(),
        };
        format!("{prefix}{}{modifiers}({inside})", self.name(&embed.name))
    }

    fn field(&mut self, column: &Column) -> String {
        let mut field =
            if self.dice.once_in(6) { format!("a{}:", self.dice.below(3)) } else { String::new() };
        if self.dice.misfit(60) {
            field.push_str(
                self.dice.pick(&["no_such", "no_such", "ctid", "tableoid", "count", "text", "oid"]),
            );
        } else {
            field.push_str(&self.name(&column.name));
        }
        if is_json(column) && !self.dice.once_in(3) || "AC".contains(column.category) && self.dice.once_in(4)
        {
            field.push_str(json_path(&mut self.dice, column));
        }
        if self.dice.once_in(10) {
            const TYPES: &[&str] = &[
                "text",
                "text",
                "varchar",
                "name",
                "int",
                "numeric",
                "jsonb",
                "json",
                "double precision",
                "nope",
            ];
            field.push_str("::");
            field.push_str(self.dice.pick(TYPES));
        }
        field
    }

    /// An aggregating list, and the columns it groups by.
    fn aggregates(&mut self, relation: &Relation) -> (String, Vec<String>) {
        let sortable: Vec<_> =
            relation.columns.iter().filter(|column| "NSBDE".contains(column.category)).collect();
        let groups: Vec<String> =
            self.dice.some(&sortable, 0, 2).into_iter().map(|column| self.name(&column.name)).collect();
        let mut items = groups.clone();
        for _ in 0..=self.dice.below(2) {
            let alias = if self.dice.once_in(3) { format!("n{}:", items.len()) } else { String::new() };
            let cast = if self.dice.once_in(4) { "::text" } else { "" };
            let numbers: Vec<_> = relation.columns.iter().filter(|column| column.category == 'N').collect();
            items.push(if numbers.is_empty() || self.dice.once_in(3) {
                format!("{alias}count(){cast}")
            } else {
                let column = self.dice.pick(&numbers);
                let function = self.dice.pick(&["sum", "min", "max", "count", "avg"]);
                let before = if self.dice.once_in(5) { "::numeric" } else { "" };
                format!("{alias}{}{before}.{function}(){cast}", self.name(&column.name))
            });
        }
        (items.join(","), groups)
    }

    /// An aggregate beside the key and a to-one embed, by which is grouped as well.
    fn grouped_by_embed(&mut self, index: usize) -> (String, Vec<String>) {
        let relation = &self.model.relations[index];
        let groups: Vec<String> = relation.sort_key().into_iter().map(|column| self.name(column)).collect();
        let mut items = groups.clone();
        let embeds: Vec<_> = self.model.embeds[index].iter().filter(|embed| embed.to_one).collect();
        if !embeds.is_empty() {
            let embed = self.dice.pick(&embeds);
            let target = &self.model.relations[embed.target];
            let shown: Vec<String> =
                self.dice.some(&target.columns, 1, 2).iter().map(|column| self.name(&column.name)).collect();
            let hint = embed.hint.as_deref().map(|hint| format!("!{}", self.name(hint))).unwrap_or_default();
            let spread = self.dice.pick(&["", "", "..."]);
            items.push(format!("{spread}{}{hint}({})", self.name(&embed.name), shown.join(",")));
        }
        items.push("n:count()".to_owned());
        (items.join(","), groups)
    }

    /// Sometimes by something, always by the key.
    fn order(&mut self, draft: &mut Draft, relation: &Relation, path: &str) {
        let mut terms = Vec::new();
        let sortable: Vec<_> =
            relation.columns.iter().filter(|column| "NSBDETIV".contains(column.category)).collect();
        let documents: Vec<_> = relation.columns.iter().filter(|column| is_json(column)).collect();
        if !documents.is_empty() && self.dice.once_in(6) {
            let column = self.dice.pick(&documents);
            let path = json_path(&mut self.dice, column);
            terms.push(format!(
                "{}{path}{}",
                self.name(&column.name),
                self.dice.pick(&["", ".desc", ".nullsfirst"])
            ));
        }
        if self.dice.once_in(3) && !sortable.is_empty() {
            let column = self.dice.pick(&sortable);
            terms.push(format!(
                "{}{}{}",
                self.name(&column.name),
                self.dice.pick(&["", ".asc", ".desc"]),
                self.dice.pick(&["", ".nullsfirst", ".nullslast"])
            ));
        }
        if self.dice.misfit(60) && !relation.columns.is_empty() {
            let column = &relation.columns[self.dice.below(relation.columns.len())].name;
            terms.push(if self.dice.once_in(2) { "no_such".to_owned() } else { self.name(column) });
        }
        terms.extend(relation.sort_key().into_iter().map(|column| self.name(column)));
        if !terms.is_empty() {
            let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
            draft.add(format!("{prefix}order"), terms.join(","));
        }
    }
}
