//! `basalt stripe sync`: fetching what Stripe could not deliver (functions.md 3.17.6).

use std::process::Output;

use basalt_testkit::{Basalt, User};
use http::Method;
use serde_json::{Value, json};

use super::stripe_stub::{PRICE, add_plan};
use super::{app, call};

/// Runs `basalt stripe sync` with the running server's settings.
fn sync(server: &Basalt, arguments: &[&str]) -> Output {
    let mut command = server.same_settings();
    command.args(["stripe", "sync"]).args(arguments).output().unwrap()
}

fn synced(server: &Basalt) -> Value {
    let output = sync(server, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The user's subscriptions.
async fn seen(server: &Basalt, user: &User) -> Value {
    let request = server.post("/rest/v1/rpc/get_user_subscription").by(server, user);
    request.json(&json!({"user_id": user.id})).send().await.expect(200).json()
}

async fn pay(server: &Basalt, session: &str) {
    let request = server.stripe_double().control(Method::POST, &format!("checkout/{session}"));
    request.json(&json!({})).send().await.expect(200);
}

/// Posts a form to the double's API.
async fn ask(server: &Basalt, path: &str, form: &str) -> Value {
    let request = server.stripe_double().api(Method::POST, path);
    let request = request.header("content-type", "application/x-www-form-urlencoded").body(form.to_owned());
    request.send().await.expect(200).json()
}

#[tokio::test]
async fn stripe_sync_fetches_undelivered_events() {
    // Events of another product in the same account have no user here.
    let mut server = app().stripe_double().expect_log("a Stripe event").start().await;
    add_plan(&server, PRICE, true).await;
    let user = server.sign_up("ada@example.org").await;
    let lost = json!({"drop_next": 1000, "retries": false});
    let delivery = server.stripe_double().control(Method::PUT, "delivery");
    delivery.json(&lost).send().await.expect(200);

    let body = json!({"priceId": PRICE});
    let bought = call(&server, "create-checkout-session", Some(&user), &body).send().await.expect(200).json();
    pay(&server, bought["sessionId"].as_str().unwrap()).await;
    // Another product in the same Stripe account.
    let customer = ask(&server, "customers", "email=eve%40example.org").await;
    let form = format!(
        "mode=subscription&customer={}&line_items[0][price]={PRICE}&line_items[0][quantity]=1&success_url={}&cancel_url={1}",
        customer["id"].as_str().unwrap(),
        "http%3A%2F%2Flocalhost%2F"
    );
    pay(&server, ask(&server, "checkout/sessions", &form).await["id"].as_str().unwrap()).await;
    assert_eq!(seen(&server, &user).await, json!([]), "the events were lost");

    // Stop the server: it could process the fetched events before the subscriptions are compared.
    server.stop().await;
    let found = synced(&server);
    server.start_again().await;
    assert!(found["events"].as_u64() > Some(3), "{found}");
    assert_eq!((&found["subscriptions"], &found["changed"]), (&json!(2), &json!(1)), "{found}");
    assert_eq!(found["without_account"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(seen(&server, &user).await[0]["status"], "active");
    // Unchanged rows are not written again, which would notify realtime subscribers.
    let written = "select xmin::text || state_as_of from public.user_subscriptions";
    let before = server.database().value(written).await;
    let again = synced(&server);
    assert_eq!((&again["events"], &again["changed"]), (&json!(0), &json!(0)), "{again}");
    assert_eq!(server.database().value(written).await, before);

    let stdout = String::from_utf8(sync(&server, &[]).stdout).unwrap();
    assert!(stdout.contains("2 subscriptions compared, 0 updated"), "{stdout}");
    let mut without_key = server.same_settings();
    let without_key =
        without_key.env_remove("BASALT_STRIPE_SECRET_KEY").args(["stripe", "sync"]).output().unwrap();
    let stderr = String::from_utf8(without_key.stderr).unwrap();
    assert!(!without_key.status.success() && stderr.contains("no Stripe key is configured"), "{stderr}");

    let busy = json!({"path": "/v1/events", "status": 429, "times": 10});
    server.stripe_double().control(Method::POST, "faults").json(&busy).send().await.expect(200);
    let refused = sync(&server, &[]);
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && stderr.contains("Stripe is busy"), "{stderr}");
}
