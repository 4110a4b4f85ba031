//! A client's connection as the HTTP library reads it: targets are escaped on the way in, and a connection that is closed
//! in the middle of a request is closed gently.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::Framing;

/// How long a client may go on sending a request that was answered already.
const LINGER: Duration = Duration::from_secs(5);
/// And how much, in bytes: somewhat over the largest body that a service takes.
const LINGER_BYTES: usize = 64 * 1024 * 1024;

/// A connection whose request lines are escaped as they are read.
pub(super) struct ClientStream<S> {
    inner: S,
    framing: Framing,
    /// Escaped bytes that did not fit into the reader's buffer.
    pending: BytesMut,
    lingering: Option<Lingering>,
}

/// We have said all there is to say, and read on so that the client gets to hear it: closing a socket with unread data
/// resets it, and a reset throws away an answer (413, say) that the client has not read yet.
struct Lingering {
    limit: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl<S> ClientStream<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, framing: Framing::default(), pending: BytesMut::new(), lingering: None }
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
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            let read = buf.filled().get(before..).unwrap_or_default();
            let Some(escaped) = this.framing.follow(read) else { return Poll::Ready(Ok(())) };
            buf.set_filled(before);
            this.pending = escaped;
        }
        let fits = this.pending.len().min(buf.remaining());
        buf.put_slice(this.pending.get(..fits).unwrap_or_default());
        this.pending.advance(fits);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
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
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

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
        ClientStream::new(Pieces(input.chunks(size).rev().map(<[u8]>::to_vec).collect()))
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
    async fn what_can_be_read_in_two_ways_is_passed_on() {
        for head in [
            "content-length: 5\r\ncontent-length: 6",
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: gzip, chunked",
            "content-length: +5",
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
