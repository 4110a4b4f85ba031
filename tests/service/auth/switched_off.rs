//! Features that are not implemented respond like upstream's disabled ones (auth.md §2, §3.15, §3.16, §3.22).

use http::Method;
use serde_json::{Value, json};

use super::{assert_error, client, post, shared};

#[tokio::test]
async fn disabled_features_return_their_error() {
    let server = shared().await;
    let saml = (404, "saml_provider_disabled", "SAML 2.0 is disabled");
    let oauth = (404, "feature_disabled", "OAuth server is disabled");
    let passkeys = (404, "passkey_disabled", "Passkeys are disabled");
    let id = "11111111-2222-4333-8444-555555555555";
    let one = |path: &str| path.replace("ID", id);
    let routes = [
        ("POST", "/sso", saml),
        ("GET", "/sso/saml/metadata", saml),
        ("POST", "/sso/saml/acs", saml),
        ("GET", "/admin/sso/providers", saml),
        ("POST", "/admin/sso/providers", saml),
        ("PUT", "/admin/sso/providers/ID", saml),
        ("DELETE", "/admin/sso/providers/ID", saml),
        ("GET", "/.well-known/openid-configuration", oauth),
        ("GET", "/.well-known/oauth-authorization-server", oauth),
        ("GET", "/oauth/authorize?client_id=a", oauth),
        ("GET", "/oauth/authorizations/ID", oauth),
        ("POST", "/oauth/authorizations/ID/consent", oauth),
        ("POST", "/oauth/token", oauth),
        ("GET", "/oauth/userinfo", oauth),
        ("POST", "/oauth/clients/register", oauth),
        ("GET", "/user/oauth/grants", oauth),
        ("DELETE", "/user/oauth/grants", oauth),
        ("GET", "/admin/oauth/clients", oauth),
        ("DELETE", "/admin/oauth/clients/ID", oauth),
        ("POST", "/admin/oauth/clients/ID/regenerate_secret", oauth),
        ("POST", "/passkeys/registration/options", passkeys),
        ("POST", "/passkeys/registration/verify", passkeys),
        ("POST", "/passkeys/authentication/options", passkeys),
        ("POST", "/passkeys/authentication/verify", passkeys),
        ("GET", "/passkeys", passkeys),
        ("PATCH", "/passkeys/ID", passkeys),
        ("DELETE", "/passkeys/ID", passkeys),
        ("GET", "/admin/users/ID/passkeys", passkeys),
    ];
    for (method, path, (status, code, message)) in routes {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = client(&server, method.clone(), &one(path));
        let request =
            if path.starts_with("/admin/") { request.bearer(server.service_key()) } else { request };
        assert_error(&request.send().await, status, code, message);
        if path.starts_with("/admin/") {
            let stranger = client(&server, method, &one(path)).send().await;
            assert_error(&stranger, 403, "not_admin", "User not allowed");
        }
    }
    // Other methods are not routed.
    let wrong = client(&server, Method::PUT, "/sso").send().await;
    assert_eq!((wrong.status.as_u16(), wrong.text().as_str()), (405, ""));
}

#[tokio::test]
async fn external_providers_are_unsupported() {
    let server = shared().await;
    for (provider, reason) in [
        ("google", "provider is not enabled"),
        ("myspace", "Provider myspace could not be found"),
        ("", "Provider  could not be found"),
    ] {
        let path = format!("/authorize?provider={provider}&redirect_to=https://elsewhere.example");
        let response = client(&server, Method::GET, &path).send().await;
        assert_error(&response, 400, "validation_failed", &format!("Unsupported provider: {reason}"));
    }
    let site = server.url("");
    let back = |code: &str, text: &str| {
        format!(
            "{site}/?error=invalid_request&error_code={code}&error_description={}",
            text.replace(' ', "+")
        )
    };
    let id = "11111111-2222-4333-8444-555555555555";
    for (query, location) in [
        ("", back("bad_oauth_callback", "OAuth state parameter missing")),
        ("?state=mine", back("bad_oauth_state", "OAuth state parameter is invalid")),
        (&format!("?code=a&state={id}"), back("bad_oauth_state", "OAuth state not found or expired")),
    ] {
        let response = server.get(&format!("/auth/v1/callback{query}")).send().await.expect(303);
        assert_eq!(response.header("location"), location);
    }
    let form = server.post("/auth/v1/callback").header("content-type", "application/x-www-form-urlencoded");
    let response = form.body(format!("state={id}")).send().await.expect(303);
    assert!(response.header("location").contains("not+found+or+expired"), "{}", response.header("location"));
}

#[tokio::test]
async fn provider_and_web3_grants_are_rejected() {
    let server = shared().await;
    let grant =
        async |grant: &str, body: Value| post(&server, &format!("/token?grant_type={grant}"), &body).await;
    for (body, description) in [
        (json!({}), "id_token required"),
        (json!({ "id_token": "a" }), "provider or client_id and issuer required"),
    ] {
        let response = grant("id_token", body).await;
        assert_eq!(response.status.as_u16(), 400);
        assert_eq!(response.json(), json!({ "error": "invalid request", "error_description": description }));
    }
    let google = grant("id_token", json!({ "id_token": "a", "provider": "google" })).await;
    let message = r#"Provider (issuer "https://accounts.google.com") is not enabled"#;
    assert_error(&google, 400, "provider_disabled", message);
    let acme = grant("id_token", json!({ "id_token": "a", "provider": "custom:acme" })).await;
    assert_error(&acme, 400, "validation_failed", r#"Custom OIDC provider "custom:acme" not allowed"#);
    let solana = grant("web3", json!({ "chain": "solana", "message": "a", "signature": "b" })).await;
    assert_error(&solana, 422, "web3_provider_disabled", "Web3 provider is disabled");
    let other = grant("web3", json!({ "chain": "dogecoin" })).await;
    assert_error(&other, 400, "web3_unsupported_chain", "Unsupported chain");
}

#[tokio::test]
async fn unknown_routes_still_return_404() {
    let server = shared().await;
    for path in ["/nothing", "/scim/v2/Users", "/factors/a/b/c", "/oauth"] {
        let response = client(&server, Method::GET, path).send().await;
        assert_eq!(
            (response.status.as_u16(), response.text().as_str()),
            (404, "404 page not found"),
            "{path}"
        );
    }
}
