//! Calls: which function, with which arguments, and what its result is (rest.md §3.10).

use basalt_pg::session::Access;
use bytes::Bytes;

use super::read::Tree;
use super::returned::returned;
use super::{
    BodyFormat, Common, Delivery, Output, ReadPlan, Returned, Source, Value, delivery, isolation, media,
    preferences,
};
use crate::config::RestConfig;
use crate::error::{Named, Object, RestError, RoutineUnknown};
use crate::parse::media::MediaType;
use crate::parse::prefer::Count;
use crate::request::payload::{JsonShape, Payload};
use crate::request::{ApiRequest, CallVerb};
use crate::schema_cache::routines::{Choice, RawBody, Routine, RoutineParam, RowShape, Volatility, choose};
use crate::schema_cache::{QualifiedName, SchemaCache};
use crate::suggest;

/// A call and what it answers.
#[derive(Debug, Clone)]
pub struct CallPlan {
    /// What every plan has.
    pub common: Common,
    /// The function.
    pub routine: QualifiedName,
    /// What it is called with.
    pub arguments: Arguments,
    /// What its result is.
    pub result: CallResult,
    /// What of its rows is handed to the read over them.
    pub returned: Returned,
    /// The read over them.
    pub read: ReadPlan,
    /// The body.
    pub format: BodyFormat,
    /// HEAD.
    pub head: bool,
    /// How the rows reach us.
    pub delivery: Delivery,
}

/// What a function's result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// No body.
    Void,
    /// One value, in the column `pgrst_scalar`.
    Scalar,
    /// Many values.
    Scalars,
    /// One row.
    Row,
    /// Many rows.
    Rows,
}

/// What a function is called with.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// Nothing.
    None,
    /// Values of a JSON object, or of the first object of an array.
    Json {
        /// The JSON text.
        bytes: Bytes,
        /// Object or array.
        shape: JsonShape,
        /// The parameters that are in it.
        params: Vec<RoutineParam>,
    },
    /// Text literals.
    Literals(Vec<(RoutineParam, Literal)>),
    /// The whole body, for the single unnamed parameter.
    Body {
        /// The body.
        bytes: Bytes,
        /// The parameter.
        param: RoutineParam,
    },
}

impl CallPlan {
    /// Whether the arguments in the statement are made of the body and not slices of it.
    #[must_use]
    pub fn has_values(&self) -> bool {
        match &self.arguments {
            Arguments::Literals(_) => true,
            Arguments::Body { param, .. } => param.type_name == "bytea",
            Arguments::None | Arguments::Json { .. } => false,
        }
    }
}

/// A text literal, or the elements of a variadic one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// One value.
    One(String),
    /// Elements of an array.
    Many(Vec<String>),
}

/// Plans a call.
///
/// # Errors
/// Steps 9 to 16 of rest.md §1.2.
pub fn plan(
    request: &ApiRequest,
    name: &str,
    verb: CallVerb,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<CallPlan, RestError> {
    let (routine, arguments) = find(request, name, cache)?;
    let result = match (&routine.returns.row, routine.returns.set) {
        (RowShape::Void, _) => CallResult::Void,
        (RowShape::Scalar, false) => CallResult::Scalar,
        (RowShape::Scalar, true) => CallResult::Scalars,
        (RowShape::Composite(_), false) => CallResult::Row,
        (RowShape::Composite(_), true) => CallResult::Rows,
    };
    let relation = match &routine.returns.row {
        RowShape::Composite(name) => cache.relation(&name.schema, &name.name),
        RowShape::Scalar | RowShape::Void => None,
    };
    let mut legacy_names = Vec::new();
    let (read, returned) = match &routine.returns.row {
        RowShape::Composite(_) => {
            let mut tree = Tree::of(request, config)?;
            let mut read = tree.read(Source::Returned, relation, config.max_rows, cache)?;
            legacy_names = tree.legacy_names;
            let returned = returned(&mut read, relation, &[]);
            (read, returned)
        }
        // Conditions and columns apply to values too: PostgreSQL then says that it has no such column.
        RowShape::Scalar => {
            let read = Tree::of(request, config)?.read(Source::Returned, None, config.max_rows, cache)?;
            (read, Returned::Star)
        }
        RowShape::Void => (whole_rows(request, config), Returned::Star),
    };
    let format = media::for_routine(request, routine, relation, config, cache)?;
    preferences::check(request)?;
    let applied = preferences::applied(request, config, None);

    let (access, head) = match verb {
        CallVerb::Get { head } => (Access::ReadOnly, head),
        CallVerb::Post if routine.volatility == Volatility::Volatile => (Access::ReadWrite, false),
        CallVerb::Post => (Access::ReadOnly, false),
    };
    let common = Common::writing(request, config);
    if common.max_affected.is_some() && !routine.returns.set {
        return Err(RestError::MaxAffectedRoutine);
    }
    let count = common.count.filter(|count| *count != Count::Planned).map(|_| Count::Exact);
    // What turns out not to be writable here is asked for once more, and a function that may write runs once only.
    let is_repeatable = result == CallResult::Rows && access == Access::ReadOnly && !head;
    let delivery =
        if is_repeatable { delivery::of(&read, relation, &format, cache) } else { Delivery::Value };
    Ok(CallPlan {
        common: Common {
            access,
            isolation: routine.isolation.as_deref().map(isolation),
            settings: routine.settings.clone(),
            applied,
            legacy_names,
            embeds: !read.embeds.is_empty(),
            count,
            ..common
        },
        routine: routine.name.clone(),
        arguments,
        result,
        returned,
        read,
        format,
        head,
        delivery,
    })
}

/// The read over what is no value: it just happens.
fn whole_rows(request: &ApiRequest, config: &RestConfig) -> ReadPlan {
    ReadPlan {
        source: Source::Returned,
        outputs: vec![Output { value: Value::Star, aggregate: None, name: None }],
        conditions: Vec::new(),
        order: Vec::new(),
        range: request.range.capped(config.max_rows),
        embeds: Vec::new(),
    }
}

/// Whether OPTIONS of a function may only POST.
///
/// # Errors
/// No function of that name (PGRST202).
pub(super) fn info(request: &ApiRequest, name: &str, cache: &SchemaCache) -> Result<bool, RestError> {
    match cache.routines_named(&request.schema, name) {
        [] => Err(unknown(request, name, &[], RawBody::None, cache)),
        overloads => Ok(overloads.iter().all(|routine| routine.volatility == Volatility::Volatile)),
    }
}

/// The function that the argument names choose, and its arguments.
fn find<'c>(
    request: &ApiRequest,
    name: &str,
    cache: &'c SchemaCache,
) -> Result<(&'c Routine, Arguments), RestError> {
    let (mut names, raw): (Vec<&str>, RawBody) = match &request.payload {
        None => (request.query.arguments.iter().map(|(name, _)| name.as_str()).collect(), RawBody::None),
        Some(Payload::Form(pairs)) => (pairs.iter().map(|(name, _)| name.as_str()).collect(), RawBody::None),
        Some(Payload::Json(payload)) => {
            let raw = if payload.is_body { RawBody::Json } else { RawBody::None };
            (payload.keys.iter().map(String::as_str).collect(), raw)
        }
        Some(Payload::Raw { media, .. }) => (Vec::new(), raw_body(media)),
    };
    names.sort_unstable();
    names.dedup();
    let overloads = cache.routines_named(&request.schema, name);
    let choice = choose(overloads, &names, raw);
    let unnamed = match &choice {
        Choice::Unnamed(_) => true,
        // The default of an unnamed parameter is for calls without a body.
        Choice::Named(routine) => routine.is_unnamed(),
        Choice::None | Choice::Ambiguous(_) => false,
    };
    if let (Some(Payload::Json(payload)), false) = (&request.payload, unnamed) {
        payload.refuse_mixed()?;
    }
    let routine = match choice {
        Choice::Named(routine) | Choice::Unnamed(routine) => routine,
        Choice::None => return Err(unknown(request, name, &names, raw, cache)),
        Choice::Ambiguous(mut routines) => {
            routines.sort_by_key(|routine| {
                let params: Vec<_> = routine.params.iter().map(|p| (&p.name, &p.type_name)).collect();
                (params.len(), &routine.comment, params)
            });
            let named = |routine: &Routine| Named {
                text: routine.signature(),
                object: Object::new(&request.schema, name, format!("overload {}", routine.parameters())),
            };
            let signatures = routines.into_iter().map(named).collect();
            return Err(RestError::RoutineAmbiguous { signatures });
        }
    };
    let arguments = match &request.payload {
        None => literals(routine, &request.query.arguments),
        Some(Payload::Form(pairs)) => literals(routine, pairs),
        Some(Payload::Json(payload)) if unnamed => body(routine, &payload.bytes),
        Some(Payload::Raw { bytes, .. }) if unnamed => body(routine, bytes),
        // It needs nothing, and is given nothing.
        Some(Payload::Raw { .. }) => Arguments::None,
        Some(Payload::Json(payload)) => {
            let given = |param: &&RoutineParam| names.contains(&param.name.as_str());
            let params: Vec<RoutineParam> = routine.params.iter().filter(given).cloned().collect();
            if params.is_empty() {
                Arguments::None
            } else {
                Arguments::Json { bytes: payload.bytes.clone(), shape: payload.shape, params }
            }
        }
    };
    Ok((routine, arguments))
}

fn raw_body(media: &MediaType) -> RawBody {
    match media {
        MediaType::TextXml => RawBody::Xml,
        MediaType::OctetStream => RawBody::Bytes,
        MediaType::TextPlain
        | MediaType::Any
        | MediaType::Json
        | MediaType::ArrayStripped
        | MediaType::Singular { .. }
        | MediaType::Csv
        | MediaType::GeoJson
        | MediaType::OpenApi
        | MediaType::Plan(_)
        | MediaType::UrlEncoded
        | MediaType::Other(_) => RawBody::Text,
    }
}

fn body(routine: &Routine, bytes: &Bytes) -> Arguments {
    match routine.params.first() {
        Some(param) => Arguments::Body { bytes: bytes.clone(), param: param.clone() },
        None => Arguments::None,
    }
}

/// Text literals by parameter: of a repeated one the last counts, but a variadic one collects.
fn literals(routine: &Routine, pairs: &[(String, String)]) -> Arguments {
    let literal = |param: &RoutineParam| {
        let mut values = pairs.iter().filter(|(name, _)| *name == param.name).map(|(_, value)| value.clone());
        if param.variadic {
            let values: Vec<String> = values.collect();
            return (!values.is_empty()).then_some(Literal::Many(values));
        }
        values.next_back().map(Literal::One)
    };
    let given: Vec<(RoutineParam, Literal)> = routine
        .params
        .iter()
        .filter_map(|param| literal(param).map(|literal| (param.clone(), literal)))
        .collect();
    if given.is_empty() { Arguments::None } else { Arguments::Literals(given) }
}

fn unknown(request: &ApiRequest, name: &str, names: &[&str], raw: RawBody, cache: &SchemaCache) -> RestError {
    let schema = &request.schema;
    let overloads = cache.routines_named(schema, name);
    let similar = if raw.is_opaque() || !cache.is_searched(schema) {
        // A text, XML or binary body fits one kind of function only, whatever its name is like.
        Vec::new()
    } else if overloads.is_empty() {
        let named =
            |name: &str| Named { text: name.to_owned(), object: Object::new(schema, name, "function") };
        let similar = suggest::ranked(cache.routine_names(schema), name, suggest::NAME_SIMILARITY);
        similar.into_iter().map(named).collect()
    } else if names.is_empty() {
        Vec::new()
    } else {
        let lists: Vec<String> = overloads
            .iter()
            .map(|routine| {
                let mut params: Vec<&str> = routine.params.iter().map(|param| param.name.as_str()).collect();
                params.sort_unstable();
                format!("({})", params.join(", "))
            })
            .collect();
        let wanted = format!("({})", names.join(", "));
        let named = |list: &str| {
            let text = format!("{name}{list}");
            Named { object: Object::new(schema, name, text.clone()), text }
        };
        let similar = suggest::ranked(lists.iter().map(String::as_str), &wanted, suggest::LOOSE_SIMILARITY);
        similar.into_iter().map(named).collect()
    };
    RestError::RoutineUnknown(Box::new(RoutineUnknown {
        schema: schema.clone(),
        name: name.to_owned(),
        arguments: names.iter().map(|&name| name.to_owned()).collect(),
        raw: raw.parameter(),
        opaque: raw.is_opaque(),
        similar,
    }))
}
