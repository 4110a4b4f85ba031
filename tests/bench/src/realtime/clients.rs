//! Minimal WebSocket clients, to leave CPU time to the server under test: they only join, send and count.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::token;

const TOPIC: &str = "realtime:bench";
/// One of this many receivers measures the delay of its messages.
const SAMPLED: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);

/// A socket.
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Socket {
    pub(crate) async fn open(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        let key = token::anon_key();
        let request = format!(
            "GET /realtime/v1/websocket?apikey={key}&vsn=2.0.0 HTTP/1.1\r\nHost: localhost\r\n\
             Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            ensure!(head.len() < 8192, "the response head does not end");
            head.push(stream.read_u8().await.context("the reply's head")?);
        }
        ensure!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub(crate) async fn join(&mut self, topic: &str) -> Result<()> {
        self.send(1, format!("[\"1\",\"1\",\"{topic}\",\"phx_join\",{{}}]").as_bytes()).await?;
        let mut reply = Vec::new();
        let each = |frame: &[u8]| reply.extend_from_slice(frame);
        ensure!(self.read(each).await? == 1, "one reply to a join");
        let reply = String::from_utf8_lossy(&reply);
        ensure!(reply.contains("\"status\":\"ok\""), "{reply}");
        Ok(())
    }

    /// Joins a channel with row changes, and waits until the subscription is active.
    pub(crate) async fn watch(&mut self, payload: &str) -> Result<()> {
        self.send(1, format!("[\"1\",\"1\",\"{TOPIC}\",\"phx_join\",{payload}]").as_bytes()).await?;
        let mut reply = Vec::new();
        loop {
            self.read(|frame| reply.extend_from_slice(frame)).await?;
            let reply = String::from_utf8_lossy(&reply);
            if reply.contains("Subscribed to PostgreSQL") {
                return Ok(());
            }
            ensure!(!reply.contains("\"status\":\"error\""), "{reply}");
        }
    }

    pub(crate) async fn beat(&mut self) -> Result<()> {
        self.send(1, b"[null,\"beat\",\"phoenix\",\"heartbeat\",{}]").await
    }

    /// Sends one frame, masked with zeros.
    async fn send(&mut self, opcode: u8, payload: &[u8]) -> Result<()> {
        let length = u16::try_from(payload.len())?;
        let mut frame = vec![0x80 | opcode, 0x80 | 126];
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await?;
        Ok(())
    }

    /// Reads the available data, at least one frame, passes on each payload, and returns their number.
    pub(crate) async fn read(&mut self, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut count = 0;
        while count == 0 {
            self.buffer.reserve(4096);
            ensure!(self.stream.read_buf(&mut self.buffer).await? > 0, "the server closed the socket");
            let mut at = 0;
            while let Some((payload, next)) = frame(&self.buffer, at)? {
                each(payload);
                (at, count) = (next, count + 1);
            }
            self.buffer.drain(..at);
        }
        Ok(count)
    }
}

/// The payload of the frame at this offset and the offset of the next; `None` if it is incomplete.
fn frame(buffer: &[u8], at: usize) -> Result<Option<(&[u8], usize)>> {
    let Some([opcode, short]) = buffer.get(at..at + 2).and_then(|head| head.first_chunk()) else {
        return Ok(None);
    };
    ensure!(*opcode == 0x81 || *opcode == 0x82, "a frame of kind {opcode:x}");
    let (length, begin) = match short {
        126 => {
            let Some(length) = buffer.get(at + 2..at + 4).and_then(|it| it.first_chunk::<2>()) else {
                return Ok(None);
            };
            (usize::from(u16::from_be_bytes(*length)), at + 4)
        }
        127 => bail!("the frame is too long"),
        short => (usize::from(*short), at + 2),
    };
    Ok(buffer.get(begin..begin + length).map(|payload| (payload, begin + length)))
}

/// Sends broadcasts.
pub(crate) struct Sender(Socket);

impl Sender {
    pub(crate) async fn join(port: u16) -> Result<Self> {
        let mut socket = Socket::open(port).await?;
        socket.join(TOPIC).await?;
        Ok(Self(socket))
    }

    /// Sends when it was sent.
    pub(crate) async fn send(&mut self, at: Duration) -> Result<()> {
        let mut push = vec![3, 1, 1, u8::try_from(TOPIC.len())?, 1, 0, 1];
        push.extend_from_slice(b"11");
        push.extend_from_slice(TOPIC.as_bytes());
        push.extend_from_slice(
            format!("x{{\"t\":\"{:012}\",\"text\":\"{}\"}}", at.as_micros(), "a".repeat(64)).as_bytes(),
        );
        self.0.send(2, &push).await
    }
}

struct Shared {
    begun: Cell<Option<Instant>>,
    delivered: Cell<u64>,
    /// Of the sampled receivers: how many each has got, and how late, in microseconds.
    sampled: RefCell<Vec<u64>>,
    latencies: RefCell<Vec<u64>>,
    failed: RefCell<Option<String>>,
    progress: Notify,
}

/// Sockets that count what they receive.
pub(crate) struct Receivers {
    shared: Rc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

impl Receivers {
    pub(crate) async fn join(port: u16, count: u16) -> Result<Self> {
        let shared = Rc::new(Shared {
            begun: Cell::new(None),
            delivered: Cell::new(0),
            sampled: RefCell::default(),
            latencies: RefCell::default(),
            failed: RefCell::default(),
            progress: Notify::new(),
        });
        let mut tasks = Vec::new();
        for number in 0..usize::from(count) {
            let mut socket = Socket::open(port).await?;
            socket.join(TOPIC).await?;
            let is_sampled = number % SAMPLED == 0;
            if is_sampled {
                shared.sampled.borrow_mut().push(0);
            }
            let shared = Rc::clone(&shared);
            tasks.push(tokio::task::spawn_local(async move {
                let ended = receive(socket, &shared, is_sampled.then_some(number / SAMPLED)).await;
                *shared.failed.borrow_mut() = ended.err().map(|error| format!("{error:#}"));
                shared.progress.notify_one();
            }));
        }
        shared.begun.set(Some(Instant::now()));
        Ok(Self { shared, tasks })
    }

    /// The number received by the slowest sampled receiver.
    pub(crate) fn slowest_sampled(&self) -> u64 {
        self.shared.sampled.borrow().iter().copied().min().unwrap_or(0)
    }

    /// Time since all had joined.
    pub(crate) fn elapsed(&self) -> Duration {
        self.shared.begun.get().map_or(Duration::ZERO, |begun| begun.elapsed())
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.shared.delivered.get()
    }

    /// Waits until something was received.
    pub(crate) async fn progress(&self) {
        self.shared.progress.notified().await;
    }

    /// Waits until all have got so many.
    pub(crate) async fn until(&self, sent: u64) -> Result<()> {
        let all = sent * u64::try_from(self.tasks.len())?;
        let waiting = async {
            while self.delivered() < all && self.shared.failed.borrow().is_none() {
                self.progress().await;
            }
        };
        tokio::time::timeout(LIMIT, waiting).await.context("not all broadcasts arrived")?;
        match self.shared.failed.borrow().as_ref() {
            Some(failed) => bail!("a receiver failed: {failed}"),
            None => Ok(()),
        }
    }

    pub(crate) fn latencies(&self, into: &mut Histogram<u64>) -> Result<()> {
        for latency in self.shared.latencies.borrow().iter() {
            into.record((*latency).max(1))?;
        }
        Ok(())
    }
}

impl Drop for Receivers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn receive(mut socket: Socket, shared: &Shared, sample: Option<usize>) -> Result<()> {
    loop {
        let mut times = Vec::new();
        let count = socket
            .read(|payload| {
                if sample.is_some() {
                    times.extend(sent_at(payload));
                }
            })
            .await?;
        let count = u64::try_from(count)?;
        shared.delivered.set(shared.delivered.get() + count);
        if let Some(sample) = sample {
            if let Some(got) = shared.sampled.borrow_mut().get_mut(sample) {
                *got += count;
            }
            let now = shared.begun.get().map_or(0, |begun| begun.elapsed().as_micros());
            let late = times.iter().map(|at| u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(*at));
            shared.latencies.borrow_mut().extend(late);
        }
        shared.progress.notify_one();
    }
}

/// The time in a payload.
fn sent_at(payload: &[u8]) -> Option<u64> {
    let at = payload.windows(6).position(|window| window == b"{\"t\":\"")?;
    std::str::from_utf8(payload.get(at + 6..at + 18)?).ok()?.parse().ok()
}
