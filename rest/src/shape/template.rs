//! Plan and statements of a shape, with places for the values.
//!
//! A request is planned and rendered once more with marks in the place of its values: a parameter that holds a mark is a
//! place. Marks hold a random number, so that no request can contain one. A template counts only if it
//! gives the statements of the request it was made from, to the byte.

use std::sync::LazyLock;

use basalt_pg::session::Statement;
use basalt_pg::sql::Param;
use bytes::Bytes;
use http::Method;

use super::request::ShapedRequest;
use crate::config::RestConfig;
use crate::parse::filter::Operation;
use crate::parse::prefer::Preferences;
use crate::parse::query::QueryParams;
use crate::parse::range::RowRange;
use crate::plan::call::Arguments;
use crate::plan::mutate::{Body, Mutation};
use crate::plan::{self, Plan, ReadPlan, Returned, Source};
use crate::request::ApiRequest;
use crate::request::payload::{self, JsonShape, Payload};
use crate::schema_cache::SchemaCache;
use crate::statement::condition::operand;
use crate::statement::{self, Form, Statements};

/// A request that is ready to be executed, with all that its response needs.
#[derive(Debug)]
pub struct Prepared {
    /// The request, without what only planning reads.
    pub api: ApiRequest,
    /// The plan, without what only rendering reads.
    pub plan: Plan,
    /// Where the plan has some of its own.
    pub statements: Option<Statements>,
}

/// Everything of a shape that does not depend on values.
#[derive(Debug)]
pub struct Template {
    /// Without its trees, which are of no use once there are statements.
    plan: Plan,
    prefer: Preferences,
    main: Pattern,
    form: Form,
    estimates: Vec<Pattern>,
    max_rows: Option<u64>,
}

/// A statement with places.
#[derive(Debug)]
struct Pattern {
    statement: Statement,
    /// One for each parameter.
    places: Vec<ParamSource>,
}

/// Where a parameter comes from.
#[derive(Clone, Copy, Debug)]
enum ParamSource {
    /// From the shape.
    Fixed,
    /// The operand of this filter.
    Filter(usize),
    /// The body.
    Body,
    /// The value of this key of the body.
    Value(usize),
    /// The root's offset, and so much more.
    Offset(u128),
    /// The root's limit, and so much more.
    Limit(u128),
}

/// Texts and numbers that stand for values.
struct Marks {
    text: String,
    offset: u128,
    limit: u128,
}

/// Further than this from a mark a number is another number.
const NEAR: u128 = 1 << 64;

static MARKS: LazyLock<Marks> = LazyLock::new(|| {
    let random = u128::from(u32::from_le_bytes(basalt_core::random::bytes::<4>()));
    Marks {
        text: format!("basalt{}", basalt_core::random::token(16)),
        // Far beyond what a window of PostgreSQL's can be, and far apart.
        offset: (1 << 124) + (random << 70),
        limit: (1 << 125) + (random << 70),
    }
});

impl Marks {
    fn filter(&self, index: usize) -> String {
        format!("{}f{index}", self.text)
    }

    fn body(&self) -> Bytes {
        Bytes::from(format!("{}b", self.text))
    }

    fn value(&self, index: usize) -> String {
        format!("{}v{index}", self.text)
    }

    /// Values that are marks, alone or in arrays.
    fn values(&self, count: usize, shape: JsonShape) -> payload::Values {
        let mark = |index| match shape {
            JsonShape::Object => self.value(index),
            JsonShape::Array | JsonShape::Mixed | JsonShape::Empty => {
                format!("{{\"{}\"}}", self.value(index))
            }
        };
        (0..count).map(|index| Some(Bytes::from(mark(index)))).collect()
    }

    /// Which value's mark it is, alone or in an array.
    fn value_place(&self, bytes: &[u8]) -> Option<usize> {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_prefix("{\"").and_then(|text| text.strip_suffix("\"}")).unwrap_or(text);
        text.strip_prefix(&self.text)?.strip_prefix('v')?.parse().ok()
    }

    /// Puts the mark of filter `index` in the place of the operand.
    fn mark(&self, operation: &mut Operation, index: usize) {
        match operation {
            Operation::Compare { value, .. } => *value = self.filter(index),
            Operation::In(elements) => *elements = vec![self.filter(index)],
            Operation::IsDistinct(value) => *value = self.filter(index),
            Operation::TextSearch { query, .. } => *query = self.filter(index),
            Operation::Is(_) => {}
        }
    }

    /// The same window, of marks.
    const fn window(&self, range: RowRange) -> RowRange {
        RowRange {
            offset: if range.offset > 0 { self.offset } else { 0 },
            limit: if range.limit.is_some() { Some(self.limit) } else { None },
        }
    }

    fn place(&self, param: &Param, operations: &[Operation], body: Option<&Bytes>) -> ParamSource {
        let Some(bytes) = &param.0 else { return ParamSource::Fixed };
        if body == Some(bytes) {
            return ParamSource::Body;
        }
        if let Some(index) = self.value_place(bytes) {
            return ParamSource::Value(index);
        }
        let is_it = |operation: &Operation| operand(operation).as_ref() == Some(param);
        if let Some(index) = operations.iter().position(is_it) {
            return ParamSource::Filter(index);
        }
        let number: Option<u128> = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        match number {
            Some(number) if (self.offset..self.offset + NEAR).contains(&number) => {
                ParamSource::Offset(number - self.offset)
            }
            Some(number) if (self.limit..self.limit + NEAR).contains(&number) => {
                ParamSource::Limit(number - self.limit)
            }
            _ => ParamSource::Fixed,
        }
    }
}

impl Pattern {
    fn of(statement: Statement, marked: &[Operation], body: Option<&Bytes>) -> Self {
        let places = statement.params.iter().map(|param| MARKS.place(param, marked, body)).collect();
        Self { statement, places }
    }

    fn fill(&self, values: &Values<'_>) -> Statement {
        let given = self.statement.params.iter().zip(&self.places);
        let params = given.map(|(fixed, place)| values.at(*place).unwrap_or_else(|| fixed.clone()));
        Statement { text: self.statement.text.clone(), params: params.collect() }
    }

    fn bytes(&self) -> usize {
        let params = self.statement.params.iter().filter_map(|param| param.0.as_ref());
        self.statement.text.len() + params.map(|bytes| bytes.len() + 64).sum::<usize>()
    }
}

/// What goes into the places.
struct Values<'a> {
    operations: &'a [Operation],
    range: RowRange,
    body: Option<&'a Bytes>,
    values: &'a [Option<Bytes>],
}

impl Values<'_> {
    fn at(&self, place: ParamSource) -> Option<Param> {
        match place {
            ParamSource::Fixed => None,
            ParamSource::Filter(index) => self.operations.get(index).and_then(operand),
            ParamSource::Body => self.body.cloned().map(Param::from),
            ParamSource::Value(index) => self.values.get(index).cloned().map(Param),
            ParamSource::Offset(more) => Some(Param::from_display(self.range.offset.saturating_add(more))),
            ParamSource::Limit(more) => {
                self.range.limit.map(|limit| Param::from_display(limit.saturating_add(more)))
            }
        }
    }
}

impl Template {
    /// The template of the shape that `shaped`, read as `api` and planned to `statements`, has; `None` if it cannot be
    /// told apart what is value and what is shape.
    #[must_use]
    pub fn of(
        shaped: &ShapedRequest,
        api: &ApiRequest,
        statements: &Statements,
        config: &RestConfig,
        cache: &SchemaCache,
    ) -> Option<Self> {
        let mut marked = api.clone();
        for (index, (_, filter)) in marked.query.filters.iter_mut().enumerate() {
            MARKS.mark(&mut filter.test.operation, index);
        }
        let operations: Vec<Operation> =
            marked.query.filters.iter().map(|(_, filter)| filter.test.operation.clone()).collect();
        let mut body = None;
        if let Some(Payload::Json(payload)) = &mut marked.payload {
            payload.bytes = MARKS.body();
            payload.values = payload.values.take().map(|values| MARKS.values(values.len(), payload.shape));
            body = Some(payload.bytes.clone());
        }
        let mut plan = plan::plan(&marked, config, cache).ok()?;
        match &mut plan {
            Plan::Read(read) => read.read.range = MARKS.window(read.read.range),
            Plan::Call(call) => call.read.range = MARKS.window(call.read.range),
            // Writes do not look at the window.
            Plan::Write(_) => {}
            Plan::Root | Plan::Info { .. } => return None,
        }
        let mut rendered = render(&plan)?;
        if rendered.form != statements.form {
            // The rows of this snapshot cannot be written here.
            plan.deliver_value();
            rendered = render(&plan)?;
        }
        strip(&mut plan);
        let template = Self {
            plan,
            prefer: api.prefer.clone(),
            main: Pattern::of(rendered.main, &operations, body.as_ref()),
            form: rendered.form,
            estimates: rendered
                .estimates
                .into_iter()
                .map(|estimate| Pattern::of(estimate, &operations, body.as_ref()))
                .collect(),
            max_rows: config.max_rows,
        };
        let again = template.statements(&template.values(shaped));
        let is_same = same(&again.main, &statements.main)
            && again.form == statements.form
            && again.estimates.len() == statements.estimates.len()
            && again.estimates.iter().zip(&statements.estimates).all(|(again, first)| same(again, first));
        is_same.then_some(template)
    }

    /// A request of this shape.
    #[must_use]
    pub fn fill(&self, shaped: ShapedRequest, method: &Method, path: &str) -> Prepared {
        let values = self.values(&shaped);
        let statements = self.statements(&values);
        let window = values.range;
        let mut plan = self.plan.clone();
        match &mut plan {
            Plan::Read(read) => read.read.range = window,
            Plan::Call(call) => call.read.range = window,
            Plan::Write(_) | Plan::Root | Plan::Info { .. } => {}
        }
        let ShapedRequest { action, schema, has_profile, range, canonical_query, .. } = shaped;
        let api = ApiRequest {
            action,
            schema,
            has_profile,
            query: QueryParams::default(),
            canonical_query,
            range,
            payload: None,
            prefer: self.prefer.clone(),
            accept: Vec::new(),
            path: path.to_owned(),
            method: method.clone(),
        };
        Prepared { api, plan, statements: Some(statements) }
    }

    fn values<'a>(&self, shaped: &'a ShapedRequest) -> Values<'a> {
        let payload = shaped.payload.as_ref();
        Values {
            operations: &shaped.operations,
            range: shaped.range.capped(self.max_rows),
            body: payload.map(|payload| &payload.bytes),
            values: payload.and_then(|payload| payload.values.as_deref()).unwrap_or_default(),
        }
    }

    fn statements(&self, values: &Values<'_>) -> Statements {
        Statements {
            main: self.main.fill(values),
            form: self.form,
            estimates: self.estimates.iter().map(|estimate| estimate.fill(values)).collect(),
        }
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let patterns = std::iter::once(&self.main).chain(&self.estimates);
        1024 + patterns.map(Pattern::bytes).sum::<usize>()
    }
}

/// The statements of a plan that has some of its own.
#[must_use]
pub fn render(plan: &Plan) -> Option<Statements> {
    match plan {
        Plan::Read(read) => Some(statement::of_read(read)),
        Plan::Write(write) => Some(statement::mutate::of_write(write)),
        Plan::Call(call) => Some(statement::call::of_call(call)),
        Plan::Root | Plan::Info { .. } => None,
    }
}

/// Takes out what only rendering reads: the rest is cloned for every request.
fn strip(plan: &mut Plan) {
    match plan {
        Plan::Read(read) => strip_tree(&mut read.read),
        Plan::Call(call) => {
            strip_tree(&mut call.read);
            call.arguments = Arguments::None;
            call.returned = Returned::Star;
        }
        Plan::Write(write) => {
            strip_tree(&mut write.read);
            write.returned = Returned::Star;
            match &mut write.mutation {
                Mutation::Insert { body, .. } => strip_body(body),
                Mutation::Put { body, key } => {
                    strip_body(body);
                    key.clear();
                }
                Mutation::Update { body, conditions } => {
                    strip_body(body);
                    conditions.clear();
                }
                Mutation::Delete { conditions } => conditions.clear(),
                Mutation::Nothing => {}
            }
        }
        Plan::Root | Plan::Info { .. } => {}
    }
}

fn strip_tree(read: &mut ReadPlan) {
    *read = ReadPlan {
        source: Source::Returned,
        // Whether rows are grouped is asked for later, too.
        outputs: read.outputs.drain(..).filter(|output| output.aggregate.is_some()).take(1).collect(),
        conditions: Vec::new(),
        order: Vec::new(),
        range: read.range,
        embeds: Vec::new(),
    };
}

fn strip_body(body: &mut Body) {
    body.bytes = Bytes::new();
    body.columns = Vec::new();
    // That there are some is asked for later, too.
    body.values = body.values.take().map(|_| Vec::new());
}

fn same(a: &Statement, b: &Statement) -> bool {
    a.text == b.text && a.params == b.params
}
