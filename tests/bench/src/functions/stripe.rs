//! A minimal Stripe for measurements: any subscription, and portal sessions. It keeps connections alive and runs on the load
//! generator's thread, which neither the test kit's stub nor `basalt-stripe-double` does; this crate depends on neither.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use aws_lc_rs::hmac;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{http, token};

const SECRET: &str = "whsec_bWVhc3VyZW1lbnRz";

/// The server.
pub(super) struct Stripe {
    port: u16,
    fetches: Arc<AtomicU64>,
}

impl Stripe {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fetches = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&fetches);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&counted)));
            }
        });
        Ok(Self { port, fetches })
    }

    /// The settings for the server under test.
    pub(super) fn settings(&self) -> [(&'static str, String); 3] {
        [
            ("BASALT_STRIPE_SECRET_KEY", "sk_test_of_the_measurements".to_owned()),
            ("BASALT_STRIPE_WEBHOOK_SECRET", SECRET.to_owned()),
            ("BASALT_STRIPE_API_BASE", format!("http://127.0.0.1:{}", self.port)),
        ]
    }

    /// The number of subscriptions fetched.
    pub(super) fn fetches(&self) -> u64 {
        self.fetches.load(Ordering::Relaxed)
    }
}

/// The subscription of person `number`.
pub(super) fn subscription(number: &str) -> Value {
    let person = token::person_id(number.parse().unwrap_or_default());
    json!({
        "id": format!("sub_{number}"), "object": "subscription", "customer": format!("cus_{number}"), "status": "active",
        "livemode": false, "cancel_at_period_end": false, "cancel_at": null, "metadata": {"user_id": person},
        "items": {"object": "list", "data": [
            {"id": format!("si_{number}"), "price": {"id": "price_basic"}, "current_period_end": 2_000_000_000}
        ]},
    })
}

/// A webhook request, signed now.
pub(super) fn delivery(event: &Value) -> Result<Vec<u8>> {
    let body = serde_json::to_string_pretty(event)?;
    let time = Timestamp::now().as_second();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("{time}.{body}").as_bytes());
    let signature = format!("t={time},v1={}", hex::encode(tag));
    let head = format!(
        "POST /functions/v1/stripe-webhook HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json; charset=utf-8\r\n\
         User-Agent: Stripe/1.0 (+https://stripe.com/docs/webhooks)\r\nStripe-Signature: {signature}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    Ok([head.as_bytes(), body.as_bytes()].concat())
}

/// Responds until the server closes the connection.
async fn serve(mut stream: TcpStream, fetches: Arc<AtomicU64>) {
    let mut bytes = Vec::with_capacity(4096);
    while stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
        while let Some(request) = http::complete_request(&bytes) {
            let object = match request.line.split_once("GET /v1/subscriptions/sub_") {
                Some((_, rest)) => {
                    fetches.fetch_add(1, Ordering::Relaxed);
                    subscription(rest.split(' ').next().unwrap_or_default())
                }
                None => json!({"id": "bps_1", "url": "https://billing.stripe.test/p/session/bps_1"}),
            };
            bytes.drain(..request.end);
            let body = object.to_string();
            let response = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            if stream.write_all(response.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
