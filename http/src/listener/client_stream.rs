//! A client's connection as the HTTP library reads and writes it. Targets are escaped on the way in. A connection that is
//! closed in the middle of a request is closed gently. A client that does not take what we write is given up, where the
//! library would wait without end; this holds after an upgrade too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::Framing;
use super::streams::Activity;
use crate::pace::{Pace, Pacer};

/// How long a client may go on sending a request that was answered already.
const LINGER: Duration = Duration::from_secs(5);
/// And how much, in bytes: somewhat over the largest body that a service buffers.
const LINGER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that an HTTP/2 connection reads before other tasks have their turn. The library makes requests of all that it can
/// read before it looks after one of them, up to a hundred times what came (HPACK): those that have come go first.
/// `tokio`'s own budget does not do it: the library reads again for each request that it takes.
const TURN_BYTES: usize = 4 * 1024;

/// A connection whose request lines are escaped as they are read. `P` is what it holds until it is closed.
pub(super) struct ClientStream<S, P> {
    inner: S,
    framing: Framing,
    /// Escaped bytes that did not fit into the reader's buffer.
    pending: BytesMut,
    /// The turn of the connection's task that last read, and the bytes that it read.
    turn: usize,
    read_in_turn: usize,
    lingering: Option<Lingering>,
    /// How fast the client takes what we write: a client that takes nothing holds the answer's memory.
    taking: Pacer,
    activity: Arc<Activity>,
    _place: P,
}

/// The answer is written, and we read on so that the client gets to see it: closing a socket with unread data resets it,
/// and a reset throws away an answer (413, say) that the client has not read yet.
struct Lingering {
    limit: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S, P> ClientStream<S, P> {
    pub(super) fn new(inner: S, pace: Pace, activity: Arc<Activity>, place: P) -> Self {
        Self {
            inner,
            framing: Framing::default(),
            pending: BytesMut::new(),
            turn: 0,
            read_in_turn: 0,
            lingering: None,
            taking: Pacer::new(pace),
            activity,
            _place: place,
        }
    }

    /// Passes a write's outcome on, or an error when the client is too slow.
    fn enforce_write_rate(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            self.taking.moved(*outcome.as_ref().unwrap_or(&0));
            return Poll::Ready(outcome);
        }
        ready!(self.taking.poll_too_slow(cx));
        super::count_untaken_answer();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not take its answer")))
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for ClientStream<S, P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.pending.is_empty() {
            if this.turn != this.activity.turn() {
                this.turn = this.activity.turn();
                this.read_in_turn = 0;
            }
            if this.framing.is_http2() && this.read_in_turn >= TURN_BYTES {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = buf.filled().len();
            if this.framing.is_http2() {
                let most = buf.remaining().min(TURN_BYTES - this.read_in_turn);
                let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
                ready!(Pin::new(&mut this.inner).poll_read(cx, &mut part))?;
                let length = part.filled().len();
                buf.advance(length);
            } else {
                ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            }
            let read = buf.filled().get(before..).unwrap_or_default();
            this.read_in_turn = this.read_in_turn.saturating_add(read.len());
            let Some(escaped) = this.framing.follow(read) else { return Poll::Ready(Ok(())) };
            this.pending = escaped;
            buf.set_filled(before);
        }
        let fits = this.pending.len().min(buf.remaining());
        buf.put_slice(this.pending.get(..fits).unwrap_or_default());
        this.pending.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, P: Unpin> AsyncWrite for ClientStream<S, P> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.enforce_write_rate(cx, outcome)
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
        self.enforce_write_rate(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PACE: Pace = Pace { window: Duration::from_secs(1), bytes_per_second: 1000 };

    fn watched<S>(inner: S) -> ClientStream<S, ()> {
        ClientStream::new(inner, PACE, Activity::new(), ())
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

    fn in_pieces(input: &[u8], size: usize) -> ClientStream<Pieces, ()> {
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

    #[tokio::test]
    async fn others_have_their_turn_while_much_http2_is_read() {
        let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        input.extend(vec![0; 10 * TURN_BYTES]);
        let mut stream = in_pieces(&input, 4096);
        let activity = Arc::clone(&stream.activity);
        let mut turns = 0;
        let reading = std::pin::pin!(async {
            let (mut buffer, mut total) = ([0; 4096], 0);
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                total += length;
            }
            total
        });
        let mut reading = std::pin::pin!(activity.in_turns(reading));
        let total = std::future::poll_fn(|cx| {
            turns += 1;
            reading.as_mut().poll(cx)
        });
        assert_eq!((total.await, turns), (input.len(), 11));
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
