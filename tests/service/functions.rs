//! `/functions/v1` over HTTP, against functions.md: the registry and its gate, secrets, mail, and payments.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers fail a test by panicking")]

mod callers;
mod database_calls;
mod examples;
mod isolation;
mod mail;
mod modules;
mod payments;
mod plan_mails;
mod routing;
mod secrets;
mod stripe_stub;
mod stripe_sync;
mod stripe_webhook;
mod subscription_life;
mod typescript;
mod worker_faults;

use basalt_testkit::{Basalt, Builder, Request, Response, User};
use serde_json::{Value, json};

/// A server with the app's tables and its functions.
fn app() -> Builder {
    Basalt::builder().app()
}

/// A call of a built-in function without an API key, as the app sends it.
fn call(server: &Basalt, name: &str, user: Option<&User>, body: &Value) -> Request {
    let request = server.post(&format!("/functions/v1/{name}")).json(body);
    match user {
        Some(user) => request.bearer(&user.access_token),
        None => request,
    }
}

/// Signs up an administrator.
async fn sign_up_admin(server: &Basalt, email: &str) -> User {
    let user = server.sign_up(email).await;
    server
        .sql(&format!("insert into public.user_roles (user_id, role) values ('{}', 'admin')", user.id))
        .await;
    user
}

/// Status and body.
fn shown(response: &Response) -> (u16, Value) {
    (response.status.as_u16(), response.json())
}

/// The error body of a built-in function.
fn failure(message: &str) -> Value {
    json!({ "error": message })
}
