//! Lifecycle of one connection. Its task reads messages, passes them to [`Channels`], and writes what its
//! queue holds, until the connection ends with a reason and a close code.

use std::net::IpAddr;
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
use crate::channels::{Channels, Verdict};
use crate::frames::Version;
use crate::metered::Metered;
use crate::metrics::{self, Counted};
use crate::queue::{Item, Queue};
use crate::token::{Client, Token};

/// Largest frame of a client's (realtime.md 3.14).
const MOST_FRAME_BYTES: usize = 5_000_000;
/// Of thousands of sockets each has two such buffers.
const BUFFER_BYTES: usize = 4 * 1024;
/// A socket from which nothing came for so long is closed; clients send a heartbeat every 25 s.
const IDLE: Duration = Duration::from_secs(60);
/// And one without a channel after this.
const WITHOUT_CHANNEL: Duration = Duration::from_secs(600);
/// How long a client may take to take what it is sent.
const WRITE_LIMIT: Duration = Duration::from_secs(60);
/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);
/// Time for each socket over which the goodbyes of a shutdown are spread, so that clients do not come back all at once.
const SPREAD_EACH: Duration = Duration::from_micros(200);
const MOST_SPREAD: Duration = Duration::from_secs(2);

type Socket = WebSocketStream<Metered<TokioIo<Upgraded>>>;

/// What the handshake established about a client.
pub(crate) struct Peer {
    pub(crate) version: Version,
    pub(crate) client: Client,
    pub(crate) token: Token,
    /// `request.headers` for policies.
    pub(crate) headers: Arc<str>,
    pub(crate) address: Option<IpAddr>,
    /// Cancelled when the server shuts down.
    pub(crate) draining: CancellationToken,
}

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
    /// The name that metrics have for it, and what the client is told; nothing where the connection is cut.
    const fn told(self) -> (&'static str, Option<CloseCode>) {
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

    fn of(error: &Error) -> Self {
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
        .max_message_size(Some(MOST_FRAME_BYTES))
        .max_frame_size(Some(MOST_FRAME_BYTES));
    let stream = Metered::new(TokioIo::new(upgraded), realtime.receiving.clone());
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let count = realtime.sockets.enter();
    let _shown = Counted::one(&SOCKETS);
    let queue = Arc::new(Queue::default());
    let draining = peer.draining.clone();
    let mut channels = Channels::new(realtime, Arc::clone(&queue), peer);
    let end = converse(&mut socket, &mut channels, &queue, &draining).await;
    if end == End::Restart {
        let all = SPREAD_EACH.saturating_mul(count.others()).min(MOST_SPREAD);
        tokio::time::sleep(all.mul_f64(part())).await;
    }
    drop(channels);
    queue.close();
    let (reason, code) = end.told();
    metrics::count_closed(reason);
    let goodbye = async {
        match code {
            Some(code) => say_goodbye(&mut socket, code).await,
            // The answer to the client's goodbye goes out as we read on.
            None => while let Some(Ok(_)) = socket.next().await {},
        }
    };
    let _in_time = timeout(GOODBYE, goodbye).await;
}

static SOCKETS: metrics::OnceGauge = metrics::sockets;

/// Anywhere from 0 to 1.
fn part() -> f64 {
    f64::from(u16::from_be_bytes(basalt_core::random::bytes())) / f64::from(u16::MAX)
}

async fn converse(
    socket: &mut Socket,
    channels: &mut Channels,
    queue: &Queue,
    draining: &CancellationToken,
) -> End {
    let mut heard_at = Instant::now();
    let mut alarm = pin!(sleep_until(heard_at + IDLE));
    loop {
        if let Err(end) = write_out(socket, channels, queue).await {
            return end;
        }
        let deadline = next_deadline(channels, heard_at);
        // A later one is set when this one has passed: most messages move it.
        if deadline < alarm.deadline() {
            alarm.as_mut().reset(deadline);
        }
        tokio::select! {
            heard = socket.next() => match heard {
                Some(Ok(Message::Close(_))) | None => return End::Gone,
                Some(Ok(message)) => {
                    socket.get_mut().message_done();
                    heard_at = Instant::now();
                    if channels.receive(&message) == Verdict::TooManyJoins {
                        let _gone = write_out(socket, channels, queue).await;
                        return End::TooManyJoins;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "a socket failed");
                    return End::of(&error);
                }
            },
            () = queue.filled() => {}
            () = channels.proceed(), if channels.is_waiting() => {}
            () = alarm.as_mut() => {
                let now = Instant::now();
                if now >= heard_at + IDLE {
                    return End::Idle;
                }
                if channels.empty_since().is_some_and(|since| now >= since + WITHOUT_CHANNEL) {
                    return End::WithoutChannel;
                }
                channels.check_deadlines(now);
                alarm.as_mut().reset(next_deadline(channels, heard_at));
            }
            () = draining.cancelled() => return End::Restart,
        }
    }
}

fn next_deadline(channels: &Channels, heard_at: Instant) -> Instant {
    let empty = channels.empty_since().map(|since| since + WITHOUT_CHANNEL);
    [channels.next_deadline(), empty].into_iter().flatten().fold(heard_at + IDLE, Instant::min)
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

/// Closes in order: sends the close frame and reads on until the client has closed its side. A socket with unread data that is
/// closed resets the connection, and the client may never see why.
async fn say_goodbye(socket: &mut Socket, code: CloseCode) {
    const MOST_UNREAD: usize = 16 * 1024 * 1024;
    let frame = CloseFrame { code, reason: "".into() };
    if socket.close(Some(frame)).await.is_err() {
        return;
    }
    let mut scratch = vec![0; BUFFER_BYTES];
    let mut unread = MOST_UNREAD;
    while let Ok(length @ 1..) = socket.get_mut().read(&mut scratch).await {
        socket.get_mut().message_done();
        let Some(left) = unread.checked_sub(length) else { return };
        unread = left;
    }
}
