//! Row changes: each inserted row must reach the hundred clients that can see it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::clients::Socket;
use crate::basalt::Basalt;
use crate::process;
use crate::report::{self, megabytes, rounded};
use crate::token;

/// Clients to which a change is visible, except under [`Policy::Column`].
const ROOM: u16 = 100;
/// Connections that write: commits of several go to disk together.
const WRITERS: usize = 4;
/// Changes in flight while the throughput is measured; at least two transactions.
const IN_FLIGHT: u32 = 16;
/// Changes before each measurement, to warm plans and buffers.
const WARM_UP: Duration = Duration::from_secs(1);
/// Silent clients are closed after a minute.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// Time limit for outstanding changes at the end.
const LIMIT: Duration = Duration::from_secs(60);

/// The rate of changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// The next change once earlier ones have arrived.
    Busy,
    /// This many per second, regardless of delivery.
    PerSecond(u32),
}

/// What decides who sees a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// No row-level security: clients filter.
    None,
    /// A column of the row equals a claim; one client sees each row.
    Column,
    /// The client is a member, by a sub-select.
    Membership,
    /// The same, by a function.
    Function,
}

impl Policy {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Column, Self::Membership, Self::Function];

    const fn condition(self) -> &'static str {
        match self {
            Self::None => "true",
            Self::Column => "room_id = (select auth.jwt() ->> 'room')::int",
            Self::Membership => {
                "exists (select from room_members m where m.room_id = updates.room_id and m.user_id = (select auth.uid()))"
            }
            Self::Function => "is_room_member(room_id)",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Column => "column",
            Self::Membership => "membership",
            Self::Function => "function",
        }
    }

    /// Clients to which a change is visible.
    const fn room(self) -> u16 {
        match self {
            Self::Column => 1,
            Self::None | Self::Membership | Self::Function => ROOM,
        }
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) policy: Policy,
    pub(super) per_transaction: u32,
    pub(super) pace: Pace,
}

/// The subscribers, and the connections that write.
pub(super) struct Watched<'a> {
    basalt: &'a Basalt,
    shared: Rc<Shared>,
    readers: Vec<JoinHandle<()>>,
    writers: Vec<tokio_postgres::Client>,
    rooms: u16,
}

struct Shared {
    begun: Instant,
    sent: RefCell<Vec<Sent>>,
    /// Changes that all their subscribers have received.
    whole: Cell<usize>,
    latencies: RefCell<Histogram<u64>>,
    failed: RefCell<Option<String>>,
    /// Receivers of each change.
    receivers: u16,
    /// Changes that may be written.
    room: Semaphore,
    progress: Notify,
}

/// A change; its place is its id.
struct Sent {
    at: Duration,
    arrived: u16,
}

impl<'a> Watched<'a> {
    /// Clients of distinct users, in rooms. Under policies they watch the whole table, else their room.
    pub(super) async fn join(basalt: &'a Basalt, clients: u16, policy: Policy) -> Result<Self> {
        let (has_policies, receivers, condition) =
            (policy != Policy::None, policy.room(), policy.condition());
        let rooms = clients.div_ceil(receivers);
        ensure!(rooms * receivers == clients, "clients come in rooms of {receivers}");
        let database = basalt.database().await?;
        let switch = if has_policies { "enable" } else { "disable" };
        database
            .batch_execute(&format!(
                "truncate updates, room_members; alter table updates {switch} row level security;
                 alter policy \"members read\" on updates using ({condition});
                 insert into room_members
                 select n % {rooms}, ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid
                 from generate_series(0, {clients} - 1) n;
                 analyze room_members"
            ))
            .await
            .context("cannot create the rooms")?;
        let shared = Rc::new(Shared {
            begun: Instant::now(),
            sent: RefCell::default(),
            whole: Cell::new(0),
            latencies: RefCell::new(Histogram::new(3)?),
            failed: RefCell::default(),
            receivers,
            room: Semaphore::new(0),
            progress: Notify::new(),
        });
        let mut readers = Vec::new();
        for client in 0..clients {
            let (mut socket, room) = (Socket::open(basalt.port).await?, client % rooms);
            let filter =
                if has_policies { String::new() } else { format!(",\"filter\":\"room_id=eq.{room}\"") };
            let mut claims = token::claims(&token::person_id(client.into()));
            if let Some(claims) = claims.as_object_mut() {
                claims.insert("room".to_owned(), room.to_string().into());
            }
            let token = token::sign(&claims);
            socket
                .watch(&format!(
                    "{{\"config\":{{\"postgres_changes\":[{{\"event\":\"*\",\"schema\":\"public\",\"table\":\"updates\"{filter}}}]}},\
                     \"access_token\":\"{token}\"}}"
                ))
                .await?;
            let shared = Rc::clone(&shared);
            readers.push(tokio::task::spawn_local(async move {
                if let Err(error) = read(socket, &shared, (room, rooms)).await {
                    *shared.failed.borrow_mut() = Some(format!("{error:#}"));
                    shared.progress.notify_one();
                }
            }));
        }
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            writers.push(basalt.database().await?);
        }
        Ok(Self { basalt, shared, readers, writers, rooms })
    }

    pub(super) async fn measure(&self, case: Case, time: Duration) -> Result<Value> {
        self.write(case, WARM_UP).await?;
        self.shared.latencies.borrow_mut().clear();
        let server = self.basalt.running.pid();
        let before = (process::cpu(server), process::cpu(std::process::id()));
        let begun = Instant::now();
        let count = self.write(case, time).await?;
        let took = begun.elapsed().as_secs_f64();
        let after = (process::cpu(server), process::cpu(std::process::id()));
        let latencies = self.shared.latencies.borrow();
        let ms = |quantile: f64| {
            Duration::from_micros(latencies.value_at_quantile(quantile)).as_secs_f64() * 1000.0
        };
        let rate = f64::from(count) / took;
        let Case { policy, per_transaction, pace } = case;
        let figures = json!({
            "clients": self.readers.len(),
            "policy": policy.name(),
            "per_transaction": per_transaction,
            "offered_per_second": match pace { Pace::Busy => Value::Null, Pace::PerSecond(rate) => rate.into() },
            "changes_per_second": rounded(rate),
            "deliveries_per_second": rounded(rate * f64::from(policy.room())),
            "p50_ms": rounded(ms(0.5)),
            "p95_ms": rounded(ms(0.95)),
            "p99_ms": rounded(ms(0.99)),
            "cpus": {
                "basalt": rounded((after.0.itself - before.0.itself) / took),
                "postgresql": rounded((after.0.below - before.0.below) / took),
                "clients": rounded((after.1.itself - before.1.itself) / took),
            },
            "resident_mb": rounded(megabytes(process::resident_bytes(server))),
        });
        report::print(&format!("changes: {figures}"));
        Ok(figures)
    }

    /// Writes for this long and waits until all has arrived; how many changes there were.
    async fn write(&self, case: Case, time: Duration) -> Result<u32> {
        let first = self.shared.sent.borrow().len();
        let begun = Instant::now();
        if let Pace::Busy = case.pace {
            let most = IN_FLIGHT.max(2 * case.per_transaction);
            self.shared.room.add_permits(usize::try_from(most)?);
        }
        let transactions = Cell::new(0);
        let writing = self
            .writers
            .iter()
            .map(|client| self.write_on(client, case, (begun, begun + time), &transactions));
        let written = futures_util::future::try_join_all(writing);
        tokio::time::timeout(time + LIMIT, written).await.context("changes were not written in time")??;
        tokio::time::timeout(LIMIT, self.all_arrived()).await.context("not all changes arrived")??;
        // Reset the permits: the next measurement starts with none.
        self.shared.room.forget_permits(usize::MAX >> 4);
        Ok(u32::try_from(self.shared.sent.borrow().len() - first)?)
    }

    async fn write_on(
        &self,
        client: &tokio_postgres::Client,
        case: Case,
        (begun, end): (Instant, Instant),
        transactions: &Cell<u32>,
    ) -> Result<()> {
        const WRITE: &str = "
            insert into updates (id, room_id, title, body)
            select n, n % $3, 'Update ' || n, repeat('x', 100) from generate_series($1::bigint, $2::bigint) n";
        let statement = client.prepare(WRITE).await?;
        loop {
            let due = match case.pace {
                Pace::Busy => {
                    self.shared.check()?;
                    let permits = self.shared.room.acquire_many(case.per_transaction);
                    tokio::select! {
                        permits = permits => permits?.forget(),
                        () = tokio::time::sleep_until(end.into()) => return Ok(()),
                    }
                    Instant::now()
                }
                Pace::PerSecond(rate) => {
                    let number = transactions.get();
                    transactions.set(number + 1);
                    let before = f64::from(number) * f64::from(case.per_transaction);
                    let due = begun + Duration::from_secs_f64(before / f64::from(rate));
                    if due < end {
                        tokio::time::sleep_until(due.into()).await;
                    }
                    due
                }
            };
            if due >= end {
                return Ok(());
            }
            let at = due - self.shared.begun;
            let (first, last) = {
                let mut sent = self.shared.sent.borrow_mut();
                let first = sent.len();
                sent.extend((0..case.per_transaction).map(|_| Sent { at, arrived: 0 }));
                (i64::try_from(first)?, i64::try_from(sent.len() - 1)?)
            };
            client.execute(&statement, &[&first, &last, &i64::from(self.rooms)]).await?;
        }
    }

    async fn all_arrived(&self) -> Result<()> {
        loop {
            self.shared.check()?;
            if self.shared.whole.get() == self.shared.sent.borrow().len() {
                return Ok(());
            }
            self.shared.progress.notified().await;
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        for reader in &self.readers {
            reader.abort();
        }
    }
}

impl Shared {
    fn check(&self) -> Result<()> {
        match self.failed.borrow().as_ref() {
            Some(failed) => bail!("a client failed: {failed}"),
            None => Ok(()),
        }
    }

    fn arrived(&self, id: usize) -> Result<()> {
        let mut sent = self.sent.borrow_mut();
        let change = sent.get_mut(id).with_context(|| format!("change {id} was not written"))?;
        change.arrived += 1;
        ensure!(change.arrived <= self.receivers, "change {id} arrived more than {} times", self.receivers);
        let late = u64::try_from((self.begun.elapsed().saturating_sub(change.at)).as_micros())?;
        self.latencies.borrow_mut().record(late.max(1))?;
        if change.arrived == self.receivers {
            self.whole.set(self.whole.get() + 1);
            self.room.add_permits(1);
            self.progress.notify_one();
        }
        Ok(())
    }
}

/// Reads a client's messages: only changes of its own room, each once.
async fn read(mut socket: Socket, shared: &Shared, (room, rooms): (u16, u16)) -> Result<()> {
    let mut beat = tokio::time::interval(HEARTBEAT);
    let (mut ids, mut seen) = (Vec::new(), Vec::new());
    loop {
        let mut other = None;
        tokio::select! {
            read = socket.read(|payload| match changed(payload) {
                Some(id) => ids.push(id),
                None if payload.starts_with(b"[null,\"beat\"") => {}
                None => other = Some(String::from_utf8_lossy(payload).into_owned()),
            }) => drop(read?),
            _ = beat.tick() => socket.beat().await?,
        }
        if let Some(other) = other {
            bail!("a message is not a change: {other}");
        }
        for id in ids.drain(..) {
            ensure!(id % usize::from(rooms) == usize::from(room), "change {id} is of another room");
            let place = id / usize::from(rooms);
            if seen.len() <= place {
                seen.resize(place + 1, false);
            }
            let before = seen.get_mut(place).map(|seen| std::mem::replace(seen, true));
            ensure!(before == Some(false), "change {id} came twice");
            shared.arrived(id)?;
        }
    }
}

/// The id of the row in a payload.
fn changed(payload: &[u8]) -> Option<usize> {
    const BEFORE: &[u8] = b"\"record\":{\"id\":";
    let begin = payload.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let digits = payload.get(begin..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(payload.get(begin..begin + digits)?).ok()?.parse().ok()
}
