//! Confirming an e-mail change (auth.md §3.7): who must confirm, in which order, and the effects.

use super::codes::*;
use super::*;

const HALF: &str = "Confirmation link accepted. Please proceed to confirm link sent to the other email";
const HALF_AT: &str =
    "message=Confirmation+link+accepted.+Please+proceed+to+confirm+link+sent+to+the+other+email";

struct Change {
    id: String,
    token: String,
    old: String,
    new: String,
}

/// A user who has requested another address.
async fn request_change(server: &Basalt) -> Change {
    let (old, new) = (fresh("old"), fresh("new"));
    let id = confirmed(server, &old).await;
    let token = text(&session(server, &old).await, "/access_token").to_owned();
    let user = put_user(server, &token, &json!({ "email": new })).await.expect(200).json();
    assert_eq!((text(&user, "/email"), text(&user, "/new_email")), (&*old, &*new));
    Change { id, token, old, new }
}

async fn assert_changed(server: &Basalt, change: &Change, user: &Value) {
    assert_eq!(text(user, "/id"), change.id);
    assert_eq!(text(user, "/email"), change.new);
    assert!(user.get("new_email").is_none(), "{user}");
    assert_eq!(text(user, "/identities/0/identity_data/email"), change.new);
    assert_eq!(user.pointer("/identities/0/identity_data/email_verified"), Some(&json!(true)));
    let columns = "concat(u.email_change_token_current, u.email_change_token_new, u.email_change), \
                   u.email_change_confirm_status";
    let row = row_of(server, columns, &change.new).await;
    assert_eq!(row, [Some(String::new()), Some("0".to_owned())]);
    let _session = sign_in(server, &change.new, "secret1").await.expect(200);
    let _unknown = sign_in(server, &change.old, "secret1").await.expect(400);
    // The requesting session continues.
    assert_eq!(text(&get_user(server, &change.token).await.expect(200).json(), "/email"), change.new);
    assert!(audited(server, &change.id).await.contains(&"user_modified".to_owned()));
}

#[tokio::test]
async fn both_addresses_confirm_in_any_order() {
    let server = server().await;
    for order in [["old", "new"], ["new", "old"]] {
        let change = request_change(&server).await;
        let [first, second] = order.map(|side| if side == "old" { &change.old } else { &change.new });
        let hash = server.mailbox().wait_for(first).await.token_hash();
        let there = location(&open(&server, "email_change", &hash, "https://a.example.org/x").await);
        assert_eq!(there, format!("https://a.example.org/x#{HALF_AT}&sb="));
        let still = get_user(&server, &change.token).await.expect(200).json();
        assert_eq!((text(&still, "/email"), text(&still, "/new_email")), (&*change.old, &*change.new));
        // Confirming one side twice is not enough.
        let again = verify_hash(&server, "email_change", &hash).await.expect(403);
        assert_eq!(again.header("x-sb-error-code"), "otp_expired");
        let hash = server.mailbox().wait_for(second).await.token_hash();
        let there = location(&open(&server, "email_change", &hash, "").await);
        let pairs = pairs(&there, '#');
        assert_eq!(pairs["type"], "email_change");
        let user = get_user(&server, &pairs["access_token"]).await.expect(200).json();
        assert_changed(&server, &change, &user).await;
    }
}

#[tokio::test]
async fn typed_codes_and_posted_hashes_confirm_too() {
    let server = server().await;
    let change = request_change(&server).await;
    let (old, new) =
        (server.mailbox().wait_for(&change.old).await, server.mailbox().wait_for(&change.new).await);
    // Each code belongs to its address.
    let crossed = verify_code(&server, "email_change", &change.old, &new.code()).await;
    if old.code() != new.code() {
        assert_error(&crossed, 403, "otp_expired", "Token has expired or is invalid");
    }
    let half = verify_code(&server, "email_change", &change.new, &new.code()).await.expect(200).json();
    assert_eq!(half, json!({ "code": "200", "msg": HALF }));
    let body = verify_hash(&server, "email_change", &old.token_hash()).await.expect(200).json();
    assert_eq!(claims(text(&body, "/access_token"))["email"], change.new);
    assert_changed(&server, &change, &body["user"]).await;
}

#[tokio::test]
async fn newer_request_voids_earlier_consent() {
    let server = server().await;
    let change = request_change(&server).await;
    let old = server.mailbox().wait_for(&change.old).await;
    let _half = verify_hash(&server, "email_change", &old.token_hash()).await.expect(200);
    let third = fresh("third");
    let _user = put_user(&server, &change.token, &json!({ "email": third })).await.expect(200);
    let stale = server.mailbox().wait_for(&change.new).await;
    let _gone = verify_hash(&server, "email_change", &stale.token_hash()).await.expect(403);
    let hash = server.mailbox().wait_for(&third).await.token_hash();
    let half = verify_hash(&server, "email_change", &hash).await.expect(200).json();
    assert_eq!(half["msg"], HALF, "the old address agreed to another one");
}

#[tokio::test]
async fn autoconfirm_still_requires_both_links() {
    let server = redeeming().config("auth.mailer_autoconfirm", "true").start().await;
    let change = request_change(&server).await;
    let (old, new) =
        (server.mailbox().wait_for(&change.old).await, server.mailbox().wait_for(&change.new).await);
    let half = verify_hash(&server, "email_change", &new.token_hash()).await.expect(200).json();
    assert_eq!(half["msg"], HALF);
    let body = verify_hash(&server, "email_change", &old.token_hash()).await.expect(200).json();
    assert_changed(&server, &change, &body["user"]).await;
}

#[tokio::test]
async fn without_secure_change_new_address_suffices() {
    let server = redeeming().config("auth.mailer_secure_email_change_enabled", "false").start().await;
    let change = request_change(&server).await;
    assert_eq!(server.mailbox().mails(&change.old).await.len(), 0);
    let hash = server.mailbox().wait_for(&change.new).await.token_hash();
    let body = verify_hash(&server, "email_change", &hash).await.expect(200).json();
    assert_changed(&server, &change, &body["user"]).await;
}

#[tokio::test]
async fn rejects_an_address_taken_meanwhile() {
    let server = redeeming().config("auth.mailer_secure_email_change_enabled", "false").start().await;
    let change = request_change(&server).await;
    let hash = server.mailbox().wait_for(&change.new).await.token_hash();
    let _other = confirmed(&server, &change.new).await;
    assert_error(
        &verify_hash(&server, "email_change", &hash).await,
        422,
        "email_exists",
        "A user with this email address has already been registered",
    );
    let there = location(&open(&server, "email_change", &hash, "").await);
    assert_eq!(
        there,
        format!(
            "{SITE}#error_code=email_exists&error_description=A+user+with+this+email+address+has+already+been+registered&sb="
        )
    );
}

#[tokio::test]
async fn change_voids_links_to_the_old_address() {
    let server = redeeming().config("auth.mailer_secure_email_change_enabled", "false").start().await;
    let change = request_change(&server).await;
    let recovery = link(&server, "recovery", &change.old).await;
    let hash = server.mailbox().wait_for(&change.new).await.token_hash();
    let _session = verify_hash(&server, "email_change", &hash).await.expect(200);
    let gone = verify_hash(&server, "recovery", text(&recovery, "/hashed_token")).await.expect(403);
    assert_eq!(gone.header("x-sb-error-code"), "otp_expired");
}

#[tokio::test]
async fn anonymous_user_becomes_permanent_by_link() {
    let server = redeeming().config("auth.external_anonymous_users_enabled", "true").start().await;
    let anonymous = post(&server, "/signup", &json!({ "data": { "x": 1 } })).await.expect(200).json();
    let (token, email) = (text(&anonymous, "/access_token"), fresh("ada"));
    let _user = put_user(&server, token, &json!({ "email": email })).await.expect(200);
    let hash = server.mailbox().wait_for(&email).await.token_hash();
    let body = verify_hash(&server, "email_change", &hash).await.expect(200).json();
    let user = &body["user"];
    assert_eq!((text(user, "/id"), text(user, "/email")), (text(&anonymous, "/user/id"), &*email));
    assert_eq!(user["is_anonymous"], false);
    assert_eq!(user["identities"][0]["provider"], "email");
    assert_eq!(user["identities"][0]["identity_data"]["email_verified"], true);
    assert_eq!(user["app_metadata"], json!({ "provider": "email", "providers": ["email"] }));
    assert_eq!(user["user_metadata"]["x"], 1);
    let _user =
        put_user(&server, text(&body, "/access_token"), &json!({ "password": "secret1" })).await.expect(200);
    let _session = sign_in(&server, &email, "secret1").await.expect(200);
}

#[tokio::test]
async fn generated_links_confirm_too() {
    let server = server().await;
    let (old, new) = (fresh("old"), fresh("new"));
    let _id = confirmed(&server, &old).await;
    let of = |kind: &str| json!({ "type": kind, "email": old, "new_email": new });
    let changed = generate(&server, &of("email_change_new")).await;
    let current = generate(&server, &of("email_change_current")).await;
    let half = verify_hash(&server, "email_change", text(&changed, "/hashed_token")).await.expect(200).json();
    assert_eq!(half["msg"], HALF);
    let body = verify_hash(&server, "email_change", text(&current, "/hashed_token")).await.expect(200).json();
    assert_eq!(text(&body, "/user/email"), new);
}

#[tokio::test]
async fn pkce_reports_in_query_and_fragment() {
    let server = server().await;
    let (old, new) = (fresh("old"), fresh("new"));
    let _id = confirmed(&server, &old).await;
    let token = text(&session(&server, &old).await, "/access_token").to_owned();
    let body = json!({ "email": new, "code_challenge": CHALLENGE, "code_challenge_method": "s256" });
    let _user = put_user(&server, &token, &body).await.expect(200);
    let first = server.mailbox().wait_for(&old).await.token_hash();
    let there = location(&open(&server, "email_change", &first, "https://a.example.org/x").await);
    assert_eq!(there, format!("https://a.example.org/x?{HALF_AT}#{HALF_AT}&sb="));
    let second = server.mailbox().wait_for(&new).await.token_hash();
    let there = location(&open(&server, "email_change", &second, "https://a.example.org/x").await);
    let body = json!({ "auth_code": pairs(&there, '?')["code"], "code_verifier": VERIFIER });
    let body = post(&server, "/token?grant_type=pkce", &body).await.expect(200).json();
    assert_eq!(text(&body, "/user/email"), new);
    assert_eq!(claims(text(&body, "/access_token"))["amr"][0]["method"], "email_change");
}
