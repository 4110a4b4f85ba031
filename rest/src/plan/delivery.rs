//! Whether rows reach us as they are, to be written as JSON here, or as one value that PostgreSQL builds.
//!
//! Rows cost PostgreSQL a third less ([`crate::rows`]). They come where every output's type is known: from the schema
//! cache, from a cast, or because it is JSON already, as every embed is. What only PostgreSQL can make JSON of (a
//! composite, `bytea`) it makes JSON of one by one; but `*` cannot be taken apart, because a column that was added since
//! the cache was loaded belongs to it.

use super::media::BodyShape;
use super::{BodyFormat, EmbedForm, Output, ReadPlan, Source, Value};
use crate::rows::{Frame, types};
use crate::schema_cache::{Relation, SchemaCache};

/// As many as PostgreSQL returns (`MaxTupleAttributeNumber`); it refuses more.
const MOST_OUTPUTS: usize = 1664;

/// How the rows of the root level reach us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// As one value.
    Value,
    /// As they are.
    Rows {
        /// What stands around them.
        frame: Frame,
        /// Positions of outputs that PostgreSQL makes JSON of.
        as_json: Vec<usize>,
    },
}

/// What an output is to us.
enum Kind {
    /// Its text says it all.
    Text,
    /// Its JSON has to be asked for.
    Json,
    /// Its type is not known.
    Unknown,
}

/// Decides for the root level, whose rows are those of `relation` if it is any's.
pub(super) fn of(
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
    let has_rows = (1..=MOST_OUTPUTS).contains(&read.outputs.len());
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
        // A representation is JSON.
        Value::Column { representation: Some(_), cast: None, .. } | Value::Embed(_) => Kind::Text,
        Value::Column { cast: Some(cast), .. } if types::is_known_name(cast.as_str()) => Kind::Text,
        Value::Column { cast: Some(_), .. } => Kind::Unknown,
        // The end of a path is JSON or its text.
        Value::Column { column, .. } if !column.path.is_empty() => Kind::Text,
        Value::Column { column, .. } => match relation.and_then(|relation| relation.column(&column.name)) {
            Some(column) if is_known(column.type_oid) => Kind::Text,
            Some(_) => Kind::Json,
            // A computed column, or none at all.
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
