//! Shared by tests of codes and links: a server that requires confirmation, links from the admin API and from the
//! mailbox, and redirect targets.

use std::collections::BTreeMap;

use super::*;

pub(crate) const SITE: &str = "http://localhost:3000";
pub(crate) const ALLOWED: &str = "https://*.example.org/**,myapp://callback,https://exact.test/cb";

/// RFC 7636's example.
pub(crate) const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
pub(crate) const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// Without autoconfirm and without limits on mails and verifications.
pub(crate) fn redeeming() -> Builder {
    quick()
        .config("auth.mailer_autoconfirm", "false")
        .config("auth.rate_limit_verify", "0")
        .config("auth.rate_limit_email_sent", "0")
        .config("mail.max_frequency", "0")
        .config("auth.site_url", SITE)
        .config("auth.uri_allow_list", ALLOWED)
}

/// Such a server, shared by concurrent tests.
pub(crate) async fn server() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(redeeming().start().await);
    *shared = Arc::downgrade(&server);
    server
}

/// Response of `POST /admin/generate_link`; its `email_otp` and `hashed_token` are a pending code.
pub(crate) async fn generate(server: &Basalt, body: &Value) -> Value {
    let request = server.post("/auth/v1/admin/generate_link").apikey(server.service_key());
    request.bearer(server.service_key()).json(body).send().await.expect(200).json()
}

pub(crate) async fn link(server: &Basalt, kind: &str, email: &str) -> Value {
    generate(server, &json!({ "type": kind, "email": email, "password": "secret1" })).await
}

/// Id of a new confirmed user with the password `secret1`.
pub(crate) async fn confirmed(server: &Basalt, email: &str) -> String {
    let body = json!({ "email": email, "password": "secret1", "email_confirm": true });
    let request = server.post("/auth/v1/admin/users").apikey(server.service_key());
    let user = request.bearer(server.service_key()).json(&body).send().await.expect(200).json();
    text(&user, "/id").to_owned()
}

/// A session of such a user.
pub(crate) async fn session(server: &Basalt, email: &str) -> Value {
    sign_in(server, email, "secret1").await.expect(200).json()
}

pub(crate) async fn verify(server: &Basalt, body: &Value) -> Response {
    post(server, "/verify", body).await
}

pub(crate) async fn verify_code(server: &Basalt, kind: &str, email: &str, code: &str) -> Response {
    verify(server, &json!({ "type": kind, "email": email, "token": code })).await
}

pub(crate) async fn verify_hash(server: &Basalt, kind: &str, hash: &str) -> Response {
    verify(server, &json!({ "type": kind, "token_hash": hash })).await
}

/// Opens a link as a browser does: without an API key.
pub(crate) async fn open(server: &Basalt, kind: &str, hash: &str, redirect_to: &str) -> Response {
    let path = format!("/auth/v1/verify?token={hash}&type={kind}&redirect_to={redirect_to}");
    server.get(&path).without("apikey").without("authorization").send().await
}

/// Location of a 303 response.
#[track_caller]
pub(crate) fn location(response: &Response) -> String {
    assert_eq!(response.status.as_u16(), 303, "{}", response.text());
    response.header("location").to_owned()
}

/// The pairs of a location's fragment or query.
pub(crate) fn pairs(location: &str, mark: char) -> BTreeMap<String, String> {
    let url = url::Url::parse(location).unwrap();
    let part = if mark == '#' { url.fragment() } else { url.query() };
    url::form_urlencoded::parse(part.unwrap_or_default().as_bytes()).into_owned().collect()
}

/// `select` of one user's row.
pub(crate) async fn row_of(server: &Basalt, columns: &str, email: &str) -> Vec<Option<String>> {
    let rows = server.sql(&format!("select {columns} from auth.users u where u.email = '{email}'")).await;
    rows.into_iter().next().unwrap_or_else(|| panic!("no user {email}"))
}

/// The audited actions about one user, oldest first.
pub(crate) async fn audited(server: &Basalt, id: &str) -> Vec<String> {
    let rows = server
        .sql(&format!(
            "select payload->>'action' from auth.audit_log_entries where payload->>'actor_id' = '{id}' order by created_at"
        ))
        .await;
    rows.into_iter().flatten().flatten().collect()
}
