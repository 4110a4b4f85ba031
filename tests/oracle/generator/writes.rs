//! Inserts, upserts, updates, deletes and PUT.

use super::super::model::{Column, Relation};
use super::{Draft, Generator};

impl Generator<'_> {
    pub(super) fn write(&mut self) -> Draft {
        let model = self.model;
        let writable: Vec<usize> = (0..model.relations.len())
            .filter(|index| model.relations[*index].is_table || model.relations[*index].name.contains("desk"))
            .collect();
        let index = if self.dice.once_in(10) {
            self.dice.below(model.relations.len())
        } else {
            self.dice.pick(&writable)
        };
        let relation = &model.relations[index];
        let mut draft = Draft::get(format!("/{}", relation.name));
        draft.method = self.dice.pick(&["POST", "POST", "POST", "PATCH", "PATCH", "DELETE", "PUT"]);
        if self.dice.once_in(2) {
            draft.header(
                "Prefer",
                self.dice.pick(&[
                    "return=representation",
                    "return=representation",
                    "return=headers-only",
                    "return=representation,count=exact",
                ]),
            );
            if !self.dice.once_in(3) {
                self.query(&mut draft, index);
                // A write's own filters are made below.
                draft.parameters.retain(|(key, _)| key == "select" || key.contains('.') || key == "order");
            }
        }
        match draft.method {
            "POST" => self.insert(&mut draft, relation),
            "PUT" => self.put(&mut draft, relation),
            "PATCH" => self.update(&mut draft, relation),
            _ => self.targeted(&mut draft, relation),
        }
        draft
    }

    fn update(&mut self, draft: &mut Draft, relation: &Relation) {
        self.targeted(draft, relation);
        let columns = self.columns(relation, 1, 3);
        if self.dice.once_in(8) {
            draft.header("Prefer", "missing=default");
        }
        if self.dice.once_in(5) {
            // Some of the body's, or none of them.
            let named = if self.dice.once_in(6) {
                self.columns(relation, 1, 1)
            } else {
                self.dice.some(&columns, 1, 2)
            };
            let names: Vec<_> = named.iter().map(|column| self.name(&column.name)).collect();
            draft.add("columns", names.join(","));
        }
        if self.dice.once_in(12) {
            return self.form(draft, &columns);
        }
        let row = self.row(&columns, false);
        let body = if self.dice.once_in(6) { format!("[{row}]") } else { row };
        self.json(draft, body);
    }

    fn targeted(&mut self, draft: &mut Draft, relation: &Relation) {
        let key = relation.sort_key();
        let column = relation.columns.iter().find(|column| key.first() == Some(&column.name.as_str()));
        match column {
            Some(column) if !self.dice.once_in(4) => {
                let values = self.model.values(&column.kind);
                let value = &values[self.dice.below(values.len())].text;
                let operator = self.dice.pick(&["eq", "eq", "gt", "neq"]);
                draft.add(self.name(&column.name), format!("{operator}.{value}"));
            }
            _ => self.conditions(draft, relation, "", 2),
        }
    }

    fn columns<'r>(&mut self, relation: &'r Relation, least: usize, most: usize) -> Vec<&'r Column> {
        let mut all: Vec<&Column> = relation
            .columns
            .iter()
            .filter(|column| !column.is_generated || column.kind == "bigint")
            .collect();
        if !self.dice.once_in(30) {
            all.retain(|column| !column.is_generated);
        }
        self.dice.some(&all, least, most)
    }

    fn insert(&mut self, draft: &mut Draft, relation: &Relation) {
        let mut columns = self.columns(relation, 0, 4);
        // Keys are nearly always given.
        for column in &relation.columns {
            let is_key = relation.key.contains(&column.name) && !column.is_generated;
            if is_key && !columns.iter().any(|one| one.name == column.name) && !self.dice.once_in(10) {
                columns.push(column);
            }
        }
        if self.dice.once_in(3) {
            let how = self.dice.pick(&["merge-duplicates", "ignore-duplicates"]);
            draft.header("Prefer", &format!("resolution={how}"));
            if self.dice.once_in(2) {
                let key = relation.unique.first().filter(|_| self.dice.once_in(2)).unwrap_or(&relation.key);
                let mut target: Vec<_> = key.iter().map(|column| self.name(column)).collect();
                if self.dice.misfit(15) {
                    let column = self.dice.pick(&relation.columns.iter().collect::<Vec<_>>());
                    target.push(self.name(&column.name));
                }
                draft.add("on_conflict", target.join(","));
            }
        }
        if self.dice.once_in(4) {
            draft.header("Prefer", "missing=default");
        }
        if self.dice.once_in(3) {
            let names: Vec<_> = columns.iter().map(|column| self.name(&column.name)).collect();
            draft.add("columns", names.join(","));
        }
        if self.dice.once_in(6) {
            return self.csv(draft, &columns);
        }
        if self.dice.once_in(12) {
            return self.form(draft, &columns);
        }
        let count = self.dice.below(4);
        let body = if count == 0 {
            self.row(&columns, true)
        } else {
            let rows: Vec<_> = (0..count).map(|_| self.row(&columns, true)).collect();
            format!("[{}]", rows.join(", "))
        };
        self.json(draft, body);
    }

    fn put(&mut self, draft: &mut Draft, relation: &Relation) {
        draft.parameters.retain(|(key, _)| key == "select");
        let columns: Vec<&Column> = relation.columns.iter().filter(|column| !column.is_generated).collect();
        let key: Vec<_> =
            relation.columns.iter().filter(|column| relation.key.contains(&column.name)).collect();
        let mut members = Vec::new();
        for column in columns {
            let values = self.model.values(&column.kind);
            let sample = &values[self.dice.below(values.len())];
            let in_key = key.iter().any(|one| one.name == column.name);
            if in_key && !self.dice.misfit(15) {
                draft.add(self.name(&column.name), format!("eq.{}", sample.text));
            }
            if in_key || !self.dice.once_in(5) {
                members.push(format!("{}: {}", serde_json::Value::String(column.name.clone()), sample.json));
            }
        }
        let body = format!("{{{}}}", members.join(", "));
        self.json(draft, body);
    }

    /// A JSON object; keys of new rows are mostly new.
    fn row(&mut self, columns: &[&Column], is_new: bool) -> String {
        let mut members = Vec::new();
        for column in columns {
            // Rows with other keys than the first.
            if self.dice.misfit(60) {
                continue;
            }
            let json = self.value(column, is_new).1;
            members.push(format!("{}: {json}", serde_json::Value::String(column.name.clone())));
        }
        if self.dice.misfit(60) {
            members.push("\"no_such\": 1".to_owned());
        }
        if !columns.is_empty() && self.dice.once_in(30) {
            // Once more: the last one counts.
            let column = columns[0];
            let json = self.value(column, is_new).1;
            members.push(format!("{}: {json}", serde_json::Value::String(column.name.clone())));
        }
        format!("{{{}}}", members.join(", "))
    }

    fn value(&mut self, column: &Column, is_new: bool) -> (String, String) {
        if is_new && column.kind == "integer" && !self.dice.once_in(4) {
            let number = (900 + self.dice.below(50)).to_string();
            return (number.clone(), number);
        }
        if self.dice.once_in(10) {
            return ("NULL".to_owned(), "null".to_owned());
        }
        if self.dice.misfit(30) {
            if self.dice.once_in(2) {
                const ODD: &[&str] = &[
                    "[1]",
                    "{\"a\": 1}",
                    "true",
                    "1e2",
                    "-0",
                    "1.50",
                    "12345678901234567890123",
                    "[[1, 2], [3, 4]]",
                    "[]",
                    "{}",
                    "[null, \"NULL\"]",
                    "\"\\u00e9\\ud83d\\ude00\"",
                    "\"\\u0000\"",
                    "\"{1,2}\"",
                    "\" 7 \"",
                ];
                let json = self.dice.pick(ODD);
                return (json.to_owned(), json.to_owned());
            }
            let text = self.dice.pick(&["x", "", "{", "1.5", "null"]);
            return (text.to_owned(), format!("\"{text}\""));
        }
        let values = self.model.values(&column.kind);
        let sample = &values[self.dice.below(values.len())];
        let json = if self.dice.once_in(5) {
            serde_json::Value::String(sample.text.clone()).to_string()
        } else {
            sample.json.clone()
        };
        (sample.text.clone(), json)
    }

    fn json(&mut self, draft: &mut Draft, body: String) {
        if !self.dice.once_in(8) {
            draft.header("Content-Type", "application/json");
        }
        let body = match self.dice.below(60) {
            0 => "[]".to_owned(),
            1 => "{}".to_owned(),
            2 => String::new(),
            3 => format!("{body}]"),
            4 => "null".to_owned(),
            5 => "[1, 2]".to_owned(),
            6 => format!("  {body}\n"),
            _ => body,
        };
        draft.body = Some(body);
    }

    fn csv(&mut self, draft: &mut Draft, columns: &[&Column]) {
        let field = |text: &str| {
            if text.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", text.replace('"', "\"\""))
            } else {
                text.to_owned()
            }
        };
        let mut lines = vec![columns.iter().map(|column| field(&column.name)).collect::<Vec<_>>().join(",")];
        for _ in 0..self.dice.below(4) {
            let line: Vec<_> = columns.iter().map(|column| field(&self.value(column, true).0)).collect();
            lines.push(line.join(","));
        }
        draft.header("Content-Type", "text/csv");
        let mut body = lines.join(self.dice.pick(&["\n", "\n", "\r\n"]));
        if self.dice.misfit(6) {
            body.push_str(self.dice.pick(&["\n", "\r\n", "\n\n", ",x", "\n1", " "]));
        }
        draft.body = Some(body);
    }

    fn form(&mut self, draft: &mut Draft, columns: &[&Column]) {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        for column in columns {
            let _form = form.append_pair(&column.name, &self.value(column, true).0);
        }
        draft.header("Content-Type", "application/x-www-form-urlencoded");
        draft.body = Some(form.finish());
    }
}
