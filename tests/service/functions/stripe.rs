//! A Stripe that a test holds in its hands: it answers with the objects that the test has put there, or fails as told. The
//! double of Stripe, which behaves by itself, is in `double_of_stripe.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use basalt_testkit::{Basalt, Builder, Request, Response};
use serde_json::{Value, json};

use super::app;
use super::double::{Act, Provider, Received};

pub(super) const SECRET: &str = "whsec_dGhlIHNlY3JldCBvZiB0aGUgZW5kcG9pbnQ";
pub(super) const PRICE: &str = "price_basic";

type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

/// Objects by path: `subscriptions/sub_1`, `customers/cus_1`.
pub(super) struct Stripe {
    pub(super) provider: Provider,
    objects: Objects,
}

impl Stripe {
    pub(super) async fn start() -> Self {
        let objects = Objects::default();
        let shown = Arc::clone(&objects);
        let provider = Provider::start(move |request| answer(&shown, request)).await;
        Self { provider, objects }
    }

    /// From now on it has this object.
    pub(super) fn put(&self, path: &str, object: &Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), object.clone());
    }

    /// From now on it does this with every request.
    pub(super) fn fail(&self, act: Act) {
        self.provider.act(move |_| act.clone());
    }

    /// From now on it answers again.
    pub(super) fn recover(&self) {
        let shown = Arc::clone(&self.objects);
        self.provider.act(move |request| answer(&shown, request));
    }

    /// From now on it does with each request what `act` says of what it would do.
    pub(super) fn wrap(&self, act: impl Fn(&Received, Act) -> Act + Send + Sync + 'static) {
        let shown = Arc::clone(&self.objects);
        self.provider.act(move |request| act(request, answer(&shown, request)));
    }

    /// Requests whose first line begins so.
    pub(super) fn requests(&self, begin: &str) -> Vec<Received> {
        self.provider.received().into_iter().filter(|request| request.head.starts_with(begin)).collect()
    }
}

/// A server whose payments are at `stripe`, with one plan.
pub(super) fn server(stripe: &Stripe) -> Builder {
    app()
        .config("stripe.secret_key", "sk_test_a_key_of_the_tests")
        .config("stripe.webhook_secret", SECRET)
        .config("stripe.api_base", &stripe.provider.url())
}

/// The plan for sale.
pub(super) async fn add_plan(server: &Basalt, price: &str, active: bool) {
    server
        .sql(&format!(
            "insert into public.subscription_plans (name, price, stripe_price_id, active) values ('{price}', 10, '{price}', {active})
             on conflict (stripe_price_id) do update set active = excluded.active"
        ))
        .await;
}

fn answer(objects: &Objects, request: &Received) -> Act {
    let mut words = request.head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    // Mail is asked for at the same place.
    let path = target.strip_prefix("/v1/").or_else(|| target.strip_prefix('/')).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut objects = objects.lock().unwrap();
    let found = |object: &Value| Act::Answer(200, object.to_string());
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

fn missing() -> Act {
    Act::Answer(404, json!({"error": {"type": "invalid_request_error", "code": "resource_missing", "param": "id", "message": "No such object"}}).to_string())
}

/// The parameters of a form.
pub(super) fn url_pairs(form: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(form.as_bytes()).into_owned().collect()
}

/// A subscription as Stripe has it today.
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

/// `Stripe-Signature` of a body.
pub(super) fn signature(secret: &str, time: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signed = [format!("{time}.").as_bytes(), body].concat();
    hmac::sign(&key, &signed).as_ref().iter().fold(format!("t={time},v1="), |mut header, byte| {
        write!(header, "{byte:02x}").unwrap();
        header
    })
}

/// A delivery of an event, pretty-printed as Stripe's are.
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

/// `status`, `outcome` and `error_message` of an event, once it is no more pending.
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
