//! The TypeScript functions of docs/examples, and `basalt functions`.

use std::process::Output;
use std::time::Duration;

use basalt_testkit::{Basalt, HttpStub, Reply};
use serde_json::{Value, json};

use super::typescript::Project;
use super::{app, call, failure, shown, sign_up_admin};

fn run(server: &Basalt, arguments: &[&str]) -> Output {
    server.same_settings().args(arguments).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn example_replaces_the_built_in_function() {
    let resend = HttpStub::start(|request| {
        let to = request.json()["to"][0].clone();
        if to == "blocked@example.org" {
            return Reply::Respond(422, json!({"message": "This address is blocked"}).to_string());
        }
        assert_eq!(request.header("authorization"), "Bearer re_example");
        Reply::Respond(200, json!({"id": "mail-1"}).to_string())
    })
    .await;
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/functions");
    let server = app().config("functions.dir", examples).expect_log("Resend refused the mail").start().await;
    let address = format!("RESEND_API_URL={}", resend.url());
    let output = run(&server, &["secrets", "set", "RESEND_API_KEY=re_example", &address]);
    assert!(output.status.success(), "{output:?}");
    let admin = sign_up_admin(&server, "admin@example.org").await;
    let user = server.sign_up("user@example.org").await;
    let mail = |to: &str| json!({"to": to, "subject": "Hello", "message": "a < b"});
    let send = |user, body: Value| {
        let request = call(&server, "test-email", user, &body);
        async move { shown(&request.send().await) }
    };
    assert_eq!(send(Some(&user), mail("ada@example.org")).await, (403, failure("Administrators only")));
    assert_eq!(
        send(Some(&admin), json!({"to": "nobody"})).await,
        (400, failure("Must be a valid email address"))
    );
    // The secrets are new to the server: it gives them to a new worker.
    let sent = call(&server, "test-email", Some(&admin), &mail("ada@example.org"));
    let sent = server.until(Duration::from_secs(10), &sent, |response| response.status == 200).await;
    assert_eq!(shown(&sent), (200, json!({"success": true, "message": "Test email sent", "id": "mail-1"})));
    assert_eq!(
        send(Some(&admin), mail("blocked@example.org")).await,
        (502, failure("This address is blocked"))
    );
}

#[tokio::test]
async fn commands_create_list_call_and_show_logs() {
    let project = Project::new(&[]);
    let server = project.server().start().await;
    let created = run(&server, &["functions", "new", "greet"]);
    assert!(printed(&created).contains("functions/greet/index.ts"), "{created:?}");
    let again = run(&server, &["functions", "new", "greet"]);
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("exists already"));
    let wrong = run(&server, &["functions", "new", "../up"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("is not a name for a function"), "{wrong:?}");
    let listed = printed(&run(&server, &["functions", "list"]));
    assert!(listed.lines().any(|line| line.starts_with("greet") && line.contains("ready")), "{listed}");
    // The server has found it, too.
    let greet = server.post("/functions/v1/greet").bearer(server.anon_key());
    server.until(Duration::from_secs(10), &greet, |response| response.status == 200).await;
    let token = format!("Authorization: Bearer {}", server.anon_key());
    let invoked =
        run(&server, &["functions", "invoke", "greet", "-H", &token, "--body", r#"{"name": "Ada"}"#]);
    assert!(invoked.status.success(), "{invoked:?}");
    assert_eq!(printed(&invoked), r#"{"message":"Hello Ada!"}"#);
    let missing = run(&server, &["functions", "invoke", "nothing"]);
    assert!(!missing.status.success() && printed(&missing).contains("NOT_FOUND"), "{missing:?}");
    project.write(
        "functions/greet/index.ts",
        "Deno.serve(() => { console.log('for the log'); return new Response('new') })",
    );
    server.until(Duration::from_secs(10), &greet, |response| response.text() == "new").await;
    server.wait_for_log("for the log").await;
    let logs = printed(&run(&server, &["functions", "logs", "greet"]));
    assert!(logs.contains("for the log"), "{logs}");
    assert_eq!(printed(&run(&server, &["functions", "logs", "other"])), "");
    project.write("functions/broken/index.ts", "import './nothing.ts'");
    let cached = run(&server, &["functions", "cache"]);
    let problem = String::from_utf8_lossy(&cached.stderr).into_owned();
    assert!(!cached.status.success() && problem.contains("nothing.ts"), "{problem}");
    assert!(printed(&cached).contains("greet: its modules are in the cache"), "{cached:?}");
    let report = printed(&run(&server, &["doctor"]));
    let line = report.lines().find(|line| line.contains("functions/broken/index.ts"));
    assert!(line.is_some_and(|line| line.starts_with("warn") && line.contains("nothing.ts")), "{report}");
}
