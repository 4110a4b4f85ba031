//! The status of each built-in function, by caller and state of the providers. Response bodies and requests to Stripe are
//! tested in the other files.

use std::time::Duration;

use basalt_testkit::{Basalt, Reply, Request, Response, User};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::mail::{invite, make_plan, prove_address, set_resend};
use super::stripe_stub::{PRICE, SECRET, StripeStub, add_plan, delivery, event, now, server, subscription};
use super::{call, sign_up_admin};

/// How Stripe and Resend respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Providers {
    Available,
    /// As `Available`; the rows have invalid input.
    Unused,
    Unreachable,
    Slow,
    Rejecting,
}
use Providers::{Available, Rejecting, Slow, Unreachable, Unused};

/// The text of the providers' errors, which users must not see.
const DETAIL: &str = "detail of the provider";

const CALLERS: [&str; 4] = ["anonymous", "other user", "owner", "administrator"];

/// Function, body, providers, and the status for each of [`CALLERS`]. The owner owns the subscription and the plan.
///
/// In bodies, `PLAN` is the owner's plan, `INVITEE` an address with a pending invitation, `FAILED` the id of a failed event and
/// `SECRET` a valid signing secret. The body of `stripe-webhook` is the type of a correctly signed event.
type Case = (&'static str, &'static str, Providers, [u16; 4]);

#[rustfmt::skip]
const CASES: [Case; 53] = [
    // function                 body                                                           providers    anonymous, other user, owner, administrator
    ("create-portal-session",   r#"{}"#,                                                       Available,   [401, 404, 200, 404]),
    ("create-portal-session",   r#"{"returnUrl": "https://evil.example/"}"#,                   Unused,      [401, 400, 400, 400]),
    ("create-portal-session",   r#"{}"#,                                                       Unreachable, [401, 404, 502, 404]),
    ("create-portal-session",   r#"{}"#,                                                       Slow,        [401, 404, 200, 404]),
    // Stripe rejects a portal session only if the portal is not configured.
    ("create-portal-session",   r#"{}"#,                                                       Rejecting,   [401, 404, 500, 404]),

    ("cancel-subscription",     r#"{"subscriptionId": "sub_1"}"#,                              Available,   [401, 404, 200, 404]),
    ("cancel-subscription",     r#"{"subscriptionId": "sub_../1"}"#,                           Unused,      [401, 400, 400, 400]),
    ("cancel-subscription",     r#"{"subscriptionId": "sub_1"}"#,                              Unreachable, [401, 404, 502, 404]),
    ("cancel-subscription",     r#"{"subscriptionId": "sub_1"}"#,                              Slow,        [401, 404, 200, 404]),
    ("cancel-subscription",     r#"{"subscriptionId": "sub_1"}"#,                              Rejecting,   [401, 404, 400, 404]),

    ("reactivate-subscription", r#"{"subscriptionId": "sub_1"}"#,                              Available,   [401, 404, 200, 404]),
    ("reactivate-subscription", r#"{"subscriptionId": "sub_../1"}"#,                           Unused,      [401, 400, 400, 400]),
    ("reactivate-subscription", r#"{"subscriptionId": "sub_1"}"#,                              Unreachable, [401, 404, 502, 404]),
    ("reactivate-subscription", r#"{"subscriptionId": "sub_1"}"#,                              Slow,        [401, 404, 200, 404]),
    ("reactivate-subscription", r#"{"subscriptionId": "sub_1"}"#,                              Rejecting,   [401, 404, 400, 404]),

    // Calls no provider.
    ("set-webhook-secret",      r#"{"secret": "SECRET"}"#,                                     Available,   [401, 403, 403, 200]),
    ("set-webhook-secret",      r#"{"secret": "sk_test_1"}"#,                                  Unused,      [401, 403, 403, 400]),
    ("set-webhook-secret",      r#"{"secret": "SECRET"}"#,                                     Unreachable, [401, 403, 403, 200]),
    ("set-webhook-secret",      r#"{"secret": "SECRET"}"#,                                     Slow,        [401, 403, 403, 200]),
    ("set-webhook-secret",      r#"{"secret": "SECRET"}"#,                                     Rejecting,   [401, 403, 403, 200]),

    (REPLAY, r#"{"id": "FAILED", "replay_metadata": {"customer_email": "ada@example.org"}}"#,  Available,   [401, 403, 403, 200]),
    (REPLAY, r#"{"id": "FAILED", "replay_metadata": {"customer_email": "no address"}}"#,       Unused,      [401, 403, 403, 400]),
    (REPLAY, r#"{"id": "FAILED", "replay_metadata": {"customer_email": "ada@example.org"}}"#,  Unreachable, [401, 403, 403, 502]),
    (REPLAY, r#"{"id": "FAILED", "replay_metadata": {"customer_email": "ada@example.org"}}"#,  Slow,        [401, 403, 403, 200]),
    (REPLAY, r#"{"id": "FAILED", "replay_metadata": {"customer_email": "ada@example.org"}}"#,  Rejecting,   [401, 403, 403, 502]),

    // The signature authenticates Stripe; the caller's token is ignored.
    ("stripe-webhook",          "customer.subscription.updated",                               Available,   [200, 200, 200, 200]),
    ("stripe-webhook",          "",                                                            Unused,      [400, 400, 400, 400]),
    ("stripe-webhook",          "customer.subscription.updated",                               Unreachable, [500, 500, 500, 500]),
    ("stripe-webhook",          "customer.subscription.updated",                               Slow,        [200, 200, 200, 200]),
    ("stripe-webhook",          "customer.subscription.updated",                               Rejecting,   [500, 500, 500, 500]),

    ("invite-member",           r#"{"email": "INVITEE", "planId": "PLAN"}"#,                   Available,   [401, 404, 200, 404]),
    ("invite-member",           r#"{"email": "no address", "planId": "PLAN"}"#,                Unused,      [401, 400, 400, 400]),
    // The mail is retried, so the call succeeds.
    ("invite-member",           r#"{"email": "INVITEE", "planId": "PLAN"}"#,                   Unreachable, [401, 404, 200, 404]),
    ("invite-member",           r#"{"email": "INVITEE", "planId": "PLAN"}"#,                   Slow,        [401, 404, 200, 404]),
    ("invite-member",           r#"{"email": "INVITEE", "planId": "PLAN"}"#,                   Rejecting,   [401, 404, 502, 404]),

    ("test-email", r#"{"to": "bob@example.org", "subject": "Hello", "message": "Hi"}"#,        Available,   [401, 403, 403, 200]),
    ("test-email", r#"{"to": "no address", "subject": "Hello", "message": "Hi"}"#,             Unused,      [401, 403, 403, 400]),
    ("test-email", r#"{"to": "bob@example.org", "subject": "Hello", "message": "Hi"}"#,        Unreachable, [401, 403, 403, 502]),
    ("test-email", r#"{"to": "bob@example.org", "subject": "Hello", "message": "Hi"}"#,        Slow,        [401, 403, 403, 200]),
    ("test-email", r#"{"to": "bob@example.org", "subject": "Hello", "message": "Hi"}"#,        Rejecting,   [401, 403, 403, 502]),

    ("test-mail-key", r#"{"apiKey": "re_1", "fromEmail": "no address"}"#,                      Unused,      [401, 403, 403, 400]),
    ("test-mail-key", r#"{"apiKey": "re_1", "fromEmail": "a@example.org"}"#,                   Unreachable, [401, 403, 403, 502]),
    ("test-mail-key", r#"{"apiKey": "re_1", "fromEmail": "a@example.org"}"#,                   Rejecting,   [401, 403, 403, 400]),
    ("retry-mails",             r#"{}"#,                                                       Unused,      [401, 403, 403, 200]),

    ("check-price",             r#"{"priceId": "price_at_stripe"}"#,                           Available,   [401, 403, 403, 200]),
    ("check-price",             r#"{"priceId": "price_unknown"}"#,                             Unused,      [401, 403, 403, 400]),
    ("check-price",             r#"{"priceId": "price_at_stripe"}"#,                           Unreachable, [401, 403, 403, 502]),
    ("check-price",             r#"{"priceId": "price_at_stripe"}"#,                           Slow,        [401, 403, 403, 200]),

    (CHECKOUT,                  r#"{"priceId": "price_more"}"#,                                Available,   [401, 200, 200, 200]),
    (CHECKOUT,                  r#"{"priceId": "price_none"}"#,                                Unused,      [401, 400, 400, 400]),
    (CHECKOUT,                  r#"{"priceId": "price_more"}"#,                                Unreachable, [401, 502, 502, 502]),
    (CHECKOUT,                  r#"{"priceId": "price_more"}"#,                                Slow,        [401, 200, 200, 200]),
    (CHECKOUT,                  r#"{"priceId": "price_more"}"#,                                Rejecting,   [401, 400, 400, 400]),
];

/// `stripe-webhook` with `x-webhook-replay`.
const REPLAY: &str = "replay";
const CHECKOUT: &str = "create-checkout-session";

struct Fixture {
    server: Basalt,
    stripe: StripeStub,
    other_user: User,
    owner: User,
    admin: User,
    /// The user of the subscriptions in webhooks.
    payer: User,
    plan: String,
}

async fn fixture() -> Fixture {
    let stripe = StripeStub::start().await;
    let mut server = server(&stripe).config("mail.resend_url", &stripe.http.url());
    for line in [
        "a Stripe event",
        "mail delivery",
        "the customer portal is not configured at Stripe",
        "two subscriptions",
    ] {
        server = server.expect_log(line);
    }
    let server = server.start().await;
    add_plan(&server, PRICE, true).await;
    add_plan(&server, "price_more", true).await;
    let other_user = server.sign_up("eve@example.org").await;
    let owner = server.sign_up("ada@example.org").await;
    prove_address(&server, &owner).await;
    let admin = sign_up_admin(&server, "admin@example.org").await;
    let payer = server.sign_up("payer@example.org").await;
    set_resend(&server, "re_a_secret_key").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    stripe.put("subscriptions/sub_1", &subscription("sub_1", &owner.id, "active"));
    stripe.put(
        "prices/price_at_stripe",
        &json!({"id": "price_at_stripe", "unit_amount": 1950, "currency": "usd", "recurring": {"interval": "month"}}),
    );
    server
        .sql(&format!(
            "insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ('{0}', false, 'cus_sub_1');
             insert into public.user_subscriptions (user_id, stripe_subscription_id, stripe_customer_id, stripe_price_id, status, state_as_of)
             values ('{0}', 'sub_1', 'cus_sub_1', '{PRICE}', 'active', now())",
            owner.id
        ))
        .await;
    Fixture { server, stripe, other_user, owner, admin, payer, plan }
}

impl Fixture {
    /// Creates a failed event to replay and an invitation to mail, then puts the providers into their state.
    async fn prepare(&self, providers: Providers) {
        self.stripe.recover();
        let id = format!("sub_lost_{providers:?}");
        let lost = subscription(&id, "", "active");
        self.stripe.put(&format!("subscriptions/{id}"), &lost);
        self.stripe.put(&format!("customers/cus_{id}"), &json!({"id": format!("cus_{id}"), "metadata": {}}));
        let failed = event(&failed_event(providers), "customer.subscription.updated", now(), &lost);
        let response = send_until_processed(|| delivery(&self.server, &failed)).await.expect(200);
        assert_eq!(response.json()["status"], "failed");
        let status = invite(&self.server, &self.owner, &self.plan, &invitee(providers), "viewer").await;
        assert_eq!(status, 201);
        match providers {
            Available | Unused => {}
            Unreachable => self.stripe.reply(Reply::Close),
            Slow => {
                self.stripe.intercept(|_, reply| Reply::After(Duration::from_millis(200), Box::new(reply)));
            }
            Rejecting => {
                // Valid as an error of Stripe and of Resend.
                let error = json!({
                    "error": {"type": "invalid_request_error", "message": DETAIL},
                    "statusCode": 400, "name": "validation_error", "message": DETAIL,
                });
                self.stripe.reply(Reply::Respond(400, error.to_string()));
            }
        }
    }

    fn request(&self, (function, body, providers, _): Case, caller: usize) -> Request {
        let user = [None, Some(&self.other_user), Some(&self.owner), Some(&self.admin)][caller];
        if function == "stripe-webhook" {
            let object = self.subscription_of(providers, caller);
            let event = event(&format!("evt_{providers:?}_{caller}"), body, now() - 10, &object);
            let request = delivery(&self.server, &event);
            return match user {
                Some(user) => request.bearer(&user.access_token),
                None => request,
            };
        }
        let body = body
            .replace("PLAN", &self.plan)
            .replace("INVITEE", &invitee(providers))
            .replace("FAILED", &failed_event(providers))
            .replace("SECRET", SECRET);
        let body: Value = serde_json::from_str(&body).unwrap();
        if function == REPLAY {
            return call(&self.server, "stripe-webhook", user, &body).header("x-webhook-replay", "true");
        }
        call(&self.server, function, user, &body)
    }

    /// Each delivery has its own subscription, so that it cannot share the fetch of another.
    fn subscription_of(&self, providers: Providers, caller: usize) -> Value {
        let id = format!("sub_{providers:?}_{caller}");
        let object = subscription(&id, &self.payer.id, "canceled");
        self.stripe.put(&format!("subscriptions/{id}"), &object);
        object
    }

    /// The difference between the expected and the actual response, if any.
    async fn difference(&self, case: Case, caller: usize) -> Option<String> {
        let (function, _, providers, statuses) = case;
        let response = send_until_processed(|| self.request(case, caller)).await;
        let body = response.json();
        let has_error = body["error"].as_str().is_some_and(|text| !text.is_empty());
        // Only an administrator who tests the mail settings sees the provider's error.
        let is_leaked = !function.starts_with("test-") && response.text().contains(DETAIL);
        // The outbox's worker may claim a mail before the request does, and the response does not wait for the worker.
        let is_queued = function == "invite-member" && statuses[caller] == 502 && body["queued"] == true;
        let is_expected = response.status == statuses[caller] || is_queued;
        let is_right = is_expected && (response.status.is_success() || has_error) && !is_leaked;
        let caller = CALLERS[caller];
        (!is_right).then(|| format!("{function}, {caller}, {providers:?}: {} {body}", response.status))
    }
}

/// Sends a request until its response is not `pending`: on a busy machine an event may not be processed before the response.
async fn send_until_processed(request: impl Fn() -> Request) -> Response {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let response = request().send().await;
        if response.json()["status"] != "pending" || Instant::now() > deadline {
            return response;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn invitee(providers: Providers) -> String {
    format!("{providers:?}@example.org").to_lowercase()
}

fn failed_event(providers: Providers) -> String {
    format!("evt_lost_{providers:?}")
}

#[tokio::test]
async fn status_depends_on_caller_and_providers() {
    let fixture = fixture().await;
    let mut differences = Vec::new();
    for providers in [Available, Unused, Unreachable, Slow, Rejecting] {
        fixture.prepare(providers).await;
        let cases = CASES.into_iter().filter(|case| case.2 == providers);
        // Checkouts come last: they give the caller a billing account, which changes the result of other functions.
        let (checkouts, others): (Vec<Case>, Vec<Case>) = cases.partition(|case| case.0 == CHECKOUT);
        for cases in [others, checkouts] {
            let calls =
                cases.into_iter().flat_map(|case| (0..CALLERS.len()).map(move |caller| (case, caller)));
            let results = calls.map(|(case, caller)| fixture.difference(case, caller));
            differences.extend(join_all(results).await.into_iter().flatten());
        }
        fixture
            .server
            .sql("delete from public.stripe_customers where stripe_customer_id <> 'cus_sub_1'")
            .await;
    }
    assert!(differences.is_empty(), "responses differ from the table:\n{}", differences.join("\n"));
    assert!(!fixture.server.log().iter().any(|line| line.raw.contains(DETAIL)));
}
