//! Each built-in function, for each kind of caller, when all is well and when it is not: the statuses, in one table. What is said
//! then, and what is asked of Stripe, is in the other files.

use std::time::Duration;

use basalt_testkit::{Basalt, Request, Response, User};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::double::Act;
use super::mail::{invite, make_plan, prove_address, set_resend};
use super::stripe::{PRICE, SECRET, Stripe, add_plan, delivery, event, now, server, subscription};
use super::{call, sign_up_admin};

/// How Stripe and the provider of mail are, or the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Good,
    BadInput,
    Down,
    Slow,
    Error,
}

/// What Stripe and Resend write about our requests is not for users.
const DETAIL: &str = "detail of the provider";

/// Visitor, stranger, owner (of the subscription, of the plan), administrator.
type Statuses = [u16; 4];

/// A function with its statuses when all is well, with bad input, when the provider is down, is slow, and refuses.
const TABLE: [(&str, [Statuses; 5]); 9] = [
    (
        "create-portal-session",
        // The provider says of any refusal that the portal is not configured.
        [
            [401, 404, 200, 404],
            [401, 400, 400, 400],
            [401, 404, 502, 404],
            [401, 404, 200, 404],
            [401, 404, 500, 404],
        ],
    ),
    (
        "cancel-subscription",
        [
            [401, 404, 200, 404],
            [401, 400, 400, 400],
            [401, 404, 502, 404],
            [401, 404, 200, 404],
            [401, 404, 400, 404],
        ],
    ),
    (
        "reactivate-subscription",
        [
            [401, 404, 200, 404],
            [401, 400, 400, 400],
            [401, 404, 502, 404],
            [401, 404, 200, 404],
            [401, 404, 400, 404],
        ],
    ),
    (
        "set-webhook-secret",
        // Nobody is asked.
        [
            [401, 403, 403, 200],
            [401, 403, 403, 400],
            [401, 403, 403, 200],
            [401, 403, 403, 200],
            [401, 403, 403, 200],
        ],
    ),
    (
        "replay",
        [
            [401, 403, 403, 200],
            [401, 403, 403, 400],
            [401, 403, 403, 502],
            [401, 403, 403, 200],
            [401, 403, 403, 502],
        ],
    ),
    (
        "stripe-webhook",
        // Whoever signs is Stripe.
        [[200; 4], [400; 4], [500; 4], [200; 4], [500; 4]],
    ),
    (
        "invite-member",
        // A mail that may still leave is no failure.
        [
            [401, 404, 200, 404],
            [401, 400, 400, 400],
            [401, 404, 200, 404],
            [401, 404, 200, 404],
            [401, 404, 502, 404],
        ],
    ),
    (
        "test-email",
        [
            [401, 403, 403, 200],
            [401, 403, 403, 400],
            [401, 403, 403, 502],
            [401, 403, 403, 200],
            [401, 403, 403, 502],
        ],
    ),
    // Last: who has begun a purchase has a billing account.
    (
        "create-checkout-session",
        [
            [401, 200, 200, 200],
            [401, 400, 400, 400],
            [401, 502, 502, 502],
            [401, 200, 200, 200],
            [401, 400, 400, 400],
        ],
    ),
];

struct World {
    server: Basalt,
    stripe: Stripe,
    stranger: User,
    owner: User,
    admin: User,
    /// Whom the webhooks are about.
    payer: User,
    plan: String,
}

async fn world() -> World {
    let stripe = Stripe::start().await;
    let mut server = server(&stripe).config("mail.resend_url", &stripe.provider.url());
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
    let stranger = server.sign_up("eve@example.org").await;
    let owner = server.sign_up("ada@example.org").await;
    prove_address(&server, &owner).await;
    let admin = sign_up_admin(&server, "admin@example.org").await;
    let payer = server.sign_up("payer@example.org").await;
    set_resend(&server, "re_a_secret_key").await;
    let plan = make_plan(&server, &owner, "Growth").await;
    stripe.put("subscriptions/sub_1", &subscription("sub_1", &owner.id, "active"));
    server
        .sql(&format!(
            "insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values ('{0}', false, 'cus_sub_1');
             insert into public.user_subscriptions (user_id, stripe_subscription_id, stripe_customer_id, stripe_price_id, status, state_as_of)
             values ('{0}', 'sub_1', 'cus_sub_1', '{PRICE}', 'active', now())",
            owner.id
        ))
        .await;
    World { server, stripe, stranger, owner, admin, payer, plan }
}

impl World {
    /// What a case needs beforehand: a failed event to replay, an invitation to mail.
    async fn prepare(&self, case: Case) {
        self.stripe.recover();
        let id = format!("sub_lost_{case:?}");
        let lost = subscription(&id, "", "active");
        self.stripe.put(&format!("subscriptions/{id}"), &lost);
        self.stripe.put(&format!("customers/cus_{id}"), &json!({"id": format!("cus_{id}"), "metadata": {}}));
        let told = event(&format!("evt_lost_{case:?}"), "customer.subscription.updated", now(), &lost);
        let answer = send_until_processed(|| delivery(&self.server, &told)).await.expect(200);
        assert_eq!(answer.json()["status"], "failed");
        let invited = invite(&self.server, &self.owner, &self.plan, &invited(case), "viewer").await;
        assert_eq!(invited, 201);
    }

    fn begin(&self, case: Case) {
        match case {
            Case::Good | Case::BadInput => {}
            Case::Down => self.stripe.fail(Act::Close),
            Case::Slow => self.stripe.wrap(|_, act| Act::Late(Duration::from_millis(200), Box::new(act))),
            Case::Error => {
                // Stripe's and Resend's.
                let error = json!({
                    "error": {"type": "invalid_request_error", "message": DETAIL},
                    "statusCode": 400, "name": "validation_error", "message": DETAIL,
                });
                self.stripe.fail(Act::Answer(400, error.to_string()));
            }
        }
    }

    fn request(&self, function: &str, case: Case, caller: usize) -> Request {
        let user = [None, Some(&self.stranger), Some(&self.owner), Some(&self.admin)][caller];
        let is_bad = case == Case::BadInput;
        let either = |bad: Value, good: Value| if is_bad { bad } else { good };
        let body = match function {
            "create-checkout-session" => {
                either(json!({"priceId": "price_none"}), json!({"priceId": "price_more"}))
            }
            "create-portal-session" => either(json!({"returnUrl": "https://evil.example/"}), json!({})),
            "cancel-subscription" | "reactivate-subscription" => {
                either(json!({"subscriptionId": "sub_../1"}), json!({"subscriptionId": "sub_1"}))
            }
            "set-webhook-secret" => either(json!({"secret": "sk_test_1"}), json!({"secret": SECRET})),
            "invite-member" => {
                let email = either(json!("no address"), json!(invited(case)));
                json!({"email": email, "planId": self.plan})
            }
            "test-email" => {
                let to = either(json!("no address"), json!("bob@example.org"));
                json!({"to": to, "subject": "Hello", "message": "Hi"})
            }
            "replay" => {
                let email = either(json!("no address"), json!("ada@example.org"));
                let body =
                    json!({"id": format!("evt_lost_{case:?}"), "replay_metadata": {"customer_email": email}});
                return call(&self.server, "stripe-webhook", user, &body).header("x-webhook-replay", "true");
            }
            "stripe-webhook" => {
                let object = self.subscription_of(case, caller);
                let kind = if is_bad { "" } else { "customer.subscription.updated" };
                let told = event(&format!("evt_{case:?}_{caller}"), kind, now() - 10, &object);
                let request = delivery(&self.server, &told);
                return match user {
                    Some(user) => request.bearer(&user.access_token),
                    None => request,
                };
            }
            other => unreachable!("{other} is no function"),
        };
        call(&self.server, function, user, &body)
    }

    /// One of its own for each delivery, so that none is spared its fetch by another.
    fn subscription_of(&self, case: Case, caller: usize) -> Value {
        let id = format!("sub_{case:?}_{caller}");
        let object = subscription(&id, &self.payer.id, "canceled");
        self.stripe.put(&format!("subscriptions/{id}"), &object);
        object
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

fn invited(case: Case) -> String {
    format!("{case:?}@example.org").to_lowercase()
}

#[tokio::test]
async fn who_asks_and_how_things_are_decide_the_answer() {
    let world = world().await;
    let cases = [Case::Good, Case::BadInput, Case::Down, Case::Slow, Case::Error];
    let mut wrong = Vec::new();
    for (column, case) in cases.into_iter().enumerate() {
        world.prepare(case).await;
        world.begin(case);
        let (last, others) = TABLE.split_last().unwrap();
        for functions in [others, std::slice::from_ref(last)] {
            let cells = functions.iter().flat_map(|(function, expected)| {
                let expected = expected[column].into_iter().enumerate();
                expected.map(|(caller, status)| (*function, caller, status))
            });
            let asked = cells.map(async |(function, caller, status)| {
                let answer = send_until_processed(|| world.request(function, case, caller)).await;
                let body = answer.json();
                let is_told =
                    answer.status.is_success() || body["error"].as_str().is_some_and(|text| !text.is_empty());
                // The administrator who tries the mail settings reads why they do not work.
                let is_leaked = function != "test-email" && answer.text().contains(DETAIL);
                if answer.status != status || !is_told || is_leaked {
                    let caller = ["visitor", "stranger", "owner", "administrator"][caller];
                    return Some(format!("{function}, {caller}, {case:?}: {} {body}", answer.status));
                }
                None
            });
            wrong.extend(join_all(asked).await.into_iter().flatten());
        }
        // For the portal's sake.
        world.server.sql("delete from public.stripe_customers where stripe_customer_id <> 'cus_sub_1'").await;
    }
    assert!(wrong.is_empty(), "not as in the table:\n{}", wrong.join("\n"));
    assert!(!world.server.log().iter().any(|line| line.raw.contains(DETAIL)));
}
