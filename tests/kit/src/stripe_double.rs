//! Runs the program `basalt-stripe-double` for a test server.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use http::Method;

use crate::http::Request;
use crate::process;

/// The secret that signs the double's webhooks.
pub(crate) const WEBHOOK_SECRET: &str = "whsec_of_the_double_in_tests";
/// A key that the double accepts.
pub(crate) const KEY: &str = "sk_test_of_the_double";

/// A running double, killed on drop.
#[derive(Debug)]
pub struct StripeDouble {
    port: u16,
    process: Child,
}

impl StripeDouble {
    /// Starts a double on `port` for the server at `server`, with that server's secret key.
    pub(crate) fn start(port: u16, server: &str, server_key: &str) -> Self {
        let program = process::build_dir().join("basalt-stripe-double");
        assert!(
            program.is_file(),
            "{} is missing: run `cargo build -p basalt-stripe-double`",
            program.display()
        );
        let mut process = Command::new(program)
            .env_clear()
            .env("SUPABASE_URL", server)
            .env("SUPABASE_SECRET_KEY", server_key)
            .env("BASALT_STRIPE_WEBHOOK_SECRET", WEBHOOK_SECRET)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--exit-with-stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the double's program runs");
        let mut line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        let _bytes = BufReader::new(output).read_line(&mut line).expect("its output can be read");
        assert!(line.starts_with("test payments"), "the double of Stripe starts");
        Self { port, process }
    }

    /// `http://127.0.0.1:PORT` and `path`.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// A request to its API.
    pub fn api(&self, method: Method, path: &str) -> Request {
        Request::new(method, self.url(&format!("/v1/{path}"))).bearer(KEY)
    }

    /// A request to its control routes.
    pub fn control(&self, method: Method, path: &str) -> Request {
        Request::new(method, self.url(&format!("/_control/{path}")))
    }
}

impl Drop for StripeDouble {
    fn drop(&mut self) {
        let _gone = self.process.kill().and_then(|()| self.process.wait());
    }
}
