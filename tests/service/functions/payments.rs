//! Checkout, portal, cancel and reactivate: requests to Stripe, permissions and error responses.

use std::sync::Arc;
use std::time::Duration;

use basalt_testkit::{Basalt, Reply, User};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::stripe_stub::{
    PRICE, StripeStub, add_plan, deliver, event, now, server, settled, subscription, url_pairs,
};
use super::{app, call, failure, shown, sign_up_admin};

const UNREACHABLE: &str = "The payment provider cannot be reached. Please try again.";

async fn start() -> (StripeStub, Basalt, User) {
    let stripe = StripeStub::start().await;
    let server = server(&stripe).start().await;
    add_plan(&server, PRICE, true).await;
    let user = server.sign_up("ada@example.org").await;
    (stripe, server, user)
}

/// Gives the user a subscription, in the database and at Stripe.
async fn subscribe(stripe: &StripeStub, server: &Basalt, user: &User, id: &str, status: &str) -> Value {
    let state = subscription(id, &user.id, status);
    stripe.put(&format!("subscriptions/{id}"), &state);
    server
        .sql(&format!(
            "insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ('{0}', false, 'cus_{1}');
             insert into public.user_subscriptions (user_id, stripe_subscription_id, stripe_customer_id, stripe_price_id, status, state_as_of)
             values ('{0}', '{1}', 'cus_{1}', '{PRICE}', '{2}', now())",
            user.id, id, status
        ))
        .await;
    state
}

#[tokio::test]
async fn checkout_sends_the_expected_stripe_requests() {
    let (stripe, server, user) = start().await;
    let success = server.url("/dashboard?subscription=success&session={CHECKOUT_SESSION_ID}");
    let body = json!({"priceId": PRICE, "successUrl": success, "cancelUrl": server.url("/pricing")});
    let response = call(&server, "create-checkout-session", Some(&user), &body).send().await;
    let url = "https://checkout.stripe.test/c/pay/cs_test_1";
    assert_eq!(shown(&response), (200, json!({"url": url, "sessionId": "cs_test_1"})));
    let customer = stripe.requests("POST /v1/customers").remove(0);
    let form = url_pairs(&customer.body);
    assert_eq!((form["email"].as_str(), &form["metadata[user_id]"]), ("ada@example.org", &user.id));
    assert_eq!(customer.header("idempotency-key"), format!("customer:{}:test", user.id));
    let session = stripe.requests("POST /v1/checkout/sessions").remove(0);
    let plan = server
        .database()
        .value("select id::text from public.subscription_plans where stripe_price_id = 'price_basic'")
        .await;
    let expected = [
        ("allow_promotion_codes", "true".to_owned()),
        ("cancel_url", server.url("/pricing")),
        ("client_reference_id", user.id.clone()),
        ("customer", format!("cus_of_{}", user.id.replace('-', ""))),
        ("line_items[0][price]", PRICE.to_owned()),
        ("line_items[0][quantity]", "1".to_owned()),
        ("metadata[plan_id]", plan.clone()),
        ("metadata[user_id]", user.id.clone()),
        ("mode", "subscription".to_owned()),
        ("subscription_data[metadata][plan_id]", plan),
        ("subscription_data[metadata][user_id]", user.id.clone()),
        ("success_url", success),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(url_pairs(&session.body), expected.into());
    // A repeated call uses the same idempotency key; the customer already exists.
    call(&server, "create-checkout-session", Some(&user), &body).send().await.expect(200);
    let sessions = stripe.requests("POST /v1/checkout/sessions");
    let keys: Vec<String> = sessions.iter().map(|session| session.header("idempotency-key")).collect();
    assert!(keys[0].starts_with("checkout:") && keys[0].len() == 73, "{keys:?}");
    assert_eq!(stripe.requests("POST /v1/customers").len(), 1);
    // The default URLs are the app's pages.
    call(&server, "create-checkout-session", Some(&user), &json!({"priceId": PRICE}))
        .send()
        .await
        .expect(200);
    let last = stripe.requests("POST /v1/checkout/sessions").pop().unwrap();
    assert_eq!(url_pairs(&last.body)["cancel_url"], server.url("/pricing?subscription=canceled"));
    assert_ne!(last.header("idempotency-key"), keys[0]);
}

#[tokio::test]
async fn checkout_rejects_unknown_prices_and_foreign_urls() {
    let (stripe, server, user) = start().await;
    add_plan(&server, "price_old", false).await;
    let mut bodies = vec![
        (json!({}), "priceId is required"),
        (json!({"priceId": 1}), "priceId is required"),
        (json!({"priceId": "price_none"}), "Unknown or inactive plan"),
        (json!({"priceId": "price_old"}), "Unknown or inactive plan"),
    ];
    for url in [
        "https://evil.example/",
        "//evil.example",
        "javascript:alert(1)",
        "/dashboard",
        "",
        "http://127.0.0.1@evil.example/",
        "http://127.0.0.1:1/x",
        "ftp://127.0.0.1/",
    ] {
        bodies.push((json!({"priceId": PRICE, "successUrl": url}), "Invalid successUrl"));
        bodies.push((json!({"priceId": PRICE, "cancelUrl": url}), "Invalid cancelUrl"));
    }
    let long = server.url(&format!("/{}", "x".repeat(2100)));
    bodies.push((json!({"priceId": PRICE, "successUrl": long}), "Invalid successUrl"));
    for (body, message) in bodies {
        let response = call(&server, "create-checkout-session", Some(&user), &body).send().await;
        if response.status == 429 {
            break;
        }
        assert_eq!(shown(&response), (400, failure(message)), "{body}");
    }
    assert!(stripe.http.requests().is_empty());
}

#[tokio::test]
async fn return_urls_may_use_public_url_or_site_url() {
    let stripe = StripeStub::start().await;
    let server = server(&stripe).config("auth.site_url", "https://app.example.org").start().await;
    add_plan(&server, PRICE, true).await;
    let user = server.sign_up("ada@example.org").await;
    subscribe(&stripe, &server, &user, "sub_1", "past_due").await;
    for name in ["successUrl", "cancelUrl", "returnUrl"] {
        for (url, is_page) in [
            (server.url("/dashboard?x=1#top"), true),
            ("https://app.example.org/dashboard".to_owned(), true),
            ("http://127.0.0.1:1/dashboard".to_owned(), false),
            (server.url("/").replace("http:", "https:"), false),
            (server.url(".evil.example/"), false),
        ] {
            let function =
                if name == "returnUrl" { "create-portal-session" } else { "create-checkout-session" };
            let body = json!({"priceId": PRICE, name: url});
            let response = call(&server, function, Some(&user), &body).send().await;
            let refused = shown(&response) == (400, failure(&format!("Invalid {name}")));
            assert_eq!(refused, !is_page, "{name} {url}: {}", response.text());
        }
    }
}

#[tokio::test]
async fn subscribed_user_cannot_buy_a_second_subscription() {
    let (stripe, server, user) = start().await;
    add_plan(&server, "price_more", true).await;
    let mut state = subscribe(&stripe, &server, &user, "sub_1", "active").await;
    let buy = async |price: &str| {
        let response =
            call(&server, "create-checkout-session", Some(&user), &json!({"priceId": price})).send().await;
        shown(&response)
    };
    let subscribed =
        json!({"error": "You are already subscribed to this plan.", "code": "already_subscribed"});
    assert_eq!(buy(PRICE).await, (409, subscribed));
    // Another plan is a change, which the user confirms in the portal.
    assert_eq!(buy("price_more").await, (200, json!({"url": "https://billing.stripe.test/p/session/bps_1"})));
    let form = url_pairs(&stripe.requests("POST /v1/billing_portal/sessions").remove(0).body);
    let confirm = |name: &str| form[&format!("flow_data[subscription_update_confirm]{name}")].clone();
    assert_eq!(form["flow_data[type]"], "subscription_update_confirm");
    assert_eq!(
        (confirm("[subscription]"), confirm("[items][0][id]"), confirm("[items][0][price]")),
        ("sub_1".to_owned(), "si_sub_1".to_owned(), "price_more".to_owned())
    );
    assert_eq!(
        form["flow_data[after_completion][redirect][return_url]"],
        server.url("/dashboard?subscription=success")
    );
    // Stripe's state takes precedence over our table.
    for status in ["past_due", "unpaid", "paused"] {
        state["status"] = json!(status);
        stripe.put("subscriptions/sub_1", &state);
        let first = json!({"error": "Update your payment method in Billing Settings first.", "code": "payment_required"});
        assert_eq!(buy(PRICE).await, (409, first), "{status}");
    }
    state["status"] = json!("canceled");
    stripe.put("subscriptions/sub_1", &state);
    assert_eq!(buy(PRICE).await.0, 200);
    let row = server.database().value("select status from public.user_subscriptions").await;
    assert_eq!(row, "canceled");
    assert!(stripe.requests("POST /v1/customers").is_empty());
}

#[tokio::test]
async fn subscription_can_be_canceled_and_reactivated() {
    let (stripe, server, user) = start().await;
    let mut state = subscribe(&stripe, &server, &user, "sub_1", "active").await;
    let ask = async |name: &str| {
        shown(&call(&server, name, Some(&user), &json!({"subscriptionId": "sub_1"})).send().await)
    };
    let response = |ending: bool| {
        json!({"success": true, "subscription": {
            "subscription_id": "sub_1", "status": "active", "cancel_at_period_end": ending,
            "current_period_end": "2033-05-18T03:33:20Z",
        }})
    };
    let in_table = async || {
        server.database().value("select cancel_at_period_end::text from public.user_subscriptions").await
    };
    assert_eq!(ask("cancel-subscription").await, (200, response(true)));
    assert_eq!(in_table().await, "true");
    let posted = stripe.requests("POST /v1/subscriptions/sub_1").remove(0);
    assert_eq!(
        (posted.body.as_str(), posted.header("idempotency-key").len()),
        ("cancel_at_period_end=true", 36)
    );
    // Nothing to change: no call to Stripe.
    state["cancel_at_period_end"] = json!(true);
    stripe.put("subscriptions/sub_1", &state);
    assert_eq!(ask("cancel-subscription").await, (200, response(true)));
    assert_eq!(stripe.requests("POST /v1/subscriptions/sub_1").len(), 1);
    assert_eq!(ask("reactivate-subscription").await, (200, response(false)));
    assert_eq!(
        stripe.requests("POST /v1/subscriptions/sub_1").pop().unwrap().body,
        "cancel_at_period_end=false"
    );
    assert_eq!(in_table().await, "false");
    // The portal sets `cancel_at` instead.
    state["cancel_at_period_end"] = json!(false);
    state["cancel_at"] = json!(2_000_000_000);
    stripe.put("subscriptions/sub_1", &state);
    assert_eq!(ask("cancel-subscription").await, (200, response(true)));
    assert_eq!(ask("reactivate-subscription").await, (200, response(false)));
    assert_eq!(stripe.requests("POST /v1/subscriptions/sub_1").pop().unwrap().body, "cancel_at=");
    state["cancel_at"] = json!(null);
    stripe.put("subscriptions/sub_1", &state);
    assert_eq!(ask("reactivate-subscription").await, (200, response(false)));
    assert_eq!(stripe.requests("POST /v1/subscriptions/sub_1").len(), 3);
    for (status, cancel, reactivate) in [
        ("incomplete", (409, "This subscription is not active yet."), 200),
        ("canceled", (409, "This subscription has already ended."), 409),
    ] {
        state["status"] = json!(status);
        stripe.put("subscriptions/sub_1", &state);
        assert_eq!(ask("cancel-subscription").await, (cancel.0, failure(cancel.1)));
        assert_eq!(ask("reactivate-subscription").await.0, reactivate, "{status}");
    }
}

#[tokio::test]
async fn only_the_owner_can_change_a_subscription() {
    let (stripe, server, user) = start().await;
    subscribe(&stripe, &server, &user, "sub_1", "active").await;
    let stranger = server.sign_up("eve@example.org").await;
    let admin = sign_up_admin(&server, "admin@example.org").await;
    for name in ["cancel-subscription", "reactivate-subscription"] {
        for caller in [&stranger, &admin] {
            let response =
                call(&server, name, Some(caller), &json!({"subscriptionId": "sub_1"})).send().await;
            assert_eq!(shown(&response), (404, failure("Subscription not found")), "{name}");
        }
        let anonymous = call(&server, name, None, &json!({"subscriptionId": "sub_1"})).send().await;
        assert_eq!(shown(&anonymous), (401, failure("Not authenticated")));
        for id in ["", "cus_1", "sub_", "sub_../x", "sub_1?x=1", &format!("sub_{}", "x".repeat(300))] {
            let response = call(&server, name, Some(&user), &json!({"subscriptionId": id})).send().await;
            let message = if id.is_empty() { "subscriptionId is required" } else { "Invalid subscriptionId" };
            assert_eq!(shown(&response), (400, failure(message)), "{name} {id}");
        }
    }
    for name in ["create-portal-session", "create-checkout-session"] {
        for request in [
            call(&server, name, None, &json!({})),
            call(&server, name, None, &json!({})).bearer(server.anon_key()),
            call(&server, name, None, &json!({})).bearer(server.service_key()),
        ] {
            assert_eq!(shown(&request.send().await), (401, failure("Not authenticated")), "{name}");
        }
    }
    let portal = call(&server, "create-portal-session", Some(&stranger), &json!({})).send().await;
    assert_eq!(shown(&portal), (404, failure("No billing account yet. Choose a plan first.")));
    assert!(stripe.http.requests().is_empty());
}

#[tokio::test]
async fn portal_session_is_for_the_users_customer() {
    let (stripe, server, user) = start().await;
    subscribe(&stripe, &server, &user, "sub_1", "active").await;
    let ask =
        async |body: Value| shown(&call(&server, "create-portal-session", Some(&user), &body).send().await);
    let page = json!({"url": "https://billing.stripe.test/p/session/bps_1"});
    assert_eq!(ask(json!({})).await, (200, page.clone()));
    let form = url_pairs(&stripe.requests("POST /v1/billing_portal/sessions").remove(0).body);
    let expected = [
        ("customer".to_owned(), "cus_sub_1".to_owned()),
        ("return_url".to_owned(), server.url("/dashboard/subscription")),
    ];
    assert_eq!(form, expected.into());
    assert_eq!(ask(json!({"returnUrl": "https://evil.example/"})).await, (400, failure("Invalid returnUrl")));
    server.expect_log("the customer portal is not configured at Stripe");
    stripe.reply(Reply::Respond(
        400,
        r#"{"error":{"type":"invalid_request_error","message":"No configuration"}}"#.to_owned(),
    ));
    assert_eq!(ask(json!({})).await, (500, failure("The billing portal is not configured.")));
    assert!(!server.log().iter().any(|line| line.raw.contains("bps_1")));
}

#[tokio::test]
async fn stripe_errors_map_to_our_messages() {
    let (stripe, server, user) = start().await;
    subscribe(&stripe, &server, &user, "sub_1", "active").await;
    server.expect_log("Stripe rejects the key");
    server.expect_log("the same account");
    let refused = |kind: &str, code: &str, message: &str| {
        json!({"error": {"type": kind, "code": code, "message": message}}).to_string()
    };
    let busy = "The payment provider is busy. Please try again.";
    for (act, status, message) in [
        (Reply::Close, 502, UNREACHABLE),
        (Reply::Respond(500, "<html>".to_owned()), 502, UNREACHABLE),
        (Reply::Respond(200, "<html>".to_owned()), 502, UNREACHABLE),
        (Reply::Respond(200, "{}".to_owned()), 502, UNREACHABLE),
        (Reply::Respond(429, "{}".to_owned()), 503, busy),
        (
            Reply::Respond(
                401,
                refused("invalid_request_error", "", "Invalid API Key provided: sk_test_***"),
            ),
            500,
            "Payments are not configured correctly.",
        ),
        (
            Reply::Respond(402, refused("card_error", "card_declined", "Your card was declined.")),
            402,
            "Your card was declined.",
        ),
        (
            Reply::Respond(400, refused("invalid_request_error", "parameter_unknown", "secret detail")),
            400,
            "The payment provider rejected the request.",
        ),
        (
            Reply::Respond(404, refused("invalid_request_error", "resource_missing", "No such")),
            404,
            "Subscription not found",
        ),
    ] {
        stripe.reply(act.clone());
        let body = json!({"subscriptionId": "sub_1"});
        let response = call(&server, "cancel-subscription", Some(&user), &body).send().await;
        assert_eq!(shown(&response), (status, failure(message)), "{act:?}");
        if status == 503 {
            assert_eq!(response.header("retry-after"), "5");
        }
        assert_eq!(response.header("sb-error-code"), if status >= 500 { "EDGE_FUNCTION_ERROR" } else { "" });
    }
    // Too many calls.
    stripe.recover();
    call(&server, "cancel-subscription", Some(&user), &json!({"subscriptionId": "sub_1"}))
        .send()
        .await
        .expect(200);
    let over =
        call(&server, "cancel-subscription", Some(&user), &json!({"subscriptionId": "sub_1"})).send().await;
    assert_eq!(shown(&over), (429, failure("Too many requests. Try again later.")));
    assert!(
        !server.log().iter().any(|line| line.raw.contains("secret detail") || line.raw.contains("sk_test_"))
    );
}

#[tokio::test]
async fn stripe_call_times_out_after_twenty_seconds() {
    let (stripe, server, user) = start().await;
    subscribe(&stripe, &server, &user, "sub_1", "active").await;
    stripe.reply(Reply::Stall(Duration::from_secs(120)));
    let began = std::time::Instant::now();
    let response =
        call(&server, "cancel-subscription", Some(&user), &json!({"subscriptionId": "sub_1"})).send().await;
    assert_eq!(shown(&response), (502, failure(UNREACHABLE)));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(80), "{took:?}");
    // Requests that do not need Stripe still work.
    let body = json!({"user_id": user.id});
    let seen = server
        .post("/rest/v1/rpc/get_user_subscription")
        .by(&server, &user)
        .json(&body)
        .send()
        .await
        .expect(200);
    assert_eq!(seen.json()[0]["status"], "active");
}

#[tokio::test]
async fn missing_stripe_customer_is_recreated() {
    let (stripe, server, user) = start().await;
    server
        .sql(&format!("insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ('{}', false, 'cus_gone')", user.id))
        .await;
    let gone = json!({"error": {"type": "invalid_request_error", "code": "resource_missing", "param": "customer", "message": "No such customer"}}).to_string();
    stripe.http.reply(move |request| {
        if request.head.contains("customer=cus_gone") || request.body.contains("cus_gone") {
            return Reply::Respond(400, gone.clone());
        }
        match request.head.split(' ').nth(1).unwrap_or_default() {
            "/v1/customers" => Reply::Respond(200, r#"{"id":"cus_new"}"#.to_owned()),
            "/v1/checkout/sessions" => {
                Reply::Respond(200, r#"{"id":"cs_1","url":"https://checkout.stripe.test/1"}"#.to_owned())
            }
            _ => Reply::Respond(200, r#"{"data":[]}"#.to_owned()),
        }
    });
    let response =
        call(&server, "create-checkout-session", Some(&user), &json!({"priceId": PRICE})).send().await;
    assert_eq!(response.expect(200).json()["sessionId"], "cs_1");
    assert_eq!(
        server.database().value("select stripe_customer_id from public.stripe_customers").await,
        "cus_new"
    );
}

#[tokio::test]
async fn checkout_without_stripe_key_is_503_in_production() {
    let server = app().config("server.mode", "production").expect_log("production").start().await;
    add_plan(&server, PRICE, true).await;
    let id = "0a0a0a0a-0000-4000-8000-000000000001";
    let exists = format!(
        "insert into auth.users (id, aud, role, email, email_confirmed_at) values ('{id}', 'authenticated', 'authenticated', 'ada@example.org', now())"
    );
    server.database().admin_sql(&exists).await;
    let token = server.token(&json!({"role": "authenticated", "sub": id, "exp": 4_102_444_800_u32}));
    let body = json!({"priceId": PRICE});
    let response = call(&server, "create-checkout-session", None, &body).bearer(&token).send().await;
    assert_eq!(shown(&response), (503, failure("Payments are not configured.")));
}

#[tokio::test]
async fn user_deleted_during_checkout_gets_no_payment_page() {
    let (stripe, server, user) = start().await;
    let held = Arc::new(Notify::new());
    for (begun, path) in [("POST /v1/customers", "customers"), ("POST /v1/checkout/sessions ", "sessions")] {
        let user = if path == "customers" { user.clone() } else { server.sign_up("eve@example.org").await };
        let stripe_event = Arc::clone(&held);
        stripe.intercept(move |request, act| {
            let waits = request.head.starts_with(begun);
            if waits { Reply::Once(Arc::clone(&stripe_event), Box::new(act)) } else { act }
        });
        let pending = tokio::spawn(
            call(&server, "create-checkout-session", Some(&user), &json!({"priceId": PRICE})).send(),
        );
        while stripe.requests(begun).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.database().admin_sql(&format!("delete from auth.users where id = '{}'", user.id)).await;
        // The job that ends the customer's subscriptions finds none yet.
        while server
            .database()
            .admin_sql("select count(*) from functions.former_customers where done_at is null")
            .await[0][0]
            .as_deref()
            != Some("0")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        held.notify_one();
        assert_eq!(shown(&pending.await.unwrap()), (401, failure("Not authenticated")), "{path}");
    }
    assert_eq!(stripe.requests("POST /v1/checkout/sessions/cs_test_1/expire").len(), 1);
    assert_eq!(stripe.requests("POST /v1/checkout/sessions ").len(), 1);
}

#[tokio::test]
async fn deleted_users_subscription_ends_once_stripe_is_back() {
    let (stripe, server, user) = start().await;
    server.expect_log("cannot end the subscriptions of a deleted user at Stripe");
    let state = subscribe(&stripe, &server, &user, "sub_1", "active").await;
    stripe.reply(Reply::Respond(500, "{}".to_owned()));
    server.database().admin_sql(&format!("delete from auth.users where id = '{}'", user.id)).await;
    let row = async |column: &str| {
        let rows = server
            .database()
            .admin_sql(&format!(
                "select ({column})::text from functions.former_customers where customer = 'cus_sub_1'"
            ))
            .await;
        rows[0][0].clone().unwrap_or_default()
    };
    while row("error_message").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(row("error_message").await, "Stripe cannot be reached: it responded with 500");
    stripe.recover();
    // Retry now instead of in 30 s.
    let due = "update functions.former_customers set next_attempt_at = now() where done_at is null";
    server.database().admin_sql(due).await;
    while row("done_at is null").await == "true" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stripe.requests("DELETE /v1/subscriptions/sub_1").len(), 1);
    // An event for an active subscription of a former customer triggers another check.
    stripe.put("subscriptions/sub_1", &state);
    let stripe_event = event("evt_1", "customer.subscription.updated", now(), &state);
    deliver(&server, &stripe_event).await.expect(200);
    assert_eq!(settled(&server, "evt_1").await.1, "ignored: the user was deleted");
    while row("done_at is null").await == "true" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(stripe.requests("DELETE /v1/subscriptions/sub_1").len(), 2);
}
