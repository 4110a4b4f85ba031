//! Plans function calls: resolves the function, its arguments, and the form of its result (rest.md §3.10).

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

/// Plan of a function call.
#[derive(Debug, Clone)]
pub struct CallPlan {
    /// Parts shared by all plans.
    pub common: Common,
    /// Function to call.
    pub routine: QualifiedName,
    /// Arguments of the call.
    pub arguments: Arguments,
    /// Form of the result.
    pub result: CallResult,
    /// Columns of the result that the read uses.
    pub returned: Returned,
    /// Read over the returned rows.
    pub read: ReadPlan,
    /// Format of the body.
    pub format: BodyFormat,
    /// HEAD: no body.
    pub head: bool,
    /// How rows are returned from PostgreSQL.
    pub delivery: Delivery,
}

/// Form of a function's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    /// `void`: the response has no body.
    Void,
    /// One value, in the column `pgrst_scalar`.
    Scalar,
    /// A set of values.
    Scalars,
    /// One row.
    Row,
    /// A set of rows.
    Rows,
}

/// Arguments of a function call.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// No arguments.
    None,
    /// Values of a JSON object, or of the first object in an array.
    Json {
        /// JSON text.
        bytes: Bytes,
        /// Whether the JSON is an object or an array.
        shape: JsonShape,
        /// Parameters with a value in the JSON.
        params: Vec<RoutineParam>,
    },
    /// Text literals by parameter.
    Literals(Vec<(RoutineParam, Literal)>),
    /// The entire body, passed to a single unnamed parameter.
    Body {
        /// Request body.
        bytes: Bytes,
        /// The unnamed parameter.
        param: RoutineParam,
    },
}

impl CallPlan {
    /// Whether the statement's parameters are decoded from the body rather than slices of it.
    #[must_use]
    pub fn has_values(&self) -> bool {
        match &self.arguments {
            Arguments::Literals(_) => true,
            Arguments::Body { param, .. } => param.type_name == "bytea",
            Arguments::None | Arguments::Json { .. } => false,
        }
    }
}

/// A text literal, or the elements of a variadic argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// A single value.
    One(String),
    /// Elements of an array.
    Many(Vec<String>),
}

/// Plans a function call.
///
/// # Errors
/// The first violation found in steps 9 to 16 of rest.md §1.2.
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
            let mut tree = Tree::for_read(request, config)?;
            let mut read = tree.read(Source::Returned, relation, config.max_rows, cache)?;
            legacy_names = tree.legacy_names;
            let returned = returned(&mut read, relation, &[]);
            (read, returned)
        }
        // Conditions and columns are also applied to scalar results; PostgreSQL then reports that they do not exist.
        RowShape::Scalar => {
            let read =
                Tree::for_read(request, config)?.read(Source::Returned, None, config.max_rows, cache)?;
            (read, Returned::Star)
        }
        RowShape::Void => (unfiltered_rows(request, config), Returned::Star),
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
    // A result that cannot be serialised here is requested a second time, but a function that may write must run only
    // once.
    let is_repeatable = result == CallResult::Rows && access == Access::ReadOnly && !head;
    let delivery =
        if is_repeatable { delivery::choose(&read, relation, &format, cache) } else { Delivery::Value };
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

/// Read over the rows without filters, order or embeds.
fn unfiltered_rows(request: &ApiRequest, config: &RestConfig) -> ReadPlan {
    ReadPlan {
        source: Source::Returned,
        outputs: vec![Output { value: Value::Star, aggregate: None, name: None }],
        conditions: Vec::new(),
        order: Vec::new(),
        range: request.range.capped(config.max_rows),
        embeds: Vec::new(),
    }
}

/// Whether OPTIONS allows only POST, because every overload is volatile.
///
/// # Errors
/// No function has that name (PGRST202).
pub(super) fn info(request: &ApiRequest, name: &str, cache: &SchemaCache) -> Result<bool, RestError> {
    match cache.routines_named(&request.schema, name) {
        [] => Err(unknown(request, name, &[], RawBody::None, cache)),
        overloads => Ok(overloads.iter().all(|routine| routine.volatility == Volatility::Volatile)),
    }
}

/// Resolves the function by its argument names, and collects its arguments.
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
        // The default of an unnamed parameter applies to calls without a body.
        Choice::Named(routine) => routine.is_unnamed(),
        Choice::None | Choice::Ambiguous(_) => false,
    };
    if let (Some(Payload::Json(payload)), false) = (&request.payload, unnamed) {
        payload.reject_mixed()?;
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
        // The function takes no arguments, so the body is ignored.
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

/// Text literals by parameter. The last value of a repeated argument applies, except that a variadic one collects
/// all.
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
        // Only functions with a matching unnamed parameter accept a text, XML or binary body, so similar names would
        // not help.
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
        let requested = format!("({})", names.join(", "));
        let named = |list: &str| {
            let text = format!("{name}{list}");
            Named { object: Object::new(schema, name, text.clone()), text }
        };
        let similar =
            suggest::ranked(lists.iter().map(String::as_str), &requested, suggest::LOOSE_SIMILARITY);
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
