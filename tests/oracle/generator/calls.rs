//! Calls of functions.

use super::super::model::Function;
use super::{Draft, Generator};

impl Generator<'_> {
    pub(super) fn call(&mut self) -> Draft {
        let model = self.model;
        let mut function = &model.functions[self.dice.below(model.functions.len())];
        // What a value without a type is, is another question.
        while function.arguments.iter().any(|argument| argument.kind.starts_with("any")) {
            function = &model.functions[self.dice.below(model.functions.len())];
        }
        let mut draft = Draft::get(format!("/rpc/{}", function.name));
        if !self.dice.once_in(3) {
            draft.method = "POST";
        }
        self.arguments(&mut draft, function);
        if function.is_composite || self.dice.once_in(10) {
            match function.returns.as_deref().and_then(|name| model.position(name)) {
                Some(index) => self.query(&mut draft, index),
                None => self.outputs(&mut draft, function),
            }
            if self.dice.once_in(6) {
                let limit = self.dice.pick(&["1", "2"]);
                draft.add("limit", limit);
            }
        }
        draft
    }

    fn arguments(&mut self, draft: &mut Draft, function: &Function) {
        let required = function.arguments.len().saturating_sub(function.defaults);
        let mut members = Vec::new();
        for (index, argument) in function.arguments.iter().enumerate() {
            if index >= required && self.dice.once_in(2) || self.dice.misfit(40) {
                continue;
            }
            if argument.name.is_empty() {
                continue;
            }
            // 12 makes a string of it; rest.md §3.10 has it cast to the type.
            let is_json = argument.kind.contains("json") || argument.kind.ends_with("doc_d");
            if draft.method == "GET" && is_json {
                draft.method = "POST";
            }
            let is_variadic = function.is_variadic && index + 1 == function.arguments.len();
            let values = self.model.values(&argument.kind);
            let sample = &values[self.dice.below(values.len())];
            let (mut text, mut json) = (sample.text.clone(), sample.json.clone());
            if self.dice.misfit(25) {
                text =
                    self.dice.pick(&["x", "", "null", "{", "1.5", "[1]", "eq.1", "not.is.null"]).to_owned();
                json = self
                    .dice
                    .pick(&["\"x\"", "\"\"", "null", "{}", "1.5", "[1]", "true", "[[1],[2]]"])
                    .to_owned();
            }
            if self.dice.once_in(12) {
                json = "null".to_owned();
            } else if self.dice.once_in(6) {
                json = serde_json::Value::String(text.clone()).to_string();
            }
            if draft.method == "GET" {
                draft.add(argument.name.as_str(), text);
                if is_variadic && self.dice.once_in(2) {
                    draft.parameters.pop();
                    for _ in 0..=self.dice.below(3) {
                        let value = self.dice.pick(&["1", "2", "x", "3"]);
                        draft.add(argument.name.as_str(), value);
                    }
                }
            } else {
                members.push(format!("{}: {json}", serde_json::Value::String(argument.name.clone())));
            }
        }
        if self.dice.misfit(25) {
            match draft.method {
                "GET" => draft.add("extra", "1"),
                _ => members.push("\"extra\": 1".to_owned()),
            }
        }
        if draft.method == "POST" {
            if self.dice.once_in(10) {
                let names: Vec<String> = function
                    .arguments
                    .iter()
                    .map(|argument| argument.name.clone())
                    .filter(|name| !name.is_empty())
                    .collect();
                let names: Vec<_> = self.dice.some(&names, 1, 3).iter().map(|name| self.name(name)).collect();
                if !names.is_empty() {
                    draft.add("columns", names.join(","));
                }
            }
            self.body(draft, &members.join(", "));
        }
    }

    fn body(&mut self, draft: &mut Draft, members: &str) {
        let (kind, body) = match self.dice.below(14) {
            0 => ("application/json", format!("[{{{members}}}]")),
            1 => ("application/json", format!("[{{{members}}}, {{{members}}}]")),
            2 => ("text/plain", "plain text".to_owned()),
            3 => ("application/octet-stream", "bytes\u{0}".to_owned()),
            4 => ("text/xml", "<a>b</a>".to_owned()),
            5 if !members.contains(['{', '[']) => ("application/x-www-form-urlencoded", form(members)),
            6 if self.dice.once_in(2) => ("application/json", String::new()),
            7 if self.dice.once_in(2) => ("text/csv", "v\n1".to_owned()),
            _ => ("application/json", format!("{{{members}}}")),
        };
        draft.header("Content-Type", kind);
        draft.body = Some(body);
    }

    /// A part of what a function with output parameters gives.
    fn outputs(&mut self, draft: &mut Draft, function: &Function) {
        if function.outputs.is_empty() || self.dice.once_in(3) {
            return;
        }
        let names: Vec<_> = function.outputs.iter().map(|output| output.name.clone()).collect();
        let chosen: Vec<_> = self.dice.some(&names, 1, 2).iter().map(|output| self.name(output)).collect();
        draft.add("select", chosen.join(","));
        let column = &function.outputs[self.dice.below(function.outputs.len())];
        if self.dice.once_in(3) {
            let filter = self.dice.pick(&["is.null", "not.is.null", "eq.1"]);
            draft.add(self.name(&column.name), filter);
        }
    }
}

/// Members of a JSON object as a form.
fn form(members: &str) -> String {
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&format!("{{{members}}}")).unwrap_or_default();
    let mut form = url::form_urlencoded::Serializer::new(String::new());
    for (key, value) in object {
        let _form = form.append_pair(&key, value.as_str().unwrap_or(&value.to_string()));
    }
    form.finish()
}
