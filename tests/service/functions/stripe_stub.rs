//! The scripted Stripe: it returns the objects that a test stores in it, or fails as the test says. Tests of whole subscriptions
//! use the program `basalt-stripe-double` instead (`subscription_life.rs`), which behaves like Stripe.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use basalt_testkit::{Basalt, Builder, HttpStub, Reply, Request, Response, StubRequest};
use serde_json::{Value, json};

use super::app;

pub(super) const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgZW5kcG9pbnQ";
pub(super) const PRICE: &str = "price_basic";

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// Objects by path: `subscriptions/sub_1`, `customers/cus_1`.
pub(super) struct StripeStub {
    pub(super) http: HttpStub,
    objects: Objects,
}

impl StripeStub {
    pub(super) async fn start() -> Self {
        let objects = Objects::default();
        let shared = Arc::clone(&objects);
        let http = HttpStub::start(move |request| respond(&shared, request)).await;
        Self { http, objects }
    }

    /// Stores an object.
    pub(super) fn put(&self, path: &str, object: &Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), object.clone());
    }

    /// Gives the same reply to every request.
    pub(super) fn reply(&self, reply: Reply) {
        self.http.reply(move |_| reply.clone());
    }

    /// Returns the stored objects again.
    pub(super) fn recover(&self) {
        let shared = Arc::clone(&self.objects);
        self.http.reply(move |request| respond(&shared, request));
    }

    /// Passes each request and its normal reply through `change`.
    pub(super) fn intercept(&self, change: impl Fn(&StubRequest, Reply) -> Reply + Send + Sync + 'static) {
        let shared = Arc::clone(&self.objects);
        self.http.reply(move |request| change(request, respond(&shared, request)));
    }

    /// Requests whose request line starts with `begin`.
    pub(super) fn requests(&self, begin: &str) -> Vec<StubRequest> {
        self.http.requests().into_iter().filter(|request| request.head.starts_with(begin)).collect()
    }
}

/// A server that uses `stripe`.
pub(super) fn server(stripe: &StripeStub) -> Builder {
    app()
        .config("stripe.secret_key", "sk_test_a_key_of_the_tests")
        .config("stripe.webhook_secret", SECRET)
        .config("stripe.api_base", &stripe.http.url())
}

/// Adds a plan.
pub(super) async fn add_plan(server: &Basalt, price: &str, active: bool) {
    server
        .sql(&format!(
            "insert into public.subscription_plans (name, price, stripe_price_id, active) values ('{price}', 10, '{price}', {active})
             on conflict (stripe_price_id) do update set active = excluded.active"
        ))
        .await;
}

fn respond(objects: &Objects, request: &StubRequest) -> Reply {
    let mut parts = request.head.split(' ');
    let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // Resend uses the same stub, without `/v1`.
    let path = target.strip_prefix("/v1/").or_else(|| target.strip_prefix('/')).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut objects = objects.lock().unwrap();
    let found = |object: &Value| Reply::Respond(200, object.to_string());
    let form: BTreeMap<String, String> = url_pairs(&request.body);
    let of_customer =
        |object: &&Value| query.contains(&format!("customer={}", object["customer"].as_str().unwrap_or("-")));
    match (method, path) {
        ("GET", "subscriptions") => {
            let data: Vec<&Value> = objects
                .values()
                .filter(|object| object["object"] == "subscription")
                .filter(of_customer)
                .collect();
            found(&json!({"object": "list", "data": data, "has_more": false}))
        }
        ("GET", "checkout/sessions") => found(&json!({"object": "list", "data": []})),
        ("POST", "customers") => {
            found(&json!({"id": format!("cus_of_{}", form["metadata[user_id]"].replace('-', ""))}))
        }
        ("POST", "emails") => found(&json!({"id": "mail_1"})),
        ("POST", "checkout/sessions") => {
            found(&json!({"id": "cs_test_1", "url": "https://checkout.stripe.test/c/pay/cs_test_1"}))
        }
        ("POST", "billing_portal/sessions") => {
            found(&json!({"id": "bps_1", "url": "https://billing.stripe.test/p/session/bps_1"}))
        }
        ("DELETE", _) => match objects.get_mut(path) {
            Some(object) => {
                object["status"] = json!("canceled");
                found(object)
            }
            None => missing(),
        },
        ("POST", _) => match objects.get(path) {
            Some(object) => {
                let mut object = object.clone();
                if let Some(flag) = form.get("cancel_at_period_end") {
                    object["cancel_at_period_end"] = json!(flag == "true");
                }
                if form.contains_key("cancel_at") {
                    object["cancel_at"] = json!(null);
                }
                found(&object)
            }
            None => missing(),
        },
        _ => objects.get(path).map_or_else(missing, found),
    }
}

fn missing() -> Reply {
    Reply::Respond(404, json!({"error": {"type": "invalid_request_error", "code": "resource_missing", "param": "id", "message": "No such object"}}).to_string())
}

/// The fields of a form body.
pub(super) fn url_pairs(form: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(form.as_bytes()).into_owned().collect()
}

/// A subscription in Stripe's current format.
pub(super) fn subscription(id: &str, user: &str, status: &str) -> Value {
    json!({
        "id": id, "object": "subscription", "customer": format!("cus_{id}"), "status": status, "livemode": false,
        "cancel_at_period_end": false, "cancel_at": null, "metadata": {"user_id": user},
        "items": {"data": [{"id": format!("si_{id}"), "price": {"id": PRICE}, "current_period_end": 2_000_000_000}]},
    })
}

/// An event about an object.
pub(super) fn event(id: &str, kind: &str, created: i64, object: &Value) -> Value {
    json!({
        "id": id, "object": "event", "type": kind, "created": created, "livemode": false,
        "api_version": "2026-09-30.endive", "data": {"object": object},
    })
}

/// Now, in seconds since 1970.
pub(super) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The `Stripe-Signature` header for a body.
pub(super) fn signature(secret: &str, time: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = [format!("{time}.").as_bytes(), body].concat();
    format!("t={time},v1={}", hex::encode(hmac::sign(&key, &signed)))
}

/// A webhook request, pretty-printed as Stripe's are.
pub(super) fn delivery(server: &Basalt, event: &Value) -> Request {
    let body = serde_json::to_string_pretty(event).unwrap();
    server
        .post("/functions/v1/stripe-webhook")
        .header("content-type", "application/json; charset=utf-8")
        .header("stripe-signature", &signature(SECRET, now(), body.as_bytes()))
        .body(body)
}

pub(super) async fn deliver(server: &Basalt, event: &Value) -> Response {
    delivery(server, event).send().await
}

/// `status`, `outcome` and `error_message` of an event, once it is no longer pending.
pub(super) async fn settled(server: &Basalt, id: &str) -> (String, String, String) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let rows = server
            .sql(&format!(
                "select status, coalesce(outcome, ''), coalesce(error_message, '') from public.webhook_events where id = '{id}'"
            ))
            .await;
        let text = |column: usize| rows.first().and_then(|row| row[column].clone()).unwrap_or_default();
        if !matches!(text(0).as_str(), "" | "pending") {
            return (text(0), text(1), text(2));
        }
        assert!(tokio::time::Instant::now() < deadline, "{id} is still {rows:?}");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
