//! A TCP proxy that simulates network faults.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, sleep};

use crate::runtime::on_runtime;

/// The state of all connections, existing and new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Data passes.
    Up,
    /// Connections are closed, new ones immediately.
    Cut,
    /// Connections stay open and no data passes, like a lost route.
    Stalled,
    /// Each piece is delayed by this time.
    Slow(Duration),
    /// Existing connections stall forever, new ones work: the address has moved.
    Moved,
    /// Each connection is closed after this many more response bytes.
    CutAfter(usize),
    /// Each connection stalls after this many more response bytes.
    StalledAfter(usize),
    /// After this many more response bytes, every byte is replaced by this one.
    GarbledAfter(usize, u8),
}

/// A proxy in front of one address, closed on drop.
#[derive(Debug)]
pub struct ChaosProxy {
    port: u16,
    link: watch::Sender<Link>,
    acceptor: JoinHandle<()>,
}

impl ChaosProxy {
    /// Starts a proxy in front of `target`.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start(target: SocketAddr) -> Self {
        on_runtime(async move {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port is free");
            let port = listener.local_addr().expect("a bound socket has an address").port();
            let (link, state) = watch::channel(Link::Up);
            let acceptor = tokio::spawn(accept(listener, target, state));
            Self { port, link, acceptor }
        })
        .await
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the link's state.
    pub fn set(&self, link: Link) {
        let _before = self.link.send_replace(link);
    }
}

impl Drop for ChaosProxy {
    fn drop(&mut self) {
        // Closing the channel ends the connections.
        self.acceptor.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: watch::Receiver<Link>) {
    while let Ok((near, _)) = listener.accept().await {
        if *state.borrow() == Link::Cut {
            continue;
        }
        let _connection = tokio::spawn(carry(near, target, state.clone()));
    }
}

async fn carry(near: TcpStream, target: SocketAddr, state: watch::Receiver<Link>) {
    let Ok(far) = TcpStream::connect(target).await else { return };
    let (near_in, near_out) = near.into_split();
    let (far_in, far_out) = far.into_split();
    let is_moved = *state.borrow() == Link::Moved;
    tokio::select! {
        () = copy(near_in, far_out, state.clone(), Way { is_moved, is_answer: false }) => {}
        () = copy(far_in, near_out, state, Way { is_moved, is_answer: true }) => {}
    }
}

/// One direction of a connection.
struct Way {
    /// Whether it was opened after the address moved.
    is_moved: bool,
    is_answer: bool,
}

/// Copies one direction until it ends, the link is cut, or the proxy is dropped.
async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut state: watch::Receiver<Link>,
    way: Way,
) {
    let mut buffer = vec![0_u8; 16 * 1024];
    let (mut before, mut passed, mut is_lost) = (Link::Up, 0_usize, false);
    loop {
        let link = *state.borrow_and_update();
        if link != before {
            (before, passed) = (link, 0);
        }
        is_lost |= link == Link::Moved && !way.is_moved;
        let left = match link {
            Link::CutAfter(count) | Link::StalledAfter(count) if way.is_answer => {
                count.saturating_sub(passed)
            }
            Link::GarbledAfter(count, _) if way.is_answer && passed < count => count - passed,
            Link::Up
            | Link::Cut
            | Link::Stalled
            | Link::Slow(_)
            | Link::Moved
            | Link::CutAfter(_)
            | Link::StalledAfter(_)
            | Link::GarbledAfter(..) => buffer.len(),
        };
        let is_cut = link == Link::Cut || (left == 0 && matches!(link, Link::CutAfter(_)));
        if is_cut {
            return;
        }
        if is_lost {
            // Discard data until the sender gives up.
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        }
        if link == Link::Stalled || left == 0 {
            if state.changed().await.is_err() {
                return;
            }
            continue;
        }
        let room = left.min(buffer.len());
        let count = tokio::select! {
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                continue;
            }
            // Reading is cancel-safe.
            read = from.read(buffer.get_mut(..room).unwrap_or_default()) => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => count,
            },
        };
        if let Link::Slow(pause) = link {
            sleep(pause).await;
        }
        let piece = buffer.get_mut(..count).unwrap_or_default();
        if let Link::GarbledAfter(clean, byte) = link
            && way.is_answer
            && passed >= clean
        {
            piece.fill(byte);
        }
        passed += count;
        if to.write_all(piece).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo_server() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn echoes(stream: &mut TcpStream) {
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
    }

    #[tokio::test]
    async fn link_stalls_cuts_and_recovers() {
        let proxy = ChaosProxy::start(echo_server().await).await;
        let mut first = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        echoes(&mut first).await;
        proxy.set(Link::Stalled);
        first.write_all(b"y").await.unwrap();
        let silence = tokio::time::timeout(Duration::from_millis(300), first.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
        proxy.set(Link::Up);
        assert_eq!(first.read_u8().await.unwrap(), b'y', "stalled data arrives");
        echoes(&mut first).await;
        proxy.set(Link::Cut);
        assert!(first.read_u8().await.is_err());
        proxy.set(Link::Slow(Duration::from_millis(5)));
        let mut second = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).await.unwrap();
        echoes(&mut second).await;
    }
}
