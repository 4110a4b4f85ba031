//! The form of the body: which of the acceptable media types is made, and how (rest.md §3.12).

use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::media::{MediaType, PlanMedia};
use crate::parse::select::SelectItem;
use crate::request::ApiRequest;
use crate::schema_cache::routines::Routine;
use crate::schema_cache::{MediaHandler, QualifiedName, Relation, SchemaCache};

/// How rows become a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFormat {
    /// What the response says it is.
    pub media: MediaType,
    /// What PostgreSQL builds.
    pub shape: BodyShape,
    /// The statement is explained instead of answered.
    pub explain: Option<PlanMedia>,
}

/// What PostgreSQL builds of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyShape {
    /// A JSON array.
    Array {
        /// Without null keys.
        stripped: bool,
    },
    /// One JSON object; exactly one row is wanted.
    Object {
        /// Without null keys.
        stripped: bool,
    },
    /// CSV.
    Csv,
    /// A GeoJSON FeatureCollection.
    GeoJson,
    /// What an aggregate of the database makes of them.
    Handler(QualifiedName),
    /// The value a function returned is the body itself.
    Value,
}

impl BodyFormat {
    /// Exactly one row is wanted.
    #[must_use]
    pub const fn is_singular(&self) -> bool {
        matches!(self.shape, BodyShape::Object { .. })
    }
}

/// The first acceptable type that can be made of a relation's rows.
///
/// # Errors
/// None can (PGRST107).
pub(super) fn for_relation(
    request: &ApiRequest,
    relation: Option<&Relation>,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<BodyFormat, RestError> {
    first_produced(&request.accept, config, &|media| aggregate(media, request, relation, cache))
}

/// The first acceptable type that can be made of a function's result. A function that returns a domain named like a
/// media type makes that type itself.
///
/// # Errors
/// None can (PGRST107).
pub(super) fn for_routine(
    request: &ApiRequest,
    routine: &Routine,
    relation: Option<&Relation>,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<BodyFormat, RestError> {
    let media = routine.returns.media.as_deref().filter(|_| !routine.returns.set);
    let produced = media.map(MediaType::parse);
    first_produced(&request.accept, config, &|media| match &produced {
        Some(produced) if *produced == *media || *produced == MediaType::Any => {
            Some((produced.clone(), BodyShape::Value))
        }
        _ => aggregate(media, request, relation, cache),
    })
}

/// What the database itself makes of a media type, and what it then is.
type Handler<'a> = &'a dyn Fn(&MediaType) -> Option<(MediaType, BodyShape)>;

fn first_produced(
    accept: &[MediaType],
    config: &RestConfig,
    handler: Handler<'_>,
) -> Result<BodyFormat, RestError> {
    let format = accept.iter().find_map(|media| {
        let MediaType::Plan(plan) = media else {
            return produce(media, handler).map(|(media, shape)| BodyFormat { media, shape, explain: None });
        };
        let (_, shape) = produce(&plan.target, handler).filter(|_| config.plan_enabled)?;
        Some(BodyFormat { media: media.clone(), shape, explain: Some((**plan).clone()) })
    });
    format.ok_or_else(|| not_acceptable(accept))
}

fn produce(media: &MediaType, handler: Handler<'_>) -> Option<(MediaType, BodyShape)> {
    // The types of our own have their parameters; the database cannot make them.
    let is_ours = matches!(media, MediaType::ArrayStripped | MediaType::Singular { .. } | MediaType::Plan(_));
    if let (false, Some(made)) = (is_ours, handler(media)) {
        return Some(made);
    }
    let shape = match media {
        MediaType::Any => return Some((MediaType::Json, BodyShape::Array { stripped: false })),
        MediaType::Json => BodyShape::Array { stripped: false },
        MediaType::ArrayStripped => BodyShape::Array { stripped: true },
        MediaType::Singular { stripped } => BodyShape::Object { stripped: *stripped },
        MediaType::Csv => BodyShape::Csv,
        MediaType::GeoJson => BodyShape::GeoJson,
        MediaType::OpenApi
        | MediaType::Plan(_)
        | MediaType::UrlEncoded
        | MediaType::TextPlain
        | MediaType::TextXml
        | MediaType::OctetStream
        | MediaType::Other(_) => return None,
    };
    Some((media.clone(), shape))
}

/// An aggregate in the database. One over the rows of a relation needs all their columns, and so the default select. One
/// over `anyelement` takes rows of any shape, but only where its media type is asked for by name.
fn aggregate(
    media: &MediaType,
    request: &ApiRequest,
    relation: Option<&Relation>,
    cache: &SchemaCache,
) -> Option<(MediaType, BodyShape)> {
    if cache.media_handlers.is_empty() {
        return None;
    }
    let wanted = media.to_string();
    let is_default = request.query.select == [SelectItem::Star];
    let name = relation.map(Relation::qualified_name).filter(|_| is_default);
    let find =
        |fits: &dyn Fn(&MediaHandler) -> bool| cache.media_handlers.iter().find(|handler| fits(handler));
    let handler = find(&|handler| {
        name.is_some() && handler.relation == name && (handler.media == wanted || handler.media == "*/*")
    })
    .or_else(|| {
        let is_named = *media != MediaType::Any;
        find(&|handler| is_named && handler.relation.is_none() && handler.media == wanted)
    })?;
    Some((MediaType::parse(&handler.media), BodyShape::Handler(handler.function.clone())))
}

/// The root answers JSON and OpenAPI.
pub(super) fn root(accept: &[MediaType]) -> Result<(), RestError> {
    let known = |media: &MediaType| matches!(media, MediaType::Any | MediaType::Json | MediaType::OpenApi);
    if accept.iter().any(known) { Ok(()) } else { Err(not_acceptable(accept)) }
}

fn not_acceptable(accept: &[MediaType]) -> RestError {
    RestError::NotAcceptable(accept.iter().map(ToString::to_string).collect())
}
