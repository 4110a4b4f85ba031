//! Request targets with characters that RFC 3986 wants escaped and people do not escape: `?select=data->>name`.
//!
//! PostgREST takes them, and its manual writes them so; the HTTP library refuses a request line with `"`, `<`, `>` or
//! a backtick before anybody sees it. So they are escaped while the bytes come in, in request lines and nowhere else.
//! To know where a request line starts, this follows the framing of HTTP/1.1 (RFC 9112 §6): heads, bodies with a
//! length, chunked bodies. What it does not understand, or what could be read in two ways, is passed on untouched
//! from there to the end of the connection, and so are HTTP/2 and upgraded connections: a body is never changed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Header lines are kept up to this length; those that matter here are shorter.
const KEPT_LINE_BYTES: usize = 256;

/// A connection whose request lines are escaped as they are read.
pub(super) struct LenientTarget<S> {
    inner: S,
    framing: Framing,
    /// Escaped bytes that did not fit into the reader's buffer.
    pending: BytesMut,
}

impl<S> LenientTarget<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, framing: Framing::default(), pending: BytesMut::new() }
    }
}

/// Where in the stream of requests the next byte is.
#[derive(Debug, Default)]
struct Framing {
    place: Place,
    /// The current line, up to [`KEPT_LINE_BYTES`]; without its end.
    line: Vec<u8>,
    head: Head,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a request line, or before one.
    #[default]
    RequestLine,
    /// In a header line.
    Header,
    /// In a body with this many bytes to come.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk with this many bytes to come, its line end included.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailer,
    /// Not ours to understand.
    Transparent,
}

/// What the headers said about the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Head {
    length: Option<u64>,
    is_chunked: bool,
    /// Two lengths, a coding we do not know, an upgrade: what follows is not for us.
    is_unclear: bool,
}

const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`')
}

impl Framing {
    /// Follows `input`; the bytes to pass on instead, when a request line in it needs escapes.
    fn follow(&mut self, input: &[u8]) -> Option<BytesMut> {
        let mut escaped: Option<BytesMut> = None;
        let mut rest = input;
        while !rest.is_empty() && self.place != Place::Transparent {
            let position = input.len() - rest.len();
            let (part, after) = rest.split_at(self.next_part(rest));
            rest = after;
            if self.place == Place::RequestLine && part.iter().copied().any(needs_escape) {
                let out = escaped.get_or_insert_with(|| {
                    let mut out = BytesMut::with_capacity(input.len() + 64);
                    out.extend_from_slice(input.get(..position).unwrap_or_default());
                    out
                });
                escape(part, out);
            } else if let Some(out) = &mut escaped {
                out.extend_from_slice(part);
            }
            self.advance(part);
        }
        if let Some(out) = &mut escaped {
            out.extend_from_slice(rest);
        }
        escaped
    }

    /// How much of `rest` belongs to the place we are in: a line with its end, or a stretch of body.
    fn next_part(&self, rest: &[u8]) -> usize {
        match self.place {
            Place::Body(left) | Place::Chunk(left) => {
                rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))
            }
            Place::RequestLine | Place::Header | Place::ChunkSize | Place::Trailer => {
                rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
            }
            Place::Transparent => rest.len(),
        }
    }

    fn advance(&mut self, part: &[u8]) {
        match self.place {
            Place::Body(left) => {
                let left = left - part.len() as u64;
                self.place = if left == 0 { Place::RequestLine } else { Place::Body(left) };
            }
            Place::Chunk(left) => {
                let left = left - part.len() as u64;
                self.place = if left == 0 { Place::ChunkSize } else { Place::Chunk(left) };
            }
            Place::RequestLine | Place::Header | Place::ChunkSize | Place::Trailer => {
                let room = KEPT_LINE_BYTES.saturating_sub(self.line.len());
                self.line.extend(part.iter().take(room));
                if part.last() == Some(&b'\n') {
                    let mut line = std::mem::take(&mut self.line);
                    self.place = self.after_line(line.trim_ascii_end());
                    line.clear();
                    self.line = line;
                }
            }
            Place::Transparent => {}
        }
    }

    fn after_line(&mut self, line: &[u8]) -> Place {
        match self.place {
            // Empty lines before a request line are allowed.
            Place::RequestLine if line.is_empty() => Place::RequestLine,
            Place::RequestLine if line.starts_with(b"PRI ") => Place::Transparent,
            Place::RequestLine => {
                self.head = Head::default();
                Place::Header
            }
            Place::Header if line.is_empty() => self.head.body(),
            Place::Header => {
                self.head.read(line);
                Place::Header
            }
            Place::ChunkSize => match chunk_size(line) {
                Some(0) => Place::Trailer,
                Some(size) => Place::Chunk(size.saturating_add(2)),
                None => Place::Transparent,
            },
            Place::Trailer if line.is_empty() => Place::RequestLine,
            Place::Trailer => Place::Trailer,
            Place::Body(_) | Place::Chunk(_) | Place::Transparent => self.place,
        }
    }
}

impl Head {
    fn read(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            // A folded line, or none at all.
            self.is_unclear = true;
            return;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let length =
                std::str::from_utf8(value).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let length = length.and_then(|text| text.parse().ok());
            self.is_unclear |= length.is_none() || self.length.is_some_and(|before| Some(before) != length);
            self.length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_unclear |= self.is_chunked || !value.eq_ignore_ascii_case(b"chunked");
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") || name.first().is_some_and(u8::is_ascii_whitespace) {
            self.is_unclear = true;
        }
    }

    const fn body(self) -> Place {
        match self {
            Self { is_unclear: true, .. } | Self { is_chunked: true, length: Some(_), .. } => {
                Place::Transparent
            }
            Self { is_chunked: true, .. } => Place::ChunkSize,
            Self { length: Some(length @ 1..), .. } => Place::Body(length),
            Self { .. } => Place::RequestLine,
        }
    }
}

/// `1a;extension` → 26.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn escape(part: &[u8], out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in part {
        if needs_escape(byte) {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.extend_from_slice(&[byte]);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LenientTarget<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for LenientTarget<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
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
        let mut pieces = tokio_test_pieces(input, size);
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

    fn tokio_test_pieces(input: &[u8], size: usize) -> LenientTarget<Pieces> {
        LenientTarget::new(Pieces(input.chunks(size).rev().map(<[u8]>::to_vec).collect()))
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
