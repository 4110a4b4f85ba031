//! Mail, from the request to the mailbox or the SMTP server.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helpers fail it by panicking")]

mod mailbox;
mod smtp;
mod templates;

use basalt_testkit::{Basalt, Builder, Response};
use serde_json::json;

/// A development server whose sign-ups are confirmed by mail.
fn confirming() -> Builder {
    Basalt::builder().config("auth.mailer_autoconfirm", "false").config("mail.max_frequency", "0")
}

/// Signs a user up, which sends a confirmation mail.
async fn sign_up(server: &Basalt, email: &str) -> Response {
    let body = json!({ "email": email, "password": "correct horse 7" });
    server.post("/auth/v1/signup").apikey(server.anon_key()).json(&body).send().await.expect(200)
}

/// Requests a recovery mail.
async fn recover(server: &Basalt, email: &str) -> Response {
    let body = json!({ "email": email });
    server.post("/auth/v1/recover").apikey(server.anon_key()).json(&body).send().await.expect(200)
}
