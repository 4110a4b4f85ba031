//! The life of a subscription, with `basalt-stripe-double`: it validates our calls and sends its webhooks in random order.

use std::time::Duration;

use basalt_testkit::{Basalt, Request, User};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stripe_stub::{PRICE, add_plan};
use super::{app, call};

fn control(server: &Basalt, method: Method, path: &str, body: &Value) -> Request {
    server.stripe_double().control(method, path).json(body)
}

/// Waits until the user's subscription satisfies `wanted`.
async fn until(server: &Basalt, user: &User, limit: Duration, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + limit;
    loop {
        let body = json!({"user_id": user.id});
        let seen = server
            .post("/rest/v1/rpc/get_user_subscription")
            .by(server, user)
            .json(&body)
            .send()
            .await
            .expect(200)
            .json();
        if wanted(&seen[0]) {
            return seen[0].clone();
        }
        assert!(Instant::now() < deadline, "still {seen}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn subscription_is_bought_canceled_reactivated_and_ends() {
    let server = app().stripe_double().start().await;
    add_plan(&server, PRICE, true).await;
    let user = server.sign_up("ada@example.org").await;
    let ask = async |name: &str, body: Value| {
        call(&server, name, Some(&user), &body).send().await.expect(200).json()
    };
    let bought = ask("create-checkout-session", json!({"priceId": PRICE})).await;
    let (url, session) = (bought["url"].as_str().unwrap(), bought["sessionId"].as_str().unwrap());
    assert!(url.starts_with(&server.stripe_double().url("/c/pay/cs_test_")), "{url}");
    let page = Request::new(Method::GET, url).send().await.expect(200);
    assert!(page.text().contains("ada@example.org"), "{}", page.text());
    // A repeated call returns the same session.
    assert_eq!(ask("create-checkout-session", json!({"priceId": PRICE})).await["sessionId"], session);

    let paid = control(&server, Method::POST, &format!("checkout/{session}"), &json!({})).send().await;
    paid.expect(200);
    let seen = until(&server, &user, Duration::from_secs(10), |seen| seen["status"] == "active").await;
    assert_eq!((&seen["plan_name"], &seen["cancel_at_period_end"]), (&json!(PRICE), &json!(false)));
    let id = seen["subscription_id"].clone();
    let again =
        call(&server, "create-checkout-session", Some(&user), &json!({"priceId": PRICE})).send().await;
    assert_eq!(again.expect(409).json()["code"], "already_subscribed");

    let body = json!({"subscriptionId": id});
    assert_eq!(ask("cancel-subscription", body.clone()).await["subscription"]["cancel_at_period_end"], true);
    until(&server, &user, Duration::from_secs(1), |seen| seen["cancel_at_period_end"] == true).await;
    assert_eq!(
        ask("reactivate-subscription", body.clone()).await["subscription"]["cancel_at_period_end"],
        false
    );
    until(&server, &user, Duration::from_secs(1), |seen| seen["cancel_at_period_end"] == false).await;
    let portal = ask("create-portal-session", json!({})).await;
    let portal = portal["url"].as_str().unwrap().to_owned();
    assert!(portal.starts_with(&server.stripe_double().url("/p/session/")), "{portal}");
    // The URL works once and redirects to the portal.
    Request::new(Method::GET, portal).send().await.expect(303);

    ask("cancel-subscription", body).await;
    let end = json!({"to_period_end_of": id});
    control(&server, Method::POST, "clock", &end).send().await.expect(200);
    until(&server, &user, Duration::from_secs(10), |seen| seen["status"] == "canceled").await;
    // After the end of the subscription the user can buy again.
    ask("create-checkout-session", json!({"priceId": PRICE})).await;

    // Every event was accepted and processed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while server
        .database()
        .value("select count(*)::text from public.webhook_events where status <> 'processed'")
        .await
        != "0"
    {
        assert!(Instant::now() < deadline, "events are not processed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let requests = server.stripe_double().control(Method::GET, "requests").send().await.expect(200).json();
    let refused: Vec<&Value> = requests
        .as_array()
        .unwrap()
        .iter()
        .filter(|request| request["status"].as_u64() >= Some(400))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[tokio::test]
async fn checkout_without_stripe_key_names_the_setting() {
    for (mode, remedy) in [
        ("development", ": set stripe.secret_key, or start basalt-stripe-double for test cards."),
        ("production", "."),
    ] {
        let server = app()
            .config("server.mode", mode)
            .config("auth.mailer_autoconfirm", "true")
            .expect_log("production")
            .start()
            .await;
        add_plan(&server, PRICE, true).await;
        let user = server.sign_up("ada@example.org").await;
        let bought =
            call(&server, "create-checkout-session", Some(&user), &json!({"priceId": PRICE})).send().await;
        assert_eq!(bought.expect(503).json()["error"], format!("Payments are not configured{remedy}"));
        // The server does not contain the double.
        assert_eq!(server.get("/stripe-double/_control/state").send().await.status, 404);
    }
}

/// The items of a list in the double's API.
async fn listed(server: &Basalt, list: &str) -> Vec<Value> {
    let response = server.stripe_double().api(Method::GET, list).send().await.expect(200);
    response.json()["data"].as_array().unwrap().clone()
}

/// Deletes an account through the admin API.
async fn delete_account(server: &Basalt, user: &User, keeps_row: bool) {
    let body = json!({"should_soft_delete": keeps_row});
    let path = format!("/auth/v1/admin/users/{}", user.id);
    let request = server.request(Method::DELETE, &path).apikey(server.secret_key()).json(&body);
    request.send().await.expect(200);
}

#[tokio::test]
async fn deleting_a_user_ends_their_subscriptions() {
    let server = app().stripe_double().start().await;
    add_plan(&server, PRICE, true).await;
    for (email, keeps_row) in [("ada@example.org", false), ("eve@example.org", true)] {
        let user = server.sign_up(email).await;
        let begin = async || {
            let body = json!({"priceId": PRICE});
            call(&server, "create-checkout-session", Some(&user), &body).send().await.expect(200).json()
        };
        let bought = begin().await;
        let session = bought["sessionId"].as_str().unwrap();
        control(&server, Method::POST, &format!("checkout/{session}"), &json!({})).send().await.expect(200);
        let seen = until(&server, &user, Duration::from_secs(10), |seen| seen["status"] == "active").await;
        let subscription = seen["subscription_id"].as_str().unwrap();
        let customer = server
            .database()
            .value(&format!(
                "select stripe_customer_id from public.stripe_customers where user_id = '{}'",
                user.id
            ))
            .await;
        // A checkout page that is still open.
        let form = format!(
            "mode=subscription&customer={customer}&line_items[0][price]={PRICE}&line_items[0][quantity]=1&success_url=https://app.example/"
        );
        let open = server
            .stripe_double()
            .api(Method::POST, "checkout/sessions")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form)
            .send()
            .await
            .expect(200)
            .json();

        delete_account(&server, &user, keeps_row).await;
        let deadline = Instant::now() + Duration::from_secs(30);
        while !listed(&server, &format!("subscriptions?customer={customer}")).await.is_empty() {
            assert!(Instant::now() < deadline, "{subscription} still runs");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let ended = listed(&server, &format!("subscriptions?customer={customer}&status=all")).await;
        assert_eq!((&ended[0]["id"], &ended[0]["status"]), (&json!(subscription), &json!("canceled")));
        assert!(
            listed(&server, &format!("checkout/sessions?customer={customer}&status=open")).await.is_empty()
        );
        let page = Request::new(Method::GET, open["url"].as_str().unwrap()).send().await;
        assert!(page.text().contains("This checkout has expired"), "{}", page.text());
        // The resulting events are processed without errors.
        while server
            .database()
            .value("select count(*)::text from public.webhook_events where event_type = 'customer.subscription.deleted' and status = 'processed'")
            .await
            != if keeps_row { "2" } else { "1" }
        {
            assert!(Instant::now() < deadline, "the last event is not processed");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let failed = server
        .database()
        .value("select coalesce(string_agg(event_type || ': ' || error_message, '; '), '') from public.webhook_events")
        .await;
    assert_eq!(failed, "");
    let outcomes =
        server.database().admin_sql("select distinct outcome from functions.former_customers").await;
    let ended = "ended 1 subscriptions and 1 checkout sessions";
    assert_eq!(outcomes, [[Some(ended.to_owned())]]);
}
