//! Lifecycle of one connection. Its task reads messages, passes them to [`Channels`], and writes what its
//! queue holds, until the connection ends with a reason and a close code.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

use crate::Realtime;
use crate::channels::{Channels, Peer, Verdict};
use crate::metered::Metered;
use crate::metrics::{self, Counted};
use crate::queue::{Item, Queue};

/// Largest frame a client may send (realtime.md 3.14).
const MAX_FRAME_BYTES: usize = 5_000_000;
/// Small, because every one of thousands of sockets has two.
const BUFFER_BYTES: usize = 4 * 1024;
/// A socket is closed after this time without a message; clients send a heartbeat every 25 s.
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// A socket without a channel is closed after this time.
const NO_CHANNEL_LIMIT: Duration = Duration::from_secs(600);
/// Time a client has to accept a batch of frames.
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// Time limit of the closing handshake.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// On shutdown, closing is spread over this much time per socket, so that clients do not reconnect all at
/// once.
const SPREAD_EACH: Duration = Duration::from_micros(200);
const MAX_SPREAD: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// Why a socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client disconnected or is unreachable.
    Gone,
    Restart,
    Idle,
    WithoutChannel,
    TooManyJoins,
    /// The outgoing queue overflowed.
    Overflow,
    FrameTooLarge,
    /// The client violated the WebSocket protocol.
    Protocol,
    /// The server-wide budget for incomplete messages is exhausted.
    Busy,
}

impl End {
    /// Label for metrics, and the close code; no code if the connection is dropped without one.
    const fn reason_and_code(self) -> (&'static str, Option<CloseCode>) {
        match self {
            Self::Gone => ("client", None),
            Self::Restart => ("restart", Some(CloseCode::Restart)),
            Self::Idle => ("idle", Some(CloseCode::Normal)),
            Self::WithoutChannel => ("no_channel", Some(CloseCode::Normal)),
            Self::TooManyJoins => ("joins", Some(CloseCode::Away)),
            Self::Overflow => ("overflow", Some(CloseCode::Again)),
            Self::FrameTooLarge => ("frame_size", Some(CloseCode::Size)),
            Self::Protocol => ("protocol", Some(CloseCode::Protocol)),
            Self::Busy => ("busy", Some(CloseCode::Again)),
        }
    }

    fn from_error(error: &Error) -> Self {
        match error {
            Error::Capacity(_) => Self::FrameTooLarge,
            Error::Protocol(_) | Error::Utf8(_) => Self::Protocol,
            Error::Io(error) if error.kind() == std::io::ErrorKind::OutOfMemory => Self::Busy,
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Io(_)
            | Error::Tls(_)
            | Error::WriteBufferFull(_)
            | Error::AttackAttempt
            | Error::Url(_)
            | Error::Http(_)
            | Error::HttpFormat(_) => Self::Gone,
        }
    }
}

/// Serves a socket until it ends.
pub(crate) async fn run(realtime: Arc<Realtime>, upgraded: Upgraded, peer: Peer) {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(MAX_FRAME_BYTES))
        .max_frame_size(Some(MAX_FRAME_BYTES));
    let stream = Metered::new(TokioIo::new(upgraded), realtime.receiving.clone());
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let count = realtime.sockets.enter();
    let _shown = Counted::one(&SOCKETS);
    let queue = Arc::new(Queue::default());
    let draining = peer.draining.clone();
    let mut channels = Channels::new(realtime, Arc::clone(&queue), peer);
    let end = serve_messages(&mut socket, &mut channels, &queue, &draining).await;
    if end == End::Restart {
        let all = SPREAD_EACH.saturating_mul(count.others()).min(MAX_SPREAD);
        tokio::time::sleep(all.mul_f64(random_fraction())).await;
    }
    drop(channels);
    queue.close();
    let (reason, code) = end.reason_and_code();
    metrics::count_closed(reason);
    let closing = async {
        match code {
            Some(code) => close_gracefully(&mut socket, code).await,
            // Reading on sends the reply to the client's close frame.
            None => while let Some(Ok(_)) = socket.next().await {},
        }
    };
    let _in_time = timeout(CLOSE_LIMIT, closing).await;
}

static SOCKETS: metrics::GaugeHandle = metrics::sockets;

/// A random fraction between 0 and 1.
fn random_fraction() -> f64 {
    f64::from(u16::from_be_bytes(basalt_core::random::bytes())) / f64::from(u16::MAX)
}

async fn serve_messages(
    socket: &mut Socket,
    channels: &mut Channels,
    queue: &Queue,
    draining: &CancellationToken,
) -> End {
    let mut received_at = Instant::now();
    let mut timer = pin!(sleep_until(received_at + IDLE_LIMIT));
    loop {
        if let Err(end) = write_out(socket, channels, queue).await {
            return end;
        }
        let deadline = next_deadline(channels, received_at);
        // Only ever moved earlier: resetting the timer on every message would be wasted work, and a stale
        // one is rearmed when it fires.
        if deadline < timer.deadline() {
            timer.as_mut().reset(deadline);
        }
        tokio::select! {
            received = socket.next() => match received {
                Some(Ok(Message::Close(_))) | None => return End::Gone,
                Some(Ok(message)) => {
                    socket.get_mut().message_done();
                    received_at = Instant::now();
                    if channels.receive(&message) == Verdict::TooManyJoins {
                        let _gone = write_out(socket, channels, queue).await;
                        return End::TooManyJoins;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "WebSocket error");
                    return End::from_error(&error);
                }
            },
            () = queue.filled() => {}
            () = channels.proceed(), if channels.is_waiting() => {}
            () = timer.as_mut() => {
                let now = Instant::now();
                if now >= received_at + IDLE_LIMIT {
                    return End::Idle;
                }
                if channels.empty_since().is_some_and(|since| now >= since + NO_CHANNEL_LIMIT) {
                    return End::WithoutChannel;
                }
                channels.check_deadlines(now);
                timer.as_mut().reset(next_deadline(channels, received_at));
            }
            () = draining.cancelled() => return End::Restart,
        }
    }
}

fn next_deadline(channels: &Channels, received_at: Instant) -> Instant {
    let empty = channels.empty_since().map(|since| since + NO_CHANNEL_LIMIT);
    [channels.next_deadline(), empty].into_iter().flatten().fold(received_at + IDLE_LIMIT, Instant::min)
}

/// Writes the queued frames. Fails if the client does not accept them in time or the queue overflows
/// meanwhile.
async fn write_out(socket: &mut Socket, channels: &mut Channels, queue: &Queue) -> Result<(), End> {
    let items = queue.take().map_err(|_| End::Overflow)?;
    if items.is_empty() {
        return Ok(());
    }
    let (mut missed, mut renewals) = (Vec::new(), Vec::new());
    let writing = async {
        for item in items {
            let size = item.size();
            match item {
                Item::Frame(frame) => socket.feed(frame).await?,
                Item::Gap(id) => missed.push(id),
                Item::Renewal(id) => renewals.push(id),
            }
            queue.written(size);
        }
        socket.flush().await
    };
    let written = tokio::select! {
        written = timeout(WRITE_LIMIT, writing) => written,
        () = queue.overflowed() => return Err(End::Overflow),
    };
    if !matches!(written, Ok(Ok(()))) {
        return Err(End::Gone);
    }
    for id in missed {
        channels.end_after_gap(id);
    }
    for id in renewals {
        channels.renew_lapsed(id);
    }
    Ok(())
}

/// Performs the closing handshake: sends the close frame, then reads until the client has closed its side.
/// Closing a socket with unread data would reset the connection, and the client might never see the code.
async fn close_gracefully(socket: &mut Socket, code: CloseCode) {
    const MAX_UNREAD: usize = 16 * 1024 * 1024;
    let frame = CloseFrame { code, reason: "".into() };
    if socket.close(Some(frame)).await.is_err() {
        return;
    }
    let mut scratch = vec![0; BUFFER_BYTES];
    let mut unread = MAX_UNREAD;
    while let Ok(length @ 1..) = socket.get_mut().read(&mut scratch).await {
        socket.get_mut().message_done();
        let Some(left) = unread.checked_sub(length) else { return };
        unread = left;
    }
}
