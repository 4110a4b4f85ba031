//! A small PostgreSQL client for request work: an entire transaction is one write, one Sync and one read, all within
//! the request's task.
//!
//! `tokio-postgres` drives a connection from a separate task and ends every message with a Sync. For one request that
//! means four wake-ups across threads, four `send`s in the backend, and statements that run after an earlier one
//! failed. Here the messages of a batch are sent together, and the server skips the rest after an error. Without
//! BEGIN they form one implicit transaction, which the Sync commits.
//!
//! [`crate::session`] decides which messages are sent. This module implements framing and the cache of prepared
//! statements, and guarantees that **every wait can be dropped and resumed**: all state is in [`Connection`], and
//! after a future is dropped, [`Connection::answers`] can continue, so that another task can finish the request of a
//! client that disconnected.
//!
//! Results are in text format, except `bytea`, whose text would be twice as long. Only a statement parsed in the same
//! batch, when its result types were unknown, returns `bytea` as text; [`Row`] hides the difference.

mod connect;
mod frontend;
pub mod replication;
mod reset;
mod row;
mod statements;
mod stream;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use basalt_core::memory::{AnswerMemory, ResponseReservation};
use bytes::{Bytes, BytesMut};
use postgres_protocol::message::backend::{Header, Message};
use tokio::io::AsyncWrite;
use tokio_util::io::poll_read_buf;

pub(crate) use connect::Canceller;
use frontend::Outgoing;
pub(crate) use frontend::Value;
use reset::{Commands, Extent};
use row::Columns;
pub use row::{Column, Row};
use statements::{Prepared, Statements};
pub(crate) use statements::{StatementKey, StatementMetrics};
use stream::Stream;

use crate::pg_error::{DriverError, PgError};

/// Minimum space for a read: two of the server's buffers.
const READ_BYTES: usize = 16 * 1024;
/// The buffer of a longer message is freed with the message instead of being kept by the connection.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
const CLOSED: &str = "the server closed the connection";

/// Limits of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Number of prepared statements; with 0 every statement is unnamed.
    pub(crate) statements: usize,
    /// Metrics of the prepared statements.
    pub(crate) statement_metrics: StatementMetrics,
    /// Maximum size of a message from the server, that is, of a row.
    pub(crate) message_bytes: usize,
    /// Memory budget shared by the results of all connections.
    pub(crate) answers: Option<AnswerMemory>,
}

/// Result of a batch.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Rows of each statement whose rows were requested, in order; after a failure, of those that ran.
    pub(crate) answers: Vec<Vec<Row>>,
    /// The first error. Nothing after it ran.
    pub(crate) failure: Option<Box<PgError>>,
    /// Whether a transaction is open, or aborted and not yet ended.
    pub(crate) in_transaction: bool,
}

/// Server-side state of a prepared statement, as acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    /// Nothing was acknowledged.
    Nothing,
    /// The statement is parsed under its name.
    Parsed,
    /// Its result columns are known.
    Described,
    /// Its parameters are bound, so it executes.
    Bound,
}

/// A statement of a batch that has not completed.
struct Part {
    key: StatementKey,
    /// The prepared statement being parsed, if it was not cached.
    parsing: Option<Prepared>,
    progress: Progress,
    wants_rows: bool,
    columns: Columns,
    rows: Vec<Row>,
}

#[derive(Default)]
struct Simple {
    columns: Columns,
    rows: Vec<Row>,
    is_complete: bool,
}

#[derive(Default)]
struct Batch {
    /// Number of `CloseComplete` messages expected first.
    closing: usize,
    parts: VecDeque<Part>,
    /// State of a simple query, whose rows are the result.
    simple: Option<Simple>,
    /// Accept rows of any length, because the batch ends with a commit.
    commits: bool,
    reservation: ResponseReservation,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Broken,
}

/// An authenticated connection.
pub(crate) struct Connection {
    stream: Stream,
    canceller: Canceller,
    statements: Statements,
    outgoing: Outgoing,
    incoming: BytesMut,
    batch: Batch,
    limits: Limits,
    /// Schema epoch in which the statements were prepared.
    epoch: u64,
    state: State,
    /// Whether its login may have been dropped.
    is_suspect: bool,
    /// Write error, kept until the server's last error has been read.
    write_error: Option<io::Error>,
    reset: Reset,
    /// Process id of its backend, once requested.
    backend: Option<i32>,
    /// Whether the connection must not be reused.
    is_retired: bool,
    commands: Commands,
}

/// Progress of the session reset (docs/decisions/0050).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reset {
    /// Nothing has run since the last reset.
    Done,
    /// A reset is needed.
    Due,
    /// The reset is part of the current batch.
    Within,
    /// The reset follows the current batch.
    Follows,
    /// The reset was sent and has not completed.
    Sent,
}

impl Connection {
    fn new(stream: Stream, canceller: Canceller, limits: Limits) -> Self {
        let commands = Commands::new(limits.statements > 0);
        Self {
            stream,
            canceller,
            statements: Statements::new(limits.statements, limits.statement_metrics.clone()),
            outgoing: Outgoing::default(),
            incoming: BytesMut::new(),
            batch: Batch::default(),
            limits,
            epoch: 0,
            state: State::Idle,
            is_suspect: false,
            write_error: None,
            reset: Reset::Done,
            backend: None,
            is_retired: false,
            commands,
        }
    }

    pub(crate) const fn canceller(&self) -> &Canceller {
        &self.canceller
    }

    /// Whether any request can use the connection: no batch is in progress or unsent, and no transaction is open.
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_retired
            && self.state == State::Idle
            && !self.batch.outcome.in_transaction
            && !self.outgoing.has_remaining()
    }

    /// Whether an idle connection is still alive. Costs no system call while no data has arrived.
    pub(crate) fn is_alive(&mut self) -> bool {
        if !self.is_clean() {
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            // The server's final error, or an unsolicited message, may have arrived with the last result.
            if !matches!(self.process_messages(), Ok(None)) {
                return false;
            }
            match self.poll_fill(&mut cx) {
                // No data, or part of a notice or changed setting.
                Poll::Pending => return true,
                Poll::Ready(Err(_) | Ok(0)) => return false,
                Poll::Ready(Ok(_)) => {}
            }
        }
    }

    /// Starts a batch, which also closes the statements evicted from the cache. If the batch `commits` a write on its
    /// own, rows of any length are accepted, because the write happens anyway.
    pub(crate) fn open_batch(&mut self, commits: bool) {
        self.batch = Batch { commits, ..Batch::default() };
        for prepared in self.statements.take_dropped() {
            self.outgoing.close(&prepared);
            self.batch.closing += 1;
        }
    }

    /// Adds a statement, which is parsed at its position in the batch if it is not cached, so after its predecessors.
    ///
    /// # Errors
    /// The message has too many parameters or bytes. The connection must then be discarded, because its buffer
    /// contains a partial batch.
    pub(crate) fn execute<'a>(
        &mut self,
        key: StatementKey,
        params: impl ExactSizeIterator<Item = Value<'a>> + Clone,
        wants_rows: bool,
    ) -> Result<(), DriverError> {
        // Until the Sync is written.
        self.state = State::Broken;
        let (parsing, columns) = match self.statements.get(&key) {
            Some(prepared) => {
                self.outgoing.bind(prepared, params)?;
                (None, prepared.columns.clone())
            }
            None => {
                let prepared = self.statements.name();
                self.outgoing.parse(&prepared, &key.text)?;
                self.outgoing.bind(&prepared, params)?;
                (Some(prepared), Columns::default())
            }
        };
        self.outgoing.execute();
        self.batch.parts.push_back(Part {
            key,
            parsing,
            progress: Progress::Nothing,
            wants_rows,
            columns,
            rows: Vec::new(),
        });
        Ok(())
    }

    /// Ends the batch. Without BEGIN this commits.
    pub(crate) fn sync(&mut self) {
        self.outgoing.sync();
        self.state = State::Busy;
        self.reset = Reset::Due;
    }

    /// Ends a READ ONLY batch without BEGIN and without code that may PREPARE, after resetting the session. No code
    /// of the request can run between the reset and the commit, because a read has no deferred triggers and no open
    /// cursors remain.
    pub(crate) fn reset_and_sync(&mut self) {
        self.commands.write(&mut self.outgoing, Extent::Read);
        self.sync();
        self.reset = Reset::Within;
    }

    /// Ends a batch without BEGIN, followed by a session reset in the same write; the reset is awaited only when the
    /// connection is next used. The reset checks for prepared statements if code of the batch `may_prepare`.
    pub(crate) fn sync_and_reset(&mut self, may_prepare: bool) {
        self.sync();
        let extent = if may_prepare { Extent::Full } else { Extent::Write };
        self.commands.write(&mut self.outgoing, extent);
        self.outgoing.sync();
        self.reset = Reset::Follows;
    }

    /// Sends the reset of an idle connection if it is due. If it cannot be sent immediately, the connection is not
    /// clean.
    pub(crate) fn reset_if_due(&mut self) {
        if self.reset == Reset::Due {
            self.commands.write(&mut self.outgoing, Extent::Full);
            self.outgoing.sync();
            self.reset = Reset::Sent;
            let _unsent = self.poll_send(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Prepares the reset commands in a new session, and resets it for the first time.
    async fn prepare_session(&mut self) -> Result<(), DriverError> {
        self.commands.prepare(&mut self.outgoing);
        self.reset = Reset::Due;
        self.reset_if_due();
        let sent = poll_fn(|cx| self.poll_send(cx)).await;
        sent.map_err(|error| DriverError::Connection(error.to_string()))?;
        self.finish_reset().await
    }

    /// Waits for the end of the reset. If false, the session could not be reset and the connection must be discarded.
    pub(crate) async fn wait_for_reset(&mut self) -> bool {
        self.finish_reset().await.is_ok()
    }

    async fn finish_reset(&mut self) -> Result<(), DriverError> {
        let end = poll_fn(|cx| {
            loop {
                match self.process_messages()? {
                    None if self.reset != Reset::Sent => return Poll::Ready(Ok(())),
                    None => {}
                    Some(_) => {
                        return Poll::Ready(Err(protocol_error("message received with no request pending")));
                    }
                }
                match ready!(self.poll_fill(cx)) {
                    Ok(0) => return Poll::Ready(Err(DriverError::Connection(CLOSED.to_owned()))),
                    Ok(_) => {}
                    Err(error) => return Poll::Ready(Err(DriverError::Connection(error.to_string()))),
                }
            }
        });
        let end = end.await;
        if end.is_err() {
            self.state = State::Broken;
        }
        end
    }

    /// Starts a batch that consists of one text with any number of statements, without parameters.
    pub(crate) fn open_simple(&mut self, text: &str) {
        self.batch = Batch { simple: Some(Simple::default()), ..Batch::default() };
        self.outgoing.query(text);
        self.commands.invalidate_unnamed();
        self.state = State::Busy;
        self.reset = Reset::Due;
    }

    /// Runs a simple query, while the connection is not yet in the pool.
    async fn simple_query(&mut self, text: &str) -> Result<Vec<Row>, DriverError> {
        self.open_simple(text);
        let outcome = self.answers().await?;
        match outcome.failure {
            Some(error) => Err(DriverError::Postgres(error)),
            None => Ok(outcome.answers.into_iter().next().unwrap_or_default()),
        }
    }

    /// Drops statements prepared in another epoch; the next batch closes them.
    pub(crate) fn enter_epoch(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.statements.clear();
        }
    }

    /// Sends the remaining messages and waits for the end of the batch. May be dropped and called again.
    ///
    /// # Errors
    /// The connection broke, or the server closed it with an error; it must be discarded.
    pub(crate) async fn answers(&mut self) -> Result<Outcome, DriverError> {
        if self.state == State::Broken {
            return Err(DriverError::Connection("the connection is closed".to_owned()));
        }
        let end = poll_fn(|cx| self.poll_batch(cx)).await;
        match end {
            Ok(in_transaction) => {
                self.state = State::Idle;
                // From now on the rows hold their share of the reservation.
                self.batch.reservation = ResponseReservation::default();
                let mut outcome = std::mem::take(&mut self.batch.outcome);
                outcome.answers.extend(self.batch.simple.take().map(|simple| simple.rows));
                outcome.in_transaction = in_transaction;
                // Kept for `is_clean`.
                self.batch.outcome.in_transaction = in_transaction;
                Ok(outcome)
            }
            Err(error) => {
                self.state = State::Broken;
                Err(error)
            }
        }
    }

    fn poll_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, DriverError>> {
        loop {
            if let Some(in_transaction) = self.process_messages()? {
                return Poll::Ready(Ok(in_transaction));
            }
            // Reading must continue while a write blocks: a server whose results are not read stops reading.
            if self.write_error.is_none()
                && let Poll::Ready(Err(error)) = self.poll_send(cx)
            {
                self.outgoing.clear();
                self.write_error = Some(error);
            }
            let failure = match ready!(self.poll_fill(cx)) {
                Ok(0) => io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED),
                Ok(_) => continue,
                Err(error) => error,
            };
            let failure = self.write_error.take().unwrap_or(failure);
            return Poll::Ready(Err(DriverError::Connection(failure.to_string())));
        }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.outgoing.has_remaining() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, self.outgoing.chunk()))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.outgoing.advance(written);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let missing = match Header::parse(&self.incoming)? {
            Some(header) => frame_bytes(header).saturating_sub(self.incoming.len()),
            None => 0,
        };
        let free = self.incoming.capacity() - self.incoming.len();
        if free < missing.max(READ_BYTES / 4) {
            self.incoming.reserve(missing.max(READ_BYTES));
        }
        poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.incoming)
    }

    /// Processes every complete message. Returns `Some` when the server is ready for the next batch, with whether a
    /// transaction is open.
    fn process_messages(&mut self) -> Result<Option<bool>, DriverError> {
        loop {
            let header = match Header::parse(&self.incoming) {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(None),
                Err(error) => return Err(protocol_error(&error.to_string())),
            };
            let length = frame_bytes(header);
            if length > self.limits.message_bytes && !self.batch.commits {
                return Err(DriverError::Postgres(Box::new(PgError::answer_too_large(
                    self.limits.message_bytes,
                ))));
            }
            // Reserve memory before the rest of the message is read. A notice or an error may be as long as a row.
            if let Some(memory) = &self.limits.answers
                && !self.batch.reservation.has_room(length, memory, self.batch.commits)
            {
                return Err(DriverError::Postgres(Box::new(PgError::busy())));
            }
            if self.incoming.len() < length {
                return Ok(None);
            }
            let mut frame = self.incoming.split_to(length);
            if length > KEPT_BUFFER_BYTES {
                self.incoming = BytesMut::from(&*self.incoming);
            }
            if self.is_answering_reset() && self.handle_reset_message(header.tag(), &mut frame)? {
                continue;
            }
            match header.tag() {
                b'D' => {
                    self.batch.take_row(frame.freeze())?;
                }
                // Otherwise a write of which the server knows nothing would be reported as done.
                b'Z' if !self.batch.is_answered() => {
                    return Err(protocol_error("ReadyForQuery before the end of the batch"));
                }
                b'Z' => {
                    let has_failed = self.batch.outcome.failure.is_some();
                    self.reset = match self.reset {
                        Reset::Follows => Reset::Sent,
                        // After an error the server skips the rest of the batch.
                        Reset::Within if has_failed => Reset::Due,
                        Reset::Within => Reset::Done,
                        reset @ (Reset::Done | Reset::Due | Reset::Sent) => reset,
                    };
                    return Ok(Some(frame.get(5) != Some(&b'I')));
                }
                _ => {
                    let message =
                        Message::parse(&mut frame).map_err(|error| protocol_error(&error.to_string()))?;
                    self.handle_message(message.ok_or_else(|| protocol_error("truncated message"))?)?;
                }
            }
        }
    }

    /// Whether the next messages belong to the reset.
    fn is_answering_reset(&self) -> bool {
        match self.reset {
            Reset::Done | Reset::Due | Reset::Follows => false,
            // The reset is answered after the batch; after an error the server skips it.
            Reset::Within => self.batch.is_answered() && self.batch.outcome.failure.is_none(),
            Reset::Sent => true,
        }
    }

    /// Handles a message that belongs to the reset; false if it does not.
    fn handle_reset_message(&mut self, tag: u8, frame: &mut BytesMut) -> Result<bool, DriverError> {
        let is_last = self.reset == Reset::Sent;
        match tag {
            b'1' | b'2' => {}
            b'C' => {
                let tag_text = frame.get(5..).and_then(|text| text.strip_suffix(&[0])).unwrap_or_default();
                if !self.commands.answer(tag_text) {
                    return Err(protocol_error("the session contains prepared statements of another client"));
                }
            }
            // This is the error of the commit.
            b'E' if !is_last && self.commands.is_answered() => return Ok(false),
            b'E' => {
                let error = parse_error(frame)?;
                if is_last || error.is_fatal {
                    return Err(DriverError::Postgres(error));
                }
                // The request already has its result. The session is reset once more, and closed if that fails too.
                self.reset = Reset::Due;
            }
            b'Z' if !self.commands.is_answered() => {
                return Err(protocol_error("ReadyForQuery before the end of the reset"));
            }
            b'Z' if is_last => self.reset = Reset::Done,
            _ => return Ok(is_last),
        }
        Ok(true)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol allows no other message here")]
    fn handle_message(&mut self, message: Message) -> Result<(), DriverError> {
        match message {
            Message::BindComplete => self.batch.part()?.progress = Progress::Bound,
            Message::ParameterDescription(_)
            | Message::ParameterStatus(_)
            | Message::NoticeResponse(_)
            | Message::NotificationResponse(_) => {}
            Message::ParseComplete => self.batch.part()?.progress = Progress::Parsed,
            Message::NoData => self.batch.part()?.progress = Progress::Described,
            Message::RowDescription(body) => {
                let columns = row::describe(&body).map_err(|error| protocol_error(&error.to_string()))?;
                if let Some(simple) = &mut self.batch.simple {
                    simple.columns = columns;
                } else {
                    let part = self.batch.part()?;
                    part.progress = Progress::Described;
                    part.columns = columns.clone();
                    if let Some(prepared) = &mut part.parsing {
                        prepared.describe(columns);
                    }
                }
            }
            Message::CloseComplete => {
                let remaining = self.batch.closing.checked_sub(1);
                self.batch.closing = remaining.ok_or_else(|| protocol_error("unexpected CloseComplete"))?;
            }
            Message::CommandComplete(_) | Message::EmptyQueryResponse => {
                if let Some(simple) = &mut self.batch.simple {
                    simple.is_complete = true;
                } else if let Some(rows) = self.finish_part()? {
                    self.batch.outcome.answers.push(rows);
                }
            }
            Message::ErrorResponse(body) => {
                let mut error =
                    PgError::from_fields(&body).map_err(|error| protocol_error(&error.to_string()))?;
                error.has_run = self.batch.parts.front().is_none_or(|part| part.progress == Progress::Bound);
                if error.is_fatal || self.state == State::Idle {
                    return Err(DriverError::Postgres(Box::new(error)));
                }
                let may_be_stale = error.met_changing_catalog();
                self.batch.outcome.failure.get_or_insert_with(|| Box::new(error));
                // The server skips the rest of the batch. Statements it had already parsed remain parsed.
                if let Some(part) = self.batch.parts.front() {
                    let stale_key = may_be_stale.then(|| part.key.clone());
                    drop(self.finish_part()?);
                    self.batch.parts.clear();
                    // PostgreSQL takes no lock on functions that it looks up. If a function is replaced while a
                    // statement that uses it is analysed, the statement keeps the old one and fails from then on,
                    // until something else invalidates its plan.
                    if let Some(stale_key) = stale_key {
                        self.statements.forget(&stale_key);
                    }
                }
            }
            _ => return Err(protocol_error("unexpected message")),
        }
        Ok(())
    }

    /// Completes the current statement, and returns its rows if they were requested.
    fn finish_part(&mut self) -> Result<Option<Vec<Row>>, DriverError> {
        let part =
            self.batch.parts.pop_front().ok_or_else(|| protocol_error("unexpected CommandComplete"))?;
        match part.parsing {
            Some(prepared) if part.progress >= Progress::Described => {
                self.statements.keep(part.key, prepared)
            }
            // Its columns are unknown. Treated as having none, it would break the connection at its next use.
            Some(prepared) if part.progress == Progress::Parsed => self.statements.discard(prepared),
            Some(_) | None => {}
        }
        Ok(part.wants_rows.then_some(part.rows))
    }
}

impl Batch {
    /// Whether every message has been answered, or skipped because of an error.
    fn is_answered(&self) -> bool {
        let is_complete =
            self.outcome.failure.is_some() || self.simple.as_ref().is_none_or(|simple| simple.is_complete);
        is_complete && self.parts.is_empty() && self.closing == 0
    }

    /// The statement currently being answered.
    fn part(&mut self) -> Result<&mut Part, DriverError> {
        self.parts.front_mut().ok_or_else(|| protocol_error("message received with no request pending"))
    }

    fn take_row(&mut self, frame: Bytes) -> Result<(), DriverError> {
        let wrong = || protocol_error("row does not match its columns");
        if let Some(simple) = &mut self.simple {
            simple.rows.push(Row::read(frame, simple.columns.clone(), true, None).ok_or_else(wrong)?);
            return Ok(());
        }
        let share = self.reservation.add(frame.len());
        let part = self.part()?;
        if part.wants_rows {
            let is_text = part.parsing.is_some();
            part.rows.push(Row::read(frame, part.columns.clone(), is_text, share).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

/// Parses an error message.
fn parse_error(frame: &mut BytesMut) -> Result<Box<PgError>, DriverError> {
    let message = Message::parse(frame).map_err(|error| protocol_error(&error.to_string()))?;
    let Some(Message::ErrorResponse(body)) = message else { return Err(protocol_error("truncated message")) };
    let error = PgError::from_fields(&body).map_err(|error| protocol_error(&error.to_string()))?;
    Ok(Box::new(error))
}

/// Length of a message including its tag.
fn frame_bytes(header: Header) -> usize {
    usize::try_from(header.len()).unwrap_or(0) + 1
}

/// The server violated the protocol, or bytes were lost; the connection cannot be used further.
fn protocol_error(what: &str) -> DriverError {
    DriverError::Connection(format!("PostgreSQL protocol error: {what}"))
}

#[cfg(test)]
mod tests;
