//! The OAuth 2.1 server (auth.md §3.22): registration, authorization and consent, tokens, revocation.

use basalt_testkit::User;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use url::Url;
use url::form_urlencoded::Serializer;

use super::codes::{CHALLENGE, VERIFIER};
use super::*;

const CALLBACK: &str = "https://client.test/callback";

/// A server whose OAuth server is on, shared by the tests of this module.
async fn server() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = quick()
        .config("auth.oauth_server_enabled", "true")
        .config("auth.oauth_server_allow_dynamic_registration", "true")
        .config("auth.rate_limit_oauth_dynamic_client_register", "0")
        .config("auth.site_url", "https://app.test");
    let server = Arc::new(server.start().await);
    *shared = Arc::downgrade(&server);
    server
}

/// A registered client.
struct Client {
    id: String,
    secret: Option<String>,
}

impl Client {
    /// Registers itself, without an API key, as foreign programs do.
    async fn register(server: &Basalt, changes: &Value) -> Self {
        let mut body = json!({ "client_name": "Notes", "redirect_uris": [CALLBACK] });
        for (name, value) in changes.as_object().unwrap() {
            body[name] = value.clone();
        }
        let request = server.post("/auth/v1/oauth/clients/register").json(&body);
        let client = request.send().await.expect(201).json();
        assert_eq!(client["registration_type"], "dynamic");
        Self {
            id: text(&client, "/client_id").to_owned(),
            secret: client["client_secret"].as_str().map(str::to_owned),
        }
    }

    async fn public(server: &Basalt) -> Self {
        let client = Self::register(server, &json!({ "token_endpoint_auth_method": "none" })).await;
        assert_eq!(client.secret, None);
        client
    }

    /// The query of a valid authorization request, with changes; an empty value removes a parameter.
    fn query(&self, changes: &[(&str, &str)]) -> String {
        let mut query = vec![
            ("client_id", self.id.as_str()),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("scope", "openid email profile"),
            ("state", "s&1"),
            ("nonce", "n1"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ];
        for (name, value) in changes {
            query.retain(|(known, _)| known != name);
            query.push((name, value));
        }
        query.retain(|(_, value)| !value.is_empty());
        Serializer::new(String::new()).extend_pairs(query).finish()
    }

    async fn authorize(&self, server: &Basalt, changes: &[(&str, &str)]) -> Response {
        server.get(&format!("/auth/v1/oauth/authorize?{}", self.query(changes))).send().await
    }

    /// Starts an authorization and returns its id.
    async fn begin(&self, server: &Basalt, changes: &[(&str, &str)]) -> String {
        let response = self.authorize(server, changes).await.expect(302);
        let page = Url::parse(response.header("location")).unwrap();
        assert!(page.as_str().starts_with("https://app.test/oauth/consent?authorization_id="), "{page}");
        parameter(&page, "authorization_id")
    }

    /// The code of an authorization that the user approves.
    async fn code(&self, server: &Basalt, user: &User) -> String {
        let id = self.begin(server, &[]).await;
        let _details = details(server, &user.access_token, &id).await.expect(200);
        let url = decided(server, &user.access_token, &id, "approve").await;
        parameter(&url, "code")
    }

    async fn token(&self, server: &Basalt, fields: &[(&str, &str)]) -> Response {
        let mut form = Serializer::new(String::new());
        form.extend_pairs(fields).append_pair("client_id", &self.id);
        if let Some(secret) = &self.secret {
            form.append_pair("client_secret", secret);
        }
        send_form(server, form.finish()).await
    }

    async fn exchange(&self, server: &Basalt, code: &str) -> Response {
        let fields = [("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER)];
        self.token(server, &fields).await
    }

    /// The tokens of a new authorization.
    async fn tokens(&self, server: &Basalt, user: &User) -> Value {
        let code = self.code(server, user).await;
        self.exchange(server, &code).await.expect(200).json()
    }

    async fn refresh(&self, server: &Basalt, token: &str) -> Response {
        self.token(server, &[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }
}

async fn send_form(server: &Basalt, form: String) -> Response {
    let request = server.post("/auth/v1/oauth/token");
    request.header("content-type", "application/x-www-form-urlencoded").body(form).send().await
}

fn parameter(url: &Url, name: &str) -> String {
    let found = url.query_pairs().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("no {name} in {url}")).1.into_owned()
}

async fn details(server: &Basalt, token: &str, id: &str) -> Response {
    client(server, Method::GET, &format!("/oauth/authorizations/{id}")).bearer(token).send().await
}

async fn decide(server: &Basalt, token: &str, id: &str, action: &str) -> Response {
    let path = format!("/oauth/authorizations/{id}/consent");
    client(server, Method::POST, &path).bearer(token).json(&json!({ "action": action })).send().await
}

async fn decided(server: &Basalt, token: &str, id: &str, action: &str) -> Url {
    let answer = decide(server, token, id, action).await.expect(200).json();
    Url::parse(text(&answer, "/redirect_url")).unwrap()
}

#[track_caller]
fn assert_oauth_error(response: &Response, code: &str) {
    let body = response.json();
    assert_eq!((response.status.as_u16(), &body["error"]), (400, &json!(code)), "{body}");
    assert!(body["error_description"].is_string(), "{body}");
    assert_eq!(response.header("x-sb-error-code"), code);
}

async fn user(server: &Basalt) -> User {
    server.sign_up(&fresh("oauth")).await
}

#[tokio::test]
async fn client_gets_tokens_after_consent() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let id = client.begin(&server, &[]).await;
    let asked = details(&server, &ada.access_token, &id).await.expect(200).json();
    assert_eq!(
        asked,
        json!({
            "authorization_id": id, "redirect_uri": CALLBACK, "scope": "openid email profile",
            "client": { "id": client.id, "name": "Notes", "uri": "", "logo_uri": "" },
            "user": { "id": ada.id, "email": ada.email },
        })
    );
    let url = decided(&server, &ada.access_token, &id, "approve").await;
    assert!(url.as_str().starts_with(CALLBACK), "{url}");
    assert_eq!(parameter(&url, "state"), "s&1");
    assert_eq!(parameter(&url, "iss"), server.url("/auth/v1"));

    let tokens = client.exchange(&server, &parameter(&url, "code")).await.expect(200);
    assert_eq!(tokens.header("cache-control"), "no-store");
    let tokens = tokens.json();
    assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("bearer"), &json!("openid email profile")));
    let access = claims(text(&tokens, "/access_token"));
    assert_eq!((&access["client_id"], &access["scope"]), (&json!(client.id), &json!("openid email profile")));
    assert_eq!((&access["sub"], &access["aal"]), (&json!(ada.id), &json!("aal1")));
    assert_eq!(access["amr"][0]["method"], "oauth_provider/authorization_code");
    let id_token = claims(text(&tokens, "/id_token"));
    assert_eq!((&id_token["aud"], &id_token["nonce"]), (&json!(client.id), &json!("n1")));
    assert_eq!((&id_token["sub"], &id_token["email"]), (&json!(ada.id), &json!(ada.email)));

    let info = server.get("/auth/v1/oauth/userinfo").bearer(text(&tokens, "/access_token")).send().await;
    let info = info.expect(200).json();
    assert_eq!((&info["sub"], &info["email"]), (&json!(ada.id), &json!(ada.email)));
    let refreshed = client.refresh(&server, text(&tokens, "/refresh_token")).await.expect(200).json();
    assert_eq!(claims(text(&refreshed, "/access_token"))["client_id"], json!(client.id));
    // The second time, the user is not asked again.
    let again = client.begin(&server, &[("scope", "email")]).await;
    let answer = details(&server, &ada.access_token, &again).await.expect(200).json();
    let url = Url::parse(text(&answer, "/redirect_url")).unwrap();
    let _tokens = client.exchange(&server, &parameter(&url, "code")).await.expect(200);
}

#[tokio::test]
async fn user_can_deny() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let id = client.begin(&server, &[]).await;
    let unseen = decide(&server, &ada.access_token, &id, "approve").await;
    let missing = "OAuth authorization not found";
    assert_error(&unseen, 404, "oauth_authorization_not_found", missing);
    let _details = details(&server, &ada.access_token, &id).await.expect(200);
    let odd = decide(&server, &ada.access_token, &id, "maybe").await;
    assert_error(&odd, 400, "validation_failed", "action must be 'approve' or 'deny'");
    let url = decided(&server, &ada.access_token, &id, "deny").await;
    assert_eq!((parameter(&url, "error"), parameter(&url, "state")), ("access_denied".into(), "s&1".into()));
    let late = decide(&server, &ada.access_token, &id, "approve").await;
    assert_error(&late, 404, "oauth_authorization_not_found", missing);
}

#[tokio::test]
async fn request_belongs_to_the_user_who_opened_it() {
    let server = server().await;
    let client = Client::public(&server).await;
    let (ada, eve) = (user(&server).await, user(&server).await);
    let id = client.begin(&server, &[]).await;
    let _details = details(&server, &ada.access_token, &id).await.expect(200);
    let missing = "OAuth authorization not found";
    for response in [
        details(&server, &eve.access_token, &id).await,
        decide(&server, &eve.access_token, &id, "approve").await,
        details(&server, &eve.access_token, "unknown").await,
    ] {
        assert_error(&response, 404, "oauth_authorization_not_found", missing);
    }
    let stranger = details(&server, server.anon_key(), &id).await;
    assert_error(&stranger, 403, "bad_jwt", "invalid claim: missing sub claim");
}

#[tokio::test]
async fn bad_requests_never_reach_a_foreign_address() {
    let server = server().await;
    let client = Client::public(&server).await;
    for uri in [
        "https://evil.test/callback",
        "https://client.test/callback/",
        "https://client.test/callback?x=1",
        "https://client.test.evil.test/callback",
        "https://client.test/callback#f",
        "//client.test/callback",
    ] {
        let refused = client.authorize(&server, &[("redirect_uri", uri)]).await.expect(400);
        assert_eq!(refused.json()["msg"], "redirect_uri is not registered for this client", "{uri}");
        assert_eq!(refused.header("location"), "");
    }
    let unknown = client.authorize(&server, &[("client_id", "11111111-2222-4333-8444-555555555555")]).await;
    assert_eq!(unknown.expect(404).json()["error_code"], "oauth_client_not_found");
    for (changes, error) in [
        (&[("code_challenge", ""), ("code_challenge_method", "")][..], "invalid_request"),
        (&[("code_challenge_method", "plain")], "invalid_request"),
        (&[("code_challenge_method", "")], "invalid_request"),
        (&[("code_challenge", "short")], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("response_type", "")], "invalid_request"),
        (&[("response_mode", "fragment")], "invalid_request"),
        (&[("scope", "openid admin")], "invalid_scope"),
        (&[("resource", "not a url")], "invalid_target"),
        (&[("nonce", "n".repeat(256).as_str())], "invalid_request"),
    ] {
        let response = client.authorize(&server, changes).await.expect(302);
        let url = Url::parse(response.header("location")).unwrap();
        assert!(url.as_str().starts_with(CALLBACK), "{url}");
        assert_eq!(parameter(&url, "error"), error, "{changes:?}");
        assert_eq!(parameter(&url, "state"), "s&1");
    }
}

#[tokio::test]
async fn concurrent_uses_of_a_code_succeed_once() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let code = client.code(&server, &ada).await;
    let uses = join_all((0..64).map(|_| client.exchange(&server, &code))).await;
    let granted: Vec<_> = uses.iter().filter(|response| response.status.is_success()).collect();
    assert_eq!(granted.len(), 1);
    for refused in uses.iter().filter(|response| !response.status.is_success()) {
        assert_oauth_error(refused, "invalid_grant");
    }
    // The second use has ended the session: the code may have been stolen.
    let refreshed = client.refresh(&server, text(&granted[0].json(), "/refresh_token")).await;
    assert_oauth_error(&refreshed, "invalid_grant");
}

#[tokio::test]
async fn concurrent_decisions_yield_one_code() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let id = client.begin(&server, &[]).await;
    let _details = details(&server, &ada.access_token, &id).await.expect(200);
    let decisions = join_all((0..64).map(|_| decide(&server, &ada.access_token, &id, "approve"))).await;
    assert_eq!(decisions.iter().filter(|response| response.status.is_success()).count(), 1);
    for refused in decisions.iter().filter(|response| !response.status.is_success()) {
        assert_error(refused, 400, "validation_failed", "OAuth authorization has already been decided");
    }
}

#[tokio::test]
async fn code_needs_its_client_verifier_and_address() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let thief = Client::register(&server, &json!({})).await;
    let code = client.code(&server, &ada).await;
    let grant = ("grant_type", "authorization_code");
    let wrong_verifier = "a".repeat(43);
    for (fields, error) in [
        (&[grant, ("code", code.as_str()), ("code_verifier", wrong_verifier.as_str())][..], "invalid_grant"),
        (&[grant, ("code", &code)], "invalid_request"),
        (&[grant, ("code_verifier", VERIFIER)], "invalid_request"),
        (
            &[grant, ("code", &code), ("code_verifier", VERIFIER), ("redirect_uri", "https://client.test/x")],
            "invalid_grant",
        ),
        (
            &[grant, ("code", &code), ("code_verifier", VERIFIER), ("resource", "https://api.test")],
            "invalid_target",
        ),
        (&[("grant_type", "password"), ("username", "a")], "unsupported_grant_type"),
        (&[("code", &code)], "invalid_request"),
        (&[grant, grant], "invalid_request"),
    ] {
        assert_oauth_error(&client.token(&server, fields).await, error);
    }
    assert_oauth_error(&thief.exchange(&server, &code).await, "invalid_grant");
    let fields = [grant, ("code", &code), ("code_verifier", VERIFIER), ("redirect_uri", CALLBACK)];
    let _tokens = client.token(&server, &fields).await.expect(200);
}

#[tokio::test]
async fn confidential_clients_prove_their_secret() {
    let server = server().await;
    let (client, ada) = (Client::register(&server, &json!({})).await, user(&server).await);
    let secret = client.secret.clone().unwrap();
    let stored = server.sql("select client_secret_hash from auth.oauth_clients").await;
    assert!(!stored.iter().flatten().flatten().any(|hash| hash.contains(&secret)));
    let form = |code: &str, more: &[(&str, &str)]| {
        let fields = [("grant_type", "authorization_code"), ("code", code), ("code_verifier", VERIFIER)];
        Serializer::new(String::new()).extend_pairs(fields).extend_pairs(more).finish()
    };
    let code = client.code(&server, &ada).await;
    for more in [
        &[][..],
        &[("client_id", client.id.as_str())],
        &[("client_id", &client.id), ("client_secret", "wrong")],
        &[("client_id", "nobody"), ("client_secret", &secret)],
    ] {
        assert_oauth_error(&send_form(&server, form(&code, more)).await, "invalid_client");
    }
    // HTTP basic authentication, and a JSON body.
    let login = STANDARD.encode(format!("{}:{secret}", client.id));
    let body = json!({ "grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER });
    let request = server.post("/auth/v1/oauth/token").header("authorization", &format!("Basic {login}"));
    let tokens = request.json(&body).send().await.expect(200).json();
    // Its refresh token is bound to the client.
    let other = Client::public(&server).await;
    let token = text(&tokens, "/refresh_token");
    assert_oauth_error(&other.refresh(&server, token).await, "invalid_grant");
    let own = refresh(&server, token).await;
    assert_eq!(own.expect(400).json()["error"], "invalid_client");
    let _refreshed = client.refresh(&server, token).await.expect(200);
    assert_oauth_error(&client.refresh(&server, &ada.refresh_token).await, "invalid_grant");
}

#[tokio::test]
async fn scope_can_be_narrowed_but_not_widened() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let tokens = client.tokens(&server, &ada).await;
    let grant = ("grant_type", "refresh_token");
    let fields = [grant, ("refresh_token", text(&tokens, "/refresh_token")), ("scope", "email")];
    let narrowed = client.token(&server, &fields).await.expect(200).json();
    assert_eq!(claims(text(&narrowed, "/access_token"))["scope"], "email");
    assert_eq!(narrowed["id_token"], Value::Null);
    let fields = [grant, ("refresh_token", text(&narrowed, "/refresh_token")), ("scope", "email phone")];
    assert_oauth_error(&client.token(&server, &fields).await, "invalid_scope");
}

#[tokio::test]
async fn revoked_grant_ends_the_clients_sessions() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let tokens = client.tokens(&server, &ada).await;
    let own = |method: Method, path: &str| super::client(&server, method, path).bearer(&ada.access_token);
    let grants = own(Method::GET, "/user/oauth/grants").send().await.expect(200).json();
    assert_eq!(
        (&grants[0]["client"]["id"], &grants[0]["client"]["name"]),
        (&json!(client.id), &json!("Notes"))
    );
    assert_eq!(grants[0]["scopes"], json!(["openid", "email", "profile"]));
    assert!(grants[0]["granted_at"].is_string());

    let path = format!("/user/oauth/grants?client_id={}", client.id);
    let _revoked = own(Method::DELETE, &path).send().await.expect(204);
    let again = own(Method::DELETE, &path).send().await;
    assert_error(&again, 404, "oauth_consent_not_found", "OAuth consent not found");
    assert_oauth_error(&client.refresh(&server, text(&tokens, "/refresh_token")).await, "invalid_grant");
    let info = server.get("/auth/v1/oauth/userinfo").bearer(text(&tokens, "/access_token")).send().await;
    assert_eq!(info.expect(403).json()["error_code"], "session_not_found");
    assert_eq!(own(Method::GET, "/user/oauth/grants").send().await.json(), json!([]));
    // The user is asked again.
    let id = client.begin(&server, &[]).await;
    let asked = details(&server, &ada.access_token, &id).await.expect(200).json();
    assert_eq!(asked["authorization_id"], json!(id));
}

#[tokio::test]
async fn clients_cannot_manage_the_account() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let tokens = client.tokens(&server, &ada).await;
    let token = text(&tokens, "/access_token");
    let next = client.begin(&server, &[("scope", "phone")]).await;
    for (method, path) in [
        (Method::PUT, "/user"),
        (Method::POST, "/factors"),
        (Method::GET, "/user/sessions"),
        (Method::GET, "/user/oauth/grants"),
        (Method::GET, "/reauthenticate"),
        (Method::POST, "/logout?scope=global"),
        (Method::GET, &format!("/oauth/authorizations/{next}")),
        (Method::POST, &format!("/oauth/authorizations/{next}/consent")),
    ] {
        let request = super::client(&server, method, path).bearer(token);
        let refused = request.json(&json!({ "password": "taken-over-1", "action": "approve" })).send().await;
        let message = "OAuth clients cannot manage the user's account";
        assert_error(&refused, 403, "insufficient_scope", message);
    }
    assert_eq!(get_user(&server, token).await.expect(200).json()["id"], json!(ada.id));
    let ended = super::client(&server, Method::POST, "/logout?scope=local").bearer(token).send().await;
    let _ended = ended.expect(204);
    let _own = get_user(&server, &ada.access_token).await.expect(200);
}

#[tokio::test]
async fn clients_of_an_admin_are_not_admins() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    server.sql(&format!("update auth.users set role = 'service_role' where id = '{}'", ada.id)).await;
    let tokens = client.tokens(&server, &ada).await;
    let token = text(&tokens, "/access_token");
    assert_eq!(claims(token)["role"], "service_role");
    let refused = super::client(&server, Method::GET, "/admin/users").bearer(token).send().await;
    let message = "OAuth clients cannot manage the user's account";
    assert_error(&refused, 403, "insufficient_scope", message);
}

#[tokio::test]
async fn id_tokens_give_no_access() {
    let server = server().await;
    let (client, ada) = (Client::public(&server).await, user(&server).await);
    let tokens = client.tokens(&server, &ada).await;
    let id_token = text(&tokens, "/id_token");
    assert_eq!(get_user(&server, id_token).await.expect(403).json()["code"], "bad_jwt");
    let rest = server.get("/rest/v1/").apikey(server.anon_key()).bearer(id_token).send().await;
    assert_eq!(rest.status.as_u16(), 401, "{}", rest.text());
}

#[tokio::test]
async fn admin_manages_clients() {
    let server = server().await;
    let admin = |method: Method, path: &str| {
        super::client(&server, method, &format!("/admin/oauth/clients{path}")).bearer(server.service_key())
    };
    let body =
        json!({ "client_name": "Robot", "redirect_uris": [CALLBACK], "client_uri": "https://client.test" });
    let created = admin(Method::POST, "").json(&body).send().await.expect(201).json();
    assert_eq!(
        (&created["registration_type"], &created["client_type"]),
        (&json!("manual"), &json!("confidential"))
    );
    let id = text(&created, "/client_id").to_owned();
    let listed = admin(Method::GET, "?per_page=1").send().await.expect(200);
    assert!(listed.header("x-total-count").parse::<u32>().unwrap() >= 1);
    assert_eq!(listed.json()["clients"][0]["client_secret"], Value::Null);
    let changed = json!({ "client_name": "Robot 2", "logo_uri": "https://client.test/logo.png" });
    let changed = admin(Method::PUT, &format!("/{id}")).json(&changed).send().await.expect(200).json();
    assert_eq!((&changed["client_name"], &changed["client_uri"]), (&json!("Robot 2"), &body["client_uri"]));
    let path = format!("/{id}/regenerate_secret");
    let renewed = admin(Method::POST, &path).send().await.expect(200).json();
    assert_ne!(renewed["client_secret"], created["client_secret"]);

    // Changing the client's addresses ends authorizations elsewhere; deleting it ends its sessions.
    let ada = user(&server).await;
    let client = Client { id: id.clone(), secret: Some(text(&renewed, "/client_secret").to_owned()) };
    let tokens = client.tokens(&server, &ada).await;
    let _deleted = admin(Method::DELETE, &format!("/{id}")).send().await.expect(204);
    assert_oauth_error(&client.refresh(&server, text(&tokens, "/refresh_token")).await, "invalid_client");
    let gone = get_user(&server, text(&tokens, "/access_token")).await;
    let message = "Session from session_id claim in JWT does not exist";
    assert_error(&gone, 403, "session_not_found", message);
    let missing = admin(Method::GET, &format!("/{id}")).send().await;
    assert_error(&missing, 404, "oauth_client_not_found", "OAuth client not found");
    let bad = admin(Method::POST, "").json(&json!({ "client_name": "x" })).send().await;
    assert_error(&bad, 400, "validation_failed", "redirect_uris is required");
}

#[tokio::test]
async fn discovery_documents_name_the_endpoints() {
    let server = server().await;
    let base = server.url("/auth/v1");
    for name in ["openid-configuration", "oauth-authorization-server"] {
        let document = server.get(&format!("/auth/v1/.well-known/{name}")).send().await.expect(200).json();
        assert_eq!(document["issuer"], json!(base));
        assert_eq!(document["token_endpoint"], json!(format!("{base}/oauth/token")));
        assert_eq!(document["registration_endpoint"], json!(format!("{base}/oauth/clients/register")));
        assert_eq!(document["code_challenge_methods_supported"], json!(["S256"]));
        assert_eq!(document["id_token_signing_alg_values_supported"], json!(["ES256"]));
    }
}

#[tokio::test]
async fn registration_is_off_by_default_and_limited() {
    let server = quick().config("auth.oauth_server_enabled", "true").start().await;
    let body = json!({ "client_name": "Notes", "redirect_uris": [CALLBACK] });
    let register = async |server: &Basalt| {
        super::client(server, Method::POST, "/oauth/clients/register").json(&body).send().await
    };
    let code = "oauth_dynamic_client_registration_disabled";
    assert_error(&register(&server).await, 403, code, "Dynamic client registration is not enabled");
    let server = quick()
        .config("auth.oauth_server_enabled", "true")
        .config("auth.oauth_server_allow_dynamic_registration", "true")
        .start()
        .await;
    for _ in 0..30 {
        let _client = register(&server).await.expect(201);
    }
    assert_error(&register(&server).await, 429, "over_request_rate_limit", "Request rate limit reached");
}
