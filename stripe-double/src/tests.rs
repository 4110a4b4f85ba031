//! The double through its router, as clients and browsers see it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{Config, Double, FixedPrices, Interval, Price};

const DAY: i64 = 86_400;

fn price(id: &str, cents: i64, interval: Interval, active: bool) -> Price {
    let product_name = format!("Plan <{id}>");
    Price {
        id: id.to_owned(),
        product_name,
        unit_amount: cents,
        currency: "usd".to_owned(),
        interval,
        active,
    }
}

fn config() -> Config {
    Config {
        base_url: "http://localhost:8000/stripe-double".parse().unwrap(),
        endpoint: None,
        webhook_secret: "whsec_test".to_owned().into(),
        prices: Arc::new(FixedPrices(vec![
            price("price_month", 2_900, Interval::Month, true),
            price("price_year", 29_000, Interval::Year, true),
            price("price_old", 900, Interval::Month, false),
        ])),
        state_file: None,
    }
}

struct Reply {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }

    /// Status, code and parameter of an error.
    fn error(&self) -> (u16, Value, Value) {
        let error = self.json()["error"].clone();
        (self.status.as_u16(), error["code"].clone(), error["param"].clone())
    }
}

async fn send(double: &Double, request: Request<Body>) -> Reply {
    let response = double.router().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 22).await.unwrap();
    Reply { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() }
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder().method(method).uri(path)
}

async fn call(double: &Double, method: Method, path: &str, form: &str) -> Reply {
    keyed(double, method, path, form, None).await
}

async fn keyed(double: &Double, method: Method, path: &str, form: &str, key: Option<&str>) -> Reply {
    let mut request = request(method, path).header(AUTHORIZATION, "Bearer sk_test_x");
    request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    send(double, request.body(Body::from(form.to_owned())).unwrap()).await
}

async fn page(double: &Double, method: Method, path: &str, form: &str) -> Reply {
    let path = path.trim_start_matches("http://localhost:8000").trim_start_matches("/stripe-double");
    send(double, request(method, path).body(Body::from(form.to_owned())).unwrap()).await
}

async fn control(double: &Double, method: Method, path: &str, body: Value) -> Reply {
    let request = request(method, path).header(CONTENT_TYPE, "application/json");
    send(double, request.body(Body::from(body.to_string())).unwrap()).await
}

async fn customer(double: &Double) -> String {
    let reply =
        call(double, Method::POST, "/v1/customers", "email=a%40example.org&metadata[user_id]=u1").await;
    reply.json()["id"].as_str().unwrap().to_owned()
}

const URLS: &str = "success_url=http%3A%2F%2Flocalhost%3A8000%2Fdashboard%3Fs%3D{CHECKOUT_SESSION_ID}\
                    &cancel_url=http%3A%2F%2Flocalhost%3A8000%2Fpricing";

async fn session(double: &Double, customer: &str, price: &str) -> Value {
    let form = format!(
        "mode=subscription&customer={customer}&line_items[0][price]={price}&line_items[0][quantity]=1&client_reference_id=u1\
         &metadata[user_id]=u1&subscription_data[metadata][user_id]=u1&allow_promotion_codes=true&{URLS}"
    );
    let reply = call(double, Method::POST, "/v1/checkout/sessions", &form).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    reply.json()
}

const CARD: &str = "number=4242+4242+4242+4242&expiry=12+%2F+40&cvc=123&name=Ada";

/// A customer with a paid subscription: their ids.
async fn subscribed(double: &Double, card: &str) -> (String, String) {
    let customer = customer(double).await;
    let session = session(double, &customer, "price_month").await;
    let form = CARD.replace("4242+4242+4242+4242", card);
    let paid = page(double, Method::POST, session["url"].as_str().unwrap(), &form).await;
    assert_eq!(paid.status, StatusCode::SEE_OTHER, "{}", paid.text);
    let subscriptions =
        call(double, Method::GET, &format!("/v1/subscriptions?customer={customer}"), "").await.json();
    (customer, subscriptions["data"][0]["id"].as_str().unwrap().to_owned())
}

async fn get(double: &Double, subscription: &str) -> Value {
    call(double, Method::GET, &format!("/v1/subscriptions/{subscription}"), "").await.json()
}

/// The types of the events, the oldest first.
async fn kinds(double: &Double) -> Vec<String> {
    let events = call(double, Method::GET, "/v1/events?limit=100", "").await.json();
    let events = events["data"].as_array().unwrap().iter().rev();
    events.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn subscription_is_bought_on_hosted_page() {
    let double = Double::new(config());
    let customer = customer(&double).await;
    let session = session(&double, &customer, "price_month").await;
    assert_eq!(session["ui_mode"], "hosted_page");
    let url = session["url"].as_str().unwrap();
    let shown = page(&double, Method::GET, url, "").await;
    assert!(
        shown.text.contains("Plan &lt;price_month&gt;") && shown.text.contains("$29.00"),
        "{}",
        shown.text
    );
    assert!(shown.text.contains("Test mode.") && shown.text.contains("a@example.org"));
    let policy = shown.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("form-action 'self' http://localhost:8000"), "{policy}");

    let declined =
        page(&double, Method::POST, url, &CARD.replace("4242+4242+4242+4242", "4000000000000002")).await;
    assert_eq!(declined.status, StatusCode::PAYMENT_REQUIRED);
    assert!(declined.text.contains("Your card was declined.") && declined.text.contains("value=\"Ada\""));
    let missing = page(&double, Method::POST, url, "number=4242424242424242").await;
    assert!(missing.text.contains("aria-describedby=\"expiry-fault\""), "{}", missing.text);

    let id = session["id"].as_str().unwrap();
    let paid = page(&double, Method::POST, url, CARD).await;
    assert_eq!(paid.headers[LOCATION], format!("http://localhost:8000/dashboard?s={id}"));
    let again = page(&double, Method::POST, url, CARD).await;
    assert!(again.text.contains("has been paid for already"), "a second click must not buy twice");

    let session = call(&double, Method::GET, &format!("/v1/checkout/sessions/{id}"), "").await.json();
    assert_eq!(
        (&session["status"], &session["payment_status"], &session["url"]),
        (&json!("complete"), &json!("paid"), &Value::Null)
    );
    let subscription = get(&double, session["subscription"].as_str().unwrap()).await;
    assert_eq!(
        (&subscription["status"], &subscription["metadata"]["user_id"]),
        (&json!("active"), &json!("u1"))
    );
    assert!(subscription["items"]["data"][0]["current_period_end"].is_i64());
    assert!(subscription.get("current_period_end").is_none());
    assert_eq!(
        kinds(&double).await,
        [
            "customer.created",
            "customer.subscription.created",
            "invoice.created",
            "invoice.finalized",
            "customer.subscription.updated",
            "invoice.paid",
            "checkout.session.completed",
        ]
    );
}

#[tokio::test]
async fn card_confirmation_can_be_accepted_or_declined() {
    let double = Double::new(config());
    let customer = customer(&double).await;
    let session = session(&double, &customer, "price_month").await;
    let url = session["url"].as_str().unwrap();
    let form = CARD.replace("4242+4242+4242+4242", "4000002760003184");
    let asked = page(&double, Method::POST, url, &form).await;
    assert!(asked.text.contains("Confirm this payment"), "{}", asked.text);
    let refused = page(&double, Method::POST, &format!("{url}/confirm"), "answer=no").await;
    assert_eq!(refused.status, StatusCode::PAYMENT_REQUIRED);
    let stale = page(&double, Method::POST, &format!("{url}/confirm"), "answer=yes").await;
    assert_eq!(stale.status, StatusCode::PAYMENT_REQUIRED, "a declined confirmation cannot be repeated");
    let _asked = page(&double, Method::POST, url, &form).await;
    let paid = page(&double, Method::POST, &format!("{url}/confirm"), "answer=yes").await;
    assert_eq!(paid.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn calls_are_validated_as_at_stripe() {
    let double = Double::new(config());
    let customer = customer(&double).await;
    let create = |form: String| {
        let double = double.clone();
        async move { call(&double, Method::POST, "/v1/checkout/sessions", &form).await.error() }
    };
    let good = format!("mode=subscription&customer={customer}&line_items[0][price]=price_month&{URLS}");
    for (form, code, param) in [
        (format!("customer={customer}"), "parameter_missing", "mode"),
        (format!("mode=subscription&{URLS}"), "parameter_missing", "line_items"),
        (good.replace("price_month", "price_x"), "resource_missing", "line_items[0][price]"),
        (good.replace(&customer, "cus_x"), "resource_missing", "customer"),
        (good.replace("success_url", "other_url"), "parameter_missing", "success_url"),
        (good.replace("http%3A%2F%2Flocalhost%3A8000%2Fpricing", "pricing"), "url_invalid", "cancel_url"),
        (format!("{good}&payment_method_types[0]=card"), "parameter_unknown", "payment_method_types[0]"),
    ] {
        assert_eq!(create(form.clone()).await, (400, json!(code), json!(param)), "{form}");
    }
    assert_eq!(create(good.replace("price_month", "price_old")).await.2, json!("line_items[0][price]"));
    assert_eq!(create(format!("{good}&customer_email=a%40b.c")).await, (400, Value::Null, json!("customer")));
    let missing = call(&double, Method::GET, "/v1/subscriptions/sub_x", "").await;
    assert_eq!(missing.error(), (404, json!("resource_missing"), json!("id")));
    assert_eq!(missing.json()["error"]["message"], "No such subscription: 'sub_x'");
    assert_eq!(call(&double, Method::GET, "/v1/charges", "").await.status, StatusCode::NOT_FOUND);

    for key in ["", "Bearer sk_live_x", "Bearer nonsense"] {
        let request =
            request(Method::GET, "/v1/customers").header(AUTHORIZATION, key).body(Body::empty()).unwrap();
        assert_eq!(send(&double, request).await.status, StatusCode::UNAUTHORIZED, "{key}");
    }
}

#[tokio::test]
async fn idempotency_key_creates_one_customer() {
    let double = Double::new(config());
    let create = async |form: &str| keyed(&double, Method::POST, "/v1/customers", form, Some("k")).await;
    let lost = json!({ "method": "POST", "path": "/v1/customers", "status": 500, "after": true });
    control(&double, Method::POST, "/_control/faults", lost).await;
    assert_eq!(create("name=a").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    let first = create("name=a").await;
    assert_eq!(first.headers["idempotent-replayed"], "true", "the lost response is replayed");
    assert_eq!(create("name=a").await.text, first.text);
    assert_eq!(create("name=b").await.json()["error"]["type"], "idempotency_error");
    assert_eq!(
        call(&double, Method::GET, "/v1/customers", "").await.json()["data"].as_array().unwrap().len(),
        1
    );
    assert_eq!(
        keyed(&double, Method::POST, "/v1/customers", "foo=1", Some("n")).await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        keyed(&double, Method::POST, "/v1/customers", "name=c", Some("n")).await.status,
        StatusCode::OK
    );

    let busy = json!({ "path": "/v1/customers", "status": 429, "error": { "type": "invalid_request_error", "code": "rate_limit" } });
    control(&double, Method::POST, "/_control/faults", busy).await;
    assert_eq!(
        call(&double, Method::GET, "/v1/customers", "").await.error(),
        (429, json!("rate_limit"), Value::Null)
    );
    assert_eq!(call(&double, Method::GET, "/v1/customers", "").await.status, StatusCode::OK);
    let requests =
        send(&double, request(Method::GET, "/_control/requests").body(Body::empty()).unwrap()).await.json();
    assert_eq!(requests[0]["idempotency_key"], "k");
    assert_eq!(requests[0]["status"], 500);
    let statuses: Vec<&Value> =
        requests.as_array().unwrap().iter().map(|request| &request["status"]).collect();
    assert!(statuses.contains(&&json!(429)), "calls with a fault are listed: {statuses:?}");
    let stranger = call(&double, Method::GET, "/v1/subscriptions?customer=cus_x", "").await;
    assert_eq!(stranger.error(), (400, json!("resource_missing"), json!("customer")));
    let form = request(Method::POST, "/_control/reset")
        .header(CONTENT_TYPE, "text/plain")
        .body(Body::empty())
        .unwrap();
    assert_eq!(send(&double, form).await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn cancellation_and_reactivation_until_period_end() {
    let double = Double::new(config());
    let (_, id) = subscribed(&double, "4242424242424242").await;
    let path = format!("/v1/subscriptions/{id}");
    let before = get(&double, &id).await;
    let end = before["items"]["data"][0]["current_period_end"].as_i64().unwrap();
    let canceled = call(&double, Method::POST, &path, "cancel_at_period_end=true").await.json();
    assert_eq!((&canceled["cancel_at_period_end"], &canceled["cancel_at"]), (&json!(true), &json!(end)));
    let back = call(&double, Method::POST, &path, "cancel_at_period_end=false").await.json();
    assert_eq!((&back["cancel_at_period_end"], &back["cancel_at"]), (&json!(false), &Value::Null));
    let both = call(&double, Method::POST, &path, "cancel_at_period_end=true&cancel_at=").await;
    assert_eq!(both.error(), (400, Value::Null, json!("cancel_at_period_end")));
    let updated =
        call(&double, Method::GET, "/v1/events?type=customer.subscription.updated&limit=1", "").await.json();
    assert_eq!(updated["data"][0]["data"]["previous_attributes"]["cancel_at_period_end"], true);

    // Not canceled: it renews. Canceled: it ends, at the time at which the period does.
    control(&double, Method::POST, "/_control/clock", json!({ "to_period_end_of": id })).await;
    let renewed = get(&double, &id).await;
    assert_eq!(renewed["items"]["data"][0]["current_period_start"], end);
    call(&double, Method::POST, &path, "cancel_at_period_end=true").await;
    control(&double, Method::POST, "/_control/clock", json!({ "advance_seconds": 40 * DAY })).await;
    let ended = get(&double, &id).await;
    assert_eq!(ended["status"], "canceled");
    assert_eq!(ended["ended_at"], renewed["items"]["data"][0]["current_period_end"]);
    assert_eq!(kinds(&double).await.last().unwrap(), "customer.subscription.deleted");
    assert_eq!(
        call(&double, Method::POST, &path, "cancel_at_period_end=true").await.status,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(call(&double, Method::DELETE, &path, "").await.status, StatusCode::NOT_FOUND);
    let listed = call(&double, Method::GET, "/v1/subscriptions?status=all", "").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 1);
    assert_eq!(call(&double, Method::GET, "/v1/subscriptions", "").await.json()["data"], json!([]));
}

#[tokio::test]
async fn failed_renewal_leads_to_past_due_and_cancellation() {
    let double = Double::new(config());
    let (_, id) = subscribed(&double, "4000000000000341").await;
    control(&double, Method::POST, "/_control/clock", json!({ "to_period_end_of": id })).await;
    let late = get(&double, &id).await;
    assert_eq!(late["status"], "past_due");
    let invoice = late["latest_invoice"].as_str().unwrap();
    let invoice = call(&double, Method::GET, &format!("/v1/invoices/{invoice}"), "").await.json();
    assert_eq!((&invoice["status"], &invoice["attempt_count"]), (&json!("open"), &json!(1)));
    assert_eq!(invoice["parent"]["subscription_details"]["subscription"], json!(id));
    control(&double, Method::POST, "/_control/clock", json!({ "advance_seconds": 8 * DAY })).await;
    let ended = get(&double, &id).await;
    assert_eq!(
        (&ended["status"], &ended["cancellation_details"]["reason"]),
        (&json!("canceled"), &json!("payment_failed"))
    );
    assert_eq!(kinds(&double).await.iter().filter(|kind| *kind == "invoice.payment_failed").count(), 4);
}

async fn portal(double: &Double, form: &str) -> String {
    let portal = call(double, Method::POST, "/v1/billing_portal/sessions", form).await;
    assert_eq!(portal.status, StatusCode::OK, "{}", portal.text);
    portal.json()["url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn portal_cancels_and_changes_cards() {
    let double = Double::new(config());
    let (customer, id) = subscribed(&double, "4000000000000341").await;
    let url =
        portal(&double, &format!("customer={customer}&return_url=http%3A%2F%2Flocalhost%3A8000%2Fback"))
            .await;
    let opened = page(&double, Method::GET, &url, "").await;
    let home = opened.headers[LOCATION].to_str().unwrap().to_owned();
    assert_eq!(
        page(&double, Method::GET, &url, "").await.status,
        StatusCode::NOT_FOUND,
        "the link works once"
    );
    let shown = page(&double, Method::GET, &home, "").await;
    assert!(
        shown.text.contains("Cancel plan") && shown.text.contains("http://localhost:8000/back"),
        "{}",
        shown.text
    );
    let asked = page(&double, Method::GET, &format!("{home}/{id}/cancel"), "").await;
    assert!(asked.text.contains("It stays available until"));
    page(&double, Method::POST, &format!("{home}/{id}/cancel"), "").await;
    let canceled = get(&double, &id).await;
    assert_eq!(canceled["cancel_at_period_end"], false, "flexible billing sets the date alone");
    assert_eq!(canceled["cancel_at"], canceled["items"]["data"][0]["current_period_end"]);
    page(&double, Method::POST, &format!("{home}/{id}/renew"), "").await;
    assert_eq!(get(&double, &id).await["cancel_at"], Value::Null);

    control(&double, Method::POST, "/_control/clock", json!({ "to_period_end_of": id })).await;
    assert_eq!(get(&double, &id).await["status"], "past_due");
    let declined = CARD.replace("4242+4242+4242+4242", "4000000000000002");
    let declined = page(&double, Method::POST, &format!("{home}/{id}/card"), &declined).await;
    assert!(declined.text.contains("Your card was declined."));
    page(&double, Method::POST, &format!("{home}/{id}/card"), CARD).await;
    assert_eq!(get(&double, &id).await["status"], "active", "the new card pays the open invoice");
}

#[tokio::test]
async fn plan_change_is_confirmed_in_portal() {
    let double = Double::new(config());
    let (customer, id) = subscribed(&double, "4242424242424242").await;
    let item = get(&double, &id).await["items"]["data"][0]["id"].as_str().unwrap().to_owned();
    let flow = "flow_data[subscription_update_confirm]";
    let form = format!(
        "customer={customer}&flow_data[type]=subscription_update_confirm&{flow}[subscription]={id}&{flow}[items][0][id]={item}\
         &{flow}[items][0][price]=price_year&{flow}[items][0][quantity]=1&flow_data[after_completion][type]=redirect\
         &flow_data[after_completion][redirect][return_url]=http%3A%2F%2Flocalhost%3A8000%2Fdone"
    );
    let same = call(
        &double,
        Method::POST,
        "/v1/billing_portal/sessions",
        &form.replace("price_year", "price_month"),
    )
    .await;
    assert_eq!(same.status, StatusCode::BAD_REQUEST, "nothing to change");
    let opened = page(&double, Method::GET, &portal(&double, &form).await, "").await;
    let confirm = opened.headers[LOCATION].to_str().unwrap().to_owned();
    let shown = page(&double, Method::GET, &confirm, "").await;
    assert!(shown.text.contains("$290.00"), "{}", shown.text);
    let done = page(&double, Method::POST, &confirm, "").await;
    assert_eq!(done.headers[LOCATION], "http://localhost:8000/done");
    let changed = get(&double, &id).await;
    assert_eq!(
        (&changed["items"]["data"][0]["price"]["id"], &changed["status"]),
        (&json!("price_year"), &json!("active"))
    );
    assert_eq!(
        call(&double, Method::GET, "/v1/subscriptions", "").await.json()["data"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn created_price_can_be_bought() {
    let double = Double::new(config());
    let form = "currency=usd&unit_amount=1950&recurring[interval]=year&product_data[name]=Gold";
    let made = call(&double, Method::POST, "/v1/prices", form).await.json();
    let id = made["id"].as_str().unwrap();
    assert_eq!((&made["unit_amount"], &made["recurring"]["interval"]), (&json!(1950), &json!("year")));
    let read = call(&double, Method::GET, &format!("/v1/prices/{id}"), "").await;
    assert_eq!(read.json(), made);
    let customer = customer(&double).await;
    assert_eq!(session(&double, &customer, id).await["status"], "open");
    let refused = call(&double, Method::POST, "/v1/prices", &form.replace("year", "decade")).await;
    assert_eq!(refused.error(), (400, Value::Null, json!("recurring[interval]")));
}

#[tokio::test]
async fn lists_are_paged_and_ids_expand() {
    let double = Double::new(config());
    let (customer, id) = subscribed(&double, "4242424242424242").await;
    let events = call(&double, Method::GET, "/v1/events?limit=3", "").await.json();
    assert_eq!((events["data"].as_array().unwrap().len(), &events["has_more"]), (3, &json!(true)));
    let last = events["data"][2]["id"].as_str().unwrap();
    let rest =
        call(&double, Method::GET, &format!("/v1/events?limit=100&starting_after={last}"), "").await.json();
    assert_eq!(rest["data"].as_array().unwrap().len() + 3, kinds(&double).await.len());
    let expanded =
        call(&double, Method::GET, &format!("/v1/subscriptions/{id}?expand[]=customer"), "").await.json();
    assert_eq!(expanded["customer"]["id"], json!(customer));
    let list = call(&double, Method::GET, "/v1/subscriptions?expand[]=data.latest_invoice", "").await.json();
    assert_eq!(list["data"][0]["latest_invoice"]["status"], "paid");
    control(&double, Method::PUT, "/_control/shape", json!({ "pre_basil": true })).await;
    let old = get(&double, &id).await;
    assert!(
        old["current_period_end"].is_i64() && old["items"]["data"][0].get("current_period_end").is_none()
    );
}

/// Signature and body of what an endpoint received, which answers 500 to the first `failures`.
type Received = Arc<Mutex<Vec<(String, Value)>>>;

async fn endpoint(failures: usize) -> (url::Url, Received) {
    let received = Received::default();
    let (seen, left) = (received.clone(), Arc::new(Mutex::new(failures)));
    let handler = move |headers: HeaderMap, body: String| async move {
        let mut left = left.lock().unwrap();
        if *left > 0 {
            *left -= 1;
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
        let signature = headers["stripe-signature"].to_str().unwrap().to_owned();
        assert!(body.starts_with("{\n  \"id\": \"evt_"), "two spaces: {body}");
        seen.lock().unwrap().push((signature, serde_json::from_str(&body).unwrap()));
        StatusCode::OK
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap()).parse().unwrap();
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/hook", post(handler))).await.unwrap() },
    );
    (url, received)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap_or_else(|_| panic!("not in time: {what}"));
}

#[tokio::test]
async fn webhooks_support_all_delivery_modes() {
    let (url, received) = endpoint(2).await;
    let double = Double::new(Config { endpoint: Some(url), ..config() });
    let stop = CancellationToken::new();
    let running = tokio::spawn(double.clone().run(stop.clone()));
    subscribed(&double, "4242424242424242").await;
    let kinds =
        || received.lock().unwrap().iter().map(|(_, event)| event["type"].clone()).collect::<Vec<_>>();
    assert!(
        kinds().contains(&json!("checkout.session.completed")),
        "the buyer comes back to a site that knows"
    );
    until("failed deliveries are tried again", || kinds().len() == 7).await;
    assert!(
        received
            .lock()
            .unwrap()
            .iter()
            .all(|(signature, _)| signature.contains(",v1=") && signature.contains(",v0="))
    );

    control(
        &double,
        Method::PUT,
        "/_control/delivery",
        json!({ "mode": "held", "secrets": ["whsec_a", "whsec_b"] }),
    )
    .await;
    received.lock().unwrap().clear();
    let (first, second) = (customer(&double).await, customer(&double).await);
    let events = call(&double, Method::GET, "/v1/events?type=customer.created&limit=2", "").await.json();
    let ids: Vec<&Value> = events["data"].as_array().unwrap().iter().map(|event| &event["id"]).collect();
    assert_eq!(events["data"][0]["data"]["object"]["id"], json!(second), "newest first");
    assert!(kinds().is_empty(), "held");
    control(&double, Method::POST, "/_control/deliver", json!({ "events": ids })).await;
    until("both arrive", || kinds().len() == 2).await;
    let order: Vec<Value> =
        received.lock().unwrap().iter().map(|(_, event)| event["data"]["object"]["id"].clone()).collect();
    assert_eq!(order, [json!(second), json!(first)], "the requested order");
    assert_eq!(received.lock().unwrap()[0].0.matches(",v1=").count(), 2, "one signature for each secret");

    control(&double, Method::PUT, "/_control/delivery", json!({ "copies": 3, "drop_next": 1 })).await;
    received.lock().unwrap().clear();
    customer(&double).await;
    until("three copies, one of them lost", || kinds().len() == 2).await;
    stop.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn state_file_survives_restart_without_card_number() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stripe-double.json");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    // What a killed server of an earlier release left.
    std::fs::write(path.with_extension("new"), "{").unwrap();
    let with_file = || Config { state_file: Some(path.clone()), ..config() };
    let double = Double::new(with_file());
    let (_, id) = subscribed(&double, "4242424242424242").await;
    let stop = CancellationToken::new();
    stop.cancel();
    double.run(stop).await;
    assert!(!std::fs::read_to_string(&path).unwrap().contains("4242424242424242"));
    assert_eq!(mode(), 0o600, "the file contains names and addresses");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(get(&Double::new(with_file()), &id).await["status"], "active");
    assert_eq!(mode(), 0o600);
    std::fs::write(&path, "{").unwrap();
    let empty = Double::new(with_file());
    assert_eq!(call(&empty, Method::GET, "/v1/subscriptions", "").await.json()["data"], json!([]));
}
