//! A client's connection as the HTTP library reads it: targets are escaped on the way in, a connection that is closed
//! in the middle of a request is closed gently, and a peer that goes silent is given up where the library would wait
//! for ever: before it knows which HTTP is spoken, and while an answer is not taken.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::frames::{Frames, Held, TooManyHeaders};
use super::framing::Framing;
use super::streams::Activity;
use crate::layers::heads::HeadLimits;
use crate::layers::heads::{HEADER_COST, HeadShare};
use crate::pace::{Pace, Pacer};

/// How long a client may go on sending a request that was answered already.
const LINGER: Duration = Duration::from_secs(5);
/// And how much, in bytes: somewhat over the largest body that a service takes.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
/// How HTTP/2 begins. Until that is certain or ruled out, no timeout of the library's counts.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose request lines are escaped as they are read.
pub(super) struct ClientStream<S> {
    inner: S,
    framing: Framing,
    /// Escaped bytes that did not fit into the reader's buffer.
    pending: BytesMut,
    lingering: Option<Lingering>,
    opening: Option<Opening>,
    /// How fast the client takes what we write: a reader that makes no progress is gone, and holds the answer's memory.
    taking: Pacer,
    activity: Arc<Activity>,
    heads: Heads,
}

/// What heads may hold that are not whole yet.
pub(super) struct Heads {
    pub(super) limits: HeadLimits,
    pub(super) share: HeadShare,
    /// Since the connection has turned out to be HTTP/2.
    frames: Option<Frames>,
    /// Bytes that came since we last wrote, where it is not known what they are.
    unanswered: usize,
    /// One found no room: nothing more is read.
    is_refused: bool,
    /// Requests of HTTP/2 came that hold more than a little: nothing is read in the same turn.
    pause: Option<Pause>,
}

#[derive(Clone, Copy)]
struct Pause {
    turn: usize,
    /// What counts after it.
    unfinished: usize,
}

/// There is no room for a head that is not whole yet, or it has too many headers.
struct Refused;

impl Heads {
    /// HTTP/2 has more headers for the same request: browsers send each cookie as one.
    const HTTP2_HEADERS: usize = 4;
    /// Bytes that requests may hold before the next are read.
    const MUCH: usize = 80 * HEADER_COST;

    pub(super) const fn new(limits: HeadLimits, share: HeadShare) -> Self {
        Self { limits, share, frames: None, unanswered: 0, is_refused: false, pause: None }
    }

    /// Counts what came; `framing` has followed it.
    fn follow(&mut self, read: &[u8], framing: &Framing, activity: &Activity) -> Result<(), Refused> {
        let unfinished = match (&mut self.frames, framing.unfinished_head()) {
            (Some(frames), _) => {
                let most = self.limits.headers.saturating_mul(Self::HTTP2_HEADERS);
                let Held { whole, unfinished } = frames.follow(read, most).map_err(|TooManyHeaders| {
                    activity.had_too_many_headers.store(true, Ordering::Relaxed);
                    Refused
                })?;
                let is_much = whole > Self::MUCH;
                self.pause = is_much.then(|| Pause { turn: activity.turn(), unfinished });
                if is_much { whole + unfinished } else { unfinished }
            }
            (None, Some(bytes)) => bytes,
            (None, None) => {
                // It may be a body: more than this the library does not keep of a head.
                let most = usize::try_from(self.limits.bytes).unwrap_or(usize::MAX).saturating_mul(2);
                self.unanswered = self.unanswered.saturating_add(read.len()).min(most);
                self.unanswered
            }
        };
        if self.share.hold(unfinished) {
            return Ok(());
        }
        activity.had_no_room.store(true, Ordering::Relaxed);
        Err(Refused)
    }
}

fn no_room() -> io::Error {
    io::Error::other("there is no room for the head of this request, or it has too many headers")
}

/// The part of a connection that could become HTTP/2 or not.
struct Opening {
    limit: Pin<Box<Sleep>>,
    /// Bytes of the preface seen.
    seen: usize,
}

/// We have said all there is to say, and read on so that the client gets to hear it: closing a socket with unread data
/// resets it, and a reset throws away an answer (413, say) that the client has not read yet.
struct Lingering {
    limit: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> ClientStream<S> {
    /// `opening` is how long it may take to begin to speak.
    pub(super) fn new(
        inner: S,
        opening: Duration,
        pace: Pace,
        activity: Arc<Activity>,
        heads: Heads,
    ) -> Self {
        Self {
            inner,
            framing: Framing::default(),
            pending: BytesMut::new(),
            lingering: None,
            opening: Some(Opening { limit: Box::pin(tokio::time::sleep(opening)), seen: 0 }),
            taking: Pacer::new(pace),
            activity,
            heads,
        }
    }

    /// Passes a write's outcome on, or the end of our patience.
    fn hurry(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            self.taking.moved(*outcome.as_ref().unwrap_or(&0));
            self.heads.unanswered = 0;
            return Poll::Ready(outcome);
        }
        ready!(self.taking.poll_too_slow(cx));
        super::count_untaken_answer();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

enum Looks {
    Http1,
    /// Whose frames begin at this byte.
    Http2 {
        from: usize,
    },
    Undecided,
}

impl Opening {
    /// What the bytes read so far are the beginning of.
    fn look(&mut self, read: &[u8]) -> Looks {
        let expected = PREFACE.get(self.seen..).unwrap_or_default();
        self.seen += read.len();
        if read.starts_with(expected) {
            Looks::Http2 { from: expected.len() }
        } else if expected.starts_with(read) {
            Looks::Undecided
        } else {
            Looks::Http1
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.pending.is_empty() {
            if this.heads.is_refused {
                return Poll::Ready(Err(no_room()));
            }
            if let Some(Pause { turn, unfinished }) = this.heads.pause {
                if turn == this.activity.turn() {
                    // The library makes requests of all that it can read before it looks after one of them, each a
                    // hundred times what came: those that have come go first.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                this.heads.pause = None;
                let _less = this.heads.share.hold(unfinished);
            }
            let before = buf.filled().len();
            let mut begun = 0;
            let outcome = Pin::new(&mut this.inner).poll_read(cx, buf);
            let read = buf.filled().get(before..).unwrap_or_default();
            if let Some(opening) = &mut this.opening {
                if outcome.is_pending() {
                    ready!(opening.limit.as_mut().poll(cx));
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client is silent")));
                }
                match opening.look(read) {
                    Looks::Undecided => {}
                    Looks::Http1 => this.opening = None,
                    Looks::Http2 { from } => {
                        this.opening = None;
                        this.activity.is_http2.store(true, Ordering::Relaxed);
                        this.heads.frames = Some(Frames::default());
                        begun = from;
                    }
                }
            }
            ready!(outcome)?;
            let escaped = this.framing.follow(read);
            let counted = read.get(begun..).unwrap_or_default();
            let counted = this.heads.follow(counted, &this.framing, &this.activity);
            match (counted, escaped) {
                (Ok(()), None) => return Poll::Ready(Ok(())),
                (Ok(()), Some(escaped)) => this.pending = escaped,
                (Err(Refused), _) if this.framing.unfinished_head().is_none() => {
                    buf.set_filled(before);
                    return Poll::Ready(Err(no_room()));
                }
                (Err(Refused), escaped) => {
                    this.pending = escaped.unwrap_or_else(|| BytesMut::from(read));
                    let end = this.framing.end_of_refused_head(this.heads.limits.headers);
                    this.pending.extend_from_slice(&end);
                    this.heads.is_refused = true;
                }
            }
            buf.set_filled(before);
        }
        let fits = this.pending.len().min(buf.remaining());
        buf.put_slice(this.pending.get(..fits).unwrap_or_default());
        this.pending.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.hurry(cx, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            if this.framing.is_between_requests() {
                return Poll::Ready(Ok(()));
            }
        }
        let lingering = this.lingering.get_or_insert_with(|| Lingering {
            limit: Box::pin(tokio::time::sleep(LINGER)),
            bytes_left: LINGER_BYTES,
        });
        let mut scratch = [0; 8192];
        loop {
            if lingering.limit.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            let read =
                ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buffer)).map(|()| buffer.filled().len());
            match read {
                Ok(length @ 1..) if length <= lingering.bytes_left => lingering.bytes_left -= length,
                // The client has closed its side, or is beyond help.
                Ok(_) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.hurry(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use metrics::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::layers::heads::HeadMemory;

    const OPENING: Duration = Duration::from_millis(100);
    const PACE: Pace = Pace { window: Duration::from_secs(1), bytes_per_second: 1000 };

    fn watched<S>(inner: S) -> ClientStream<S> {
        let limits = HeadLimits { bytes: 64 * 1024, headers: 20 };
        let share = HeadMemory::new(1 << 20, Counter::noop()).share();
        ClientStream::new(inner, OPENING, PACE, Activity::new(), Heads::new(limits, share))
    }

    /// What comes out when `input` arrives in pieces of `size` bytes and is read into a small buffer.
    async fn through(input: &[u8], size: usize) -> String {
        let mut pieces = in_pieces(input, size);
        let mut out = Vec::new();
        let mut buffer = [0; 7];
        while let Ok(length @ 1..) = pieces.read(&mut buffer).await {
            out.extend_from_slice(&buffer[..length]);
        }
        String::from_utf8(out).unwrap()
    }

    struct Pieces(Vec<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop() {
                let rest = piece.split_off(piece.len().min(buf.remaining()));
                buf.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    fn in_pieces(input: &[u8], size: usize) -> ClientStream<Pieces> {
        let pieces = Pieces(input.chunks(size).rev().map(<[u8]>::to_vec).collect());
        watched(pieces)
    }

    async fn assert_through(input: &str, expected: &str) {
        for size in [1, 2, 3, 5, 64, 4096] {
            assert_eq!(through(input.as_bytes(), size).await, expected, "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn request_lines_are_escaped_and_nothing_else() {
        assert_through(
            "GET /t?select=a->>b,\"c\" HTTP/1.1\r\nx: <\">\r\n\r\nGET /u?x=<1 HTTP/1.1\r\n\r\n",
            "GET /t?select=a-%3E%3Eb,%22c%22 HTTP/1.1\r\nx: <\">\r\n\r\nGET /u?x=%3C1 HTTP/1.1\r\n\r\n",
        )
        .await;
    }

    #[tokio::test]
    async fn bodies_are_never_changed() {
        let body = "GET /<> HTTP/1.1\r\n\r\n";
        let length = body.len();
        let with_length =
            format!("POST /a>b HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}GET /> HTTP/1.1\r\n\r\n");
        let expected = with_length.replace("/a>b", "/a%3Eb").replace("GET /> ", "GET /%3E ");
        assert_through(&with_length, &expected).await;

        let chunked = format!(
            "POST /> HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{length:x};e=<\r\n{body}\r\n0\r\nt: <\r\n\r\nGET /< HTTP/1.1\r\n\r\n"
        );
        let expected = chunked.replace("POST />", "POST /%3E").replace("GET /< ", "GET /%3C ");
        assert_through(&chunked, &expected).await;
    }

    #[tokio::test]
    async fn a_client_that_never_says_which_http_it_speaks_is_given_up() {
        for begun in ["", "P", "PRI * HTTP/2.0\r\n"] {
            let (mut client, server) = tokio::io::duplex(1000);
            client.write_all(begun.as_bytes()).await.unwrap();
            let mut server = watched(server);
            let started = tokio::time::Instant::now();
            let mut read = Vec::new();
            let error = server.read_to_end(&mut read).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{begun}");
            assert!(started.elapsed() >= OPENING, "{begun}");
        }
        for begun in ["G", "POST", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            let (mut client, server) = tokio::io::duplex(1000);
            client.write_all(begun.as_bytes()).await.unwrap();
            let mut server = watched(server);
            // From here on the library has timeouts of its own, and a request may take longer.
            let rest = async {
                tokio::time::sleep(OPENING * 3).await;
                client.shutdown().await
            };
            let mut read = Vec::new();
            let (outcome, _) = tokio::join!(server.read_to_end(&mut read), rest);
            assert_eq!((outcome.unwrap(), read.as_slice()), (begun.len(), begun.as_bytes()));
        }
    }

    #[tokio::test]
    async fn a_client_may_read_slowly_and_not_stop_reading() {
        let (mut client, server) = tokio::io::duplex(1000);
        let mut server = watched(server);
        let stall = PACE.window;
        let mut sip = [0; 1000];
        let slow = async {
            for _ in 0..5 {
                tokio::time::sleep(stall / 3).await;
                client.read_exact(&mut sip).await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(server.write_all(&[b'x'; 6000]), slow);
        written.unwrap();
        let started = tokio::time::Instant::now();
        let error = server.write_all(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= stall);
    }

    #[tokio::test]
    async fn a_head_whose_body_would_have_two_ends_is_spoilt() {
        for (head, end) in [
            ("content-length: 5\r\ntransfer-encoding: chunked", "\r\n"),
            ("Transfer-Encoding: chunked\r\nx: y\r\nContent-Length: 5", "\r\n"),
            ("transfer-encoding: x\ncontent-length: +5", "\n"),
        ] {
            let input = format!("POST /a HTTP/1.1\r\n{head}{end}{end}0\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
            let spoilt = input.replacen(&format!("{end}{end}"), &format!("{end}\0\r\n{end}"), 1);
            assert_eq!(through(input.as_bytes(), 4096).await, spoilt);
            // A line end that comes in two pieces leaves its first half before what spoils it: as bad.
            for size in [1, 2, 3, 5, 64] {
                let through = through(input.as_bytes(), size).await;
                let head = through.split("\n0\r\n").next().unwrap();
                assert!(head.contains('\0'), "in pieces of {size}: {through:?}");
            }
        }
    }

    /// What comes out, and how it ends, where all heads together have so much room.
    async fn with_room(room: u64, input: &[u8]) -> (Vec<u8>, io::Result<usize>) {
        let limits = HeadLimits { bytes: 64 * 1024, headers: 2 };
        let share = HeadMemory::new(room, Counter::noop()).share();
        let pieces = Pieces(input.chunks(4096).rev().map(<[u8]>::to_vec).collect());
        let mut stream = ClientStream::new(pieces, OPENING, PACE, Activity::new(), Heads::new(limits, share));
        let mut out = Vec::new();
        let end = stream.read_to_end(&mut out).await;
        (out, end)
    }

    #[tokio::test]
    async fn a_head_without_room_is_made_one_with_too_many_headers() {
        let whole = format!("POST /a HTTP/1.1\r\ncontent-length: 30000\r\n\r\n{}", "b".repeat(30_000));
        for (head, end) in [
            (format!("GET /{}", "a".repeat(20_000)), " HTTP/1.1\r\nx:\r\nx:\r\nx:\r\n\r\n"),
            (format!("GET / HTTP/1.1\r\ny: {}", "z".repeat(20_000)), "\r\nx:\r\nx:\r\nx:\r\n\r\n"),
        ] {
            let input = format!("{whole}{head}");
            let (out, _) = with_room(5000, input.as_bytes()).await;
            let out = String::from_utf8(out).unwrap();
            assert!(out.starts_with(&whole), "bodies and whole heads are no matter");
            let rest = out.strip_prefix(&whole).unwrap();
            assert!(rest.len() < 17_000 && head.starts_with(rest.strip_suffix(end).unwrap()), "{rest}");
            let (out, end) = with_room(20_000, input.as_bytes()).await;
            assert!(end.is_ok() && out == input.as_bytes());
        }
    }

    #[tokio::test]
    async fn what_nobody_understands_counts_until_it_is_answered() {
        let upgrade = "GET /a HTTP/1.1\r\nupgrade: x\r\n\r\n";
        let input = format!("{upgrade}GET /{}", "a".repeat(20_000));
        assert!(with_room(20_000, input.as_bytes()).await.1.is_ok());
        let (out, end) = with_room(5000, input.as_bytes()).await;
        assert!(end.is_err() && out.len() < 17_000, "{}", out.len());
        let endless = format!("{upgrade}{}", "a".repeat(2_000_000));
        assert!(with_room(128 * 1024, endless.as_bytes()).await.1.is_ok(), "never more than two heads");
    }

    #[tokio::test]
    async fn headers_of_http2_count_where_their_frames_begin() {
        // An unfinished block of headers of a byte each.
        let block = |headers: u8| {
            let frame = [&[0, 0, headers, 1, 0, 0, 0, 0, 1][..], &[0x82].repeat(usize::from(headers))];
            [PREFACE, &frame.concat()].concat()
        };
        assert!(with_room(0, &block(8)).await.1.is_ok());
        assert!(with_room(0, &block(9)).await.1.is_err(), "four times two");
    }

    #[tokio::test]
    async fn what_can_be_read_in_two_ways_is_passed_on() {
        for head in [
            "content-length: 5\r\ncontent-length: 6",
            "transfer-encoding: gzip, chunked",
            "content-length: +5",
            &format!("content-length: {:0300}", 5),
            "upgrade: websocket",
            "x: y\r\n folded",
        ] {
            let input = format!("GET /a HTTP/1.1\r\n{head}\r\n\r\nGET /> HTTP/1.1\r\n\r\n");
            assert_through(&input, &input).await;
        }
        let h2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /> HTTP/1.1\r\n";
        assert_through(h2, h2).await;
    }
}
