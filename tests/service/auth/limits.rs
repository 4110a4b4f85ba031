//! Rate limits by address and by account (auth.md §3.19), with the client address of DESIGN §12.

use super::*;

const MESSAGE: &str = "Request rate limit reached";

/// Default limits, behind a trusted proxy.
fn limited() -> Builder {
    Basalt::builder()
        .config("auth.password_argon2_memory", "64")
        .config("auth.password_argon2_iterations", "1")
        .config("auth.external_anonymous_users_enabled", "true")
        .config("server.trusted_proxies", "127.0.0.1")
}

fn from(server: &Basalt, address: &str, path: &str, body: &Value) -> Request {
    client(server, Method::POST, path).header("x-forwarded-for", address).json(body)
}

/// Sends until a request is rejected; returns the number of accepted ones, and the rejection.
async fn until_refused(request: &Request) -> (usize, Response) {
    for passed in 0..100 {
        let response = request.clone().send().await;
        if response.status.as_u16() == 429 {
            return (passed, response);
        }
    }
    panic!("never refused");
}

#[tokio::test]
async fn each_route_allows_thirty_then_returns_429() {
    let server = limited().start().await;
    // Invalid requests count, too, and are cheap.
    for (path, body, wait) in [
        ("/token?grant_type=password", json!({}), 2),
        ("/signup", json!({ "email": "x" }), 10),
        ("/recover", json!({}), 10),
        ("/resend", json!({}), 10),
        ("/magiclink", json!({}), 10),
        ("/otp", json!({}), 10),
        ("/verify", json!({}), 10),
    ] {
        let request = from(&server, "203.0.113.1", path, &body);
        let (passed, refused) = until_refused(&request).await;
        // On a slow machine the bucket refills by one meanwhile.
        assert!((30..=31).contains(&passed), "{path}: {passed}");
        assert_error(&refused, 429, "over_request_rate_limit", MESSAGE);
        let retry_after: u64 = refused.header("retry-after").parse().unwrap();
        assert!((1..=wait).contains(&retry_after), "{path}: {retry_after}");
        let old = request.without("x-supabase-api-version").send().await.expect(429);
        assert_eq!(
            old.json(),
            json!({ "code": 429, "error_code": "over_request_rate_limit", "msg": MESSAGE })
        );
        let other = from(&server, "203.0.113.2", path, &body).send().await;
        assert_ne!(other.status.as_u16(), 429, "{path}: another address has its own");
    }
    let anonymous = from(&server, "203.0.113.1", "/signup", &json!({ "data": {} }));
    let (passed, refused) = until_refused(&anonymous).await;
    assert_eq!(passed, 30, "a bucket of its own, of the hour");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 60);

    let ada = server.sign_up("ada@example.org").await;
    let change = client(&server, Method::PUT, "/user")
        .bearer(&ada.access_token)
        .header("x-forwarded-for", "203.0.113.1")
        .json(&json!({ "phone": "x" }));
    assert!((30..=31).contains(&until_refused(&change).await.0));
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    assert!(metrics.contains("basalt_auth_rate_limited_total{bucket=\"otp\"}"), "{metrics}");
    assert!(metrics.contains("basalt_auth_rate_limit_addresses{bucket=\"otp\"} 2"), "{metrics}");
}

#[tokio::test]
async fn ipv6_network_counts_as_one_client() {
    let server = limited().start().await;
    let token = "/token?grant_type=password";
    let _refused = until_refused(&from(&server, "2001:db8:0:1::1", token, &json!({}))).await;
    let same = from(&server, "2001:db8:0:1:ffff::2", token, &json!({})).send().await;
    assert_error(&same, 429, "over_request_rate_limit", MESSAGE);
    let other = from(&server, "2001:db8:0:2::1", token, &json!({})).send().await;
    assert_eq!(other.status.as_u16(), 400);
}

#[tokio::test]
async fn untrusted_proxy_does_not_choose_the_client_address() {
    let server = Basalt::builder().expect_log("server.trusted_proxies").start().await;
    let token = "/token?grant_type=password";
    let _refused = until_refused(&from(&server, "203.0.113.1", token, &json!({}))).await;
    let disguised = from(&server, "203.0.113.2", token, &json!({})).send().await;
    assert_error(&disguised, 429, "over_request_rate_limit", MESSAGE);
}

#[tokio::test]
async fn account_locks_for_guessers_but_not_its_owner() {
    let server = limited().config("auth.rate_limit_sign_in_failures", "5").start().await;
    server.expect_log("rate");
    let sign_in_from = async |address: &str, email: &str, password: &str| {
        let body = json!({ "email": email, "password": password });
        from(&server, address, "/token?grant_type=password", &body).send().await
    };
    let home = "198.51.100.7";
    let body = json!({ "email": "ada@example.org", "password": "correct horse 7" });
    let _session = from(&server, home, "/signup", &body).send().await.expect(200);
    // One guess per address: limits by address do not apply. Case is ignored.
    for email in ["ada@example.org", "nobody@example.org"] {
        let mut statuses = Vec::new();
        for guess in 0..12 {
            let spelled = if guess % 2 == 0 { email.to_uppercase() } else { email.to_owned() };
            let response = sign_in_from(&format!("203.0.113.{guess}"), &spelled, "wrong").await;
            statuses.push(response.status.as_u16());
            if response.status.as_u16() == 429 {
                assert_error(&response, 429, "over_request_rate_limit", MESSAGE);
                assert!(response.header("retry-after").parse::<u64>().unwrap() >= 1);
            }
        }
        assert_eq!(statuses[..5], [400; 5], "{email}: {statuses:?}");
        assert_eq!(statuses[5], 429, "{email}, whether it exists or not: {statuses:?}");
        assert!(statuses[5..].iter().filter(|status| **status == 400).count() <= 2, "{statuses:?}");
    }
    // The correct password is rejected too, or guessing could continue.
    let mut response = sign_in_from("203.0.113.99", "ada@example.org", "wrong").await;
    for _ in 0..3 {
        response = sign_in_from("203.0.113.99", "ada@example.org", "correct horse 7").await;
        if response.status.as_u16() == 429 {
            break;
        }
        for guess in 0..9 {
            let _wrong = sign_in_from(&format!("203.0.113.{guess}"), "ada@example.org", "wrong").await;
        }
    }
    assert_eq!(response.status.as_u16(), 429);
    let _session = sign_in_from(home, "ada@example.org", "correct horse 7").await.expect(200);
}

#[tokio::test]
async fn concurrent_guesses_cannot_exceed_the_limit() {
    let server = limited()
        .config("auth.rate_limit_sign_in_failures", "5")
        .config("auth.password_argon2_memory", "19456")
        .start()
        .await;
    server.expect_log("rate");
    let home = "198.51.100.7";
    let body = json!({ "email": "ada@example.org", "password": "correct horse 7" });
    let session = from(&server, home, "/signup", &body).send().await.expect(200).json();
    let sixty = async |password: &str, name: &str, address: &dyn Fn(usize) -> String| {
        let body = json!({ "email": name, "password": password });
        let guesses =
            (0..60).map(|guess| from(&server, &address(guess), "/token?grant_type=password", &body).send());
        let responses = futures_util::future::join_all(guesses).await;
        let with =
            |status: u16| responses.iter().filter(|response| response.status.as_u16() == status).count();
        (with(200), with(400), with(429))
    };
    let strangers = |guess: usize| format!("203.0.113.{guess}");
    for name in ["ada@example.org", "nobody@example.org"] {
        let (_, judged, refused) = sixty("wrong", name, &strangers).await;
        // The lock lasts a second: on a slow machine one more guess is checked.
        assert!(
            (5..=6).contains(&judged) && judged + refused == 60,
            "{name}: {judged} judged, {refused} refused"
        );
    }
    // Concurrent sign-ins of the owner queue.
    let (signed_in, _, _) = sixty("correct horse 7", "ada@example.org", &|_| home.to_owned()).await;
    assert!(signed_in >= 30, "as many as the limit by address lets through: {signed_in}");
    // PUT /user checks passwords, too: a stolen session must not allow guessing.
    let token = text(&session, "/access_token");
    let guesses = (0..60).map(|guess| {
        client(&server, Method::PUT, "/user")
            .bearer(token)
            .header("x-forwarded-for", &strangers(guess))
            .json(&json!({ "password": "correct horse 7" }))
            .send()
    });
    let responses = futures_util::future::join_all(guesses).await;
    let judged = responses.iter().filter(|response| response.status.as_u16() == 422).count();
    assert!((5..=6).contains(&judged), "{judged}");
}
