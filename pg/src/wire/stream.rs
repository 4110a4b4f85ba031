//! The socket of a connection, and the wrapper through which the driver uses it for the login.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

/// TLS over TCP.
pub(super) type Encrypted = <MakeRustlsConnect as MakeTlsConnect<TcpStream>>::Stream;

/// A socket of any kind that PostgreSQL supports.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Encrypted>),
}

impl Stream {
    pub(super) const fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, into),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, from),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, from),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// A stream borrowed by the driver for the login.
pub(super) struct BorrowedStream<'a> {
    stream: &'a mut Stream,
    startup: Startup,
}

/// State of a startup message that gets an additional parameter.
enum Startup {
    /// Nothing to add, or the message was sent completely.
    Sent,
    /// The startup message is the driver's next write.
    Awaited(&'static [u8]),
    /// The modified message, partly sent.
    Sending { message: Vec<u8>, sent: usize },
}

impl<'a> BorrowedStream<'a> {
    /// Passes everything on unchanged.
    pub(super) const fn new(stream: &'a mut Stream) -> Self {
        Self { stream, startup: Startup::Sent }
    }

    /// Adds a parameter to the startup message, given as `name\0value\0`, because the driver does not support
    /// `replication`.
    pub(super) const fn with_parameter(stream: &'a mut Stream, parameter: &'static [u8]) -> Self {
        Self { stream, startup: Startup::Awaited(parameter) }
    }
}

/// The startup message with `parameter` inserted before the final byte; `None` if it is not a startup message.
fn with_parameter(message: &[u8], parameter: &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_be_bytes(message.first_chunk::<4>().copied()?);
    if usize::try_from(length) != Ok(message.len()) {
        return None;
    }
    let (terminator, rest) = message.get(4..)?.split_last()?;
    let longer = u32::try_from(message.len() + parameter.len()).ok()?;
    (*terminator == 0).then(|| [&longer.to_be_bytes(), rest, parameter, &[0]].concat())
}

impl AsyncRead for BorrowedStream<'_> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().stream).poll_read(cx, into)
    }
}

impl AsyncWrite for BorrowedStream<'_> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, startup } = self.get_mut();
        if let Startup::Awaited(parameter) = startup {
            // The driver writes the entire message at once.
            let message = with_parameter(from, parameter).ok_or(io::ErrorKind::InvalidData)?;
            *startup = Startup::Sending { message, sent: 0 };
        }
        if let Startup::Sending { message, sent } = startup {
            while let Some(rest @ [_, ..]) = message.get(*sent..) {
                match std::task::ready!(Pin::new(&mut **stream).poll_write(cx, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => *sent += written,
                }
            }
            *startup = Startup::Sent;
            return Poll::Ready(Ok(from.len()));
        }
        Pin::new(&mut **stream).poll_write(cx, from)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.get_mut().stream).poll_shutdown(cx)
    }
}

impl TlsStream for BorrowedStream<'_> {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.stream {
            Stream::Tls(stream) => stream.channel_binding(),
            Stream::Tcp(_) | Stream::Unix(_) => ChannelBinding::none(),
        }
    }
}

/// A no-op TLS connector for the driver's login over a stream that is already encrypted; it still provides channel
/// binding.
pub(super) struct AlreadyEncrypted;

impl<'a> TlsConnect<BorrowedStream<'a>> for AlreadyEncrypted {
    type Stream = BorrowedStream<'a>;
    type Error = io::Error;
    type Future = Ready<Result<BorrowedStream<'a>, io::Error>>;

    fn connect(self, stream: BorrowedStream<'a>) -> Self::Future {
        ready(Ok(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameter_is_added_before_end_of_startup_message() {
        let message = b"\0\0\0\x10\0\x03\0\0user\0a\0\0";
        assert_eq!(with_parameter(message, b"b\0c\0").unwrap(), b"\0\0\0\x14\0\x03\0\0user\0a\0b\0c\0\0");
        assert_eq!(with_parameter(&message[..15], b"b\0c\0"), None);
        assert_eq!(with_parameter(b"\0\0\0\x04", b"b\0c\0"), None);
    }
}
