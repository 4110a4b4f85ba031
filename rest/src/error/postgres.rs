//! Errors reported by PostgreSQL: mapping of SQLSTATE to status, and errors raised by `RAISE sqlstate 'PGRST'`
//! (rest.md §3.18).

use std::collections::BTreeMap;

use basalt_pg::pg_error::PgError;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderName, StatusCode};
use serde::Deserialize;
use serde_json::Value;

use super::wire::{ErrorContext, ErrorResponse};
use crate::response::is_framing;

pub(super) fn wire(error: &PgError, context: ErrorContext) -> ErrorResponse {
    if error.code == "PGRST" {
        return raised(error);
    }
    let status = status(error, context.is_anonymous);
    let mut response = ErrorResponse::new(status, &*error.code, &*error.message);
    response.details = error.detail.clone().map_or(Value::Null, Value::String);
    response.hint = match &error.hint {
        // PostgreSQL's own hint addresses the server's operator.
        _ if error.code == "54001" && error.exceeds_limit() => Some(NESTING_HINT.to_owned()),
        None if error.exceeds_limit() => Some(SIZE_HINT.to_owned()),
        hint => hint.clone(),
    };
    // An invalid status becomes 500, which keeps its standard reason phrase.
    if error.code.get(2..) == Some(status.as_str()) && error.code.starts_with("PT") {
        response.reason = Some(error.message.clone());
    }
    if status == StatusCode::UNAUTHORIZED {
        response = response.header(WWW_AUTHENTICATE, "Bearer");
    }
    response
}

const NESTING_HINT: &str = "The request nests too deeply for PostgreSQL: use fewer levels in its values, JSON paths, conditions or embeds.";
const SIZE_HINT: &str = "The request, or a value or pattern in it, is larger than PostgreSQL allows here.";

/// Status by the first matching row of the contract's table. Class 54 and failed memory allocations are 500 when they
/// occur in a function or trigger, as in the table, but 400 when the request itself exceeds the limit, because the
/// client can correct that (docs/decisions/0052).
fn status(error: &PgError, is_anonymous: bool) -> StatusCode {
    let code = error.code.as_str();
    let class = code.get(..2).unwrap_or_default();
    match (class, code) {
        ("08", _) | (_, "57P01") => StatusCode::SERVICE_UNAVAILABLE,
        (_, "23503" | "23505") => StatusCode::CONFLICT,
        (_, "25006") => StatusCode::METHOD_NOT_ALLOWED,
        (_, "21000") if error.message.ends_with("requires a WHERE clause") => StatusCode::BAD_REQUEST,
        (_, "22023") if error.message.starts_with("role ") && error.message.ends_with("does not exist") => {
            StatusCode::UNAUTHORIZED
        }
        (_, "53400") => StatusCode::INTERNAL_SERVER_ERROR,
        ("53", _) => StatusCode::SERVICE_UNAVAILABLE,
        ("0L" | "0P" | "28", _) => StatusCode::FORBIDDEN,
        (_, "P0001") => StatusCode::BAD_REQUEST,
        ("54" | "XX", _) if error.exceeds_limit() => StatusCode::BAD_REQUEST,
        (_, "42501") if is_anonymous => StatusCode::UNAUTHORIZED,
        (_, "42501") => StatusCode::FORBIDDEN,
        (_, "42883") if error.message.starts_with("function xmlagg(") => StatusCode::NOT_ACCEPTABLE,
        (_, "42883" | "42P01") => StatusCode::NOT_FOUND,
        (
            "09" | "21" | "25" | "2D" | "38" | "39" | "3B" | "40" | "54" | "55" | "57" | "58" | "F0" | "HV"
            | "P0" | "XX",
            _,
        )
        | (_, "42P17") => StatusCode::INTERNAL_SERVER_ERROR,
        ("PT", _) => code
            .get(2..)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| StatusCode::from_bytes(digits.as_bytes()).ok())
            .filter(|status| !status.is_informational())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        _ => StatusCode::BAD_REQUEST,
    }
}

#[derive(Deserialize)]
struct RaisedMessage {
    code: String,
    message: String,
    details: Option<String>,
    hint: Option<String>,
}

#[derive(Deserialize)]
struct RaisedDetail {
    status: serde_json::Number,
    status_text: Option<String>,
    headers: BTreeMap<String, String>,
}

/// Parses `RAISE sqlstate 'PGRST'`, where the error itself defines status, headers and body.
fn raised(error: &PgError) -> ErrorResponse {
    let malformed = |details: String, hint: &str| {
        let mut response = ErrorResponse::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "PGRST121",
            "Could not parse JSON in the \"RAISE SQLSTATE 'PGRST'\" error",
        );
        response.details = Value::String(details);
        response.hint = Some(hint.to_owned());
        response
    };
    const MESSAGE_HINT: &str = "MESSAGE must be a JSON object with obligatory keys: 'code', 'message' and optional keys: 'details', 'hint'.";
    const DETAIL_HINT: &str = "DETAIL must be a JSON object with obligatory keys: 'status', 'headers' and optional key: 'status_text'.";
    let Ok(message) = serde_json::from_str::<RaisedMessage>(&error.message) else {
        return malformed(format!("Invalid JSON value for MESSAGE: '{}'", error.message), MESSAGE_HINT);
    };
    let Some(detail_text) = &error.detail else {
        return malformed("DETAIL is missing in the RAISE statement".to_owned(), DETAIL_HINT);
    };
    let detail = serde_json::from_str::<RaisedDetail>(detail_text).ok();
    let status = detail.as_ref().and_then(|detail| raised_status(&detail.status));
    let (Some(detail), Some(status)) = (detail, status) else {
        return malformed(format!("Invalid JSON value for DETAIL: '{detail_text}'"), DETAIL_HINT);
    };
    let mut response = ErrorResponse::new(status, message.code, message.message);
    response.details = message.details.map_or(Value::Null, Value::String);
    response.hint = message.hint;
    response.reason = detail.status_text;
    for (name, value) in &detail.headers {
        if let Ok(name) = HeaderName::try_from(name.as_str())
            && !is_framing(&name)
        {
            response = response.header(name, value);
        }
    }
    response
}

/// Parses an integer status, also written as `400.0`, that can end an exchange.
fn raised_status(number: &serde_json::Number) -> Option<StatusCode> {
    let status = number.as_u64().or_else(|| number.to_string().strip_suffix(".0")?.parse().ok())?;
    let status = StatusCode::from_u16(u16::try_from(status).ok()?).ok()?;
    (!status.is_informational()).then_some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, message: &str, detail: Option<&str>) -> PgError {
        PgError {
            code: code.to_owned(),
            message: message.to_owned(),
            detail: detail.map(str::to_owned),
            hint: None,
            constraint: None,
            table: None,
            schema: None,
            position: None,
            routine: None,
            is_nested: false,
            is_fatal: false,
            has_run: true,
        }
    }

    #[test]
    fn sqlstates_map_to_statuses_of_contract() {
        for (code, message, anonymous, authenticated) in [
            ("08006", "", 503, 503),
            ("09000", "", 500, 500),
            ("0L000", "", 403, 403),
            ("0P000", "", 403, 403),
            ("23503", "", 409, 409),
            ("23505", "", 409, 409),
            ("25006", "", 405, 405),
            ("21000", "UPDATE requires a WHERE clause", 400, 400),
            ("21000", "cannot affect row a second time", 500, 500),
            ("22023", "role \"x\" does not exist", 401, 401),
            ("22023", "invalid value for parameter \"TimeZone\": \"x\"", 400, 400),
            ("25P02", "", 500, 500),
            ("28000", "", 403, 403),
            ("2D000", "", 500, 500),
            ("39000", "", 500, 500),
            ("42501", "", 401, 403),
            ("40001", "", 500, 500),
            ("53400", "", 500, 500),
            ("53300", "", 503, 503),
            ("54000", "", 500, 500),
            ("54001", "", 500, 500),
            ("55P03", "", 500, 500),
            ("57P01", "", 503, 503),
            ("57014", "", 500, 500),
            ("HV000", "", 500, 500),
            ("P0001", "", 400, 400),
            ("P0002", "", 500, 500),
            ("XX000", "", 500, 500),
            ("42883", "function f() does not exist", 404, 404),
            ("42883", "function xmlagg(x) does not exist", 406, 406),
            ("42P01", "", 404, 404),
            ("42P17", "", 500, 500),
            ("42703", "", 400, 400),
            ("22P02", "", 400, 400),
            ("PT402", "", 402, 402),
            ("PT40A", "", 500, 500),
        ] {
            let error = PgError { is_nested: true, ..error(code, message, None) };
            assert_eq!(status(&error, true).as_u16(), anonymous, "{code} as anon");
            assert_eq!(status(&error, false).as_u16(), authenticated, "{code} as authenticated");
        }
    }

    #[test]
    fn invalid_request_data_returns_400() {
        // Errors about values, names, paths, casts and sizes in the request itself, not raised inside a function.
        for code in [
            "0A000",
            "21000 UPDATE requires a WHERE clause",
            "22001",
            "22003",
            "22007",
            "22008",
            "2200G",
            "2201B",
            "22021",
            "22023",
            "22025",
            "22026",
            "2202E",
            "22032",
            "22P02",
            "22P03",
            "22P05",
            "23502",
            "23514",
            "23P01",
            "42601",
            "42602",
            "42622",
            "42702",
            "42703",
            "42704",
            "42725",
            "42803",
            "42804",
            "42809",
            "42846",
            "42P02",
            "42P10",
            "42P18",
            "42P22",
            "44000",
            "54000",
            "54001",
            "54011",
            "54023",
            "XX000 invalid memory alloc request size 1073741824",
        ] {
            let (code, message) = code.split_once(' ').unwrap_or((code, ""));
            let error = PgError { routine: Some("parse".to_owned()), ..error(code, message, None) };
            let response = wire(&error, ErrorContext::default());
            assert_eq!(response.status.as_u16(), 400, "{code}");
            assert_eq!(response.hint.is_some(), code.starts_with("54") || code == "XX000", "{code}");
        }
    }

    #[test]
    fn limit_exceeded_by_parameter_returns_400() {
        let limit_error = |is_nested, has_run| {
            let error = PgError {
                is_nested,
                has_run,
                hint: Some("Raise it".to_owned()),
                routine: Some("check_stack_depth".to_owned()),
                ..error("54001", "", None)
            };
            let response = wire(&error, ErrorContext::default());
            (response.status.as_u16(), response.hint)
        };
        assert_eq!(limit_error(false, true), (400, Some(NESTING_HINT.to_owned())));
        assert_eq!(limit_error(true, false), (400, Some(NESTING_HINT.to_owned())));
        assert_eq!(limit_error(true, true), (500, Some("Raise it".to_owned())));
    }

    #[test]
    fn raised_error_sets_status_headers_and_body() {
        let detail = r#"{"status":332,"status_text":"My text","headers":{"X-My":"v"}}"#;
        let raised =
            raised(&error("PGRST", r#"{"code":"123","message":"ABC","details":"DEF"}"#, Some(detail)));
        assert_eq!((raised.status.as_u16(), raised.code.as_str()), (332, "123"));
        assert_eq!(raised.reason.as_deref(), Some("My text"));
        assert_eq!(raised.headers.len(), 1);
        let broken = super::raised(&error("PGRST", "no json", None));
        assert_eq!(broken.details, "Invalid JSON value for MESSAGE: 'no json'");
    }
}
