//! `/v1/…`: checks keys, applies faults and idempotency, and runs the call.

mod checkout;
mod customers;
pub(crate) mod idempotency;
mod portal;
mod subscriptions;

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use basalt_core::bearer::bearer_token;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::Value;

use crate::control::{Fault, RequestRecord};
use crate::error::{Result, StripeError};
use crate::params::Params;
use crate::prices::{Interval, Price};
use crate::state::{Row, Table};
use crate::{Double, Inner, json as shape, new_id};
use idempotency::Begin;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const STRIPE_VERSION: HeaderName = HeaderName::from_static("stripe-version");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The secret key of a request, `Bearer KEY`. Stripe also accepts it as the user of Basic authentication, which our clients do not use.
fn key_of(headers: &HeaderMap) -> Option<&str> {
    bearer_token(headers).map(str::trim)
}

/// A call with its parameters and state.
struct Call<'a> {
    double: &'a Double,
    inner: &'a mut Inner,
    params: Params,
    /// Read before the call; empty for calls that need no prices.
    prices: Vec<Price>,
    now: i64,
}

/// A complete response.
#[derive(Clone)]
struct Answer {
    status: StatusCode,
    body: Value,
    is_replay: bool,
}

impl From<StripeError> for Answer {
    fn from(error: StripeError) -> Self {
        Self { status: error.status, body: error.body(), is_replay: false }
    }
}

/// A client's request.
struct Incoming {
    id: String,
    method: Method,
    headers: HeaderMap,
    params: Params,
    key: Option<String>,
}

impl Incoming {
    fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

pub(crate) async fn answer(double: &Double, request: Request<Body>, path: &[&str]) -> Response {
    let mut incoming = Incoming {
        id: new_id("req_"),
        method: request.method().clone(),
        headers: request.headers().clone(),
        params: Params::default(),
        key: None,
    };
    let full_path = format!("/v1/{}", path.join("/"));
    incoming.key = incoming.header(IDEMPOTENCY_KEY).map(str::to_owned);
    let read = read_params(request).await;
    if let Ok(params) = &read {
        incoming.params = params.clone();
    }
    // Also record calls that hit a fault, because tests count attempts.
    let fault = {
        let mut inner = double.lock();
        inner.requests.push(RequestRecord {
            id: incoming.id.clone(),
            method: incoming.method.to_string(),
            path: full_path.clone(),
            params: incoming.params.as_map().clone(),
            idempotency_key: incoming.key.clone(),
            version: incoming.header(STRIPE_VERSION).map(str::to_owned),
            status: None,
        });
        inner.take_fault(&incoming.method, &full_path)
    };
    if let Some(fault) = &fault {
        tokio::time::sleep(Duration::from_millis(fault.latency_ms.min(120_000))).await;
    }
    let instead = fault.as_ref().and_then(Fault::response);
    let is_done = instead.is_none() || fault.is_some_and(|fault| fault.after);
    let done = match read {
        Err(error) => Answer::from(error),
        Ok(_) if is_done => handle(double, &incoming, path).await.unwrap_or_else(Answer::from),
        // The fault replaces the call.
        Ok(_) => Answer { status: StatusCode::OK, body: Value::Null, is_replay: false },
    };
    let mut response = instead.unwrap_or_else(|| {
        let body = serde_json::to_vec_pretty(&done.body).unwrap_or_default();
        (done.status, [(CONTENT_TYPE, "application/json")], body).into_response()
    });
    double.lock().note_status(&incoming.id, response.status());
    let out = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&incoming.id) {
        out.insert(REQUEST_ID, id);
    }
    let version = incoming.headers.get(STRIPE_VERSION).cloned();
    out.insert(STRIPE_VERSION, version.unwrap_or(HeaderValue::from_static(shape::API_VERSION)));
    if let Some(key) = incoming.headers.get(IDEMPOTENCY_KEY) {
        out.insert(IDEMPOTENCY_KEY, key.clone());
    }
    if done.is_replay {
        out.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// Reads parameters from the body of a POST, the query of a GET, or either of a DELETE.
async fn read_params(request: Request<Body>) -> Result<Params> {
    let is_get = request.method() == Method::GET;
    let query = request.uri().query().unwrap_or_default().to_owned();
    let content_type = request.headers().get(CONTENT_TYPE).cloned();
    let body = crate::body(request)
        .await
        .ok_or_else(|| StripeError::invalid("The body is too long or incomplete."))?;
    if is_get || body.is_empty() {
        return Params::parse(&query);
    }
    if !content_type.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-urlencoded")) {
        let text =
            "Invalid request (check that your POST content type is application/x-www-form-urlencoded).";
        return Err(StripeError::invalid(text));
    }
    let body = std::str::from_utf8(&body).map_err(|_error| StripeError::invalid("The body is not UTF-8."))?;
    Params::parse(body)
}

async fn handle(double: &Double, incoming: &Incoming, path: &[&str]) -> Result<Answer> {
    let (method, params) = (&incoming.method, incoming.params.clone());
    check_key(key_of(&incoming.headers))?;
    let prices = if needs_prices(method, path, &params) {
        double.0.config.prices.prices().await.map_err(StripeError::api)?
    } else {
        Vec::new()
    };
    let mut inner = double.lock();
    let now = double.now(&inner);
    let prices = with_created(&inner, prices);
    let key = incoming.key.clone().filter(|_| *method == Method::POST);
    if let Some(key) = &key {
        match inner.idempotency.begin(key, &path.join("/"), &params, now)? {
            Begin::New => {}
            Begin::Replay(status, body) => return Ok(Answer { status, body, is_replay: true }),
        }
    }
    inner.caller = Some((incoming.id.clone(), key.clone()));
    let call = Call { double, inner: &mut inner, params, prices, now };
    let done = call.dispatch(method, path);
    inner.caller = None;
    inner.version += 1;
    let is_kept = !done.as_ref().is_err_and(|error| error.is_validation);
    let answer =
        done.map_or_else(Answer::from, |body| Answer { status: StatusCode::OK, body, is_replay: false });
    if let Some(key) = key {
        inner.idempotency.end(&key, is_kept.then(|| (answer.status, answer.body.clone())));
    }
    drop(inner);
    double.0.wake.notify_one();
    Ok(answer)
}

/// The prices created through the API, then those of the project's other plans.
fn with_created(inner: &Inner, of_plans: Vec<Price>) -> Vec<Price> {
    let mut prices: Vec<Price> = inner.state.prices.iter().cloned().collect();
    let is_created = |id: &str| inner.state.prices.get(id).is_some();
    prices.extend(of_plans.into_iter().filter(|price| !is_created(&price.id)));
    prices
}

fn check_key(key: Option<&str>) -> Result<()> {
    match key {
        None | Some("") => Err(StripeError::unauthorized(
            "You did not provide an API key. Send it as 'Authorization: Bearer YOUR_SECRET_KEY'.",
        )),
        Some(key) if key.starts_with("sk_test_") || key.starts_with("rk_test_") => Ok(()),
        Some(key) if key.contains("_live_") => Err(StripeError::unauthorized(
            "Invalid API Key provided: the Stripe double does not accept live keys.",
        )),
        Some(_) => Err(StripeError::unauthorized(
            "Invalid API Key provided: the Stripe double accepts sk_test_… only.",
        )),
    }
}

/// Whether a call needs prices; other calls do not query the project.
fn needs_prices(method: &Method, path: &[&str], params: &Params) -> bool {
    match path {
        ["prices", ..] => *method == Method::GET,
        ["checkout", "sessions"] => *method == Method::POST,
        ["billing_portal", "sessions"] => params.has_below("flow_data"),
        ["subscriptions", _] => params.has_below("items"),
        _ => false,
    }
}

impl Call<'_> {
    fn dispatch(mut self, method: &Method, path: &[&str]) -> Result<Value> {
        let expand = self.params.list("expand");
        let mut value = match (method.as_str(), path) {
            ("POST", ["customers"]) => self.create_customer(),
            ("GET", ["customers"]) => self.list_customers(),
            ("GET", ["customers", id]) => self.get_customer(id),
            ("POST", ["customers", id]) => self.update_customer(id),
            ("DELETE", ["customers", id]) => self.delete_customer(id),
            ("POST", ["checkout", "sessions"]) => self.create_session(),
            ("GET", ["checkout", "sessions"]) => self.list_sessions(),
            ("GET", ["checkout", "sessions", id]) => self.get_session(id),
            ("POST", ["checkout", "sessions", id, "expire"]) => self.expire_session(id),
            ("POST", ["billing_portal", "sessions"]) => self.create_portal(),
            ("GET", ["subscriptions"]) => self.list_subscriptions(),
            ("GET", ["subscriptions", id]) => self.get_subscription(id),
            ("POST", ["subscriptions", id]) => self.update_subscription(id),
            ("POST", ["subscriptions", id, "resume"]) => self.resume_subscription(id),
            ("DELETE", ["subscriptions", id]) => self.cancel_subscription(id),
            ("POST", ["prices"]) => self.create_price(),
            ("GET", ["prices"]) => self.list_prices(),
            ("GET", ["prices", id]) => self.get_price(id),
            ("GET", ["invoices", id]) => self.get_invoice(id),
            ("GET", ["events"]) => self.list_events(),
            ("GET", ["events", id]) => self.get_event(id),
            _ => Err(StripeError::unknown_path(method, &path.join("/"))),
        }?;
        shape::expand(&mut value, &expand, &self.inner.state, self.double);
        Ok(value)
    }

    fn create_price(&mut self) -> Result<Value> {
        let currency = self.params.required("currency")?;
        let unit_amount = self.params.integer("unit_amount")?;
        let unit_amount = unit_amount.filter(|cents| *cents >= 0);
        let interval = self.params.required("recurring[interval]")?;
        let price = Price {
            id: new_id("price_"),
            product_name: self.params.required("product_data[name]")?,
            unit_amount: unit_amount.ok_or_else(|| StripeError::missing_param("unit_amount"))?,
            currency: currency.to_lowercase(),
            interval: Interval::parse(&interval).ok_or_else(|| {
                let text = format!(
                    "Invalid recurring[interval]: must be one of day, month, week, or year ({interval})."
                );
                StripeError::param("recurring[interval]", text)
            })?,
            active: self.params.boolean("active")?.unwrap_or(true),
        };
        self.params.finish()?;
        let value = shape::price(&price);
        self.inner.state.prices.insert(price);
        Ok(value)
    }

    fn list_prices(&mut self) -> Result<Value> {
        let active = self.params.boolean("active")?;
        let prices = self.prices.iter().filter(|price| active.is_none_or(|active| price.active == active));
        let prices: Vec<(String, Value)> =
            prices.map(|price| (price.id.clone(), shape::price(price))).collect();
        self.page("/v1/prices", prices)
    }

    fn get_price(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let price = self.prices.iter().find(|price| price.id == id);
        price.map(shape::price).ok_or_else(|| StripeError::not_found("price", id))
    }

    fn get_invoice(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let state = &self.inner.state;
        let invoice = state.invoices.get(id).ok_or_else(|| StripeError::not_found("invoice", id))?;
        Ok(shape::invoice(invoice, state.is_pre_basil))
    }

    fn list_events(&mut self) -> Result<Value> {
        let mut kinds = self.params.list("types");
        kinds.extend(self.params.text("type")?);
        let delivered = self.params.boolean("delivery_success")?;
        let (after, before) = (self.params.integer("created[gte]")?, self.params.integer("created[lte]")?);
        let events = self.inner.state.events.iter().rev().filter(|event| {
            (kinds.is_empty() || kinds.contains(&event.kind))
                && delivered.is_none_or(|delivered| event.delivered == delivered)
                && after.is_none_or(|after| event.created >= after)
                && before.is_none_or(|before| event.created <= before)
        });
        let events: Vec<(String, Value)> =
            events.map(|event| (event.id.clone(), event.body.clone())).collect();
        self.page("/v1/events", events)
    }

    fn get_event(&mut self, id: &str) -> Result<Value> {
        self.params.finish()?;
        let event = self.inner.state.events.get(id);
        event.map(|event| event.body.clone()).ok_or_else(|| StripeError::not_found("event", id))
    }

    /// One page of `rows` (id and object, newest first), selected by `limit`, `starting_after` and `ending_before`. Must be the last
    /// access to a call's parameters: remaining ones are an error.
    fn page(&mut self, url: &str, rows: Vec<(String, Value)>) -> Result<Value> {
        let limit = self.params.integer("limit")?.unwrap_or(10);
        let limit = usize::try_from(limit).ok().filter(|limit| (1..=100).contains(limit));
        let limit = limit
            .ok_or_else(|| StripeError::param("limit", "Invalid limit: it must be between 1 and 100."))?;
        let (after, before) = (self.params.text("starting_after")?, self.params.text("ending_before")?);
        self.params.finish()?;
        let place = |id: &str, name: &str| {
            let found = rows.iter().position(|(row, _)| row == id);
            found.ok_or_else(|| StripeError::no_such("object", id, name))
        };
        let (start, end) = match (&after, &before) {
            (Some(_), Some(_)) => {
                let text = "You may only specify one of these parameters: starting_after, ending_before.";
                return Err(StripeError::param("ending_before", text));
            }
            (Some(id), None) => (place(id, "starting_after")? + 1, rows.len()),
            (None, Some(id)) => (0, place(id, "ending_before")?),
            (None, None) => (0, rows.len()),
        };
        // `ending_before` selects the page that ends just before the object.
        let start = if before.is_some() { start.max(end.saturating_sub(limit)) } else { start };
        let total = end.saturating_sub(start);
        let has_more = if before.is_some() { start > 0 } else { total > limit };
        let rows = rows.into_iter().skip(start).take(total.min(limit));
        let data: Vec<Value> = rows.map(|(_, object)| object).collect();
        Ok(shape::list(url, &data, has_more))
    }

    /// The customer named by a parameter.
    fn customer_param(&mut self, name: &str) -> Result<Option<String>> {
        let Some(id) = self.params.text(name)? else { return Ok(None) };
        match self.inner.state.customers.get(&id) {
            Some(customer) if !customer.deleted => Ok(Some(id)),
            _ => Err(StripeError::no_such("customer", &id, name)),
        }
    }

    /// The active price named by a parameter.
    fn price_param(&mut self, name: &str) -> Result<Price> {
        let id = self.params.required(name)?;
        let price = self.prices.iter().find(|price| price.id == id);
        let price = price.ok_or_else(|| StripeError::no_such("price", &id, name))?;
        if !price.active {
            let text = "The price specified is inactive. This field only accepts active prices.";
            return Err(StripeError::param(name, text));
        }
        Ok(price.clone())
    }

    /// A quantity, which must be 1.
    fn quantity(&mut self, name: &str) -> Result<()> {
        match self.params.integer(name)? {
            None | Some(1) => Ok(()),
            Some(_) => Err(StripeError::param(name, "The Stripe double supports a quantity of 1 only.")),
        }
    }
}

/// The row named by the path.
fn find<'a, T: Row>(table: &'a Table<T>, what: &str, id: &str) -> Result<&'a T> {
    table.get(id).ok_or_else(|| StripeError::not_found(what, id))
}
