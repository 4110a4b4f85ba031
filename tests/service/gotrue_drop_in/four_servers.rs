//! The four servers of the table in auth.md §8 B, started concurrently on an empty database.

use basalt_core::keys::generate;
use basalt_testkit::{Response, TestDatabase};
use http::Method;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::gotrue_drop_in::server::Server;

const S: &str = "37c304f8-51aa-419a-a1af-06154e63707a";
const T: &str = "Z7-AyPyChGNcQsX16cPBV-pPBo4q-zckDxkq1VZjATo";

struct Four {
    confirming: Server,
    symmetric: Server,
    closed: Server,
    asymmetric: Server,
    database: TestDatabase,
}

/// The public part of a key.
fn verify_only(key: &Value) -> Value {
    let mut key = key.clone();
    let members = key.as_object_mut().unwrap();
    if members.get("kty") == Some(&json!("RSA")) {
        members.retain(|name, _| ["kty", "n", "e", "kid", "alg"].contains(&name.as_str()));
    }
    members.insert("key_ops".to_owned(), json!(["verify"]));
    key
}

async fn start() -> Four {
    let database = TestDatabase::create().await;
    let url = format!("{}?sslmode=disable&search_path=auth", database.url());
    let (oct, rsa) = (generate("HS256").unwrap(), generate("RS256").unwrap());
    let symmetric_keys = json!([oct, verify_only(&rsa)]).to_string();
    let asymmetric_keys = json!([rsa, verify_only(&oct)]).to_string();
    let common = [
        ("GOTRUE_DB_DRIVER", "postgres"),
        ("GOTRUE_DB_DATABASE_URL", url.as_str()),
        ("GOTRUE_SITE_URL", "http://localhost:9999"),
        ("GOTRUE_API_HOST", "127.0.0.1"),
        ("GOTRUE_LOG_LEVEL", "info"),
        ("GOTRUE_JWT_EXP", "3600"),
        ("GOTRUE_MFA_WEB_AUTHN_ENROLL_ENABLED", "true"),
        ("GOTRUE_MFA_WEB_AUTHN_VERIFY_ENABLED", "true"),
        ("GOTRUE_SECURITY_REFRESH_TOKEN_ROTATION_ENABLED", "true"),
        ("GOTRUE_RATE_LIMIT_EMAIL_SENT", "1000/1h"),
        ("GOTRUE_RATE_LIMIT_OTP", "1000.0"),
    ];
    let launch = |own: &[(&str, &str)]| Server::launch(&[&common[..], own].concat());
    // Start concurrently, so that their migrations race.
    let confirming = launch(&[
        ("GOTRUE_JWT_SECRET", S),
        ("GOTRUE_EXTERNAL_PHONE_ENABLED", "true"),
        ("GOTRUE_SMS_PROVIDER", "twilio"),
        ("GOTRUE_EXTERNAL_GOOGLE_ENABLED", "true"),
        ("GOTRUE_URI_ALLOW_LIST", "https://supabase.io/docs"),
        ("GOTRUE_MAILER_SUBJECTS_CONFIRMATION", "Please confirm"),
    ]);
    let symmetric = launch(&[
        ("GOTRUE_JWT_SECRET", T),
        ("GOTRUE_JWT_KEYS", &symmetric_keys),
        ("GOTRUE_MAILER_AUTOCONFIRM", "true"),
        ("GOTRUE_SMS_AUTOCONFIRM", "true"),
        ("GOTRUE_EXTERNAL_ANONYMOUS_USERS_ENABLED", "true"),
    ]);
    let closed = launch(&[
        ("GOTRUE_JWT_SECRET", S),
        ("GOTRUE_DISABLE_SIGNUP", "true"),
        ("GOTRUE_EXTERNAL_EMAIL_ENABLED", "false"),
        ("GOTRUE_EXTERNAL_PHONE_ENABLED", "false"),
    ]);
    let asymmetric = launch(&[
        ("GOTRUE_JWT_SECRET", T),
        ("GOTRUE_JWT_KEYS", &asymmetric_keys),
        ("GOTRUE_MAILER_AUTOCONFIRM", "true"),
        ("GOTRUE_SMS_AUTOCONFIRM", "true"),
    ]);
    Four {
        confirming: confirming.ready().await,
        symmetric: symmetric.ready().await,
        closed: closed.ready().await,
        asymmetric: asymmetric.ready().await,
        database,
    }
}

/// A token without `exp`, as the upstream suites use.
fn service_token(secret: &str) -> String {
    let claims = json!({ "role": "service_role", "iat": 1_700_000_000 });
    encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(secret.as_bytes())).unwrap()
}

#[track_caller]
fn assert_error(response: &Response, status: u16, code: &str) {
    assert_eq!(response.status.as_u16(), status, "{}", response.text());
    assert_eq!(response.json()["code"], code);
}

fn part(token: &str, index: usize) -> Value {
    use base64::Engine;
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    serde_json::from_slice(&engine.decode(token.split('.').nth(index).unwrap()).unwrap()).unwrap()
}

fn access_token(response: Response) -> String {
    response.expect(200).json()["access_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
#[ignore = "cargo xtask nightly: four servers"]
async fn four_servers_on_one_database_follow_their_variables() {
    let Four { confirming, symmetric, closed, asymmetric, database } = start().await;
    let account = |name: &str| json!({ "email": format!("{name}@example.org"), "password": "password" });

    // 9999: requires confirmation by mail.
    let user = confirming.post("/signup", &account("ada")).await.expect(200).json();
    assert!(user["id"].is_string() && user["access_token"].is_null(), "{user}");
    assert!(user["confirmation_sent_at"].is_string() && user["email_confirmed_at"].is_null(), "{user}");
    let refused = confirming.post("/token?grant_type=password", &account("ada")).await;
    assert_error(&refused, 400, "email_not_confirmed");
    let sent = database.admin_sql("select kind from basalt.mail_outbox").await;
    assert_eq!(sent.len(), 1, "{sent:?}");

    // 9998 and 9996: autoconfirm; each signs with its own key and accepts the other's tokens.
    let by_oct = access_token(symmetric.post("/signup", &account("bob")).await);
    let by_rsa = access_token(asymmetric.post("/signup", &account("eve")).await);
    assert_eq!(part(&by_oct, 0)["alg"], "HS256");
    assert_eq!(part(&by_rsa, 0)["alg"], "RS256");
    let claims = part(&by_rsa, 1);
    assert_eq!((&claims["aud"], &claims["role"]), (&json!(""), &json!("authenticated")));
    for (token, email) in [(&by_oct, "bob@example.org"), (&by_rsa, "eve@example.org")] {
        for server in [&symmetric, &asymmetric] {
            let user = server.get("/user", token).await.expect(200).json();
            assert_eq!(user["email"], email);
            assert_eq!(user["aud"], "");
        }
        assert_error(&confirming.get("/user", token).await, 403, "bad_jwt");
    }
    let anonymous = symmetric.post("/signup", &json!({})).await.expect(200).json();
    assert_eq!(anonymous["user"]["is_anonymous"], true);
    assert_error(&asymmetric.post("/signup", &json!({})).await, 422, "anonymous_provider_disabled");
    let jwks = asymmetric.request(Method::GET, "/.well-known/jwks.json").send().await.expect(200).json();
    let kinds: Vec<&Value> = jwks["keys"].as_array().unwrap().iter().map(|key| &key["kty"]).collect();
    assert_eq!(kinds, ["RSA"]);
    assert_eq!(jwks["keys"][0]["kid"], part(&by_rsa, 0)["kid"]);

    // 9997: sign-up is disabled, admins work; all four share the accounts.
    assert_error(&closed.post("/signup", &account("joe")).await, 422, "signup_disabled");
    assert_error(
        &closed.post("/token?grant_type=password", &account("bob")).await,
        422,
        "email_provider_disabled",
    );
    let service = service_token(S);
    for server in [&closed, &confirming] {
        let listed = server.get("/admin/users", &service).await.expect(200).json();
        assert_eq!(listed["users"].as_array().unwrap().len(), 4, "{listed}");
    }
    assert_error(&symmetric.get("/admin/users", &service).await, 403, "bad_jwt");
    symmetric.get("/admin/users", &service_token(T)).await.expect(200);
    let made = closed.request(Method::POST, "/admin/users").bearer(&service).json(&account("joe"));
    let made = made.send().await.expect(200).json();
    assert_eq!(made["role"], "authenticated");

    let settings =
        async |server: &Server| server.request(Method::GET, "/settings").send().await.expect(200).json();
    let settings: Vec<Value> = [
        settings(&confirming).await,
        settings(&symmetric).await,
        settings(&closed).await,
        settings(&asymmetric).await,
    ]
    .iter()
    .map(|settings| {
        json!([
            settings["disable_signup"],
            settings["mailer_autoconfirm"],
            settings["external"]["email"],
            settings["external"]["phone"],
            settings["external"]["anonymous_users"]
        ])
    })
    .collect();
    assert_eq!(
        settings,
        [
            json!([false, false, true, true, false]),
            json!([false, true, true, false, true]),
            json!([true, false, false, false, false]),
            json!([false, true, true, false, false]),
        ]
    );

    // No server enforces its secrets on the others or changes their passwords.
    let kept = database.admin_sql("select fingerprint from basalt.instance").await;
    assert_eq!(kept, [[None]]);
    assert!(!confirming.log().contains("not available yet"), "{}", confirming.log());
    for server in [&confirming, &symmetric, &closed, &asymmetric] {
        assert!(!server.log().contains("ERROR"), "{}", server.log());
    }
}
