//! Counts the received bytes of incomplete messages. A client may announce 5 MB and send them byte by byte;
//! thousands of such clients would exhaust the server's memory, so all sockets share one budget.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::metrics;

/// Budget of all sockets for incomplete messages, in bytes.
pub(crate) const RECEIVING_BYTES: usize = 256 * 1024 * 1024;
/// Bytes each socket may use without counting: covers most messages and what the read buffer holds anyway.
const UNCOUNTED_BYTES: usize = 64 * 1024;

/// Bytes of incomplete messages, summed over all sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiving(Arc<AtomicUsize>);

/// A stream that counts the bytes read from it.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    all: Receiving,
    /// Bytes read since the last complete message.
    read: usize,
    /// Part of `read` that is counted in `all`.
    counted: usize,
}

impl<S> Metered<S> {
    pub(crate) const fn new(inner: S, all: Receiving) -> Self {
        Self { inner, all, read: 0, counted: 0 }
    }

    /// Resets the count: a message is complete.
    pub(crate) fn message_done(&mut self) {
        self.read = 0;
        self.release();
    }

    fn release(&mut self) {
        if self.counted > 0 {
            self.all.0.fetch_sub(self.counted, Ordering::Relaxed);
            metrics::receiving_bytes().decrement(as_gauge(self.counted));
            self.counted = 0;
        }
    }

    fn count(&mut self, length: usize) -> io::Result<()> {
        self.read = self.read.saturating_add(length);
        let more = self.read.saturating_sub(UNCOUNTED_BYTES).saturating_sub(self.counted);
        if more == 0 {
            return Ok(());
        }
        let before = self.all.0.fetch_add(more, Ordering::Relaxed);
        self.counted += more;
        metrics::receiving_bytes().increment(as_gauge(more));
        if before + more > RECEIVING_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "budget for incomplete messages exhausted",
            ));
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "byte counts stay far below 2^53")]
const fn as_gauge(bytes: usize) -> f64 {
    bytes as f64
}

impl<S> Drop for Metered<S> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        Poll::Ready(self.count(buf.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn long_messages_share_the_budget_and_release_it() {
        let all = Receiving::default();
        all.0.store(RECEIVING_BYTES - 1000, Ordering::Relaxed);
        let message = vec![0; UNCOUNTED_BYTES + 1000];
        let mut scratch = vec![0; UNCOUNTED_BYTES * 2];
        let mut first = Metered::new(&message[..], all.clone());
        assert_eq!(first.read(&mut scratch).await.unwrap(), UNCOUNTED_BYTES + 1000);
        let mut second = Metered::new(&message[..], all.clone());
        assert!(second.read(&mut scratch).await.is_err());
        drop(second);
        first.message_done();
        assert_eq!(all.0.load(Ordering::Relaxed), RECEIVING_BYTES - 1000);
        let mut third = Metered::new(&message[..UNCOUNTED_BYTES], all.clone());
        assert_eq!(third.read(&mut scratch).await.unwrap(), UNCOUNTED_BYTES);
        assert_eq!(all.0.load(Ordering::Relaxed), RECEIVING_BYTES - 1000, "short messages do not count");
    }
}
