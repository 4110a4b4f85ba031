//! The generator's model of a schema, read from PostgreSQL's catalog so that schema files need no second description. Values come
//! from existing rows.

use std::collections::BTreeMap;

use basalt_testkit::TestDatabase;
use serde::Deserialize;

use super::case::Case;
use super::response::Exchange;

#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) relations: Vec<Relation>,
    foreign_keys: Vec<ForeignKey>,
    /// Views, and what each reads.
    origins: Vec<(String, String)>,
    pub(crate) functions: Vec<Function>,
    /// By type.
    #[serde(skip)]
    values: BTreeMap<String, Vec<Sample>>,
    /// By index of the relation.
    #[serde(skip)]
    pub(crate) embeds: Vec<Vec<Embed>>,
    /// Those that lead nowhere, or to several places; one in a request is enough.
    #[serde(skip)]
    pub(crate) misleading: Vec<Vec<Embed>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Relation {
    schema: String,
    pub(crate) name: String,
    pub(crate) is_table: bool,
    pub(crate) columns: Vec<Column>,
    pub(crate) key: Vec<String>,
    pub(crate) unique: Vec<Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Column {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// `typcategory`; a domain has that of its base type.
    pub(crate) category: char,
    pub(crate) is_generated: bool,
}

#[derive(Debug, Deserialize)]
struct ForeignKey {
    name: String,
    from: String,
    to: String,
    columns: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) is_set: bool,
    pub(crate) is_variadic: bool,
    pub(crate) defaults: usize,
    /// The relation whose rows it gives.
    pub(crate) returns: Option<String>,
    computed_for: Option<String>,
    pub(crate) is_composite: bool,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) outputs: Vec<Argument>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Argument {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
}

/// A value as PostgreSQL writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) text: String,
    pub(crate) json: String,
}

/// A way from one relation to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Embed {
    /// What may stand before the parentheses, without the hint.
    pub(crate) name: String,
    pub(crate) hint: Option<String>,
    pub(crate) target: usize,
    pub(crate) to_one: bool,
}

impl Model {
    /// Reads the schemas, comma-separated.
    pub(crate) async fn read(database: &TestDatabase, schemas: &str) -> Self {
        let statement = format!("set model.schemas = '{{{schemas}}}'; {}", include_str!("model.sql"));
        let mut model: Self =
            serde_json::from_str(&database.value(&statement).await).expect("the model has its form");
        for index in 0..model.relations.len() {
            model.read_values(database, index).await;
        }
        model.embeds = (0..model.relations.len()).map(|index| model.embeds_of(index)).collect();
        model.add_computed();
        model
    }

    /// A request for each way there might be from one relation to another.
    pub(crate) fn probes(&mut self) -> Vec<Case> {
        let mut probes = Vec::new();
        for (index, relation) in self.relations.iter().enumerate() {
            let mut different: Vec<Embed> = Vec::new();
            for embed in std::mem::take(&mut self.embeds[index]) {
                if !different.contains(&embed) {
                    different.push(embed);
                }
            }
            for (number, embed) in different.iter().enumerate() {
                let quote = |name: &str| format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
                let hint = embed.hint.as_ref().map(|hint| format!("!{}", quote(hint))).unwrap_or_default();
                let target = format!("/{}?select={}{hint}()&limit=0", relation.name, quote(&embed.name));
                let target: String = target
                    .replace('%', "%25")
                    .replace('+', "%2B")
                    .replace('&', "%26")
                    .replace("%26limit", "&limit")
                    .replace('#', "%23");
                probes.push(Case::get(format!("probe:{index}:{number}"), &target));
            }
            self.embeds[index] = different;
        }
        probes
    }

    /// Separates embeds that PostgREST rejected in the probes.
    pub(crate) fn learn(&mut self, responses: &[Exchange]) {
        self.misleading = vec![Vec::new(); self.relations.len()];
        let all = std::mem::take(&mut self.embeds);
        let mut responses = responses.iter();
        for (index, embeds) in all.into_iter().enumerate() {
            let (right, wrong) = embeds
                .into_iter()
                .partition(|_| responses.next().is_some_and(|response| response.postgrest.status == 200));
            self.embeds.push(right);
            self.misleading[index] = wrong;
        }
    }

    async fn read_values(&mut self, database: &TestDatabase, index: usize) {
        let relation = &self.relations[index];
        if relation.columns.is_empty() {
            return;
        }
        let cells: Vec<_> = relation
            .columns
            .iter()
            .map(|column| {
                let name = quoted(&column.name);
                format!("array[{name}::text, to_json({name})::text]")
            })
            .collect();
        let statement = format!(
            "select coalesce(json_agg(json_build_array({})), '[]') from (select * from {}.{} order by 1 limit 6) t",
            // A function takes a hundred arguments.
            cells.chunks(60).map(|part| format!("array[{}]", part.join(", "))).collect::<Vec<_>>().join(", "),
            quoted(&relation.schema),
            quoted(&relation.name)
        );
        type Row = Vec<Vec<[Option<String>; 2]>>;
        let rows: Vec<Row> = serde_json::from_str(&database.value(&statement).await).expect("rows of pairs");
        for row in rows {
            for (column, pair) in relation.columns.iter().zip(row.into_iter().flatten()) {
                let [Some(text), Some(json)] = pair else { continue };
                let samples = self.values.entry(column.kind.clone()).or_default();
                let sample = Sample { text, json };
                if samples.len() < 40 && !samples.contains(&sample) {
                    samples.push(sample);
                }
            }
        }
    }

    /// Values of a type; those of an array's element or a type that no column has are made up.
    pub(crate) fn values(&self, kind: &str) -> Vec<Sample> {
        match self.values.get(kind) {
            Some(values) => values.clone(),
            None => ["1", "a", "{}"]
                .map(|text| Sample { text: text.to_owned(), json: format!("\"{text}\"") })
                .to_vec(),
        }
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.relations.iter().position(|relation| relation.name == name)
    }

    /// Whether `of` is `base` or a view that shows it.
    fn stands_for(&self, of: &str, base: &str) -> bool {
        let is_view_of =
            |view: &str, base: &str| self.origins.iter().any(|(left, right)| left == view && right == base);
        of == base
            || is_view_of(of, base)
            || self.origins.iter().any(|(view, middle)| view == of && is_view_of(middle, base))
    }

    fn embeds_of(&self, index: usize) -> Vec<Embed> {
        let origin = &self.relations[index].name;
        let mut embeds = Vec::new();
        for key in &self.foreign_keys {
            let single = key.columns.first().filter(|_| key.columns.len() == 1);
            let mut hints = vec![None, Some(key.name.clone())];
            hints.extend(single.map(|column| Some(column.clone())));
            for (target, relation) in self.relations.iter().enumerate() {
                let mut add = |name: &str, hint: Option<String>, to_one: bool| {
                    embeds.push(Embed { name: name.to_owned(), hint, target, to_one });
                };
                if self.stands_for(origin, &key.from) && self.stands_for(&relation.name, &key.to) {
                    for hint in &hints {
                        add(&relation.name, hint.clone(), true);
                    }
                    if relation.name == key.to {
                        add(&key.name, None, true);
                        if let Some(column) = single {
                            add(column, None, true);
                        }
                    }
                }
                if self.stands_for(origin, &key.to) && self.stands_for(&relation.name, &key.from) {
                    for hint in &hints {
                        add(&relation.name, hint.clone(), false);
                    }
                }
                // Through a junction.
                for other in
                    self.foreign_keys.iter().filter(|other| other.from == key.from && other.name != key.name)
                {
                    if self.stands_for(origin, &key.to) && self.stands_for(&relation.name, &other.to) {
                        add(&relation.name, None, false);
                        add(&relation.name, Some(key.from.clone()), false);
                    }
                }
            }
        }
        embeds
    }

    fn add_computed(&mut self) {
        for function in &self.functions {
            let Some(origin) = function.computed_for.as_deref().and_then(|name| self.position(name)) else {
                continue;
            };
            match function.returns.as_deref().and_then(|name| self.position(name)) {
                Some(target) => {
                    for _ in 0..3 {
                        self.embeds[origin].push(Embed {
                            name: function.name.clone(),
                            hint: None,
                            target,
                            to_one: !function.is_set,
                        });
                    }
                }
                None => self.relations[origin].columns.push(Column {
                    name: function.name.clone(),
                    kind: "text".to_owned(),
                    category: 'S',
                    is_generated: true,
                }),
            }
        }
    }
}

impl Relation {
    /// Columns that put every row into its place.
    pub(crate) fn sort_key(&self) -> Vec<&str> {
        if !self.key.is_empty() {
            return self.key.iter().map(String::as_str).collect();
        }
        let is_sortable = |column: &&Column| "NSBDTEIV".contains(column.category) && !column.is_generated;
        self.columns.iter().filter(is_sortable).map(|column| column.name.as_str()).collect()
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
