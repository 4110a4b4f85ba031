//! Status, code and body of each error.

use axum::body::Body;
use axum::response::Response;
use basalt_core::service::Fault;
use basalt_pg::session::SessionError;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};

use super::{Named, RestError, RoutineUnknown};
use crate::auth::AuthError;
use crate::config::ErrorVerbosity;
use crate::parse::range::RangeError;

/// Request properties that affect the response to an error.
#[derive(Debug, Clone, Copy)]
pub struct ErrorContext {
    /// Whether the request ran as the anonymous role; missing privileges are then 401.
    pub is_anonymous: bool,
    /// Whether details and hint are included.
    pub verbosity: ErrorVerbosity,
    /// HEAD: no body.
    pub is_head: bool,
    /// Value of `Retry-After`, in seconds.
    pub retry_after: u64,
}

impl Default for ErrorContext {
    fn default() -> Self {
        Self { is_anonymous: true, verbosity: ErrorVerbosity::Verbose, is_head: false, retry_after: 1 }
    }
}

/// Response to an error.
#[derive(Debug, Clone)]
pub struct ErrorResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// Reason phrase, if not the standard one.
    pub reason: Option<String>,
    /// `code` of the body.
    pub code: String,
    /// `message` of the body.
    pub message: String,
    /// `details` of the body.
    pub details: Value,
    /// `hint` of the body.
    pub hint: Option<String>,
    /// Additional headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

impl ErrorResponse {
    pub(super) fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            status,
            reason: None,
            code: code.into(),
            message: message.into(),
            details: Value::Null,
            hint: None,
            headers: Vec::new(),
        }
    }

    fn details(mut self, details: impl Into<Value>) -> Self {
        self.details = details.into();
        self
    }

    fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        // A value that is not a valid header (a line break in a message, say) is omitted rather than failing the
        // response.
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.push((name, value));
        }
        self
    }

    /// The JSON body.
    #[must_use]
    pub fn body(&self, verbosity: ErrorVerbosity) -> String {
        let body = match verbosity {
            ErrorVerbosity::Verbose => {
                json!({"code": self.code, "details": self.details, "hint": self.hint, "message": self.message})
            }
            ErrorVerbosity::Minimal => json!({"code": self.code, "message": self.message}),
        };
        body.to_string()
    }

    /// Builds the HTTP response.
    #[must_use]
    pub fn into_response(self, context: ErrorContext) -> Response {
        let body = self.body(context.verbosity);
        let length = body.len();
        let mut response = Response::new(if context.is_head {
            Body::new(crate::response::NoBody)
        } else {
            Body::from(body)
        });
        *response.status_mut() = self.status;
        if let Some(reason) =
            self.reason.and_then(|r| hyper::ext::ReasonPhrase::try_from(r.into_bytes()).ok())
        {
            response.extensions_mut().insert(reason);
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, JSON);
        if !context.is_head {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        if let Ok(status) = HeaderValue::from_bytes(format!("PostgREST; error={}", self.code).as_bytes()) {
            headers.insert(HeaderName::from_static("proxy-status"), status);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from(context.retry_after));
        }
        // Headers set by `RAISE` override the standard ones.
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

impl RestError {
    /// Status, code, message, details and hint, worded as in PostgREST.
    #[must_use]
    pub fn wire(&self, context: ErrorContext) -> ErrorResponse {
        let error = |status, code: &str, message: &str| ErrorResponse::new(status, code, message);
        let bad = |code: &str, message: String| error(StatusCode::BAD_REQUEST, code, &message);
        match self {
            Self::Auth(auth) => auth_error(auth),
            Self::CacheNotLoaded => error(
                StatusCode::SERVICE_UNAVAILABLE,
                "PGRST002",
                "Could not query the database for the schema cache. Retrying.",
            ),
            Self::Path => error(StatusCode::NOT_FOUND, "PGRST125", "Invalid path specified in request URL"),
            Self::RootDisabled => error(StatusCode::NOT_FOUND, "PGRST126", "Root endpoint metadata is disabled"),
            Self::Schema { schema, exposed } => {
                error(StatusCode::NOT_ACCEPTABLE, "PGRST106", &format!("Invalid schema: {schema}"))
                    .hint(format!("Only the following schemas are exposed: {}", exposed.join(", ")))
            }
            Self::RpcMethod(method) => error(
                StatusCode::METHOD_NOT_ALLOWED,
                "PGRST101",
                &format!("Cannot use the {method} method on RPC"),
            ),
            Self::Method(method) => {
                error(StatusCode::METHOD_NOT_ALLOWED, "PGRST117", &format!("Unsupported HTTP method: {method}"))
            }
            Self::Query(parse) => bad("PGRST100", parse.message()).details(parse.details()),
            Self::Range(range) => unsatisfiable().details(match range {
                RangeError::NegativeLimit => "Limit should be greater than or equal to zero.",
                RangeError::LowerAboveUpper => {
                    "The lower boundary must be lower than or equal to the upper boundary in the Range header."
                }
            }),
            Self::OffsetBeyond { offset, total } => unsatisfiable()
                .details(format!("An offset of {offset} was requested, but there are only {total} rows.")),
            Self::PutRange => {
                bad("PGRST114", "limit/offset querystring parameters are not allowed for PUT".to_owned())
            }
            Self::Body(message) => bad("PGRST102", message.clone()),
            Self::BodyTooLarge { limit } => error(
                StatusCode::PAYLOAD_TOO_LARGE,
                "PGRST102",
                &format!("The request body is larger than {limit} bytes"),
            ),
            Self::CsvTooLarge { limit } => error(
                StatusCode::PAYLOAD_TOO_LARGE,
                "PGRST102",
                &format!("The rows of the CSV body take more than {limit} bytes as JSON: send them in parts"),
            ),
            Self::Busy => busy(),
            Self::BodyIncomplete => bad("PGRST102", "The request body ended early".to_owned()),
            Self::RelationUnknown { schema, name, similar } => error(
                StatusCode::NOT_FOUND,
                "PGRST205",
                &format!("Could not find the table '{schema}.{name}' in the schema cache"),
            )
            .hint(similar.first().map(|similar| format!("Perhaps you meant the table '{schema}.{}'", similar.text))),
            Self::RoutineUnknown(unknown) => routine_unknown(unknown),
            Self::RoutineAmbiguous { signatures } => error(
                StatusCode::MULTIPLE_CHOICES,
                "PGRST203",
                &ambiguous(signatures),
            )
            .hint(
                "Try renaming the parameters or the function itself in the database so function overloading can be resolved"
                    .to_owned(),
            ),
            Self::NamedByTarget { target, alias } => not_embedded(target)
                .details("Target names are not allowed in filters if they have an alias")
                .hint(format!("Change '{target}' to '{alias}' in filters, orders or limits.")),
            Self::NotEmbedded(name) => {
                not_embedded(name)
                    .hint(format!("Verify that '{name}' is included in the 'select' query parameter."))
            }
            Self::RelationshipUnknown(unknown) => {
                let (origin, target, schema) = (&unknown.origin, &unknown.target, &unknown.schema);
                let using = unknown.hint.as_ref().map_or_else(String::new, |hint| format!(" using the hint '{hint}'"));
                bad(
                    "PGRST200",
                    format!("Could not find a relationship between '{origin}' and '{target}' in the schema cache"),
                )
                .details(format!(
                    "Searched for a foreign key relationship between '{origin}' and '{target}'{using} in the schema \
                     '{schema}', but no matches were found."
                ))
                .hint(
                    unknown
                        .similar
                        .0
                        .first()
                        .map(|better| format!("Perhaps you meant '{}' instead of '{}'.", better.text, unknown.similar.1)),
                )
            }
            Self::RelationshipAmbiguous(ambiguous) => {
                let (origin, target) = (&ambiguous.origin, &ambiguous.target);
                let choices: Vec<String> =
                    ambiguous.candidates.iter().map(|candidate| format!("'{}'", candidate.choice)).collect();
                error(
                    StatusCode::MULTIPLE_CHOICES,
                    "PGRST201",
                    &format!(
                        "Could not embed because more than one relationship was found for '{origin}' and '{target}'"
                    ),
                )
                .details(serde_json::to_value(&ambiguous.candidates).unwrap_or_default())
                .hint((!choices.is_empty()).then(|| {
                    format!(
                        "Try changing '{target}' to one of the following: {}. Find the desired relationship in the \
                         'details' key.",
                        choices.join(", ")
                    )
                }))
            }
            Self::RelatedOrder { relation, embed } => {
                bad("PGRST118", format!("A related order on '{embed}' is not possible")).details(format!(
                    "'{relation}' and '{embed}' do not form a many-to-one or one-to-one relationship"
                ))
            }
            Self::AggregatesDisabled => bad("PGRST123", "Use of aggregate functions is not allowed".to_owned()),
            Self::AggregateInSpread => bad("PGRST127", "Feature not implemented".to_owned())
                .details("Aggregates are not implemented for one-to-many or many-to-many spreads."),
            Self::ColumnUnknown { column, relation } => bad(
                "PGRST204",
                format!("Could not find the '{column}' column of '{relation}' in the schema cache"),
            ),
            Self::PutFilters => error(
                StatusCode::METHOD_NOT_ALLOWED,
                "PGRST105",
                "Filters must include all and only primary key columns with 'eq' operators",
            ),
            Self::PutPayload => {
                bad("PGRST115", "Payload values do not match URL in primary key column(s)".to_owned())
            }
            Self::NotAcceptable(media) => error(
                StatusCode::NOT_ACCEPTABLE,
                "PGRST107",
                &format!("None of these media types are available: {}", media.join(", ")),
            ),
            Self::Preferences(invalid) => {
                bad("PGRST122", "Invalid preferences given with handling=strict".to_owned())
                    .details(format!("Invalid preferences: {}", invalid.join(", ")))
            }
            Self::MaxAffected(rows) => {
                bad("PGRST124", "Query result exceeds max-affected preference constraint".to_owned())
                    .details(format!("The query affects {rows} rows"))
            }
            Self::MaxAffectedRoutine => bad(
                "PGRST128",
                "Function must return SETOF or TABLE when max-affected preference is used with handling=strict"
                    .to_owned(),
            ),
            Self::NotSingular(rows) => error(
                StatusCode::NOT_ACCEPTABLE,
                "PGRST116",
                "Cannot coerce the result to a single JSON object",
            )
            .details(format!("The result contains {rows} rows")),
            Self::UnsafeWrite(verb) => bad("21000", format!("{verb} requires a WHERE clause")),
            Self::ResponseHeaders => internal(
                "PGRST111",
                "response.headers guc must be a JSON array composed of objects with a single key and a string value",
            ),
            Self::ResponseStatus => internal("PGRST112", "response.status guc must be a valid status code"),
            Self::Session(SessionError::Postgres(postgres)) => super::postgres::wire(postgres, context),
            Self::Session(SessionError::PoolTimeout) => error(
                StatusCode::GATEWAY_TIMEOUT,
                "PGRST003",
                "Timed out acquiring connection from connection pool.",
            ),
            Self::Session(SessionError::QueueFull) => busy(),
            Self::Session(SessionError::Unreachable(text)) => {
                error(StatusCode::SERVICE_UNAVAILABLE, "PGRST000", "Database connection error.").details(text.clone())
            }
            Self::Session(SessionError::Unavailable(text)) => error(
                StatusCode::SERVICE_UNAVAILABLE,
                "PGRST001",
                "Database client error. Retrying the connection.",
            )
            .details(text.clone()),
            Self::Session(SessionError::Deadline) => {
                error(StatusCode::GATEWAY_TIMEOUT, "57014", "canceling statement due to request timeout")
            }
            Self::Internal(message) => internal("PGRSTX00", message),
        }
    }
}

fn not_embedded(name: &str) -> ErrorResponse {
    let message = format!("'{name}' is not an embedded resource in this request");
    ErrorResponse::new(StatusCode::BAD_REQUEST, "PGRST108", message)
}

fn internal(code: &str, message: &str) -> ErrorResponse {
    ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, code, message)
}

fn unsatisfiable() -> ErrorResponse {
    ErrorResponse::new(StatusCode::RANGE_NOT_SATISFIABLE, "PGRST103", "Requested range not satisfiable")
}

fn auth_error(auth: &AuthError) -> ErrorResponse {
    let unauthorized =
        |code: &str, message: &str| ErrorResponse::new(StatusCode::UNAUTHORIZED, code, message);
    let invalid_token = |response: ErrorResponse| {
        let message = response.message.clone();
        let challenge = format!("Bearer error=\"invalid_token\", error_description=\"{message}\"");
        response.header(WWW_AUTHENTICATE, &challenge)
    };
    match auth {
        AuthError::AnonymousDisabled => {
            unauthorized("PGRST302", "Anonymous access is disabled").header(WWW_AUTHENTICATE, "Bearer")
        }
        AuthError::NoSecret => internal("PGRST300", "Server lacks JWT secret"),
        AuthError::Token { message, details } => {
            let response = unauthorized("PGRST301", message);
            invalid_token(match details {
                Some(details) => response.details(details.clone()),
                None => response,
            })
        }
        AuthError::Claims(message) => invalid_token(unauthorized("PGRST303", message)),
    }
}

/// Message of PGRST203: lists the functions that the caller may call.
fn ambiguous(signatures: &[Named]) -> String {
    let message = "Could not choose the best candidate function";
    if signatures.is_empty() {
        return message.to_owned();
    }
    let signatures: Vec<&str> = signatures.iter().map(|named| named.text.as_str()).collect();
    format!("{message} between: {}", signatures.join(", "))
}

fn routine_unknown(unknown: &RoutineUnknown) -> ErrorResponse {
    let function = format!("{}.{}", unknown.schema, unknown.name);
    let list = unknown.arguments.join(", ");
    let message_arguments = match (unknown.opaque, unknown.arguments.is_empty()) {
        (true, _) => String::new(),
        (false, true) => " without parameters".to_owned(),
        (false, false) => format!("({list})"),
    };
    let parameters = match unknown.arguments.as_slice() {
        [] => " without parameters".to_owned(),
        [one] => format!(" with parameter {one}"),
        _ => format!(" with parameters {list}"),
    };
    let searched = match (unknown.opaque, unknown.raw) {
        (true, Some(raw)) => format!(" with a single unnamed {raw} parameter"),
        (false, Some(raw)) => format!("{parameters} or with a single unnamed {raw} parameter"),
        (_, None) => parameters,
    };
    ErrorResponse::new(
        StatusCode::NOT_FOUND,
        "PGRST202",
        format!("Could not find the function {function}{message_arguments} in the schema cache"),
    )
    .details(format!(
        "Searched for the function {function}{searched}, but no matches were found in the schema cache."
    ))
    .hint(
        unknown.similar.first().map(|similar| {
            format!("Perhaps you meant to call the function {}.{}", unknown.schema, similar.text)
        }),
    )
}

/// Renders failures that occur outside the handler in the error format of this service.
#[must_use]
pub fn fault(fault: Fault) -> Response {
    let response = match fault {
        Fault::NotFound => RestError::Path.wire(ErrorContext::default()),
        Fault::MethodNotAllowed => RestError::Method(String::new()).wire(ErrorContext::default()),
        Fault::BodyTooLarge { limit } => RestError::BodyTooLarge { limit }.wire(ErrorContext::default()),
        Fault::SlowBody => {
            ErrorResponse::new(StatusCode::REQUEST_TIMEOUT, "PGRST102", "The request body came too slowly")
                .hint(Some("Nothing was done. Send it again.".to_owned()))
        }
        Fault::Timeout => RestError::Session(SessionError::Deadline).wire(ErrorContext::default()),
        Fault::Panic { id } => internal("PGRSTX00", "Internal error").details(format!("request id {id}")),
        Fault::BadRequest(message) => ErrorResponse::new(StatusCode::BAD_REQUEST, "PGRST100", message),
        Fault::Overloaded => busy(),
    };
    response.into_response(ErrorContext::default())
}

/// 503 with the code that PostgreSQL uses when it runs out of a resource.
fn busy() -> ErrorResponse {
    ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, "53000", "The server is busy")
        .hint(Some("Nothing was done. Try again after the seconds in Retry-After.".to_owned()))
}
