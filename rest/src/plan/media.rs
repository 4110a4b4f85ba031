//! The form of the body: which of the acceptable media types is made, and how (rest.md §3.12).

use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::media::{MediaType, PlanMedia};
use crate::parse::select::SelectItem;
use crate::request::ApiRequest;
use crate::schema_cache::routines::Routine;
use crate::schema_cache::{QualifiedName, Relation, SchemaCache};

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
    /// Whatever an aggregate of the database makes of them.
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
    accept: &[MediaType],
    request: &ApiRequest,
    relation: Option<&Relation>,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<BodyFormat, RestError> {
    let handler = |media: &MediaType| handler(media, request, relation, cache);
    let format = accept.iter().find_map(|media| match media {
        MediaType::Plan(plan) if config.plan_enabled => {
            let (_, shape) = produce(&plan.target, &handler)?;
            Some(BodyFormat { media: media.clone(), shape, explain: Some((**plan).clone()) })
        }
        MediaType::Plan(_) => None,
        MediaType::Any
        | MediaType::Json
        | MediaType::ArrayStripped
        | MediaType::Singular { .. }
        | MediaType::Csv
        | MediaType::GeoJson
        | MediaType::OpenApi
        | MediaType::UrlEncoded
        | MediaType::TextPlain
        | MediaType::TextXml
        | MediaType::OctetStream
        | MediaType::Other(_) => {
            produce(media, &handler).map(|(media, shape)| BodyFormat { media, shape, explain: None })
        }
    });
    format.ok_or_else(|| not_acceptable(accept))
}

fn produce(
    media: &MediaType,
    handler: &dyn Fn(&MediaType) -> Option<QualifiedName>,
) -> Option<(MediaType, BodyShape)> {
    if let Some(function) = handler(media) {
        return Some((media.clone(), BodyShape::Handler(function)));
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

/// A handler in the database; only for the default select, since it takes whole rows.
fn handler(
    media: &MediaType,
    request: &ApiRequest,
    relation: Option<&Relation>,
    cache: &SchemaCache,
) -> Option<QualifiedName> {
    if cache.media_handlers.is_empty() || request.query.select != [SelectItem::Star] {
        return None;
    }
    let wanted = media.to_string();
    let name = relation.map(Relation::qualified_name);
    let serving = |own: bool| {
        cache.media_handlers.iter().find(|handler| {
            handler.aggregate
                && (handler.media == wanted || handler.media == "*/*")
                && if own { name.is_some() && handler.relation == name } else { handler.relation.is_none() }
        })
    };
    serving(true).or_else(|| serving(false)).map(|handler| handler.function.clone())
}

/// The first acceptable type that can be made of a function's result. A function that returns a domain named like a
/// media type makes that type itself.
///
/// # Errors
/// None can (PGRST107).
pub(super) fn for_routine(
    accept: &[MediaType],
    request: &ApiRequest,
    routine: &Routine,
    relation: Option<&Relation>,
    config: &RestConfig,
    cache: &SchemaCache,
) -> Result<BodyFormat, RestError> {
    let own =
        cache.media_handlers.iter().find(|handler| !handler.aggregate && handler.function == routine.name);
    if let Some(handler) = own.filter(|_| !routine.returns.set) {
        let produced = MediaType::parse(&handler.media);
        let wanted = accept.iter().find(|media| **media == produced || **media == MediaType::Any);
        let anything = (produced == MediaType::Any).then(|| accept.first()).flatten();
        if let Some(media) = wanted.or(anything) {
            let media =
                if produced == MediaType::Any && *media != MediaType::Any { media.clone() } else { produced };
            return Ok(BodyFormat { media, shape: BodyShape::Value, explain: None });
        }
    }
    for_relation(accept, request, relation, config, cache)
}

/// The root answers JSON and OpenAPI.
pub(super) fn root(accept: &[MediaType]) -> Result<(), RestError> {
    let known = |media: &MediaType| matches!(media, MediaType::Any | MediaType::Json | MediaType::OpenApi);
    if accept.iter().any(known) { Ok(()) } else { Err(not_acceptable(accept)) }
}

fn not_acceptable(accept: &[MediaType]) -> RestError {
    RestError::NotAcceptable(accept.iter().map(ToString::to_string).collect())
}
