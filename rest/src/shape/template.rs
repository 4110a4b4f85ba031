//! Plan and statements of a shape, with placeholders for the values.
//!
//! A request is planned and rendered a second time with markers in place of its values; parameters that contain a
//! marker become placeholders. Markers contain a random number, so that no request can contain one. A template is
//! used only if it reproduces the statements of the original request exactly.

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

/// A request ready to execute, with everything its response needs.
#[derive(Debug)]
pub struct Prepared {
    /// The request, without the parts that only planning reads.
    pub api: ApiRequest,
    /// The plan, without the parts that only rendering reads.
    pub plan: Plan,
    /// SQL statements; `None` if the plan has none of its own.
    pub statements: Option<Statements>,
}

/// The parts of a shape that do not depend on values.
#[derive(Debug)]
pub struct Template {
    /// Stripped of the trees, which are not needed after rendering.
    plan: Plan,
    prefer: Preferences,
    main: Pattern,
    form: Form,
    estimates: Vec<Pattern>,
    max_rows: Option<u64>,
}

/// A statement with placeholders.
#[derive(Debug)]
struct Pattern {
    statement: Statement,
    /// Source of each parameter.
    sources: Vec<ParamSource>,
}

/// Source of a parameter.
#[derive(Clone, Copy, Debug)]
enum ParamSource {
    /// The shape.
    Fixed,
    /// The operand of a filter, by index.
    Filter(usize),
    /// The body.
    Body,
    /// The value of a key in the body, by index.
    Value(usize),
    /// The root's offset plus a constant.
    Offset(u128),
    /// The root's limit plus a constant.
    Limit(u128),
}

/// Texts and numbers that stand for values.
struct Markers {
    text: String,
    offset: u128,
    limit: u128,
}

/// Numbers within this distance of a marker are derived from it.
const MARKER_SPAN: u128 = 1 << 64;

static MARKERS: LazyLock<Markers> = LazyLock::new(|| {
    let random = u128::from(u32::from_le_bytes(basalt_core::random::bytes::<4>()));
    Markers {
        text: format!("basalt{}", basalt_core::random::token(16)),
        // Far beyond any range that PostgreSQL supports, and far apart.
        offset: (1 << 124) + (random << 70),
        limit: (1 << 125) + (random << 70),
    }
});

impl Markers {
    fn filter(&self, index: usize) -> String {
        format!("{}f{index}", self.text)
    }

    fn body(&self) -> Bytes {
        Bytes::from(format!("{}b", self.text))
    }

    fn value(&self, index: usize) -> String {
        format!("{}v{index}", self.text)
    }

    /// Values that consist of markers, alone or in arrays.
    fn values(&self, count: usize, shape: JsonShape) -> payload::Values {
        let marker = |index| match shape {
            JsonShape::Object => self.value(index),
            JsonShape::Array | JsonShape::Mixed | JsonShape::Empty => {
                format!("{{\"{}\"}}", self.value(index))
            }
        };
        (0..count).map(|index| Some(Bytes::from(marker(index)))).collect()
    }

    /// Index of the value whose marker this is, alone or in an array.
    fn value_index(&self, bytes: &[u8]) -> Option<usize> {
        let text = std::str::from_utf8(bytes).ok()?;
        let text = text.strip_prefix("{\"").and_then(|text| text.strip_suffix("\"}")).unwrap_or(text);
        text.strip_prefix(&self.text)?.strip_prefix('v')?.parse().ok()
    }

    /// Replaces the operand by the marker of filter `index`.
    fn set_marker(&self, operation: &mut Operation, index: usize) {
        match operation {
            Operation::Compare { value, .. } => *value = self.filter(index),
            Operation::In(elements) => *elements = vec![self.filter(index)],
            Operation::IsDistinct(value) => *value = self.filter(index),
            Operation::TextSearch { query, .. } => *query = self.filter(index),
            Operation::Is(_) => {}
        }
    }

    /// The same range with markers as numbers.
    const fn marked_range(&self, range: RowRange) -> RowRange {
        RowRange {
            offset: if range.offset > 0 { self.offset } else { 0 },
            limit: if range.limit.is_some() { Some(self.limit) } else { None },
        }
    }

    fn param_source(&self, param: &Param, operations: &[Operation], body: Option<&Bytes>) -> ParamSource {
        let Some(bytes) = &param.0 else { return ParamSource::Fixed };
        if body == Some(bytes) {
            return ParamSource::Body;
        }
        if let Some(index) = self.value_index(bytes) {
            return ParamSource::Value(index);
        }
        let matches = |operation: &Operation| operand(operation).as_ref() == Some(param);
        if let Some(index) = operations.iter().position(matches) {
            return ParamSource::Filter(index);
        }
        let number: Option<u128> = std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
        match number {
            Some(number) if (self.offset..self.offset + MARKER_SPAN).contains(&number) => {
                ParamSource::Offset(number - self.offset)
            }
            Some(number) if (self.limit..self.limit + MARKER_SPAN).contains(&number) => {
                ParamSource::Limit(number - self.limit)
            }
            _ => ParamSource::Fixed,
        }
    }
}

impl Pattern {
    fn new(statement: Statement, marked: &[Operation], body: Option<&Bytes>) -> Self {
        let sources =
            statement.params.iter().map(|param| MARKERS.param_source(param, marked, body)).collect();
        Self { statement, sources }
    }

    fn fill(&self, values: &Values<'_>) -> Statement {
        let given = self.statement.params.iter().zip(&self.sources);
        let params =
            given.map(|(fixed, param_source)| values.at(*param_source).unwrap_or_else(|| fixed.clone()));
        Statement { text: self.statement.text.clone(), params: params.collect() }
    }

    fn bytes(&self) -> usize {
        let params = self.statement.params.iter().filter_map(|param| param.0.as_ref());
        self.statement.text.len() + params.map(|bytes| bytes.len() + 64).sum::<usize>()
    }
}

/// Values for the placeholders.
struct Values<'a> {
    operations: &'a [Operation],
    range: RowRange,
    body: Option<&'a Bytes>,
    values: &'a [Option<Bytes>],
}

impl Values<'_> {
    fn at(&self, param_source: ParamSource) -> Option<Param> {
        match param_source {
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
    /// Builds the template for the shape of `shaped`, which was parsed as `api` and rendered as `statements`. `None`
    /// if values and shape cannot be separated.
    #[must_use]
    pub fn new(
        shaped: &ShapedRequest,
        api: &ApiRequest,
        statements: &Statements,
        config: &RestConfig,
        cache: &SchemaCache,
    ) -> Option<Self> {
        let mut marked = api.clone();
        for (index, (_, filter)) in marked.query.filters.iter_mut().enumerate() {
            MARKERS.set_marker(&mut filter.test.operation, index);
        }
        let operations: Vec<Operation> =
            marked.query.filters.iter().map(|(_, filter)| filter.test.operation.clone()).collect();
        let mut body = None;
        if let Some(Payload::Json(payload)) = &mut marked.payload {
            payload.bytes = MARKERS.body();
            payload.values = payload.values.take().map(|values| MARKERS.values(values.len(), payload.shape));
            body = Some(payload.bytes.clone());
        }
        let mut plan = plan::plan(&marked, config, cache).ok()?;
        match &mut plan {
            Plan::Read(read) => read.read.range = MARKERS.marked_range(read.read.range),
            Plan::Call(call) => call.read.range = MARKERS.marked_range(call.read.range),
            // Writes have no root range.
            Plan::Write(_) => {}
            Plan::Root | Plan::Info { .. } => return None,
        }
        let mut rendered = render(&plan)?;
        if rendered.form != statements.form {
            // Rows of this snapshot cannot be serialised by the server.
            plan.deliver_value();
            rendered = render(&plan)?;
        }
        strip(&mut plan);
        let template = Self {
            plan,
            prefer: api.prefer.clone(),
            main: Pattern::new(rendered.main, &operations, body.as_ref()),
            form: rendered.form,
            estimates: rendered
                .estimates
                .into_iter()
                .map(|estimate| Pattern::new(estimate, &operations, body.as_ref()))
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

    /// Fills the template with the values of a request.
    #[must_use]
    pub fn fill(&self, shaped: ShapedRequest, method: &Method, path: &str) -> Prepared {
        let values = self.values(&shaped);
        let statements = self.statements(&values);
        let marked_range = values.range;
        let mut plan = self.plan.clone();
        match &mut plan {
            Plan::Read(read) => read.read.range = marked_range,
            Plan::Call(call) => call.read.range = marked_range,
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

    /// Approximate memory usage in bytes.
    pub(super) fn bytes(&self) -> usize {
        let patterns = std::iter::once(&self.main).chain(&self.estimates);
        1024 + patterns.map(Pattern::bytes).sum::<usize>()
    }
}

/// Renders the statements of a plan; `None` if it has none of its own.
#[must_use]
pub fn render(plan: &Plan) -> Option<Statements> {
    match plan {
        Plan::Read(read) => Some(statement::for_read(read)),
        Plan::Write(write) => Some(statement::mutate::for_write(write)),
        Plan::Call(call) => Some(statement::call::for_call(call)),
        Plan::Root | Plan::Info { .. } => None,
    }
}

/// Removes the parts that only rendering reads, because the rest is cloned for every request.
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
        // Keeps one aggregate, because the response depends on whether rows are grouped.
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
    // Only whether there are values matters later.
    body.values = body.values.take().map(|_| Vec::new());
}

fn same(a: &Statement, b: &Statement) -> bool {
    a.text == b.text && a.params == b.params
}
