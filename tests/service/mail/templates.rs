//! Project templates for e-mails, and errors about broken ones.

use std::fs;
use std::io::ErrorKind;

use basalt_testkit::Basalt;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::mail::{confirming, recover, sign_up};

#[tokio::test]
async fn templates_come_from_text_file_or_url() {
    // Another server serves the template as a file of its app.
    let web = TempDir::new().unwrap();
    fs::write(web.path().join("index.html"), "<title>App</title>").unwrap();
    fs::write(web.path().join("recovery.html"), "<h1>Remote</h1><a href=\"{{ .ConfirmationURL }}\">Go</a>")
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
        .config("auth.rate_limit_email_sent", "0")
        .expect_log("cannot fetch the template")
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

    // Fetched in the background: the first e-mails may use the built-in template.
    let mail = loop {
        let _recovery = recover(&server, "ada@example.org").await;
        let mail = server.mailbox().wait_for("ada@example.org").await;
        assert_eq!(mail.subject, "Reset your password");
        if mail.html.starts_with("<h1>Remote</h1>") {
            break mail;
        }
    };
    assert!(mail.text.starts_with("Remote\n\nGo\nhttp://"), "{}", mail.text);

    // If the template cannot be fetched, the built-in one is used.
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

/// A slow template server must not block requests, or their connections and row locks.
#[tokio::test]
async fn slow_template_server_does_not_block_requests() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/confirmation.html", listener.local_addr().unwrap());
    let server = confirming()
        .config("auth.mailer_templates_confirmation", &url)
        .config("auth.rate_limit_email_sent", "0")
        .expect_log("cannot fetch the template")
        .start()
        .await;

    // The fetch that is pending while users sign up.
    let accepted = async {
        let (mut fetch, _peer) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let _read = fetch.read(&mut head).await.unwrap();
        fetch
    };
    let (fetch, _user) = tokio::join!(accepted, sign_up(&server, "ada@example.org"));
    let _user = sign_up(&server, "eve@example.org").await;
    let mut byte = [0];
    let is_pending = fetch.try_read(&mut byte).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    assert!(is_pending, "sign-ups waited for the template fetch");
    let mail = server.mailbox().wait_for("ada@example.org").await;
    assert!(mail.html.contains("Confirm"), "{}", mail.html);

    // Once fetched, the template is used.
    response(fetch).await;
    let serving = async {
        loop {
            let (fetch, _peer) = listener.accept().await.unwrap();
            response(fetch).await;
        }
    };
    let used = async {
        for user in 0.. {
            let email = format!("user{user}@example.org");
            let _user = sign_up(&server, &email).await;
            if server.mailbox().wait_for(&email).await.html == "<p>Slow</p>" {
                break;
            }
        }
    };
    tokio::select! { () = serving => {}, () = used => {} }
}

/// Serves the template to one request.
async fn response(mut fetch: TcpStream) {
    let body = "<p>Slow</p>";
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    // The client may have timed out; it fetches again.
    let _written = fetch.write_all(response.as_bytes()).await;
}

#[tokio::test]
async fn mailbox_can_have_its_own_port() {
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
fn syntax_error_in_template_fails_at_start() {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    for fault in [
        "auth.mailer_templates_invite is not a template: line 2: {{ if }} without {{ end }}",
        "auth.mailer_templates_recovery names",
        "auth.mailer_subjects_recovery is not a template: line 1: {{ without }}",
        "auth.mailer_templates_magic_link is not a template: line 1: values inside <script> are not supported",
    ] {
        assert!(stderr.contains(fault), "{fault} in {stderr}");
    }
}
