//! Guessing, racing, prefetching and reading tables do not defeat /verify (auth.md §3.10, §3.19).

use std::time::Duration;

use super::codes::*;
use super::verify::{LINK_EXPIRED, LINK_EXPIRED_AT, assert_expired};
use super::*;

#[tokio::test]
async fn five_wrong_codes_invalidate_the_pending_one() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let made = link(&server, "recovery", &email).await;
    let code = text(&made, "/email_otp").to_owned();
    let wrong = if code == "000000" { "111111" } else { "000000" };
    for _ in 0..4 {
        assert_expired(&verify_code(&server, "recovery", &email, wrong).await);
    }
    // Four failures are allowed, and reset with a new code.
    let _session = verify_code(&server, "recovery", &email, &code).await.expect(200);

    for kind in ["recovery", "email"] {
        let made = link(&server, "recovery", &email).await;
        for _ in 0..5 {
            assert_expired(&verify_code(&server, kind, &email, wrong).await);
        }
        assert_expired(&verify_code(&server, "recovery", &email, text(&made, "/email_otp")).await);
        let gone = verify_hash(&server, "recovery", text(&made, "/hashed_token")).await;
        assert_error(&gone, 403, "otp_expired", LINK_EXPIRED);
        let row = row_of(&server, "u.recovery_token", &email).await;
        assert_eq!(row, [Some(String::new())]);
    }
    // A new code starts at zero.
    let made = link(&server, "recovery", &email).await;
    let _session = verify_code(&server, "recovery", &email, text(&made, "/email_otp")).await.expect(200);
}

#[tokio::test]
async fn concurrent_guesses_are_counted() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let made = link(&server, "recovery", &email).await;
    let code: u32 = text(&made, "/email_otp").parse().unwrap();
    let guesses = (1..=60).map(|distance| {
        let (server, email) = (Arc::clone(&server), email.clone());
        tokio::spawn(async move {
            let guess = format!("{:06}", (code + distance) % 1_000_000);
            verify_code(&server, "recovery", &email, &guess).await
        })
    });
    for guess in guesses.collect::<Vec<_>>() {
        assert_expired(&guess.await.unwrap());
    }
    assert_expired(&verify_code(&server, "recovery", &email, &format!("{code:06}")).await);
    let failures = server
        .database()
        .value(&format!(
            "select failures from basalt.one_time_attempts where user_id = (select id from auth.users where email = '{email}')"
        ))
        .await;
    assert_eq!(failures, "5", "the others were not compared");
}

#[tokio::test]
async fn concurrent_redemptions_succeed_once() {
    let (server, email) = (server().await, fresh("ada"));
    let id = confirmed(&server, &email).await;
    let before = session(&server, &email).await;
    let sessions = format!("select count(*) from auth.sessions where user_id = '{id}'");
    for way in ["code", "hash", "link"] {
        let made = link(&server, "magiclink", &email).await;
        let had: u32 = server.database().value(&sessions).await.parse().unwrap();
        let tries = (0..32).map(|_| {
            let (server, email, made) = (Arc::clone(&server), email.clone(), made.clone());
            tokio::spawn(async move {
                match way {
                    "code" => verify_code(&server, "magiclink", &email, text(&made, "/email_otp")).await,
                    "hash" => verify_hash(&server, "magiclink", text(&made, "/hashed_token")).await,
                    _ => open(&server, "magiclink", text(&made, "/hashed_token"), "").await,
                }
            })
        });
        let mut winners = 0;
        for one in tries.collect::<Vec<_>>() {
            let response = one.await.unwrap();
            let won = match way {
                "link" => location(&response).contains("access_token"),
                _ => response.status == 200,
            };
            match (won, way) {
                (true, _) => winners += 1,
                (false, "code") => assert_expired(&response),
                (false, "hash") => assert_error(&response, 403, "otp_expired", LINK_EXPIRED),
                (false, _) => assert_eq!(location(&response), format!("{SITE}{LINK_EXPIRED_AT}")),
            }
        }
        assert_eq!(winners, 1, "{way}");
        let has: u32 = server.database().value(&sessions).await.parse().unwrap();
        assert_eq!(has, had + 1, "{way}");
    }
    let _user = get_user(&server, text(&before, "/access_token")).await.expect(200);
    let _session = refresh(&server, text(&before, "/refresh_token")).await.expect(200);
}

#[tokio::test]
async fn concurrent_code_operations_do_not_deadlock() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let token = text(&session(&server, &email).await, "/access_token").to_owned();
    let rounds = (0..32).map(|round| {
        let (server, email, token) = (Arc::clone(&server), email.clone(), token.clone());
        tokio::spawn(async move {
            match round % 4 {
                0 => {
                    let made = link(&server, "recovery", &email).await;
                    verify_hash(&server, "recovery", text(&made, "/hashed_token")).await
                }
                1 => verify_code(&server, "email", &email, "000000").await,
                2 => put_user(&server, &token, &json!({ "password": format!("secret{round}") })).await,
                _ => post(&server, "/otp", &json!({ "email": email })).await,
            }
        })
    });
    for round in rounds.collect::<Vec<_>>() {
        let response = round.await.unwrap();
        assert!(!response.status.is_server_error(), "{response:?}");
    }
}

#[tokio::test]
async fn five_wrong_nonces_invalidate_the_pending_one() {
    let server =
        redeeming().config("auth.security_update_password_require_reauthentication", "true").start().await;
    let email = fresh("ada");
    let _id = confirmed(&server, &email).await;
    let token = text(&session(&server, &email).await, "/access_token").to_owned();
    let _rows = server.sql("update auth.sessions set created_at = now() - interval '25 hours'").await;
    let _sent = client(&server, Method::GET, "/reauthenticate").bearer(&token).send().await.expect(200);
    let nonce = server.mailbox().wait_for(&email).await.code();
    let change = |nonce: &str| json!({ "password": "secret2", "nonce": nonce });
    for guess in ["1", "22", "333", "4444", "55555", &nonce] {
        let response = put_user(&server, &token, &change(guess)).await;
        assert_error(&response, 422, "reauthentication_not_valid", "Nonce has expired or is invalid");
    }
    let _sent = client(&server, Method::GET, "/reauthenticate").bearer(&token).send().await.expect(200);
    let nonce = server.mailbox().wait_for(&email).await.code();
    let _user = put_user(&server, &token, &change(&nonce)).await.expect(200);
}

#[tokio::test]
async fn prefetch_does_not_use_up_a_link() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let made = link(&server, "magiclink", &email).await;
    let path = format!("/auth/v1/verify?type=magiclink&token={}", text(&made, "/hashed_token"));
    let keyless = |method: Method| server.request(method, &path).without("apikey").without("authorization");
    for _ in 0..3 {
        assert_eq!(keyless(Method::HEAD).send().await.expect(200).header("location"), "");
    }
    for (name, value) in
        [("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch"), ("x-moz", "prefetch")]
    {
        let _later = keyless(Method::GET).header(name, value).send().await.expect(503);
    }
    assert!(location(&keyless(Method::GET).send().await).contains("access_token="));
}

#[tokio::test]
async fn confirmation_page_can_precede_a_link() {
    let server = redeeming().config("auth.mailer_confirm_links", "true").start().await;
    let email = fresh("ada");
    let _id = confirmed(&server, &email).await;
    let made = link(&server, "magiclink", &email).await;
    let hash = text(&made, "/hashed_token");
    for _ in 0..3 {
        let page =
            open(&server, "magiclink", hash, "https://a.example.org/%22%3E%3Cscript%3E").await.expect(200);
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
        assert!(page.text().contains(&format!("value=\"{hash}\"")), "{}", page.text());
        assert!(!page.text().contains("<script"), "{}", page.text());
    }
    let pressed = open(&server, "magiclink", hash, "https://a.example.org/x&confirmed=1").await;
    assert!(location(&pressed).starts_with("https://a.example.org/x#access_token="));
    // Apps have their own confirmation step.
    let made = link(&server, "magiclink", &email).await;
    let _session = verify_hash(&server, "magiclink", text(&made, "/hashed_token")).await.expect(200);
    server.expect_log("redirect_to is neither");
}

#[tokio::test]
async fn verifications_are_limited_by_address() {
    let server = redeeming().config("auth.rate_limit_verify", "30").start().await;
    let body = json!({ "type": "email", "email": "nobody@example.org", "token": "123456" });
    for _ in 0..30 {
        assert_expired(&verify(&server, &body).await);
    }
    let response = verify(&server, &body).await;
    assert_error(&response, 429, "over_request_rate_limit", "Request rate limit reached");
    let path = "/verify?type=signup&token=x";
    let response = client(&server, Method::GET, path).send().await.expect(429);
    assert!(!response.header("retry-after").is_empty());
}

#[tokio::test]
async fn wrong_code_takes_equal_time_for_any_address() {
    let (server, email) = (server().await, fresh("ada"));
    let _id = confirmed(&server, &email).await;
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..3 {
        let _made = link(&server, "recovery", &email).await;
        for (index, address) in [email.as_str(), "nobody@example.org"].into_iter().enumerate() {
            let started = std::time::Instant::now();
            assert_expired(&verify_code(&server, "recovery", address, "12345678").await);
            fastest[index] = fastest[index].min(started.elapsed());
        }
    }
    // Both responses are padded to a full step (`response_padding`).
    assert!(fastest.iter().all(|time| *time >= Duration::from_millis(50)), "{fastest:?}");
}

#[tokio::test]
async fn api_roles_cannot_read_codes_or_attempts() {
    let server = server().await;
    for table in ["basalt.one_time_attempts", "auth.one_time_tokens", "auth.flow_state"] {
        for role in ["anon", "authenticated", "service_role"] {
            let refused = server
                .database()
                .value(&format!("select has_table_privilege('{role}', '{table}', 'select')"))
                .await;
            assert_eq!(refused, "f", "{role} on {table}");
        }
    }
    let schema = "select has_schema_privilege('postgres', 'basalt', 'usage')";
    assert_eq!(server.database().value(schema).await, "f");
}
