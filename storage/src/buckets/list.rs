//! GET `/bucket` (storage.md §3.3).

use axum::response::{IntoResponse, Response};
use basalt_pg::sql::Param;
use http::header::{HeaderMap, USER_AGENT};
use http::request::Parts;

use crate::Storage;
use crate::database::{RequestSettings, deadline};
use crate::error::StorageError;
use crate::json_body::Query;
use crate::operation::Operation;

use super::row::{BucketJson, COLUMNS};

/// Lists the buckets visible to the caller.
pub(super) async fn list(storage: &Storage, parts: &Parts) -> Result<Response, StorageError> {
    let caller = storage.callers.required_token(&parts.headers)?;
    let query = Query::parse(parts.uri.query());
    let fields = query.fields();
    let limit = fields.integer("limit", 1..)?;
    let offset = fields.integer("offset", 0..)?.unwrap_or(0);
    let column = fields.one_of("sortColumn", &["id", "name", "created_at", "updated_at"])?.unwrap_or("id");
    let order = fields.one_of("sortOrder", &["asc", "desc"])?.unwrap_or("asc");
    let search = fields.string("search")?.unwrap_or_default();
    // PostgreSQL rejects NUL, and no name contains one.
    if search.contains('\0') {
        return Ok(axum::Json::<[(); 0]>([]).into_response());
    }
    let collation = if matches!(column, "id" | "name") { r#" collate "C""# } else { "" };
    let text = format!(
        "select {COLUMNS} from storage.buckets \
         where position(lower($1) in lower(name)) > 0 \
         order by {column}{collation} {order}, id collate \"C\" {order} limit $2 offset $3"
    );
    let request = RequestSettings::from_parts(parts);
    let mut batch = storage.database.batch(&request, Operation::BUCKET_LIST, &caller);
    let limit = limit.map_or_else(Param::null, Param::from_display);
    let found = batch.query(text, [search.into(), limit, Param::from_display(offset)]);
    let rows = batch.read(deadline(parts)).await?;
    let has_type = accepts_type(&parts.headers);
    let shown: Vec<BucketJson<'_>> =
        rows.all(found).iter().map(|row| BucketJson::from_row(row, has_type)).collect();
    Ok(axum::Json(shown).into_response())
}

/// Old Python clients fail on unknown members.
fn accepts_type(headers: &HeaderMap) -> bool {
    let is_before = |header: Option<&http::HeaderValue>, client: &str, version: [u32; 3]| {
        header
            .and_then(|value| value.to_str().ok())
            .and_then(|text| client_version(text, client))
            .is_some_and(|found| found < version)
    };
    !is_before(headers.get("x-client-info"), "supabase-py", [2, 18, 0])
        && !is_before(headers.get(USER_AGENT), "storage3", [0, 12, 1])
}

/// Version in `client/1.2.3`.
fn client_version(text: &str, client: &str) -> Option<[u32; 3]> {
    let (_, rest) = text.split_once(client)?;
    let mut numbers = rest.strip_prefix('/')?.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn detects_old_python_clients() {
        for (name, value, knows) in [
            ("x-client-info", "supabase-py/2.17.3", false),
            ("x-client-info", "supabase-py/2.18.0", true),
            ("x-client-info", "supabase-py/10.0.0", true),
            ("x-client-info", "supabase-js/2.1.0", true),
            ("x-client-info", "supabase-py", true),
            ("user-agent", "storage3/0.12.0 x", false),
            ("user-agent", "python storage3/0.12.1", true),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            assert_eq!(accepts_type(&headers), knows, "{value}");
        }
    }
}
