//! A client connection as seen by the HTTP library. Request targets are escaped while they are read. A connection
//! closed in the middle of a request is drained first. A client that does not read its response is disconnected,
//! where the library would wait forever; that also applies after an upgrade.

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

/// Maximum time to keep reading a request that was already answered.
const MAX_LINGER: Duration = Duration::from_secs(5);
/// Maximum bytes to keep reading, slightly more than the largest body that a service buffers.
const MAX_LINGER_BYTES: usize = 64 * 1024 * 1024;
/// Bytes that an HTTP/2 connection may read per poll before it yields to other tasks. The library turns all available
/// input into requests, up to a hundred times its size (HPACK), before it polls any of them, so those that have
/// arrived go first. `tokio`'s cooperative budget does not achieve that, because the library reads again after each
/// request.
const MAX_BYTES_PER_POLL: usize = 4 * 1024;

/// A connection whose request lines are escaped as they are read. `G` is a guard that is dropped when the connection
/// is closed.
pub(super) struct ClientStream<S, G> {
    inner: S,
    framing: Framing,
    /// Escaped bytes that did not fit into the reader's buffer.
    pending: BytesMut,
    /// Poll of the connection's task during which data was last read, and the bytes read in it.
    poll: usize,
    read_in_poll: usize,
    lingering: Option<Lingering>,
    /// Enforces the minimum rate: a client that does not read holds the response's memory.
    write_pacer: Pacer,
    activity: Arc<Activity>,
    _guard: G,
}

/// The response is written, and the rest of the request is read so that the client can receive it: closing a socket
/// with unread data resets the connection, which discards a response (413, say) that the client has not read yet.
struct Lingering {
    limit: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S, G> ClientStream<S, G> {
    pub(super) fn new(inner: S, pace: Pace, activity: Arc<Activity>, guard: G) -> Self {
        Self {
            inner,
            framing: Framing::default(),
            pending: BytesMut::new(),
            poll: 0,
            read_in_poll: 0,
            lingering: None,
            write_pacer: Pacer::new(pace),
            activity,
            _guard: guard,
        }
    }

    /// Passes on the result of a write, or an error if the client is too slow.
    fn enforce_write_rate(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = outcome {
            self.write_pacer.moved(*outcome.as_ref().unwrap_or(&0));
            return Poll::Ready(outcome);
        }
        ready!(self.write_pacer.poll_too_slow(cx));
        super::count_slow_reader();
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client is reading the response too slowly",
        )))
    }
}

impl<S: AsyncRead + Unpin, G: Unpin> AsyncRead for ClientStream<S, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.pending.is_empty() {
            if this.poll != this.activity.poll_count() {
                this.poll = this.activity.poll_count();
                this.read_in_poll = 0;
            }
            if this.framing.is_http2() && this.read_in_poll >= MAX_BYTES_PER_POLL {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let before = buf.filled().len();
            if this.framing.is_http2() {
                let limit = buf.remaining().min(MAX_BYTES_PER_POLL - this.read_in_poll);
                let mut part = ReadBuf::new(buf.initialize_unfilled_to(limit));
                ready!(Pin::new(&mut this.inner).poll_read(cx, &mut part))?;
                let length = part.filled().len();
                buf.advance(length);
            } else {
                ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            }
            let read = buf.filled().get(before..).unwrap_or_default();
            this.read_in_poll = this.read_in_poll.saturating_add(read.len());
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

impl<S: AsyncRead + AsyncWrite + Unpin, G: Unpin> AsyncWrite for ClientStream<S, G> {
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
            limit: Box::pin(tokio::time::sleep(MAX_LINGER)),
            bytes_left: MAX_LINGER_BYTES,
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
                // The client has closed its side, or the connection failed.
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

    /// Output of a stream whose input arrives in pieces of `size` bytes and is read into a small buffer.
    async fn read_through(input: &[u8], size: usize) -> String {
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

    async fn assert_reads_as(input: &str, expected: &str) {
        for size in [1, 2, 3, 5, 64, 4096] {
            assert_eq!(read_through(input.as_bytes(), size).await, expected, "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn only_request_lines_are_escaped() {
        assert_reads_as(
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
        assert_reads_as(&with_length, &expected).await;

        let chunked = format!(
            "POST /> HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{length:x};e=<\r\n{body}\r\n0\r\nt: <\r\n\r\nGET /< HTTP/1.1\r\n\r\n"
        );
        let expected = chunked.replace("POST />", "POST /%3E").replace("GET /< ", "GET /%3C ");
        assert_reads_as(&chunked, &expected).await;
    }

    #[tokio::test]
    async fn client_that_stops_reading_times_out() {
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
    async fn rejects_length_with_transfer_encoding() {
        for (head, end) in [
            ("content-length: 5\r\ntransfer-encoding: chunked", "\r\n"),
            ("Transfer-Encoding: chunked\r\nx: y\r\nContent-Length: 5", "\r\n"),
            ("transfer-encoding: x\ncontent-length: +5", "\n"),
        ] {
            let input = format!("POST /a HTTP/1.1\r\n{head}{end}{end}0\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
            let invalid = input.replacen(&format!("{end}{end}"), &format!("{end}\0\r\n{end}"), 1);
            assert_eq!(read_through(input.as_bytes(), 4096).await, invalid);
            // If a line end arrives in two pieces, the invalid line follows its first half, which is just as invalid.
            for size in [1, 2, 3, 5, 64] {
                let read_through = read_through(input.as_bytes(), size).await;
                let head = read_through.split("\n0\r\n").next().unwrap();
                assert!(head.contains('\0'), "in pieces of {size}: {read_through:?}");
            }
        }
    }

    #[tokio::test]
    async fn http2_reads_yield_to_other_tasks() {
        let mut input = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        input.extend(vec![0; 10 * MAX_BYTES_PER_POLL]);
        let mut stream = in_pieces(&input, 4096);
        let activity = Arc::clone(&stream.activity);
        let mut polls = 0;
        let reading = std::pin::pin!(async {
            let (mut buffer, mut total) = ([0; 4096], 0);
            while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                total += length;
            }
            total
        });
        let mut reading = std::pin::pin!(activity.count_polls(reading));
        let total = std::future::poll_fn(|cx| {
            polls += 1;
            reading.as_mut().poll(cx)
        });
        assert_eq!((total.await, polls), (input.len(), 11));
    }

    #[tokio::test]
    async fn ambiguous_framing_is_passed_on_unchanged() {
        for head in [
            "content-length: 5\r\ncontent-length: 6",
            "transfer-encoding: gzip, chunked",
            "content-length: +5",
            &format!("content-length: {:0300}", 5),
            "upgrade: websocket",
            "x: y\r\n folded",
        ] {
            let input = format!("GET /a HTTP/1.1\r\n{head}\r\n\r\nGET /> HTTP/1.1\r\n\r\n");
            assert_reads_as(&input, &input).await;
        }
        let h2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /> HTTP/1.1\r\n";
        assert_reads_as(h2, h2).await;
    }
}
