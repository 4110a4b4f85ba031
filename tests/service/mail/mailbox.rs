//! The development mailbox: its Mailpit-compatible API, its pages, and which clients it serves.

use basalt_testkit::{Basalt, Response};
use http::Method;
use serde_json::{Value, json};

use crate::mail::{confirming, recover, sign_up};

#[tokio::test]
async fn mail_is_in_the_mailbox_when_the_request_returns() {
    let server = confirming().start().await;
    let _user = sign_up(&server, "Ada+test@example.org").await;
    let mails = server.mailbox().mails("ada+test@example.org").await;
    assert_eq!(mails.len(), 1, "{mails:?}");
    let mail = server.mailbox().wait_for("ada+test@example.org").await;
    assert_eq!(mail.subject, "Confirm your email address");
    assert_eq!(mail.code().len(), 6);
    assert!(mail.link().starts_with(&server.url("/auth/v1/verify?token=")), "{}", mail.link());
    assert!(mail.html.contains(&mail.code()) && mail.html.contains(&mail.token_hash()));

    let _recovery = recover(&server, "ada+test@example.org").await;
    assert_eq!(server.mailbox().wait_for("ada+test@example.org").await.subject, "Reset your password");

    // A request that is rolled back sends nothing.
    let _same = sign_up(&server, "ada+test@example.org").await;
    server.mailbox().clear().await;
    assert!(server.mailbox().mails("ada+test@example.org").await.is_empty());
}

#[tokio::test]
async fn api_is_compatible_with_mailpit() {
    let server =
        confirming().config("mail.from", "app@example.org").config("mail.sender_name", "App").start().await;
    for name in ["ada", "eve", "bob"] {
        let _user = sign_up(&server, &format!("{name}@example.org")).await;
    }
    let list = api(&server, "messages?limit=2").await;
    assert_eq!(list["total"], 3);
    assert_eq!(list["messages_count"], 3);
    assert_eq!(list["count"], 2);
    let newest = &list["messages"][0];
    assert_eq!(newest["To"], json!([{ "Name": "", "Address": "bob@example.org" }]));
    assert_eq!(newest["From"], json!({ "Name": "App", "Address": "app@example.org" }));
    assert!(newest["Created"].as_str().is_some_and(|time| time.contains('T') && time.ends_with('Z')));
    assert_eq!(api(&server, "messages?start=2").await["messages"][0]["To"][0]["Address"], "ada@example.org");

    let found = api(&server, "search?query=to:eve@example.org%20subject:confirm").await;
    assert_eq!(found["messages_count"], 1);
    let id = found["messages"][0]["ID"].as_str().unwrap().to_owned();
    let mail = api(&server, &format!("message/{id}")).await;
    assert_eq!(mail["To"][0]["Address"], "eve@example.org");
    assert!(mail["HTML"].as_str().is_some_and(|html| html.contains("/auth/v1/verify?token=")));
    assert!(mail["Text"].as_str().is_some_and(|text| text.contains("/auth/v1/verify?token=")));
    assert_eq!(api(&server, "message/latest").await["To"][0]["Address"], "bob@example.org");

    let ids = json!({ "IDs": [id] });
    let deleted = server.delete("/mailbox/api/v1/messages").json(&ids).send().await.expect(200);
    assert_eq!(deleted.text(), "ok");
    assert_eq!(get(&server, &format!("/mailbox/api/v1/message/{id}")).await.status, 404);
    assert_eq!(api(&server, "messages").await["messages"][0]["To"][0]["Address"], "bob@example.org");
    let _all = server.delete("/mailbox/api/v1/messages").send().await.expect(200);
    assert_eq!(api(&server, "messages").await["messages"], json!([]));
    assert_eq!(get(&server, "/mailbox/api/v1/message/latest").await.status, 404);
    assert_eq!(get(&server, "/mailbox/api/v1/nothing").await.status, 404);
    assert_eq!(server.request(Method::PUT, "/mailbox/api/v1/messages").send().await.status, 405);
}

#[tokio::test]
async fn pages_sandbox_the_html_of_mails() {
    let server = confirming().start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    let id = server.mailbox().wait_for("ada@example.org").await.id;

    let list = get(&server, "/mailbox").await;
    assert!(list.text().contains("ada@example.org") && list.text().contains("Confirm your email address"));
    let policy = list.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe-inline"));

    let page = get(&server, &format!("/mailbox/{id}")).await.expect(200).text();
    assert!(page.contains("sandbox=\"allow-popups allow-popups-to-escape-sandbox\""), "{page}");
    let text = get(&server, &format!("/mailbox/{id}?view=text")).await.expect(200).text();
    assert!(text.contains("target=\"_blank\"") && !text.contains("<iframe"));
    let framed = get(&server, &format!("/mailbox/view/{id}.html")).await.expect(200);
    let policy = framed.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("sandbox allow-popups") && !policy.contains("script"), "{policy}");
    assert!(framed.text().contains("<base target=\"_blank\">"));
    assert!(text.contains("/auth/v1/verify?token="));

    let search =
        get(&server, "/mailbox?query=%22%3E%3Cscript%3Ealert(1)%3C/script%3E").await.expect(200).text();
    assert!(search.contains("No mail matches") && !search.contains("<script>alert"), "{search}");
    assert_eq!(get(&server, "/mailbox/999999").await.status, 404);
    let other = server.post("/mailbox/delete").header("origin", "http://evil.example").send().await;
    assert_eq!(other.status, 403);
    let own = server.post("/mailbox/delete").header("origin", &server.url("")).send().await;
    assert_eq!((own.status.as_u16(), own.headers["location"].to_str().unwrap()), (303, "/mailbox/"));
    assert!(get(&server, "/mailbox").await.text().contains("No mail yet"));
}

#[tokio::test]
async fn serves_only_local_clients_in_development() {
    let server = confirming().start().await;
    for (host, status) in [("localhost:1", 200), ("[::1]", 200), ("evil.example", 404), ("10.0.0.7:80", 404)]
    {
        for path in ["/mailbox", "/mailbox/api/v1/messages"] {
            assert_eq!(server.get(path).header("host", host).send().await.status, status, "{host}{path}");
        }
    }
    // A client behind a local proxy is not local.
    let forwarded = server.get("/mailbox").header("x-forwarded-for", "203.0.113.9").send().await;
    assert_eq!(forwarded.status, 404);

    let production = Basalt::builder()
        .config("server.mode", "production")
        .expect_log("links in mails will not work")
        .start()
        .await;
    for path in ["/mailbox", "/mailbox/", "/mailbox/api/v1/messages", "/mailbox/style.css"] {
        assert_eq!(get(&production, path).await.status, 404, "{path}");
    }
}

async fn get(server: &Basalt, path: &str) -> Response {
    server.get(path).send().await
}

async fn api(server: &Basalt, path: &str) -> Value {
    get(server, &format!("/mailbox/api/v1/{path}")).await.expect(200).json()
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_client_must_be_this_machine() {
    let server = Basalt::builder().config("server.trusted_proxies", "127.0.0.0/8").start().await;
    for (name, value, status) in [
        ("x-forwarded-for", "127.0.0.1", 200),
        ("x-forwarded-for", "203.0.113.9", 404),
        ("x-forwarded-for", "127.0.0.1, 203.0.113.9", 404),
        ("forwarded", "for=127.0.0.1", 404),
    ] {
        assert_eq!(server.get("/mailbox").header(name, value).send().await.status, status, "{name}: {value}");
    }
}
