//! Selects the media type of the body among the accepted ones (rest.md §3.12).

use crate::config::RestConfig;
use crate::error::RestError;
use crate::parse::media::{MediaType, PlanMedia};
use crate::parse::select::SelectItem;
use crate::request::ApiRequest;
use crate::schema_cache::routines::Routine;
use crate::schema_cache::{MediaHandler, QualifiedName, Relation, SchemaCache};

/// Format of the response body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyFormat {
    /// Content type of the response.
    pub media: MediaType,
    /// Structure of the body that PostgreSQL builds.
    pub shape: BodyShape,
    /// Set if the response is the statement's query plan.
    pub explain: Option<PlanMedia>,
}

/// Structure of a body that PostgreSQL builds from rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyShape {
    /// A JSON array.
    Array {
        /// Whether keys with null values are omitted.
        stripped: bool,
    },
    /// A single JSON object; the result must have exactly one row.
    Object {
        /// Whether keys with null values are omitted.
        stripped: bool,
    },
    /// CSV.
    Csv,
    /// A GeoJSON FeatureCollection.
    GeoJson,
    /// The result of an aggregate defined in the database.
    Handler(QualifiedName),
    /// The value returned by a function, used unchanged.
    Value,
}

impl BodyFormat {
    /// Whether the result must have exactly one row.
    #[must_use]
    pub const fn is_singular(&self) -> bool {
        matches!(self.shape, BodyShape::Object { .. })
    }
}

/// First accepted media type that can be produced from a relation's rows.
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

/// First accepted media type that can be produced from a function's result. A function that returns a domain named
/// after a media type produces that type itself.
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

/// Finds a media type handler of the database, and the media type it produces.
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
    // The vendor types have parameters of their own, which handlers in the database cannot implement.
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

/// Finds an aggregate defined in the database. One over the rows of a relation needs all columns, so the select list
/// must be the default. One over `anyelement` takes rows of any shape, but only if its media type is requested by
/// name.
fn aggregate(
    media: &MediaType,
    request: &ApiRequest,
    relation: Option<&Relation>,
    cache: &SchemaCache,
) -> Option<(MediaType, BodyShape)> {
    if cache.media_handlers.is_empty() {
        return None;
    }
    let requested = media.to_string();
    let is_default = request.query.select == [SelectItem::Star];
    let name = relation.map(Relation::qualified_name).filter(|_| is_default);
    let find =
        |fits: &dyn Fn(&MediaHandler) -> bool| cache.media_handlers.iter().find(|handler| fits(handler));
    let handler = find(&|handler| {
        name.is_some() && handler.relation == name && (handler.media == requested || handler.media == "*/*")
    })
    .or_else(|| {
        let is_named = *media != MediaType::Any;
        find(&|handler| is_named && handler.relation.is_none() && handler.media == requested)
    })?;
    Some((MediaType::parse(&handler.media), BodyShape::Handler(handler.function.clone())))
}

/// Checks that the root document, which is JSON or OpenAPI, is acceptable.
pub(super) fn root(accept: &[MediaType]) -> Result<(), RestError> {
    let known = |media: &MediaType| matches!(media, MediaType::Any | MediaType::Json | MediaType::OpenApi);
    if accept.iter().any(known) { Ok(()) } else { Err(not_acceptable(accept)) }
}

fn not_acceptable(accept: &[MediaType]) -> RestError {
    RestError::NotAcceptable(accept.iter().map(ToString::to_string).collect())
}
