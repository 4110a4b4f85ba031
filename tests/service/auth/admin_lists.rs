//! `GET /admin/users` by cursor and `GET /admin/audit` (auth.md §3.13).

use super::admin::admin;
use super::*;

fn emails(body: &Value) -> Vec<&str> {
    body["users"].as_array().unwrap().iter().map(|user| user["email"].as_str().unwrap()).collect()
}

async fn list(server: &Basalt, query: &str) -> Response {
    admin(server, Method::GET, &format!("/admin/users{query}")).send().await.expect(200)
}

#[tokio::test]
async fn cursor_visits_each_user_once() {
    let server = quick().start().await;
    // Two with equal timestamps, and one without (from a seed).
    let _rows = server
        .sql(
            "insert into auth.users (id, aud, role, email, created_at)
             select gen_random_uuid(), 'authenticated', 'authenticated', 'u' || n || '@example.org',
               case when n > 1 then timestamptz '2026-01-01' + (n / 2) * interval '1 day' end
             from generate_series(1, 7) n",
        )
        .await;
    for (sort, first) in [("", "u6@example.org u7@example.org"), ("&sort=created_at%20asc", "u1@example.org")]
    {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let response = list(&server, &format!("?limit=2&cursor={cursor}{sort}")).await;
            assert_eq!(response.header("x-total-count"), "", "nothing is counted");
            let body = response.json();
            seen.extend(emails(&body).into_iter().map(str::to_owned));
            assert_eq!(body["pagination"]["has_more"], body["pagination"]["next_cursor"].is_string());
            match body["pagination"]["next_cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => break,
            }
        }
        assert!(first.contains(&seen[0]), "{seen:?}");
        assert_eq!(seen.len(), 7, "{seen:?}");
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 7);
    }
    // `page` takes precedence: no cursor, but headers.
    let numbered = list(&server, "?page=1&limit=2&cursor=x").await;
    assert_eq!(numbered.header("x-total-count"), "7");
    assert!(numbered.json().get("pagination").is_none());
    let refused = admin(&server, Method::GET, "/admin/users?cursor=x").send().await;
    assert_error(&refused, 400, "validation_failed", "Bad Pagination Parameters: invalid cursor");
}

#[tokio::test]
async fn invalid_parameters_get_upstream_errors() {
    let server = shared().await;
    for (query, message) in [
        ("page=x", "Bad Pagination Parameters: strconv.ParseUint: parsing \"x\": invalid syntax"),
        ("per_page=-1", "Bad Pagination Parameters: strconv.ParseUint: parsing \"-1\": invalid syntax"),
        (
            "page=99999999999999999999",
            "Bad Pagination Parameters: strconv.ParseUint: parsing \"99999999999999999999\": value out of range",
        ),
        ("sort=email%20asc", "Bad Sort Parameters: bad field for sort 'email'"),
        (
            "sort=created_at%20up",
            "Bad Sort Parameters: bad direction for sort 'up', only 'asc' and 'desc' allowed",
        ),
    ] {
        let refused = admin(&server, Method::GET, &format!("/admin/users?{query}")).send().await;
        assert_error(&refused, 400, "validation_failed", message);
    }
}

#[tokio::test]
async fn lists_one_audience_and_escapes_wildcards() {
    let server = quick().start().await;
    assert_eq!(list(&server, "").await.header("link"), "</admin/users?page=0>; rel=\"last\"");
    let _rows = server
        .sql(
            "insert into auth.users (id, aud, email, raw_user_meta_data, created_at) values
             (gen_random_uuid(), 'authenticated', 'a_b@example.org', '{\"full_name\": \"Ada 100%\"}', now()),
             (gen_random_uuid(), 'authenticated', 'axb@example.org', '[]', now()),
             (gen_random_uuid(), 'other', 'other@example.org', null, now())",
        )
        .await;
    assert_eq!(emails(&list(&server, "?filter=a_b").await.json()), ["a_b@example.org"]);
    assert_eq!(emails(&list(&server, "?filter=ADA%20100%25").await.json()), ["a_b@example.org"]);
    assert_eq!(emails(&list(&server, "?filter=A_B").await.json()), [""; 0], "LIKE, not ILIKE, for addresses");
    assert_eq!(list(&server, "?filter=b@example.org&per_page=1").await.header("x-total-count"), "2");
    let other =
        admin(&server, Method::GET, "/admin/users").header("x-jwt-aud", "other").send().await.expect(200);
    assert_eq!((emails(&other.json()), &other.json()["aud"]), (vec!["other@example.org"], &json!("other")));
}

#[tokio::test]
async fn audit_log_can_be_searched_and_paged() {
    let server = quick().start().await;
    let ada = server.sign_up("ada@example.org").await;
    let _session = sign_in(&server, "ada@example.org", &ada.password).await.expect(200);
    let session = refresh(&server, &ada.refresh_token).await.expect(200).json();
    let _none = client(&server, Method::POST, "/logout")
        .bearer(text(&session, "/access_token"))
        .send()
        .await
        .expect(204);
    let _user = admin(&server, Method::PUT, &format!("/admin/users/{}", ada.id))
        .json(&json!({ "user_metadata": { "full_name": "Ada Lovelace" } }))
        .send()
        .await
        .expect(200);
    let audit = async |query: &str| admin(&server, Method::GET, &format!("/admin/audit{query}")).send().await;
    let actions = |response: &Response| -> Vec<String> {
        let entries = response.json();
        entries.as_array().unwrap().iter().map(|entry| text(entry, "/payload/action").to_owned()).collect()
    };
    let all = audit("").await.expect(200);
    assert_eq!(
        actions(&all),
        ["user_modified", "logout", "token_refreshed", "login", "login", "user_signedup"],
        "newest first"
    );
    assert_eq!(all.header("x-total-count"), "6");
    let first = &all.json()[5];
    assert_eq!(first["ip_address"], "127.0.0.1");
    assert_eq!(
        first["payload"],
        json!({
            "action": "user_signedup", "actor_id": ada.id, "actor_username": "ada@example.org",
            "actor_via_sso": false, "log_type": "team", "traits": { "provider": "email" }
        })
    );
    assert!(first["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(actions(&audit("?query=action:token_refreshed").await.expect(200)), ["token_refreshed"]);
    assert_eq!(actions(&audit("?query=type:account").await.expect(200)), ["logout", "login", "login"]);
    assert_eq!(actions(&audit("?query=author:service_role").await.expect(200)), ["user_modified"]);
    assert_eq!(audit("?query=author:ada@").await.expect(200).header("x-total-count"), "5");
    let page = audit("?page=2&per_page=4").await.expect(200);
    assert_eq!(actions(&page), ["login", "user_signedup"]);
    assert_eq!(page.header("link"), "</admin/audit?page=2&per_page=4>; rel=\"last\"");
    for query in ["action", "colour:red"] {
        let message = format!("Invalid query scope: {query}");
        assert_error(&audit(&format!("?query={query}")).await, 400, "validation_failed", &message);
    }
    let refused = client(&server, Method::GET, "/admin/audit").send().await;
    assert_error(&refused, 403, "not_admin", "User not allowed");
}

#[tokio::test]
async fn audit_log_can_be_disabled() {
    let server = quick().config("auth.audit_log_disable_postgres", "true").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let _session = refresh(&server, &ada.refresh_token).await.expect(200);
    assert_eq!(server.sql("select count(*) from auth.audit_log_entries").await, [[Some("0".to_owned())]]);
}
