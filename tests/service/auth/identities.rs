//! E-mail identities: their format, and unlinking (auth.md §3.2, §3.16).

use super::*;

const NOBODY: &str = "11111111-2222-4333-8444-555555555555";

async fn unlink(server: &Basalt, token: &str, id: &str) -> Response {
    client(server, Method::DELETE, &format!("/user/identities/{id}")).bearer(token).send().await
}

async fn add_identity(server: &Basalt, user_id: &str, provider: &str, email: &str) -> String {
    let rows = server
        .sql(&format!(
            "insert into auth.identities (provider_id, user_id, identity_data, provider, created_at, updated_at)
             values (gen_random_uuid()::text, '{user_id}', jsonb_build_object('email', '{email}'), '{provider}', now(), now())
             returning id"
        ))
        .await;
    rows[0][0].clone().unwrap()
}

#[tokio::test]
async fn sign_up_identity_is_returned_with_the_user() {
    let server = shared().await;
    let ada = server.sign_up(&fresh("ada")).await;
    let user = get_user(&server, &ada.access_token).await.expect(200).json();
    let identity = user["identities"][0].as_object().unwrap();
    assert_eq!(
        identity.keys().collect::<Vec<_>>(),
        [
            "identity_id",
            "id",
            "user_id",
            "identity_data",
            "provider",
            "last_sign_in_at",
            "created_at",
            "updated_at",
            "email"
        ]
    );
    assert_eq!((&identity["id"], &identity["user_id"]), (&json!(ada.id), &json!(ada.id)));
    assert_ne!(identity["identity_id"], ada.id);
    assert_eq!(identity["email"], ada.email);
    assert_eq!(identity["identity_data"]["sub"], ada.id);
    for time in ["last_sign_in_at", "created_at", "updated_at"] {
        assert_eq!(identity[time], user["created_at"], "{time}");
    }
}

#[tokio::test]
async fn manual_linking_is_disabled_by_default() {
    let server = shared().await;
    let ada = server.sign_up(&fresh("ada")).await;
    let off = "Manual linking is disabled";
    assert_error(&unlink(&server, &ada.access_token, "x").await, 404, "manual_linking_disabled", off);
    let authorize = client(&server, Method::GET, "/user/identities/authorize?provider=google");
    assert_error(
        &authorize.clone().bearer(&ada.access_token).send().await,
        404,
        "manual_linking_disabled",
        off,
    );
    // The caller is checked first.
    assert_error(&authorize.send().await, 403, "bad_jwt", "invalid claim: missing sub claim");
}

#[tokio::test]
async fn last_identity_cannot_be_unlinked() {
    let server = quick().config("auth.security_manual_linking_enabled", "true").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let eve = server.sign_up("eve@example.org").await;
    let user = get_user(&server, &ada.access_token).await.expect(200).json();
    let own = text(&user, "/identities/0/identity_id").to_owned();
    let token = &ada.access_token;
    assert_error(&unlink(&server, token, "x").await, 404, "validation_failed", "identity_id must be an UUID");
    let single = "User must have at least 1 identity after unlinking";
    assert_error(&unlink(&server, token, &own).await, 422, "single_identity_not_deletable", single);
    let google = add_identity(&server, &ada.id, "google", "eve@example.org").await;
    assert_error(&unlink(&server, token, NOBODY).await, 422, "identity_not_found", "Identity doesn't exist");
    let other_audience = client(&server, Method::DELETE, &format!("/user/identities/{own}"))
        .bearer(token)
        .header("x-jwt-aud", "other")
        .send()
        .await;
    assert_error(
        &other_audience,
        403,
        "unexpected_audience",
        "Token audience doesn't match request audience",
    );
    // The remaining address belongs to eve.
    assert_error(
        &unlink(&server, token, &own).await,
        422,
        "email_conflict_identity_not_deletable",
        "Unable to unlink identity due to email conflict",
    );
    let _user = get_user(&server, token).await.expect(200);
    assert_eq!(unlink(&server, token, &google).await.expect(200).json(), json!({}));
    assert_error(&unlink(&server, token, &own).await, 422, "single_identity_not_deletable", single);
    let github = add_identity(&server, &ada.id, "github", "lovelace@example.org").await;
    assert_eq!(unlink(&server, token, &own).await.expect(200).json(), json!({}));
    let user = get_user(&server, token).await.expect(200).json();
    assert_eq!(user["email"], "lovelace@example.org");
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["github"] }));
    assert_eq!(user["identities"][0]["identity_id"], github);
    let _user = get_user(&server, &eve.access_token).await.expect(200);
    let unlinked = "select string_agg(payload -> 'traits' ->> 'provider', ',' order by created_at)
                    from auth.audit_log_entries where payload ->> 'action' = 'identity_unlinked'";
    assert_eq!(server.sql(unlinked).await, [[Some("google,email".to_owned())]]);

    for (provider, reason) in
        [("google", "provider is not enabled"), ("nonsense", "Provider nonsense could not be found")]
    {
        let path = format!("/user/identities/authorize?provider={provider}&skip_http_redirect=true");
        let refused = client(&server, Method::GET, &path).bearer(token).send().await;
        assert_error(&refused, 400, "validation_failed", &format!("Unsupported provider: {reason}"));
    }
}

#[tokio::test]
async fn concurrent_unlinking_leaves_one_identity() {
    let server = quick().config("auth.security_manual_linking_enabled", "true").start().await;
    let ada = server.sign_up("ada@example.org").await;
    let user = get_user(&server, &ada.access_token).await.expect(200).json();
    let first = text(&user, "/identities/0/identity_id").to_owned();
    let second = add_identity(&server, &ada.id, "github", "ada@example.org").await;
    let (left, right) =
        tokio::join!(unlink(&server, &ada.access_token, &first), unlink(&server, &ada.access_token, &second));
    let mut statuses = [left.status.as_u16(), right.status.as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422]);
    assert_eq!(server.sql("select count(*) from auth.identities").await, [[Some("1".to_owned())]]);
}
