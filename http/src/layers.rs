//! Processing of requests before and after their service: request id, CORS, body limit, deadline, API key, panics,
//! access log and metrics. The gateway's router chooses the service.
//!
//! There is one function per concern, called in order by [`serve`]. A tower stack of eight generic layers would do
//! the same less readably, at the cost of a boxed future for each.

mod access_log;
pub mod api_key;
mod arrival;
pub mod bounds;
pub mod client_address;
mod compression;
pub mod cors;

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::body::Body;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use basalt_core::convert::saturating;
use basalt_core::service::{
    BodyMode, ClientAddress, Deadline, Fault, Handler, Original, Renderer, RequestId, Service,
};
use futures_util::FutureExt;
use futures_util::future::Either;
use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, ORIGIN, X_CONTENT_TYPE_OPTIONS,
};
use http::uri::{PathAndQuery, Scheme};
use http::{Request, StatusCode, Version};
use hyper::body::Body as _;
use metrics::{Counter, Histogram};
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;
use tracing::Instrument;

use access_log::Caller;
use api_key::{Gate, KeyGate};
use arrival::Arrival;
use bounds::{Bounds, SMALL_BODY};
use compression::AcceptedCodings;
use cors::CorsPolicy;

/// `x-request-id`, set on every response of a service.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A service as mounted by the gateway.
pub struct Mount {
    /// Path prefix; `""` is the root.
    pub prefix: Arc<str>,
    /// The mounted service.
    pub service: Service,
    /// Requests that need an API key.
    pub gate: Gate,
    /// CORS origins from the service's own settings, which override the gateway's.
    pub origins: Origins,
    /// Handler that replaces the service's router, if the service has one.
    pub direct: Option<Handler>,
    metrics: RequestMetrics,
}

/// Returns the CORS origins of a service; called for requests with an `Origin`.
pub type Origins = Box<dyn Fn() -> Option<Vec<String>> + Send + Sync>;

impl Mount {
    /// Mounts `service` at `prefix`.
    #[must_use]
    pub fn new(prefix: impl Into<Arc<str>>, service: Service, gate: Gate) -> Self {
        let prefix = prefix.into();
        let metrics = RequestMetrics::new(service.name);
        Self { prefix, service, gate, origins: Box::new(|| None), direct: None, metrics }
    }

    fn cors<'a>(&self, shared: &'a CorsPolicy) -> Cow<'a, CorsPolicy> {
        (self.origins)().map_or(Cow::Borrowed(shared), |origins| Cow::Owned(CorsPolicy::new(&origins)))
    }
}

/// Generates ids that are unique within a process and unlikely to collide across restarts.
pub struct RequestIds {
    prefix: String,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        Self { prefix: basalt_core::random::token(8), next: AtomicU64::new(0) }
    }
}

impl RequestIds {
    fn make(&self) -> String {
        format!("{}-{:x}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// State shared by all mounts.
pub struct Shared {
    /// Generator of request ids.
    pub request_ids: RequestIds,
    /// CORS policy of the gateway.
    pub cors: CorsPolicy,
    /// API key check.
    pub key_gate: KeyGate,
    /// Limits on concurrent work.
    pub bounds: Arc<Bounds>,
}

/// The client of a request.
#[derive(Debug, Clone)]
pub struct Client {
    /// Client address.
    pub address: ClientAddress,
    /// Scheme used by the client, as reported by a trusted proxy if there is one.
    pub scheme: Scheme,
}

/// Serves one request for `mount`. The request's path still includes the prefix.
pub async fn serve(shared: &Shared, mount: &Mount, mut request: Request<Body>, client: Client) -> Response {
    let service = &mount.service;
    let started = Instant::now();
    let origin = request.headers().get(ORIGIN).cloned();
    let original = original(mount, &request, client.scheme);
    // Before the key gate rewrites `Authorization`.
    let mut caller =
        Caller::read(&original.target, request.headers(), client.address.0, shared.key_gate.keys());
    let stripped = strip_prefix(&mount.prefix, &mut request);
    let is_preflight = cors::is_preflight(&request);
    let is_own_preflight =
        is_preflight && service.own_preflight.as_ref().is_some_and(|is_own| is_own(&request));
    if is_preflight && !is_own_preflight {
        return mount.cors(&shared.cors).preflight(&service.cors, &request);
    }
    let render = (service.renderer)(&request);
    let id = shared.request_ids.make();
    let method = request.method().clone();
    let in_flight = shared.bounds.enter();
    let admitted = match (&in_flight, stripped) {
        (Err(bounds::Overloaded), _) => Err(Box::new(render(Fault::Overloaded))),
        (Ok(_), Err(reason)) => Err(Box::new(render(Fault::BadRequest(reason)))),
        (Ok(_), Ok(())) => admit(shared, mount, &mut request, is_own_preflight, &render),
    };
    let mut response = match admitted {
        Err(refused) => *refused,
        Ok(body) => {
            if let Some(caller) = &mut caller {
                caller.read_role(request.headers(), shared.key_gate.keys());
            }
            let deadline = Deadline::new(started, service.deadline);
            let extensions = request.extensions_mut();
            extensions.insert(deadline);
            extensions.insert(RequestId(id.clone()));
            extensions.insert(client.address);
            extensions.insert(original);
            client_address::set_forwarded_for(request.headers_mut(), client.address);
            // Log events of the service carry the fields of this span.
            let span = tracing::info_span!("request", service = service.name, %method, request_id = %id);
            let call = Call { mount, render: &render, deadline: deadline.at(), id: &id };
            call_with_memory(&shared.bounds, call, request, body).instrument(span).await
        }
    };
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        // A service may set the id itself, from the client's trace header (rest.md §3.19).
        headers.entry(REQUEST_ID).or_insert(value);
    }
    sandbox(headers);
    if let Some(origin) = &origin {
        mount.cors(&shared.cors).decorate(&service.cors, origin, headers);
    }
    let outcome = Outcome { status: response.status(), bytes: response.body().size_hint().exact() };
    observe(mount, &method, outcome, started, &id, caller.as_ref());
    response
}

/// Keeps content from users and the database out of the app's origin: a browser that renders a sandboxed response
/// gives it an opaque origin without scripts. Pages of a service that set their own policy keep it.
fn sandbox(headers: &mut HeaderMap) {
    headers.entry(X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if headers.get_all(CONTENT_TYPE).iter().any(|media| !is_inert(media.as_bytes())) {
        headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("sandbox"));
    }
}

/// Whether browsers display this media type as text, download it, or open it in a viewer outside the origin. PDF is
/// included because Chrome's viewer does not open sandboxed files. All other types count as pages: HTML, every kind
/// of XML, and whatever browsers may render in the future.
fn is_inert(media: &[u8]) -> bool {
    let end = media.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t')).unwrap_or(media.len());
    let essence = media.get(..end).unwrap_or_default();
    let ends_with_json = essence.last_chunk::<5>().is_some_and(|end| end.eq_ignore_ascii_case(b"+json"));
    let inert: [&[u8]; 6] = [
        b"application/json",
        b"text/plain",
        b"text/csv",
        b"text/event-stream",
        b"application/octet-stream",
        b"application/pdf",
    ];
    ends_with_json || inert.iter().any(|inert| essence.eq_ignore_ascii_case(inert))
}

/// The request target as the client sent it.
fn original(mount: &Mount, request: &Request<Body>, scheme: Scheme) -> Original {
    let uri = request.uri();
    let authority = uri.authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    Original {
        scheme,
        authority: authority.or_else(|| request.headers().get(HOST).cloned()),
        target: uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/")),
        prefix: Arc::clone(&mount.prefix),
    }
}

/// How a body is received, with its announced length.
struct ExpectedBody {
    mode: BodyMode,
    length: Option<u64>,
}

/// Runs every check that can reject a request before its body is read. A preflight carries no key.
fn admit(
    shared: &Shared,
    mount: &Mount,
    request: &mut Request<Body>,
    is_preflight: bool,
    render: &Renderer,
) -> Result<ExpectedBody, Box<Response>> {
    if !is_preflight {
        shared.key_gate.admit(mount.gate, request)?;
    }
    let mode = (mount.service.bodies)(request);
    let limit = mount.service.body_limit;
    let length =
        request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let is_too_long = length.is_some_and(|length| length > saturating::<u64>(limit));
    if mode == BodyMode::Buffered && is_too_long {
        return Err(Box::new(render(Fault::BodyTooLarge { limit })));
    }
    Ok(ExpectedBody { mode, length })
}

/// Removes the prefix from the path: `/rest/v1/plans?x` becomes `/plans?x`. The prefix itself becomes `/`.
fn strip_prefix(prefix: &str, request: &mut Request<Body>) -> Result<(), String> {
    if prefix.is_empty() {
        return Ok(());
    }
    let target = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
    let rest = target.strip_prefix(prefix).unwrap_or(target);
    let stripped = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    *request.uri_mut() = stripped.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
    Ok(())
}

/// A request to a mounted service, as it passes through the layers.
struct Call<'a> {
    mount: &'a Mount,
    render: &'a Renderer,
    deadline: Instant,
    id: &'a str,
}

/// Calls the service once memory for the body is reserved; the bytes hold the reservation for as long as they live.
async fn call_with_memory(
    bounds: &Bounds,
    call: Call<'_>,
    mut request: Request<Body>,
    body: ExpectedBody,
) -> Response {
    let (service, render) = (&call.mount.service, call.render);
    if request.body().is_end_stream() {
        return call
            .run(request, None)
            .await
            .unwrap_or_else(|timed_out| timed_out.render(service.name, render));
    }
    let (share, counted, limit) = match body.mode {
        BodyMode::Streamed => (Some(bounds.empty_share()), None, usize::MAX),
        BodyMode::Buffered => {
            let free = if is_csv(request.headers()) { 0 } else { SMALL_BODY };
            let made = bounds.make_room(body.length, free, call.deadline).await;
            let Ok(share) = made else { return render(Fault::Overloaded) };
            (share.clone(), share, service.body_limit)
        }
    };
    if let Some(share) = &share {
        request.extensions_mut().insert(share.lease());
    }
    let arrival = Arc::new(Arrival::default());
    let watched = arrival.watch(std::mem::take(request.body_mut()), limit, bounds.pace(), counted);
    *request.body_mut() = watched;
    let is_http1 = request.version() < Version::HTTP_2;
    let streams = (body.mode == BodyMode::Streamed).then_some(&*arrival);
    let outcome = call.run(request, streams).await;
    if share.is_some_and(|share| share.is_refused()) {
        return render(Fault::Overloaded);
    }
    match outcome {
        Ok(response) if !arrival.is_too_slow() => response,
        Err(timed_out) if !arrival.is_awaited() => timed_out.render(service.name, render),
        Ok(_) | Err(TimedOut) => {
            bounds.slow_bodies.increment(1);
            let mut response = render(Fault::SlowBody);
            if is_http1 {
                // The remaining body may still arrive, and must not be parsed as a request.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
    }
}

/// Whether the body is CSV, whose decoded form is much larger.
fn is_csv(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        value.as_bytes().get(..8).is_some_and(|media| media.eq_ignore_ascii_case(b"text/csv"))
    })
}

/// The request exceeded its deadline.
struct TimedOut;

impl TimedOut {
    fn render(self, service: &'static str, render: &Renderer) -> Response {
        tracing::warn!("request timed out in {service}");
        render(Fault::Timeout)
    }
}

impl Call<'_> {
    /// Calls the service within its deadline. While a body `streams`, the deadline restarts with each progress. A
    /// panic is rendered by the service's renderer.
    async fn run(&self, mut request: Request<Body>, streams: Option<&Arrival>) -> Result<Response, TimedOut> {
        let Self { mount, render, deadline, id } = *self;
        let service = &mount.service;
        let accepted = service.compresses.then(|| AcceptedCodings::from_headers(request.headers())).flatten();
        let handled = match &mount.direct {
            Some(direct) => Either::Left(direct(request)),
            None => {
                // Disables axum's limit of 2 MB, because the gateway or the service limits the body.
                DefaultBodyLimit::disable().apply(&mut request);
                Either::Right(service.router.clone().oneshot(request).map(|answered| match answered {
                    Ok(response) => response,
                    Err(never) => match never {},
                }))
            }
        };
        let handled = async {
            let response = handled.await;
            match accepted {
                Some(accepted) => accepted.compress(response).await,
                None => response,
            }
        };
        let handled = AssertUnwindSafe(handled).catch_unwind();
        let outcome = match streams {
            None => timeout_at(deadline, handled).await.map_err(|_elapsed| TimedOut),
            Some(arrival) => tokio::select! {
                outcome = handled => Ok(outcome),
                () = arrival.stalled(service.deadline) => Err(TimedOut),
            },
        };
        outcome.map(|outcome| {
            outcome.unwrap_or_else(|_panic| {
                tracing::error!("handler panicked; see the panic message above");
                render(Fault::Panic { id: id.to_owned() })
            })
        })
    }
}

/// Metric handles, resolved once: resolving a counter by its labels costs as much as parsing a small request.
struct RequestMetrics {
    by_class: [Counter; 5],
    seconds: Histogram,
}

impl RequestMetrics {
    fn new(service: &'static str) -> Self {
        let counter = |class: &'static str| metrics::counter!("basalt_http_requests_total", "service" => service, "status" => class);
        Self {
            by_class: ["1xx", "2xx", "3xx", "4xx", "5xx"].map(counter),
            seconds: metrics::histogram!("basalt_http_request_duration_seconds", "service" => service),
        }
    }
}

/// What the client receives.
#[derive(Clone, Copy)]
struct Outcome {
    status: StatusCode,
    /// Length of the body; `None` if it is streamed without a known length.
    bytes: Option<u64>,
}

fn observe(
    mount: &Mount,
    method: &http::Method,
    Outcome { status, bytes }: Outcome,
    started: Instant,
    id: &str,
    caller: Option<&Caller>,
) {
    let (service, metrics) = (mount.service.name, &mount.metrics);
    let took = started.elapsed();
    let class = usize::from(status.as_u16().clamp(100, 599) / 100 - 1);
    if let Some(counter) = metrics.by_class.get(class) {
        counter.increment(1);
    }
    metrics.seconds.record(took.as_secs_f64());
    let Some(caller) = caller else { return };
    tracing::info!(
        target: access_log::TARGET,
        service,
        %method,
        path = caller.path,
        client = %caller.client,
        user = caller.user,
        role = caller.role,
        bytes,
        status = status.as_u16(),
        duration_ms = took.as_secs_f64() * 1000.0,
        request_id = id,
        "{method} {service} {}", status.as_u16()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renderable_content_is_sandboxed() {
        for (media, policy) in [
            ("text/html", Some("sandbox")),
            ("Text/HTML; charset=utf-8", Some("sandbox")),
            ("application/xhtml+xml", Some("sandbox")),
            ("image/svg+xml", Some("sandbox")),
            ("text/xml; charset=utf-8", Some("sandbox")),
            ("application/pdf", None),
            ("multipart/x-mixed-replace", Some("sandbox")),
            ("text/html, application/json", Some("sandbox")),
            ("*/*", Some("sandbox")),
            ("", Some("sandbox")),
            ("application/json; charset=utf-8", None),
            ("application/vnd.pgrst.object+json; charset=utf-8", None),
            ("application/octet-stream", None),
            ("text/plain;charset=utf-8", None),
            ("TEXT/CSV ; charset=utf-8", None),
            ("text/event-stream", None),
        ] {
            let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media))]);
            sandbox(&mut headers);
            let given = headers.get(CONTENT_SECURITY_POLICY).map(HeaderValue::as_bytes);
            assert_eq!(given, policy.map(str::as_bytes), "{media}");
            assert_eq!(headers.get(X_CONTENT_TYPE_OPTIONS).unwrap(), "nosniff", "{media}");
        }
    }

    #[test]
    fn existing_policy_is_kept() {
        let mut headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("text/html")),
            (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'")),
        ]);
        sandbox(&mut headers);
        assert_eq!(headers.get(CONTENT_SECURITY_POLICY).unwrap(), "default-src 'none'");
    }
}
