//! Stripe webhooks: verification, processing, and independence of order, repetition and server crashes.

use std::time::Duration;

use basalt_testkit::{Basalt, Reply, User};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::stripe_stub::{
    PRICE, SECRET, StripeStub, add_plan, deliver, delivery, event, now, server, settled, signature,
    subscription,
};
use super::{app, call, failure, shown, sign_up_admin};

/// The subscription as the app reads it.
async fn seen(server: &Basalt, user: &User) -> Value {
    let body = json!({"user_id": user.id});
    server
        .post("/rest/v1/rpc/get_user_subscription")
        .by(server, user)
        .json(&body)
        .send()
        .await
        .expect(200)
        .json()
}

async fn start() -> (StripeStub, Basalt, User) {
    let stripe = StripeStub::start().await;
    let server = server(&stripe).expect_log("a Stripe event").expect_log("two subscriptions").start().await;
    add_plan(&server, PRICE, true).await;
    let user = server.sign_up("ada@example.org").await;
    (stripe, server, user)
}

#[tokio::test]
async fn only_signed_events_are_accepted() {
    let (_stripe, server, _user) = start().await;
    let text = "{\n  \"id\": \"evt_1\",\n  \"type\": \"x\"\n}";
    let post = || server.post("/functions/v1/stripe-webhook");
    let signed = |body: &str, time: i64| {
        post().header("stripe-signature", &signature(SECRET, time, body.as_bytes())).body(body.to_owned())
    };
    let forged = (400, failure("Webhook signature verification failed"));
    for (request, expected) in [
        (post().body(text), (400, failure("Missing stripe-signature header"))),
        (post().header("stripe-signature", "t=1,v1=00").body(text), forged.clone()),
        (
            post().header("stripe-signature", &signature("whsec_other", now(), text.as_bytes())).body(text),
            forged.clone(),
        ),
        (signed(text, now()).body("{\"id\":\"evt_1\",\"type\":\"x\"}"), forged),
        (signed(text, now() - 400), (400, failure("Webhook timestamp outside the tolerance zone"))),
        (signed(text, now() + 400), (400, failure("Webhook timestamp outside the tolerance zone"))),
        (signed("{\"id\": \"evt_1\", \"ty", now()), (400, failure("Invalid payload"))),
        (signed("[]", now()), (400, failure("Invalid payload"))),
        (signed("{\"id\": \"sub_1\", \"type\": \"x\"}", now()), (400, failure("Invalid payload"))),
        (signed("{\"id\": \"evt_1\"}", now()), (400, failure("Invalid payload"))),
        (signed("{\"id\": \"evt_1\", \"type\": \"a\\u0000\"}", now()), (400, failure("Invalid payload"))),
        (
            signed("{\"id\": \"evt_1\", \"object\": \"v2.core.event\"}", now()),
            (200, json!({"received": true, "ignored": true})),
        ),
    ] {
        let what = format!("{request:?}");
        assert_eq!(shown(&request.send().await), expected, "{what}");
    }
    let long = format!("{{\"id\":\"evt_1\",\"type\":\"{}\"}}", "x".repeat(1024 * 1024));
    signed(&long, now()).send().await.expect(413);
    assert_eq!(
        shown(&server.get("/functions/v1/stripe-webhook").send().await),
        (405, failure("Method not allowed"))
    );
    assert_eq!(server.database().count("public.webhook_events").await, 0);
    assert!(!server.log().iter().any(|line| line.raw.contains(SECRET) || line.raw.contains("sk_test_")));
}

#[tokio::test]
async fn webhook_secret_can_be_set_at_runtime() {
    let stripe = StripeStub::start().await;
    let server = app()
        .config("stripe.secret_key", "sk_test_x")
        .config("stripe.api_base", &stripe.http.url())
        .start()
        .await;
    let admin = sign_up_admin(&server, "ada@example.org").await;
    let stripe_event = event("evt_1", "some.type", now(), &json!({}));
    assert_eq!(
        shown(&deliver(&server, &stripe_event).await),
        (503, failure("Webhook secret is not configured"))
    );
    let set = |body: Value| call(&server, "set-webhook-secret", Some(&admin), &body);
    for (body, message) in [
        (json!({}), "Webhook secret is required"),
        (json!({"secret": "  "}), "Webhook secret is required"),
        (
            json!({"secret": "sk_test_123456789"}),
            "That is not a Stripe signing secret (it begins with whsec_)",
        ),
        (json!({"secret": "whsec_short"}), "That is not a Stripe signing secret (it begins with whsec_)"),
        (json!({"secret": SECRET, "secretName": "OTHER"}), "Unknown secret name"),
    ] {
        assert_eq!(shown(&set(body.clone()).send().await), (400, failure(message)), "{body}");
    }
    let stored = json!({"success": true, "message": "Webhook secret stored"});
    let body = json!({"secret": format!(" {SECRET} "), "secretName": "STRIPE_WEBHOOK_SECRET"});
    assert_eq!(shown(&set(body).send().await), (200, stored));
    assert_eq!(deliver(&server, &stripe_event).await.expect(200).json()["status"], "processed");
    assert_eq!(settled(&server, "evt_1").await.1, "ignored");
    let stranger = server.sign_up("eve@example.org").await;
    let refused =
        call(&server, "set-webhook-secret", Some(&stranger), &json!({"secret": SECRET})).send().await;
    assert_eq!(shown(&refused), (403, failure("Administrators only")));
    assert!(!server.log().iter().any(|line| line.raw.contains(SECRET)));
    let leaked = server
        .database()
        .admin_sql(&format!("select count(*) from public.audit_log where audit_log::text like '%{SECRET}%'"))
        .await;
    assert_eq!(leaked[0][0].as_deref(), Some("0"));
}

#[tokio::test]
async fn event_is_applied_once_before_the_response() {
    let (stripe, server, user) = start().await;
    let state = subscription("sub_1", &user.id, "active");
    stripe.put("subscriptions/sub_1", &state);
    let created = event("evt_1", "customer.subscription.created", now(), &state);
    let response = deliver(&server, &created).await;
    assert_eq!(shown(&response), (200, json!({"received": true, "id": "evt_1", "status": "processed"})));
    assert_eq!(seen(&server, &user).await[0]["status"], "active");
    assert_eq!(
        settled(&server, "evt_1").await,
        ("processed".to_owned(), "applied".to_owned(), String::new())
    );
    let repeat = json!({"received": true, "id": "evt_1", "status": "processed", "duplicate": true});
    assert_eq!(shown(&deliver(&server, &created).await), (200, repeat));
    let fetches = stripe.requests("GET /v1/subscriptions/sub_1").len();
    assert_eq!(fetches, 1);
    let request = stripe.requests("GET /v1/subscriptions/sub_1").remove(0);
    assert_eq!(request.header("stripe-version"), "2026-09-30.endive");
    assert_eq!(request.header("authorization"), "Bearer sk_test_a_key_of_the_tests");
    // An event type that is not handled.
    let payment = json!({"mode": "payment", "id": "cs_1"});
    for (number, (kind, live, object, outcome)) in [
        ("product.created", false, json!({}), "ignored"),
        ("customer.subscription.updated", true, state.clone(), "ignored: other mode"),
        ("checkout.session.completed", false, payment, "ignored: no subscription"),
        ("checkout.session.expired", false, json!({}), "noted"),
        ("invoice.paid", false, json!({"id": "in_1"}), "ignored: no subscription"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("evt_other_{number}");
        let mut stripe_event = event(&id, kind, now(), &object);
        stripe_event["livemode"] = json!(live);
        deliver(&server, &stripe_event).await.expect(200);
        assert_eq!(
            settled(&server, &id).await,
            ("processed".to_owned(), outcome.to_owned(), String::new()),
            "{kind}"
        );
    }
    // A customer that no longer exists.
    deliver(&server, &event("evt_gone", "customer.deleted", now(), &json!({"id": "cus_sub_1"})))
        .await
        .expect(200);
    settled(&server, "evt_gone").await;
    assert_eq!(server.database().count("public.stripe_customers").await, 0);
}

#[tokio::test]
async fn event_without_user_fails_and_can_be_replayed_with_hints() {
    let (stripe, server, user) = start().await;
    let admin = sign_up_admin(&server, "admin@example.org").await;
    let mut state = subscription("sub_1", "", "active");
    stripe.put("subscriptions/sub_1", &state);
    stripe
        .put("customers/cus_sub_1", &json!({"id": "cus_sub_1", "email": "ada@example.org", "metadata": {}}));
    let stripe_event = event("evt_1", "customer.subscription.updated", now(), &state);
    let reason = "No user found for customer cus_sub_1 (subscription sub_1)";
    let response = json!({"received": true, "id": "evt_1", "status": "failed", "message": reason});
    assert_eq!(shown(&deliver(&server, &stripe_event).await), (200, response), "a retry would not help");
    assert_eq!(settled(&server, "evt_1").await, ("failed".to_owned(), String::new(), reason.to_owned()));
    assert_eq!(
        seen(&server, &user).await,
        json!([]),
        "the payer's e-mail address does not identify an account"
    );

    let replay = |caller: Option<&User>, hints: Value| {
        let mut body = stripe_event.clone();
        body["replay_metadata"] = hints;
        call(&server, "stripe-webhook", caller, &body).header("x-webhook-replay", "True")
    };
    let nothing = json!({"customer_email": null});
    assert_eq!(shown(&replay(None, nothing.clone()).send().await), (401, failure("Not authenticated")));
    assert_eq!(
        shown(&replay(Some(&user), nothing.clone()).send().await),
        (403, failure("Administrators only"))
    );
    for hints in [
        json!({"customer_email": "ada"}),
        json!({"customer_id": "sub_1"}),
        json!({"subscription_id": 1}),
        json!({"price_id": "x"}),
    ] {
        assert_eq!(
            shown(&replay(Some(&admin), hints).send().await),
            (400, failure("Invalid replay_metadata"))
        );
    }
    let unknown = call(&server, "stripe-webhook", Some(&admin), &json!({"id": "evt_none"}))
        .header("x-webhook-replay", "true");
    assert_eq!(shown(&unknown.send().await), (404, failure("Webhook event not found")));
    assert_eq!(shown(&replay(Some(&admin), nothing).send().await), (422, failure(reason)));
    stripe.reply(Reply::Respond(500, "{}".to_owned()));
    let away = replay(Some(&admin), json!({"customer_email": "ada@example.org"})).send().await;
    assert_eq!(away.status, 502, "{}", away.text());
    stripe.recover();
    // The stored payload is used, not the one in the body.
    state["status"] = json!("canceled");
    let replayed =
        replay(Some(&admin), json!({"customer_email": "Ada@example.org", "price_id": PRICE})).send().await;
    let success = json!({"success": true, "message": "Webhook event replayed successfully", "id": "evt_1", "status": "processed"});
    assert_eq!(shown(&replayed), (200, success));
    assert_eq!(seen(&server, &user).await[0]["status"], "active");
    let (status, outcome, error) = settled(&server, "evt_1").await;
    assert!(status == "processed" && error.is_empty() && outcome.contains(&admin.id), "{outcome}");
    let again = replay(Some(&admin), json!({})).send().await;
    assert_eq!(shown(&again), (409, failure("Only failed events can be replayed")));
    let audit = server
        .database()
        .value("select count(*)::text from public.audit_log where action = 'replay' and subject_id = 'evt_1'")
        .await;
    assert!(audit.parse::<u32>().unwrap() >= 3, "{audit}");
}

#[tokio::test]
async fn event_payload_is_used_while_stripe_is_unreachable() {
    let (stripe, server, user) = start().await;
    let active = subscription("sub_1", &user.id, "active");
    let mut ending = active.clone();
    ending["cancel_at"] = json!(2_000_000_000);
    stripe.reply(Reply::Close);
    let stripe_event = event("evt_1", "customer.subscription.updated", now() - 10, &active);
    let again = json!({"error": "Processing failed, will be retried", "id": "evt_1"});
    assert_eq!(shown(&deliver(&server, &stripe_event).await), (500, again));
    assert_eq!(settled(&server, "evt_1").await.0, "failed");
    assert_eq!(seen(&server, &user).await[0]["status"], "active");
    // An event without a subscription state cannot be applied.
    let invoice = json!({"parent": {"subscription_details": {"subscription": "sub_1"}}});
    deliver(&server, &event("evt_2", "invoice.paid", now(), &invoice)).await.expect(500);
    let (status, _, error) = settled(&server, "evt_2").await;
    assert_eq!((status.as_str(), error.starts_with("Stripe cannot be reached")), ("failed", true), "{error}");
    stripe.recover();
    stripe.put("subscriptions/sub_1", &ending);
    // Stripe retries failed events.
    for stripe_event in [&stripe_event, &event("evt_2", "invoice.paid", now(), &invoice)] {
        assert_eq!(deliver(&server, stripe_event).await.expect(200).json()["status"], "processed");
    }
    for id in ["evt_1", "evt_2"] {
        assert_eq!(settled(&server, id).await.0, "processed");
    }
    // `cancel_at` alone also means that the subscription ends.
    assert_eq!(seen(&server, &user).await[0]["cancel_at_period_end"], true);
}

#[tokio::test]
async fn invalid_stripe_responses_fail_the_event() {
    let (stripe, server, user) = start().await;
    let state = subscription("sub_1", &user.id, "active");
    let stripe_event = |id: &str, kind: &str| event(id, kind, now(), &state);
    deliver(&server, &stripe_event("evt_missing", "customer.subscription.updated")).await.expect(200);
    let (status, _, error) = settled(&server, "evt_missing").await;
    assert!(status == "failed" && error.contains("belongs to the same account"), "{error}");
    for (id, response, status) in [
        ("evt_401", Reply::Respond(401, "{}".to_owned()), 500),
        ("evt_html", Reply::Respond(200, "<html>".to_owned()), 500),
        ("evt_list", Reply::Respond(200, "{\"object\":\"list\"}".to_owned()), 200),
    ] {
        stripe.reply(response);
        let invoice = json!({"subscription": "sub_1"});
        deliver(&server, &event(id, "invoice.paid", now(), &invoice)).await.expect(status);
        assert_eq!(settled(&server, id).await.0, "failed", "{id}");
    }
    stripe.recover();
    deliver(&server, &stripe_event("evt_deleted", "customer.subscription.deleted")).await.expect(200);
    assert_eq!(settled(&server, "evt_deleted").await.0, "processed");
    assert_eq!(seen(&server, &user).await[0]["status"], "canceled");
    // A deleted user has no subscription.
    let gone = server.sign_up("eve@example.org").await;
    let state = subscription("sub_2", &gone.id, "active");
    stripe.put("subscriptions/sub_2", &state);
    server.database().admin_sql(&format!("delete from auth.users where id = '{}'", gone.id)).await;
    deliver(&server, &event("evt_gone", "customer.subscription.updated", now(), &state)).await.expect(200);
    assert_eq!(settled(&server, "evt_gone").await.0, "failed");
}

/// Pseudorandom numbers with a fixed seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.roll(index + 1));
        }
    }
}

/// The events of a subscription's life, and its final state.
fn life(id: &str, user: &str) -> (Vec<Value>, Value) {
    let began = now() - 20;
    let state = |status: &str| subscription(id, user, status);
    let mut ending = state("active");
    ending["cancel_at_period_end"] = json!(true);
    let mut last = state("past_due");
    last["cancel_at"] = json!(2_000_000_000);
    let session = json!({"id": "cs_1", "mode": "subscription", "subscription": id, "customer": format!("cus_{id}"), "client_reference_id": user});
    let invoice = json!({"id": "in_1", "parent": {"subscription_details": {"subscription": id}}});
    let stripe_event = [
        ("customer.subscription.created", 0, state("incomplete")),
        ("checkout.session.completed", 0, session),
        ("customer.subscription.updated", 0, state("active")),
        ("invoice.paid", 1, invoice.clone()),
        ("customer.subscription.updated", 5, ending),
        ("customer.subscription.updated", 6, state("active")),
        ("invoice.payment_failed", 10, invoice),
        ("customer.subscription.updated", 10, last.clone()),
    ];
    let events = stripe_event.into_iter().enumerate().map(|(number, (kind, after, object))| {
        event(&format!("evt_{id}_{number}"), kind, began + after, &object)
    });
    (events.collect(), last)
}

#[tokio::test]
async fn shuffled_and_repeated_events_give_the_same_state() {
    shuffled(50).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: three thousand deliveries"]
async fn two_hundred_shuffled_lives_give_the_same_state() {
    shuffled(200).await;
}

/// Delivers the events of `lives` subscriptions in random order, each up to three times.
async fn shuffled(lives: usize) {
    let (stripe, server, user) = start().await;
    let mut dice = Dice(7);
    let mut deliveries = Vec::new();
    for number in 0..lives {
        let id = format!("sub_{number}");
        let (events, last) = life(&id, &user.id);
        stripe.put(&format!("subscriptions/{id}"), &last);
        for stripe_event in events {
            for _ in 0..1 + dice.roll(3) {
                deliveries.push(stripe_event.clone());
            }
        }
    }
    dice.shuffle(&mut deliveries);
    // Stripe is unreachable for a while in the middle.
    let (first, rest) = deliveries.split_at(deliveries.len() / 3);
    let (away, last) = rest.split_at(rest.len() / 4);
    send_all(&server, first, &[200]).await;
    stripe.reply(Reply::Respond(503, "{}".to_owned()));
    // New events fail, so that Stripe retries them; already processed ones succeed.
    send_all(&server, away, &[200, 500]).await;
    stripe.recover();
    // Other deliveries of the same events may just have failed.
    send_all(&server, last, &[200, 500]).await;
    let deadline = Instant::now() + Duration::from_secs(120);
    let count = async |condition: &str| {
        let sql = format!("select count(*)::text from public.webhook_events where {condition}");
        server.database().value(&sql).await.parse::<usize>().unwrap()
    };
    while count("status = 'pending'").await > 0 {
        assert!(Instant::now() < deadline, "events are still pending");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Stripe retries what did not get 200, and the server retries failed events: immediately in this test.
    let failed = server.sql("select payload::text from public.webhook_events where status = 'failed'").await;
    let failed: Vec<Value> =
        failed.iter().map(|row| serde_json::from_str(row[0].as_deref().unwrap()).unwrap()).collect();
    send_all(&server, &failed, &[200]).await;
    while count("status <> 'processed'").await > 0 {
        assert!(Instant::now() < deadline, "events are not processed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count("true").await, lives * 8);
    let states = server
        .sql("select distinct status, cancel_at_period_end::text, stripe_price_id, user_id::text from public.user_subscriptions")
        .await;
    let expected = ["past_due", "true", PRICE, user.id.as_str()].map(|text| Some(text.to_owned())).to_vec();
    assert_eq!(states, [expected]);
    assert_eq!(server.database().count("public.user_subscriptions").await, i64::try_from(lives).unwrap());
}

/// Sends sixteen at a time; each status must be one of `allowed`.
async fn send_all(server: &Basalt, events: &[Value], allowed: &[u16]) {
    for batch in events.chunks(16) {
        let sent = batch
            .iter()
            .map(|stripe_event| tokio::spawn(delivery(server, stripe_event).send()))
            .collect::<Vec<_>>();
        for response in sent {
            let response = response.await.unwrap();
            assert!(allowed.contains(&response.status.as_u16()), "{} {}", response.status, response.text());
        }
    }
}

#[tokio::test]
async fn burst_of_events_is_stored_quickly_and_processed_once() {
    const BURST: usize = 1000;
    let (stripe, server, user) = start().await;
    let state = subscription("sub_1", &user.id, "active");
    stripe.put("subscriptions/sub_1", &state);
    let events: Vec<Value> = (0..BURST)
        .map(|number| event(&format!("evt_{number}"), "customer.subscription.updated", now(), &state))
        .collect();
    let mut slowest = Duration::ZERO;
    let began = Instant::now();
    for batch in events.chunks(64) {
        let sent = batch.iter().map(|stripe_event| {
            let request = delivery(&server, stripe_event);
            tokio::spawn(async move {
                let began = Instant::now();
                request.send().await.expect(200);
                began.elapsed()
            })
        });
        for took in sent.collect::<Vec<_>>() {
            slowest = slowest.max(took.await.unwrap());
        }
    }
    eprintln!("{BURST} stored in {:?}, the slowest in {slowest:?}", began.elapsed());
    let deadline = Instant::now() + Duration::from_secs(60);
    while server
        .database()
        .value("select count(*)::text from public.webhook_events where status = 'processed'")
        .await
        != "1000"
    {
        assert!(Instant::now() < deadline, "events are not processed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let fetches = stripe.requests("GET /v1/subscriptions/sub_1").len();
    eprintln!("{fetches} requests to Stripe");
    assert!(fetches < BURST / 2, "{fetches} fetches: waiting events should share one");
    assert_eq!(server.database().value("select max(attempts)::text from public.webhook_events").await, "1");
    assert_eq!(server.database().count("public.user_subscriptions").await, 1);
}

/// Kills the server after it has stored an event and before it has processed it.
async fn killed(times: usize) {
    let (stripe, mut server, user) = start().await;
    let mut dice = Dice(50);
    for number in 0..times {
        let id = format!("sub_{number}");
        let state = subscription(&id, &user.id, "active");
        stripe.put(&format!("subscriptions/{id}"), &state);
        let stripe_event = event(&format!("evt_{number}"), "customer.subscription.created", now(), &state);
        // Every other time Stripe stalls, so that the server is killed during the fetch; otherwise at a random point.
        let is_under_way = number % 2 == 0;
        if is_under_way {
            stripe.reply(Reply::Stall(Duration::from_secs(60)));
        }
        let sent = tokio::spawn(delivery(&server, &stripe_event).try_send());
        let begun = format!(
            "select count(*)::text from public.webhook_events where id = 'evt_{number}' and (attempts > 0 or not {is_under_way})"
        );
        while server.database().value(&begun).await != "1" {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(u64::try_from(dice.roll(20)).unwrap())).await;
        server.kill();
        drop(sent.await);
        stripe.recover();
        server.start_again().await;
    }
    // No event is sent again: the stored ones are processed after the restart.
    for number in 0..times {
        let (status, _, error) = settled(&server, &format!("evt_{number}")).await;
        assert_eq!(status, "processed", "{error}");
    }
    let count = i64::try_from(times).unwrap();
    assert_eq!(server.database().count("public.user_subscriptions").await, count);
    assert_eq!(server.database().count("public.webhook_events").await, count);
    let interrupted =
        server.database().value("select count(*)::text from public.webhook_events where attempts > 1").await;
    assert!(interrupted.parse::<usize>().unwrap() >= times / 2, "{interrupted} of {times} were interrupted");
}

#[tokio::test]
async fn stored_event_survives_a_kill() {
    killed(3).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: fifty restarts, over a minute"]
async fn stored_event_survives_fifty_kills() {
    killed(50).await;
}
