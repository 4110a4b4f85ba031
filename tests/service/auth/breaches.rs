//! Passwords known from breaches (auth.md §3.17), with a local range server.

use basalt_testkit::{HttpStub, Reply};

use super::*;

/// SHA-1 of `password1`: E38AD 214943DAAD1D64C102FAEC29DE4AFE9DA3D.
const PREFIX: &str = "E38AD";
const MESSAGE: &str = "Password is known to be weak and easy to guess, please choose a different one.";

/// A range server that lists `password1`.
struct Ranges(HttpStub);

impl Ranges {
    async fn start(status: u16) -> Self {
        let stub = HttpStub::start(move |request| {
            let range = if request.head.contains(PREFIX) {
                "00000000000000000000000000000000AAA:0\r\n214943DAAD1D64C102FAEC29DE4AFE9DA3D:2418984\r\n"
            } else {
                "00000000000000000000000000000000AAA:7\r\n"
            };
            Reply::RespondWith(status, Vec::new(), range.to_owned())
        });
        Self(stub.await)
    }

    /// The heads of the requests so far.
    fn requests(&self) -> Vec<String> {
        self.0.requests().into_iter().map(|request| request.head).collect()
    }

    fn server(&self) -> Builder {
        let url = format!("{}/range/", self.0.url());
        quick().config("auth.password_hibp_enabled", "true").config("auth.password_hibp_url", &url)
    }
}

#[track_caller]
fn assert_pwned(response: &Response, reasons: &Value, message: &str) {
    assert_eq!(response.status.as_u16(), 422, "{}", response.text());
    assert_eq!(
        response.json(),
        json!({ "code": "weak_password", "message": message, "weak_password": { "reasons": reasons } })
    );
    assert_eq!(response.header("x-sb-error-code"), "weak_password");
}

#[tokio::test]
async fn rejects_breached_password_and_sends_five_digits() {
    let ranges = Ranges::start(200).await;
    let server = ranges.server().start().await;
    let sign_up = async |password: &str| {
        post(&server, "/signup", &json!({ "email": "ada@example.org", "password": password })).await
    };
    assert_pwned(&sign_up("password1").await, &json!(["pwned"]), MESSAGE);
    let session = sign_up("correct horse 7").await.expect(200).json();
    let access = text(&session, "/access_token");
    assert_pwned(
        &put_user(&server, access, &json!({ "password": "password1" })).await,
        &json!(["pwned"]),
        MESSAGE,
    );
    let requests = ranges.requests();
    assert_eq!(requests.len(), 2, "the range is cached: {requests:?}");
    assert!(requests[0].starts_with(&format!("GET /range/{PREFIX} HTTP/1.1\r\n")), "{requests:?}");
    assert!(requests[0].contains("\r\nadd-padding: true"));
    assert!(
        requests.iter().all(|head| !head.contains("214943") && !head.contains("password1")),
        "{requests:?}"
    );
    // An existing account can sign in, with a warning.
    let id = text(&session, "/user/id");
    let hash = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$iBuQ61Zr9QjrvlFHGYzMlfqTo5cx5bcu6y6Otz2MSBc";
    let _user = super::admin::admin(&server, Method::PUT, &format!("/admin/users/{id}"))
        .json(&json!({ "password_hash": hash }))
        .send()
        .await
        .expect(200);
    let refused = super::admin::admin(&server, Method::PUT, &format!("/admin/users/{id}"))
        .json(&json!({ "password": "password1" }))
        .send()
        .await;
    assert_pwned(&refused, &json!(["pwned"]), MESSAGE);
}

#[tokio::test]
async fn reports_both_reasons_at_sign_up_and_sign_in() {
    let ranges = Ranges::start(200).await;
    let server = ranges.server().config("auth.password_min_length", "12").start().await;
    let refused =
        post(&server, "/signup", &json!({ "email": "ada@example.org", "password": "password1" })).await;
    let both = format!("Password should be at least 12 characters. {MESSAGE}");
    assert_pwned(&refused, &json!(["length", "pwned"]), &both);
    let made = json!({ "email": "ada@example.org", "password": "password1", "email_confirm": true });
    let _user =
        super::admin::admin(&server, Method::POST, "/admin/users").json(&made).send().await.expect(200);
    let session = sign_in(&server, "ada@example.org", "password1").await.expect(200).json();
    assert_eq!(session["weak_password"], json!({ "message": both, "reasons": ["length", "pwned"] }));
}

#[tokio::test]
async fn accepts_password_when_the_list_is_unavailable() {
    let ranges = Ranges::start(503).await;
    let server = ranges.server().start().await;
    server.expect_log("list of breached passwords");
    let body = json!({ "email": "ada@example.org", "password": "password1" });
    let _session = post(&server, "/signup", &body).await.expect(200);
    assert_eq!(ranges.requests().len(), 1);
    assert!(server.log().iter().all(|line| !line.raw.contains("password1")));
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    assert!(metrics.contains("basalt_auth_breach_list_failures_total 1"), "{metrics}");

    let off = Ranges::start(200).await;
    let server = quick().config("auth.password_hibp_url", &format!("{}/range/", off.0.url())).start().await;
    let _session = post(&server, "/signup", &body).await.expect(200);
    assert_eq!(off.requests(), [""; 0], "off by default");
}
