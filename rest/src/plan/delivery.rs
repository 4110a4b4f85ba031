//! Decides whether rows are returned individually, for this server to serialise, or as one value that PostgreSQL
//! builds.
//!
//! Returning rows costs PostgreSQL a third less ([`crate::rows`]). It requires that the type of every output is
//! known: from the schema cache, from a cast, or because the output is already JSON, as embeds are. Outputs that only
//! PostgreSQL can serialise (a composite, `bytea`) are converted one by one. `*` cannot be expanded for that, because
//! it includes columns added since the cache was loaded.

use super::media::BodyShape;
use super::{BodyFormat, EmbedForm, Output, ReadPlan, Source, Value};
use crate::rows::{Frame, types};
use crate::schema_cache::{Relation, SchemaCache};

/// PostgreSQL's limit on output columns (`MaxTupleAttributeNumber`).
const MAX_OUTPUTS: usize = 1664;

/// How PostgreSQL returns the rows of the root level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// As one value.
    Value,
    /// As individual rows.
    Rows {
        /// JSON around the rows.
        frame: Frame,
        /// Indexes of outputs that PostgreSQL converts to JSON.
        as_json: Vec<usize>,
    },
}

/// How an output can be serialised.
enum Kind {
    /// From its text.
    Text,
    /// By PostgreSQL, as `to_jsonb` of the output.
    Json,
    /// Unknown, because the type is unknown.
    Unknown,
}

/// Chooses the delivery of the root level, whose rows may belong to `relation`.
pub(super) fn choose(
    read: &ReadPlan,
    relation: Option<&Relation>,
    format: &BodyFormat,
    cache: &SchemaCache,
) -> Delivery {
    let frame = match &format.shape {
        BodyShape::Array { stripped: false } => Frame::Array,
        BodyShape::Object { stripped: false } => Frame::Object,
        BodyShape::Array { .. }
        | BodyShape::Object { .. }
        | BodyShape::Csv
        | BodyShape::GeoJson
        | BodyShape::Handler(_)
        | BodyShape::Value => return Delivery::Value,
    };
    let has_rows = (1..=MAX_OUTPUTS).contains(&read.outputs.len());
    if format.explain.is_some() || read.is_grouped() || !has_rows {
        return Delivery::Value;
    }
    let mut as_json = Vec::new();
    for (position, output) in read.outputs.iter().enumerate() {
        match kind(output, read, relation, cache) {
            Kind::Text => {}
            Kind::Json => as_json.push(position),
            Kind::Unknown => return Delivery::Value,
        }
    }
    Delivery::Rows { frame, as_json }
}

fn kind(output: &Output, read: &ReadPlan, relation: Option<&Relation>, cache: &SchemaCache) -> Kind {
    let is_known = |type_oid| cache.text_types.is_known(type_oid);
    match &output.value {
        Value::Star => match relation {
            Some(relation) if relation.columns.iter().all(|column| is_known(column.type_oid)) => Kind::Text,
            Some(_) | None => Kind::Unknown,
        },
        Value::Presence => Kind::Unknown,
        // A domain representation is JSON.
        Value::Column { representation: Some(_), cast: None, .. } | Value::Embed(_) => Kind::Text,
        Value::Column { cast: Some(cast), .. } if types::is_known_name(cast.as_str()) => Kind::Text,
        Value::Column { cast: Some(_), .. } => Kind::Unknown,
        // A path ends in JSON or text.
        Value::Column { column, .. } if !column.path.is_empty() => Kind::Text,
        Value::Column { column, .. } => match relation.and_then(|relation| relation.column(&column.name)) {
            Some(column) if is_known(column.type_oid) => Kind::Text,
            Some(_) => Kind::Json,
            // A computed or unknown column.
            None => Kind::Unknown,
        },
        Value::Lifted { embed, column } => match read.embeds.get(*embed) {
            Some(embed) if embed.form == EmbedForm::SpreadArray => Kind::Text,
            Some(embed) => {
                let relation = relation_of(&embed.read.source, cache);
                let lifted = embed.read.outputs.iter().find(|output| output.key() == Some(column));
                lifted.map_or(Kind::Unknown, |lifted| kind(lifted, &embed.read, relation, cache))
            }
            None => Kind::Unknown,
        },
    }
}

fn relation_of<'c>(source: &Source, cache: &'c SchemaCache) -> Option<&'c Relation> {
    match source {
        Source::Relation(name) | Source::Aliased { relation: name, .. } => {
            cache.relation(&name.schema, &name.name)
        }
        Source::Computed { .. } | Source::Returned => None,
    }
}
