//! Format and order of errors, and public routes (auth.md §3.1, §3.14).

use super::*;

#[tokio::test]
async fn version_header_selects_the_error_format() {
    let server = shared().await;
    let request = |version: &str| {
        let request = client(&server, Method::POST, "/token?grant_type=password");
        request
            .header("x-supabase-api-version", version)
            .json(&json!({ "email": "a@b.org", "password": "secret1" }))
    };
    let old = json!({ "code": 400, "error_code": "invalid_credentials", "msg": "Invalid login credentials" });
    for version in ["2023-01-01", "nonsense"] {
        let response = request(version).send().await.expect(400);
        assert_eq!(response.json(), old);
        assert_eq!(response.header("x-supabase-api-version"), "");
        assert_eq!(response.header("x-sb-error-code"), "invalid_credentials");
    }
    let response = request("2024-01-01").without("x-supabase-api-version").send().await.expect(400);
    assert_eq!(response.json(), old);
    assert_error(
        &request("2025-06-01").send().await,
        400,
        "invalid_credentials",
        "Invalid login credentials",
    );
}

#[tokio::test]
async fn rejects_unknown_routes_methods_and_large_bodies() {
    let server = shared().await;
    let missing = client(&server, Method::GET, "/nowhere").send().await.expect(404);
    assert_eq!(missing.text(), "404 page not found");
    assert!(missing.header("content-type").starts_with("text/plain"));
    let wrong = client(&server, Method::DELETE, "/token").send().await.expect(405);
    assert_eq!(wrong.text(), "");
    let large = client(&server, Method::POST, "/signup").body(vec![b' '; 1_048_577]).send().await;
    assert_error(&large, 413, "request_entity_too_large", "Request body too large (max 1048576 bytes)");
    for body in ["", "{", "[]"] {
        let bad =
            client(&server, Method::POST, "/signup").body(body.to_owned()).send().await.expect(400).json();
        assert_eq!(bad["code"], "bad_json");
        assert!(text(&bad, "/message").starts_with("Could not parse request body as JSON: "), "{bad}");
    }
}

/// PostgreSQL rejects NUL; each such value would cause a 500 and an ERROR line.
#[tokio::test]
async fn ignores_query_values_with_nul() {
    let server = shared().await;
    let missing = "Verify requires a token or a token hash";
    let verify = client(&server, Method::GET, "/verify?type=signup&token=a%00b").send().await;
    assert_error(&verify, 400, "validation_failed", missing);
    let list = super::admin::admin(&server, Method::GET, "/admin/users?filter=%00&cursor=%00");
    let _list = list.send().await.expect(200);
    let _log =
        super::admin::admin(&server, Method::GET, "/admin/audit?query=author:%00").send().await.expect(200);
}

#[tokio::test]
async fn bearer_errors_follow_the_contract_order() {
    let server = shared().await;
    let user = server.sign_up(&fresh("ada")).await;
    let none = client(&server, Method::GET, "/user").header("authorization", "Basic eDp5").send().await;
    assert_error(&none, 401, "no_authorization", "This endpoint requires a valid Bearer token");
    // The gateway has replaced the anon key by a token.
    let key_only = client(&server, Method::GET, "/user").send().await;
    assert_error(&key_only, 403, "bad_jwt", "invalid claim: missing sub claim");

    let far = 4_102_444_800_u32;
    let id = user.id.as_str();
    let nobody = "11111111-2222-4333-8444-555555555555";
    for (claims, status, code, message) in [
        (
            json!({ "sub": id, "exp": 1 }),
            403,
            "bad_jwt",
            "invalid JWT: unable to parse or verify signature, token has invalid claims: token is expired",
        ),
        (json!({ "role": "authenticated", "exp": far }), 403, "bad_jwt", "invalid claim: missing sub claim"),
        (
            json!({ "sub": "1234567890", "exp": far }),
            400,
            "bad_jwt",
            "invalid claim: sub claim must be a UUID",
        ),
        (
            json!({ "sub": id, "session_id": "x", "exp": far }),
            403,
            "bad_jwt",
            "invalid claim: session_id claim must be a UUID",
        ),
        (
            json!({ "sub": nobody, "exp": far }),
            403,
            "user_not_found",
            "User from sub claim in JWT does not exist",
        ),
        (
            json!({ "sub": id, "session_id": nobody, "exp": far }),
            403,
            "session_not_found",
            "Session from session_id claim in JWT does not exist",
        ),
    ] {
        assert_error(&get_user(&server, &server.token(&claims)).await, status, code, message);
    }
    // Tokens without a session are valid, including ones signed with the shared secret.
    let _user = get_user(&server, &server.token(&json!({ "sub": id, "exp": far }))).await.expect(200);
    let other_audience =
        client(&server, Method::GET, "/user").bearer(&user.access_token).header("x-jwt-aud", "other");
    assert_error(
        &other_audience.send().await,
        400,
        "validation_failed",
        "Token audience doesn't match request audience",
    );

    let unsigned = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.";
    let forged = format!("{}A", user.access_token.rsplit_once('.').unwrap().0.to_owned() + ".");
    for token in [unsigned, forged.as_str(), "a.b.c", "x"] {
        let refused = get_user(&server, token).await.expect(403).json();
        assert_eq!(refused["code"], "bad_jwt");
        assert!(
            text(&refused, "/message").starts_with("invalid JWT: unable to parse or verify signature, "),
            "{refused}"
        );
    }
    let _rows = server
        .sql(&format!("update auth.users set banned_until = now() + interval '1 hour' where id = '{id}'"))
        .await;
    assert_error(&get_user(&server, &user.access_token).await, 403, "user_banned", "User is banned");
}

#[tokio::test]
async fn public_routes_need_no_user() {
    let server = shared().await;
    // Without any key.
    let health = server.get("/auth/v1/health").send().await.expect(200);
    assert_eq!(
        health.json(),
        json!({
            "version": "v2.196.0", "name": "GoTrue",
            "description": "GoTrue is a user registration and authentication API"
        })
    );
    let jwks = server.get("/auth/v1/.well-known/jwks.json").send().await.expect(200);
    assert_eq!(jwks.header("cache-control"), "public, max-age=600");
    let session = server.sign_up(&fresh("ada")).await;
    let header = session.access_token.split('.').next().unwrap();
    use base64::Engine;
    let header: Value =
        serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(header).unwrap())
            .unwrap();
    let keys = jwks.json()["keys"].as_array().unwrap().clone();
    let key = keys.iter().find(|key| key["kid"] == header["kid"]).expect("the signing key is published");
    assert_eq!(key["use"], "sig");
    assert_eq!(key["key_ops"], json!(["verify"]));
    assert!(keys.iter().all(|key| key.get("d").is_none() && key["kty"] != "oct"));

    let _refused = server.get("/auth/v1/settings").send().await.expect(401);
    let settings = client(&server, Method::GET, "/settings").send().await.expect(200).json();
    assert_eq!(settings["external"]["email"], true);
    assert_eq!(settings["external"]["google"], false);
    assert_eq!(settings["external"].as_object().unwrap().len(), 26);
    assert_eq!(settings["mailer_autoconfirm"], true);
    assert_eq!(settings["disable_signup"], false);
}

#[tokio::test]
async fn log_contains_no_secrets() {
    let server = shared().await;
    let (marked, email) = ("marked-Secret-7", fresh("marked"));
    let body = json!({ "email": email, "password": marked, "data": { "note": marked } });
    let session = post(&server, "/signup", &body).await.expect(200).json();
    let (access, token) = (text(&session, "/access_token"), text(&session, "/refresh_token"));
    let _session = sign_in(&server, &email, marked).await.expect(200);
    let _refused = sign_in(&server, &email, &format!("{marked}x")).await.expect(400);
    let _user = put_user(&server, access, &json!({ "password": format!("{marked}y"), "nonce": marked }))
        .await
        .expect(200);
    let _session = refresh(&server, token).await.expect(200);
    for line in server.log() {
        for secret in [marked, access, token, email.as_str()] {
            assert!(!line.raw.contains(secret), "{}", line.raw);
        }
    }
}
