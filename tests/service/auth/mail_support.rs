//! Shared by tests of routes that send mail.

pub(crate) use super::codes::{CHALLENGE, confirmed as member};
use super::*;

/// A server that confirms addresses by mail, without a server-wide limit but with one mail per kind and minute.
pub(crate) fn confirm_by_mail() -> Builder {
    quick().config("auth.mailer_autoconfirm", "false").config("auth.rate_limit_email_sent", "0")
}

/// Such a server, shared by concurrent tests.
pub(crate) async fn confirming() -> Arc<Basalt> {
    static SHARED: Mutex<Weak<Basalt>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(confirm_by_mail().start().await);
    *shared = Arc::downgrade(&server);
    server
}

/// A user's access token.
pub(crate) async fn token_of(server: &Basalt, email: &str) -> String {
    text(&sign_in(server, email, "secret1").await.expect(200).json(), "/access_token").to_owned()
}

/// A request with the service key.
pub(crate) fn as_admin(server: &Basalt, method: Method, path: &str) -> Request {
    client(server, method, path).apikey(server.service_key()).bearer(server.service_key())
}
