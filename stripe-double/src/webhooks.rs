//! Webhooks: signed, delivered to one endpoint, in random order by default, and on request late, repeated, dropped or with a bad signature.

use std::collections::VecDeque;
use std::time::Duration;

use aws_lc_rs::hmac;
use basalt_core::convert::saturating;
use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::log::Log;
use crate::state::CAPACITY;
use crate::{Double, Inner};

/// Timeout of a delivery.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Delays between attempts; Stripe's are hours.
const PAUSES: [Duration; 7] = {
    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
    [seconds(1), seconds(2), seconds(4), seconds(8), seconds(16), seconds(30), seconds(60)]
};

/// The order of deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// In random order, a few at a time.
    #[default]
    Shuffled,
    /// One at a time, in the order of events.
    Ordered,
    /// Up to 64 concurrently.
    Concurrent,
    /// Only when a control route requests them.
    Held,
}

/// Settings of deliveries, changed by a control route.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Delivery {
    pub(crate) mode: Mode,
    /// How often each event is delivered.
    pub(crate) copies: usize,
    pub(crate) delay_ms: u64,
    /// Number of next deliveries to drop, without a retry.
    pub(crate) drop_next: usize,
    /// Number of next deliveries with a wrong signature.
    pub(crate) bad_signature_next: usize,
    /// Offset of the signature's `t` in seconds.
    pub(crate) timestamp_offset: i64,
    /// Secrets to sign with instead of the configured one; several while a secret is being rolled.
    pub(crate) secrets: Vec<String>,
    /// Whether to retry a failed delivery.
    pub(crate) retries: bool,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            copies: 1,
            delay_ms: 0,
            drop_next: 0,
            bad_signature_next: 0,
            timestamp_offset: 0,
            secrets: Vec::new(),
            retries: true,
        }
    }
}

/// Waiting and finished deliveries.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) settings: Delivery,
    queue: VecDeque<Due>,
    pub(crate) log: Log<DeliveryRecord>,
}

#[derive(Debug, Clone)]
struct Due {
    event: String,
    at: Instant,
    attempt: usize,
    /// Delivered even if deliveries are held.
    is_asked_for: bool,
}

/// A finished delivery with its response.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DeliveryRecord {
    event: String,
    #[serde(rename = "type")]
    kind: String,
    attempt: usize,
    status: Option<u16>,
    /// The start of the response, or why there is none.
    answer: String,
    duration_ms: u64,
}

impl Outgoing {
    /// Queues an event that has just happened.
    pub(crate) fn enqueue(&mut self, event: &str) {
        let at = Instant::now() + Duration::from_millis(self.settings.delay_ms.min(600_000));
        for _ in 0..self.settings.copies.clamp(1, 100) {
            self.push(Due { event: event.to_owned(), at, attempt: 1, is_asked_for: false });
        }
    }

    /// Queues an event requested by a control route.
    pub(crate) fn enqueue_requested(&mut self, event: String) {
        self.queue.retain(|due| due.event != event);
        self.push(Due { event, at: Instant::now(), attempt: 1, is_asked_for: true });
    }

    /// A full queue drops its oldest delivery; tests can see that in `pending`.
    fn push(&mut self, due: Due) {
        if self.queue.len() >= CAPACITY {
            self.queue.pop_front();
        }
        self.queue.push_back(due);
    }

    /// Number of waiting deliveries.
    pub(crate) fn pending(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes due deliveries; if there are none, returns the time of the next one.
    fn take_due(&mut self, now: Instant) -> (Vec<Due>, Option<Instant>) {
        let is_held = self.settings.mode == Mode::Held;
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        self.queue.retain(|delivery| {
            if is_held && !delivery.is_asked_for {
                return true;
            }
            if delivery.at <= now {
                due.push(delivery.clone());
                return false;
            }
            next = Some(next.map_or(delivery.at, |at| at.min(delivery.at)));
            true
        });
        (due, next)
    }
}

/// Delivers until `shutdown`. A slow delivery delays others only in [`Mode`]s that send one at a time.
pub(crate) async fn deliver(double: &Double, shutdown: &CancellationToken) {
    let Some(endpoint) = double.0.config.endpoint.clone() else { return };
    let mut ready = VecDeque::new();
    let mut under_way = FuturesUnordered::new();
    while !shutdown.is_cancelled() {
        let woken = double.0.wake.notified();
        let (due, next, mode) = {
            let mut inner = double.lock();
            // Deliveries waiting here no longer count towards the queue's limit.
            let (due, next) =
                if ready.is_empty() { inner.outgoing.take_due(Instant::now()) } else { (Vec::new(), None) };
            (due, next, inner.outgoing.settings.mode)
        };
        ready.extend(due);
        let at_once = match mode {
            Mode::Ordered | Mode::Held => 1,
            Mode::Shuffled => 8,
            Mode::Concurrent => 64,
        };
        if mode == Mode::Shuffled {
            shuffle(ready.make_contiguous());
        }
        while under_way.len() < at_once
            && let Some(delivery) = ready.pop_front()
        {
            under_way.push(send(double, &endpoint, delivery));
        }
        let next = next.unwrap_or_else(|| Instant::now() + Duration::from_secs(60));
        let something_new = async {
            tokio::select! {
                Some(()) = under_way.next() => {}
                () = woken => {}
                () = tokio::time::sleep_until(next) => {}
            }
        };
        // Unfinished deliveries are lost: the state file does not store them, because receivers fetch missed events anyway.
        let _or_shutdown = shutdown.run_until_cancelled(something_new).await;
    }
}

fn shuffle<T>(items: &mut [T]) {
    for place in (1..items.len()).rev() {
        let random = u64::from_ne_bytes(basalt_core::random::bytes());
        let other = usize::try_from(random % (place as u64 + 1)).unwrap_or(place);
        items.swap(place, other);
    }
}

/// Sends one delivery, records it and schedules a retry.
async fn send(double: &Double, endpoint: &Url, due: Due) {
    let Some((kind, body, signature)) = prepare(&mut double.lock(), double, &due.event) else { return };
    let start = Instant::now();
    let sent = match signature {
        None => Ok((None, "dropped on request".to_owned())),
        Some(signature) => match tokio::time::timeout(TIMEOUT, post(endpoint, body, signature)).await {
            Ok(answer) => answer.map(|(status, text)| (Some(status), text)),
            Err(_late) => Err("no response in time".to_owned()),
        },
    };
    let duration_ms = saturating::<u64>(start.elapsed().as_millis());
    let (status, answer) = sent.unwrap_or_else(|error| (Some(0), error));
    let is_done = status.is_none_or(|status| (200..300).contains(&status));
    let mut inner = double.lock();
    inner.outgoing.log.push(DeliveryRecord {
        event: due.event.clone(),
        kind,
        attempt: due.attempt,
        status: status.filter(|status| *status != 0),
        answer,
        duration_ms,
    });
    if is_done {
        if status.is_some()
            && let Some(event) = inner.state.events.get_mut(&due.event)
        {
            event.delivered = true;
        }
    } else if inner.outgoing.settings.retries
        && let Some(pause) = PAUSES.get(due.attempt - 1)
    {
        inner.outgoing.push(Due { at: Instant::now() + *pause, attempt: due.attempt + 1, ..due });
    }
    drop(inner);
    double.0.delivered.send_modify(|count| *count += 1);
}

/// The event's type, body and signature. Without a signature, the delivery is dropped on purpose.
fn prepare(inner: &mut Inner, double: &Double, id: &str) -> Option<(String, Bytes, Option<String>)> {
    let event = inner.state.events.get(id)?;
    let body = Bytes::from(serde_json::to_vec_pretty(&event.body).ok()?);
    let kind = event.kind.clone();
    let settings = &mut inner.outgoing.settings;
    if settings.drop_next > 0 {
        settings.drop_next -= 1;
        return Some((kind, body, None));
    }
    // Receivers compare with their own clock, so use the machine's time instead of the double's.
    let time = double.0.clock.unix_seconds().saturating_add(settings.timestamp_offset);
    let mut signature = if settings.secrets.is_empty() {
        sign(&[double.0.config.webhook_secret.expose_secret()], time, &body)
    } else {
        let secrets: Vec<&str> = settings.secrets.iter().map(String::as_str).collect();
        sign(&secrets, time, &body)
    };
    if settings.bad_signature_next > 0 {
        settings.bad_signature_next -= 1;
        signature = sign(&["whsec_of_another_endpoint"], time, &body);
    }
    Some((kind, body, Some(signature)))
}

/// `t=…,v1=…[,v1=…],v0=…`, with one `v1` per secret.
fn sign(secrets: &[&str], time: i64, body: &[u8]) -> String {
    let tag = |secret: &str| {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        context.update(format!("{time}.").as_bytes());
        context.update(body);
        hex::encode(context.sign())
    };
    let mut header = format!("t={time}");
    for secret in secrets {
        header.push_str(",v1=");
        header.push_str(&tag(secret));
    }
    // The additional scheme of test mode, which receivers must ignore.
    header.push_str(",v0=");
    header.push_str(&tag("v0"));
    header
}

async fn post(endpoint: &Url, body: Bytes, signature: String) -> Result<(u16, String), String> {
    let host = endpoint.host_str().unwrap_or_default();
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let port = endpoint.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect((name, port)).await.map_err(|error| error.to_string())?;
    let (mut sender, driver) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let authority = &endpoint[url::Position::BeforeHost..url::Position::AfterPort];
    let request = Request::builder()
        .method(Method::POST)
        .uri(&endpoint[url::Position::BeforePath..url::Position::AfterQuery])
        .header(HOST, authority)
        .header(USER_AGENT, "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"))
        .header("accept", "*/*; q=0.5, application/xml")
        .header("stripe-signature", signature)
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status().as_u16();
        let text =
            Limited::new(answer.into_body(), 65_536).collect().await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&text.to_bytes()).chars().take(500).collect();
        Ok((status, text))
    };
    // Drives the connection while waiting for the response.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        driven = driver => match driven {
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Waits at most `limit` until the endpoint has accepted `event`. Returns at once if there is no endpoint.
pub(crate) async fn wait_until_delivered(double: &Double, event: &str, limit: Duration) {
    if double.0.config.endpoint.is_none() {
        return;
    }
    let mut delivered = double.0.delivered.subscribe();
    let waiting = async {
        loop {
            let is_delivered = {
                let inner = double.lock();
                inner.state.events.get(event).is_none_or(|event| event.delivered)
            };
            if is_delivered || delivered.changed().await.is_err() {
                return;
            }
        }
    };
    let _in_time_or_not = tokio::time::timeout(limit, waiting).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_openssl() {
        // Computed with: printf '1700000000.{}' | openssl dgst -sha256 -hmac whsec_test
        let header = sign(&["whsec_test", "whsec_new"], 1_700_000_000, b"{}");
        let parts: Vec<&str> = header.split(',').collect();
        assert_eq!(parts.len(), 4);
        assert_eq!(parts[0], "t=1700000000");
        assert_eq!(parts[1], "v1=35495024f4ef3f94e5a93e22221544c4b75e9a42300cd965ab81cb85cd994e91");
        assert!(parts[2].starts_with("v1=") && parts[3].starts_with("v0="));
    }

    #[test]
    fn held_events_are_sent_in_requested_order() {
        let mut outgoing = Outgoing::default();
        outgoing.settings.mode = Mode::Held;
        for event in ["a", "b", "c"] {
            outgoing.enqueue(event);
        }
        assert!(outgoing.take_due(Instant::now()).0.is_empty());
        outgoing.enqueue_requested("c".to_owned());
        outgoing.enqueue_requested("a".to_owned());
        let events: Vec<String> =
            outgoing.take_due(Instant::now()).0.into_iter().map(|due| due.event).collect();
        assert_eq!(events, ["c", "a"]);
        assert_eq!(outgoing.pending(), 1);
    }

    #[test]
    fn shuffling_keeps_all_items() {
        let mut items: Vec<usize> = (0..50).collect();
        shuffle(&mut items);
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
