//! SQL expressions that aggregate the rows `pgrst_t` into a response body.

use basalt_pg::sql::Sql;

use crate::plan::call::CallResult;
use crate::plan::media::BodyShape;

/// No body, for HEAD and for writes that return no content.
pub(super) fn nothing() -> Sql {
    Sql::text("null::text")
}

/// Body of rows with columns.
pub(super) fn from_rows(shape: &BodyShape) -> Sql {
    match shape {
        BodyShape::Array { stripped: false } => Sql::text("coalesce(json_agg(pgrst_t), '[]')"),
        BodyShape::Array { stripped: true } => {
            Sql::text("coalesce(json_strip_nulls(json_agg(pgrst_t)), '[]')")
        }
        // A number of rows other than one is an error anyway, so the row need not be taken out of an array.
        BodyShape::Object { stripped: false } => Sql::text("string_agg(row_to_json(pgrst_t)::text, ',')"),
        BodyShape::Object { stripped: true } => {
            Sql::text("string_agg(json_strip_nulls(row_to_json(pgrst_t))::text, ',')")
        }
        BodyShape::Csv => Sql::text(
            "coalesce((SELECT string_agg(pgrst_key, ',') FROM json_object_keys((array_agg(row_to_json(pgrst_t)))[1]) \
             AS pgrst_key), '') || E'\\n' || coalesce(string_agg(substring(pgrst_t::text, 2, \
             length(pgrst_t::text) - 2), E'\\n'), '')",
        ),
        BodyShape::GeoJson => Sql::text(
            "json_build_object('type', 'FeatureCollection', 'features', \
             coalesce(json_agg(ST_AsGeoJSON(pgrst_t)::json), '[]'))",
        ),
        BodyShape::Handler(function) => function.sql().then(Sql::text("(pgrst_t)")),
        BodyShape::Value => Sql::text("(SELECT pgrst_source.pgrst_scalar FROM pgrst_source LIMIT 1)"),
    }
}

/// Body of a function's result.
pub(super) fn from_call_result(result: CallResult, shape: &BodyShape) -> Sql {
    let stripped = match shape {
        BodyShape::Array { stripped } | BodyShape::Object { stripped } => *stripped,
        // An aggregate over `anyelement` receives the values rather than rows with one column.
        BodyShape::Handler(function) if matches!(result, CallResult::Scalar | CallResult::Scalars) => {
            return function.sql().then(Sql::text("(pgrst_t.pgrst_scalar)"));
        }
        BodyShape::Csv | BodyShape::GeoJson | BodyShape::Handler(_) | BodyShape::Value => {
            return from_rows(shape);
        }
    };
    match (result, shape) {
        (CallResult::Void, _) => nothing(),
        (CallResult::Scalar, _) | (CallResult::Scalars, BodyShape::Object { .. }) if stripped => Sql::text(
            "coalesce(string_agg(json_strip_nulls(to_json(pgrst_t.pgrst_scalar))::text, ','), 'null')",
        ),
        (CallResult::Scalar, _) | (CallResult::Scalars, BodyShape::Object { .. }) => {
            Sql::text("coalesce(string_agg(to_json(pgrst_t.pgrst_scalar)::text, ','), 'null')")
        }
        (CallResult::Scalars, _) if stripped => {
            Sql::text("coalesce(json_strip_nulls(json_agg(pgrst_t.pgrst_scalar)), '[]')")
        }
        (CallResult::Scalars, _) => Sql::text("coalesce(json_agg(pgrst_t.pgrst_scalar), '[]')"),
        (CallResult::Row, _) if stripped => {
            Sql::text("coalesce(string_agg(json_strip_nulls(row_to_json(pgrst_t))::text, ','), 'null')")
        }
        (CallResult::Row, _) => Sql::text("coalesce(string_agg(row_to_json(pgrst_t)::text, ','), 'null')"),
        (CallResult::Rows, _) => from_rows(shape),
    }
}
