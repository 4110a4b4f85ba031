//! `/_control/…`: the control interface for tests, in JSON. A body requires the JSON content type, which a page of another
//! origin cannot send without a preflight, and the double does not respond to preflights.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cards::TypedCard;
use crate::state::{Buyer, State, Status};
use crate::webhooks::Delivery;
use crate::{Double, Inner, billing};

/// Maximum waiting faults.
const MAX_FAULTS: usize = 100;

/// Maximum move of the clock: five years, in seconds.
const MAX_CLOCK_MOVE: i64 = 5 * 366 * 86_400;

/// A recorded call to the API.
#[derive(Debug, Serialize)]
pub(crate) struct RequestRecord {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) idempotency_key: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) status: Option<u16>,
}

/// A fault for the next matching calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// `None` matches any method.
    #[serde(default)]
    method: Option<String>,
    /// The path's prefix, such as `/v1/customers`.
    #[serde(default)]
    path: String,
    #[serde(default = "one")]
    times: usize,
    #[serde(default)]
    pub(crate) latency_ms: u64,
    #[serde(default)]
    status: Option<u16>,
    /// The object in the response's `error` field.
    #[serde(default)]
    error: Option<Value>,
    /// Responds with a body that is not JSON.
    #[serde(default)]
    body: Option<String>,
    /// Breaks the connection within the response.
    #[serde(default)]
    reset: bool,
    /// Runs the call, but replaces its response.
    #[serde(default)]
    pub(crate) after: bool,
}

const fn one() -> usize {
    1
}

impl Fault {
    /// The response that replaces the call's own; `None` for a fault that only delays.
    pub(crate) fn response(&self) -> Option<Response> {
        if self.reset {
            let broken = futures_util::stream::once(async {
                Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
            });
            return Some(([(CONTENT_LENGTH, "100")], Body::from_stream(broken)).into_response());
        }
        let status = StatusCode::from_u16(self.status?).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(body) = &self.body {
            return Some((status, body.clone()).into_response());
        }
        let error = self.error.clone().unwrap_or_else(
            || json!({ "type": "api_error", "message": "A fault requested from the Stripe double." }),
        );
        let body = json!({ "error": error }).to_string();
        Some((status, [(CONTENT_TYPE, "application/json")], body).into_response())
    }
}

impl Inner {
    /// The fault for this call, if any; uses it up once.
    pub(crate) fn take_fault(&mut self, method: &Method, path: &str) -> Option<Fault> {
        let fault = self.faults.iter_mut().find(|fault| {
            fault.method.as_ref().is_none_or(|wanted| wanted == method.as_str())
                && path.starts_with(&fault.path)
        })?;
        fault.times = fault.times.saturating_sub(1);
        let met = fault.clone();
        self.faults.retain(|fault| fault.times > 0);
        Some(met)
    }

    pub(crate) fn note_status(&mut self, request: &str, status: StatusCode) {
        if let Some(record) = self.requests.iter_mut().rev().find(|record| record.id == request) {
            record.status = Some(status.as_u16());
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClockMove {
    AdvanceSeconds(i64),
    To(i64),
    ToPeriodEndOf(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deliver {
    events: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ForcedStatus {
    status: Status,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payment {
    #[serde(default = "paying_card")]
    card: String,
    #[serde(default)]
    email: Option<String>,
}

fn paying_card() -> String {
    "4242424242424242".to_owned()
}

/// Whether objects have the older version.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    pre_basil: bool,
}

type Answer = Result<Value, (StatusCode, String)>;

fn bad_request(text: impl Into<String>) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, text.into())
}

pub(crate) async fn answer(double: &Double, request: Request<Body>, path: &[&str]) -> Response {
    let answer = route(double, request, path).await;
    let (status, value) = match answer {
        Ok(value) => (StatusCode::OK, value),
        Err((status, text)) => (status, json!({ "error": text })),
    };
    (status, [(CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}

async fn route(double: &Double, request: Request<Body>, path: &[&str]) -> Answer {
    let method = request.method().clone();
    let is_json = request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if method != Method::GET && !is_json {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "Send Content-Type: application/json.".to_owned()));
    }
    let body =
        crate::body(request).await.ok_or_else(|| bad_request("The body is too long or incomplete."))?;
    match (method.as_str(), path) {
        ("GET", ["state"]) => Ok(double.summary()),
        ("GET", ["requests"]) => Ok(json!(double.lock().requests)),
        ("GET", ["deliveries"]) => Ok(json!(double.lock().outgoing.log)),
        ("POST", ["clock"]) => double.move_clock(&read(&body)?),
        ("PUT", ["delivery"]) => {
            let settings: Delivery = read(&body)?;
            double.with(|inner, _| inner.outgoing.settings = settings);
            Ok(double.summary())
        }
        ("POST", ["deliver"]) => {
            let Deliver { events } = read(&body)?;
            double.with(|inner, _| {
                let unknown = events.iter().find(|id| inner.state.events.get(id).is_none());
                if let Some(id) = unknown {
                    return Err(bad_request(format!("Event {id} does not exist.")));
                }
                events.iter().for_each(|id| inner.outgoing.enqueue_requested(id.clone()));
                Ok(json!({ "queued": events.len() }))
            })
        }
        ("PUT", ["shape"]) => {
            let Shape { pre_basil } = read(&body)?;
            double.with(|inner, _| inner.state.is_pre_basil = pre_basil);
            Ok(double.summary())
        }
        ("POST", ["faults"]) => {
            let fault: Fault = read(&body)?;
            let mut inner = double.lock();
            if inner.faults.len() == MAX_FAULTS {
                return Err(bad_request("Too many faults are waiting."));
            }
            inner.faults.push(fault);
            Ok(json!({ "faults": inner.faults.len() }))
        }
        ("DELETE", ["faults"]) => {
            double.lock().faults.clear();
            Ok(json!({ "faults": 0 }))
        }
        ("POST", ["subscriptions", id]) => {
            let ForcedStatus { status } = read(&body)?;
            double.with(|inner, now| {
                if inner.state.subscriptions.get(id).is_none() {
                    return Err(bad_request(format!("Subscription {id} does not exist.")));
                }
                if status == Status::Canceled {
                    billing::cancel(inner, now, id, "cancellation_requested");
                } else {
                    billing::update(inner, now, id, |it| it.status = status);
                }
                Ok(json!({ "id": id, "status": status }))
            })
        }
        ("POST", ["checkout", id]) => double.pay_for_test(id, &read(&body)?).await,
        ("POST", ["reset"]) => {
            double.with(|inner, _| {
                inner.state = State::default();
                inner.outgoing.clear();
                let version = inner.version;
                *inner = Inner { version, ..Inner::default() };
            });
            Ok(double.summary())
        }
        _ => Err((
            StatusCode::NOT_FOUND,
            "Unknown control route; control.rs in the double's sources lists them.".to_owned(),
        )),
    }
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, (StatusCode, String)> {
    serde_json::from_slice(body).map_err(|error| bad_request(error.to_string()))
}

impl Double {
    fn summary(&self) -> Value {
        let inner = self.lock();
        let state = &inner.state;
        json!({
            "now": self.now(&inner),
            "clock_offset": state.clock_offset,
            "pre_basil": state.is_pre_basil,
            "customers": state.customers.len(),
            "checkout_sessions": state.sessions.len(),
            "subscriptions": state.subscriptions.iter().map(|it| json!({
                "id": it.id, "customer": it.customer, "price": it.price.id, "status": it.status,
                "current_period_end": it.period_end, "cancel_at": it.cancel_at,
            })).collect::<Vec<_>>(),
            "events": state.events.len(),
            "pending_deliveries": inner.outgoing.pending(),
            "delivery": inner.outgoing.settings,
        })
    }

    fn move_clock(&self, target: &ClockMove) -> Answer {
        self.with(|inner, now| {
            let to = match target {
                ClockMove::AdvanceSeconds(seconds) => now.saturating_add(*seconds),
                ClockMove::To(to) => *to,
                ClockMove::ToPeriodEndOf(id) => match inner.state.subscriptions.get(id) {
                    Some(it) => it.period_end,
                    None => return Err(bad_request(format!("Subscription {id} does not exist."))),
                },
            };
            self.advance(inner, now, to).map_err(bad_request)?;
            Ok(json!({ "now": to }))
        })
    }

    /// Moves the double's clock forward and runs due steps.
    pub(crate) fn advance(&self, inner: &mut Inner, now: i64, to: i64) -> Result<(), &'static str> {
        if !(now..=now.saturating_add(MAX_CLOCK_MOVE)).contains(&to) {
            return Err("The clock can move forward only, by at most five years at a time.");
        }
        inner.state.clock_offset = inner.state.clock_offset.saturating_add(to - now);
        billing::run_due(inner, self.base(), to);
        Ok(())
    }

    async fn pay_for_test(&self, session: &str, payment: &Payment) -> Answer {
        let (email, now) = {
            let inner = self.lock();
            let it = inner
                .state
                .sessions
                .get(session)
                .ok_or_else(|| bad_request("The checkout session does not exist."))?;
            let customer = it.customer.as_deref().and_then(|id| inner.state.customers.get(id));
            let known =
                customer.and_then(|customer| customer.email.clone()).or_else(|| it.customer_email.clone());
            (
                payment.email.clone().or(known).unwrap_or_else(|| "buyer@example.org".to_owned()),
                self.now(&inner),
            )
        };
        let typed = TypedCard { number: &payment.card, expiry: "12 / 40", cvc: "123" };
        let (card, behaviour) = typed.check(now).map_err(|fault| bad_request(fault.message))?;
        if let Some(decline) = behaviour.decline() {
            return Err((StatusCode::PAYMENT_REQUIRED, decline.message));
        }
        let buyer = Buyer { email, name: "Test Buyer".to_owned() };
        self.pay(session, buyer, card).await.map_err(|error| (error.status, error.message))?;
        let inner = self.lock();
        Ok(
            json!({ "subscription": inner.state.sessions.get(session).and_then(|it| it.subscription.clone()) }),
        )
    }
}
