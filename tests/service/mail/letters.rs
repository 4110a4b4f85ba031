//! Letters with templates of the project's own, and what a configuration with a broken one is told.

use std::fs;

use basalt_testkit::Basalt;
use tempfile::TempDir;

use crate::mail::{confirming, recover, sign_up};

#[tokio::test]
async fn templates_are_text_a_file_or_fetched_from_a_url() {
    // Another server gives the template out, as a file of its app.
    let web = TempDir::new().unwrap();
    fs::write(web.path().join("index.html"), "<title>App</title>").unwrap();
    fs::write(
        web.path().join("recovery.html"),
        "<h1>From afar</h1><a href=\"{{ .ConfirmationURL }}\">Go</a>",
    )
    .unwrap();
    let files = Basalt::builder().config("server.app_dir", &web.path().display().to_string()).start().await;

    let project = TempDir::new().unwrap();
    fs::write(
        project.path().join("confirm.html"),
        "<p>{{ .Data.name }}: {{ .Token }}</p>{{ .ConfirmationURL }}",
    )
    .unwrap();
    let server = confirming()
        .project(project.path())
        .config("auth.mailer_templates_confirmation", "confirm.html")
        .config("auth.mailer_subjects_confirmation", "Please confirm, {{ .Email }}")
        .config("auth.mailer_url_paths_confirmation", "https://app.example.org/confirm")
        .config("auth.mailer_templates_recovery", &files.url("/recovery.html"))
        .config("auth.mailer_templates_magic_link", &files.url("/assets/missing.html"))
        .expect_log("a template cannot be had")
        .start()
        .await;
    let _user = sign_up(&server, "ada@example.org").await;
    let mail = server.mailbox().wait_for("ada@example.org").await;
    assert_eq!(mail.subject, "Please confirm, ada@example.org");
    assert!(
        mail.html.starts_with(&format!("<p>: {}</p>https://app.example.org/confirm?token=", mail.code())),
        "{}",
        mail.html
    );

    let _recovery = recover(&server, "ada@example.org").await;
    let mail = server.mailbox().wait_for("ada@example.org").await;
    assert_eq!(mail.subject, "Reset your password");
    assert!(mail.html.starts_with("<h1>From afar</h1>"), "{}", mail.html);
    assert!(mail.text.starts_with("From afar\n\nGo\nhttp://"), "{}", mail.text);

    // What cannot be fetched costs the letter its looks only.
    let admin = serde_json::json!({ "email": "eve@example.org", "email_confirm": true });
    let admin = server
        .post("/auth/v1/admin/users")
        .apikey(server.secret_key())
        .bearer(server.secret_key())
        .json(&admin);
    let _created = admin.send().await.expect(200);
    let otp = serde_json::json!({ "email": "eve@example.org" });
    let _sent = server.post("/auth/v1/otp").apikey(server.anon_key()).json(&otp).send().await.expect(200);
    let mail = server.mailbox().wait_for("eve@example.org").await;
    assert!(mail.html.contains("Sign in") && mail.subject == "Your sign-in link");
}

#[tokio::test]
async fn the_mailbox_has_a_port_of_its_own_when_asked() {
    let port = basalt_testkit::free_port();
    let server = confirming().config("mail.mailbox_port", &port.to_string()).start().await;
    let _user = sign_up(&server, "ada@example.org").await;
    let get = |path: &str| {
        basalt_testkit::Request::new(http::Method::GET, format!("http://127.0.0.1:{port}{path}")).send()
    };
    let found = get("/api/v1/search?query=to:ada@example.org").await.expect(200).json();
    assert_eq!(found["messages_count"], 1);
    let page = get("/").await.expect(200).text();
    assert!(page.contains("href=\"/style.css\"") && page.contains("ada@example.org"), "{page}");
    assert_eq!(get("/style.css").await.status, 200);
    assert_eq!(get("/auth/v1/health").await.status, 404);
}

#[test]
fn a_broken_template_stops_the_start_with_its_line() {
    let project = TempDir::new().unwrap();
    fs::write(project.path().join("bad.html"), "<p>\n{{ if .Token }}</p>").unwrap();
    let output = Basalt::command(project.path())
        .args(["config"])
        .env("BASALT_AUTH_MAILER_TEMPLATES_INVITE", "bad.html")
        .env("BASALT_AUTH_MAILER_TEMPLATES_RECOVERY", "missing.html")
        .env("BASALT_AUTH_MAILER_SUBJECTS_RECOVERY", "{{ .Token")
        .env("BASALT_AUTH_MAILER_TEMPLATES_MAGIC_LINK", "<script>{{ .Token }}</script>")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    for fault in [
        "auth.mailer_templates_invite is no template: line 2: {{ if }} without {{ end }}",
        "auth.mailer_templates_recovery names",
        "auth.mailer_subjects_recovery is no template: line 1: {{ without }}",
        "auth.mailer_templates_magic_link is no template: line 1: values inside <script> are not supported",
    ] {
        assert!(said.contains(fault), "{fault} in {said}");
    }
}
