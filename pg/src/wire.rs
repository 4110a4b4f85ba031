//! A small PostgreSQL client for request work: a whole transaction is one write, one Sync and one read, all in the
//! task of the request.
//!
//! `tokio-postgres` drives a connection from a task of its own and ends every message with a Sync of its own. For one
//! request that is four wake-ups across threads, four `send`s in the backend, and statements that run on after an
//! earlier one failed. Here the messages of a batch travel together and the server skips the rest after an error;
//! without BEGIN they are one implicit transaction, which the Sync commits.
//!
//! What may be sent in which order is [`crate::session`]'s business. This module answers for framing, the cache of
//! prepared statements, and for one promise: **every wait can be dropped and resumed**. All state lives in
//! [`Connection`], and a future that is dropped half-way leaves a connection that [`Connection::answers`] can go on
//! with, so that another task can finish a request whose client left.
//!
//! Results come in text format, all but `bytea`, whose text would be twice as long. Only a statement that was parsed in the
//! same batch, when its types were not known yet, brings `bytea` as text; [`Row`] hides that.

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

/// Room for at least this much is made before each read: two of the server's own buffers.
const READ_BYTES: usize = 16 * 1024;
/// The buffer of a message longer than this goes with the message instead of staying with the connection.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
const CLOSED: &str = "the server closed the connection";

/// What one connection may hold.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Prepared statements; with 0 every statement is the unnamed one.
    pub(crate) statements: usize,
    /// Shows how many there are, and what comes of them.
    pub(crate) statement_metrics: StatementMetrics,
    /// Bytes of one message from the server: of one row, that is.
    pub(crate) message_bytes: usize,
    /// What the answers of all connections may take.
    pub(crate) answers: Option<AnswerMemory>,
}

/// What a batch gave.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Rows of each statement whose rows were wanted, in order; of those that ran, if one failed.
    pub(crate) answers: Vec<Vec<Row>>,
    /// The first error. Nothing after it ran.
    pub(crate) failure: Option<Box<PgError>>,
    /// A transaction is open, or aborted and waiting for its end.
    pub(crate) in_transaction: bool,
}

/// How far the server is with a statement, by its own account.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    Nothing,
    /// It has it under its name,
    Parsed,
    /// has told its columns,
    Described,
    /// and has read its parameters: from now on it runs.
    Bound,
}

/// One statement of a batch, until it has been answered.
struct Part {
    key: StatementKey,
    /// Name under which it is being parsed, if it was not prepared before.
    parsing: Option<Prepared>,
    reached: Reached,
    is_wanted: bool,
    columns: Columns,
    rows: Vec<Row>,
}

#[derive(Default)]
struct Simple {
    columns: Columns,
    rows: Vec<Row>,
    is_over: bool,
}

#[derive(Default)]
struct Batch {
    /// `CloseComplete`s that come first.
    closing: usize,
    parts: VecDeque<Part>,
    /// A simple query: its rows are the answer.
    simple: Option<Simple>,
    /// Rows of any length are taken in: a commit stands behind them.
    commits: bool,
    intake: ResponseReservation,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Busy,
    Broken,
}

/// One connection, logged in.
pub(crate) struct Connection {
    stream: Stream,
    canceller: Canceller,
    statements: Statements,
    outgoing: Outgoing,
    incoming: BytesMut,
    batch: Batch,
    limits: Limits,
    /// When the statements were prepared.
    epoch: u64,
    state: State,
    /// Its login may have been dropped.
    is_suspect: bool,
    /// Why writing failed, until the server's last error has been read.
    write_error: Option<io::Error>,
    reset: Reset,
    /// The process id of its backend, once it was asked for.
    backend: Option<i32>,
    /// No other request may use it.
    is_retired: bool,
    commands: Commands,
}

/// How far the reset of the session is (docs/decisions/0050).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reset {
    /// Nothing ran since the last one.
    Done,
    /// Something did.
    Due,
    /// It is the end of the batch that is under way.
    Within,
    /// It stands behind the batch that is under way.
    Follows,
    /// It is sent, and its end is not read yet.
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

    /// No batch is under way or waits to be sent, and no transaction is open: any request can use the connection.
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_retired
            && self.state == State::Idle
            && !self.batch.outcome.in_transaction
            && !self.outgoing.has_remaining()
    }

    /// Whether an idle connection still has a server; costs no system call while nothing has arrived.
    pub(crate) fn is_alive(&mut self) -> bool {
        if !self.is_clean() {
            return false;
        }
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            // The server's last error, or an unsolicited message; it may have come with the last answer.
            if !matches!(self.digest(), Ok(None)) {
                return false;
            }
            match self.poll_fill(&mut cx) {
                // Nothing, or a notice or changed setting of which only a part is here yet.
                Poll::Pending => return true,
                Poll::Ready(Err(_) | Ok(0)) => return false,
                Poll::Ready(Ok(_)) => {}
            }
        }
    }

    /// Begins a batch. Statements that were dropped from the cache are closed with it. Where it `commits` a write by
    /// itself, no row is refused for its length: the write would have happened all the same.
    pub(crate) fn open_batch(&mut self, commits: bool) {
        self.batch = Batch { commits, ..Batch::default() };
        self.batch.closing = self.statements.close_dropped(&mut self.outgoing);
    }

    /// Adds a statement. It is parsed where it stands in the batch, if it has to be: after what comes before it.
    ///
    /// # Errors
    /// The message cannot be written: too many parameters or too many bytes. The connection is of no more use then,
    /// because part of the batch stands in its buffer.
    pub(crate) fn execute<'a>(
        &mut self,
        key: StatementKey,
        params: impl ExactSizeIterator<Item = Value<'a>> + Clone,
        is_wanted: bool,
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
            reached: Reached::Nothing,
            is_wanted,
            columns,
            rows: Vec::new(),
        });
        Ok(())
    }

    /// Ends the batch: without BEGIN in it, this commits.
    pub(crate) fn sync(&mut self) {
        self.outgoing.sync();
        self.state = State::Busy;
        self.reset = Reset::Due;
    }

    /// Ends a batch without BEGIN that is READ ONLY and has no code that may PREPARE, after a reset of the session: no code of the
    /// request can run between that and the commit, because a read has no deferred triggers, and no cursor is open any more.
    pub(crate) fn reset_and_sync(&mut self) {
        self.commands.write(&mut self.outgoing, Extent::Read);
        self.sync();
        self.reset = Reset::Within;
    }

    /// Ends a batch without BEGIN. The reset of the session stands behind it, in the same write; no caller waits for its end
    /// until the connection is wanted again. It looks for prepared statements where code of the batch `may_prepare`.
    pub(crate) fn sync_and_reset(&mut self, may_prepare: bool) {
        self.sync();
        let extent = if may_prepare { Extent::Whole } else { Extent::Write };
        self.commands.write(&mut self.outgoing, extent);
        self.outgoing.sync();
        self.reset = Reset::Follows;
    }

    /// Sends the reset of an idle connection that still needs it. What could not be sent at once leaves the connection
    /// unclean.
    pub(crate) fn reset_if_due(&mut self) {
        if self.reset == Reset::Due {
            self.commands.write(&mut self.outgoing, Extent::Whole);
            self.outgoing.sync();
            self.reset = Reset::Sent;
            let _unsent = self.poll_send(&mut Context::from_waker(Waker::noop()));
        }
    }

    /// Makes a session that is new what it is after each reset, which is prepared with it.
    async fn prepare_session(&mut self) -> Result<(), DriverError> {
        self.commands.prepare(&mut self.outgoing);
        self.reset = Reset::Due;
        self.reset_if_due();
        let sent = poll_fn(|cx| self.poll_send(cx)).await;
        sent.map_err(|error| DriverError::Connection(error.to_string()))?;
        self.end_of_reset().await
    }

    /// Waits for the end of the reset. False when the session is not as new: the connection is of no more use.
    pub(crate) async fn has_been_reset(&mut self) -> bool {
        self.end_of_reset().await.is_ok()
    }

    async fn end_of_reset(&mut self) -> Result<(), DriverError> {
        let end = poll_fn(|cx| {
            loop {
                match self.digest()? {
                    None if self.reset != Reset::Sent => return Poll::Ready(Ok(())),
                    None => {}
                    Some(_) => return Poll::Ready(Err(garbled("an answer to no question"))),
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

    /// Begins a batch of one text of any number of statements without parameters.
    pub(crate) fn open_simple(&mut self, text: &str) {
        self.batch = Batch { simple: Some(Simple::default()), ..Batch::default() };
        self.outgoing.query(text);
        self.commands.lose_unnamed();
        self.state = State::Busy;
        self.reset = Reset::Due;
    }

    /// Runs a simple query; for the time before the connection is in the pool.
    async fn simple_query(&mut self, text: &str) -> Result<Vec<Row>, DriverError> {
        self.open_simple(text);
        let outcome = self.answers().await?;
        match outcome.failure {
            Some(error) => Err(DriverError::Postgres(error)),
            None => Ok(outcome.answers.into_iter().next().unwrap_or_default()),
        }
    }

    /// Forgets every statement prepared in another epoch; they are closed with the next batch.
    pub(crate) fn enter_epoch(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.statements.clear();
        }
    }

    /// Sends what is left to send and waits for the end of the batch. May be dropped and called again.
    ///
    /// # Errors
    /// The connection is of no more use: it broke, or the server ended it and said why.
    pub(crate) async fn answers(&mut self) -> Result<Outcome, DriverError> {
        if self.state == State::Broken {
            return Err(DriverError::Connection("the connection is closed".to_owned()));
        }
        let end = poll_fn(|cx| self.poll_batch(cx)).await;
        match end {
            Ok(in_transaction) => {
                self.state = State::Idle;
                // The rows have its share from now on.
                self.batch.intake = ResponseReservation::default();
                let mut outcome = std::mem::take(&mut self.batch.outcome);
                outcome.answers.extend(self.batch.simple.take().map(|simple| simple.rows));
                outcome.in_transaction = in_transaction;
                // Kept, so that `is_clean` knows.
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
            if let Some(in_transaction) = self.digest()? {
                return Poll::Ready(Ok(in_transaction));
            }
            // Reading goes on while writing waits: a server whose answers are not read stops reading.
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
        let wanted = match Header::parse(&self.incoming)? {
            Some(header) => frame_bytes(header).saturating_sub(self.incoming.len()),
            None => 0,
        };
        let room = self.incoming.capacity() - self.incoming.len();
        if room < wanted.max(READ_BYTES / 4) {
            self.incoming.reserve(wanted.max(READ_BYTES));
        }
        poll_read_buf(Pin::new(&mut self.stream), cx, &mut self.incoming)
    }

    /// Takes in every message that is here whole. `Some` when the server is ready for the next batch: whether a
    /// transaction is still open.
    fn digest(&mut self) -> Result<Option<bool>, DriverError> {
        loop {
            let header = match Header::parse(&self.incoming) {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(None),
                Err(error) => return Err(garbled(&error.to_string())),
            };
            let length = frame_bytes(header);
            if length > self.limits.message_bytes && !self.batch.commits {
                return Err(DriverError::Postgres(Box::new(PgError::answer_too_large(
                    self.limits.message_bytes,
                ))));
            }
            // Before the rest of it is read, and memory taken for that. A notice or an error can be as long as a row.
            if let Some(memory) = &self.limits.answers
                && !self.batch.intake.has_room(length, memory, self.batch.commits)
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
            if self.is_answering_reset() && self.note_reset(header.tag(), &mut frame)? {
                continue;
            }
            match header.tag() {
                b'D' => {
                    self.batch.take_row(frame.freeze())?;
                }
                // Taken for an answer, it would tell of a write that the server knows nothing of.
                b'Z' if !self.batch.is_answered() => return Err(garbled("an end before the answer")),
                b'Z' => {
                    let has_failed = self.batch.outcome.failure.is_some();
                    self.reset = match self.reset {
                        Reset::Follows => Reset::Sent,
                        // After an error the server skips what is left of the batch.
                        Reset::Within if has_failed => Reset::Due,
                        Reset::Within => Reset::Done,
                        reset @ (Reset::Done | Reset::Due | Reset::Sent) => reset,
                    };
                    return Ok(Some(frame.get(5) != Some(&b'I')));
                }
                _ => {
                    let message = Message::parse(&mut frame).map_err(|error| garbled(&error.to_string()))?;
                    self.note(message.ok_or_else(|| garbled("a short message"))?)?;
                }
            }
        }
    }

    /// What the server says now is about the reset.
    fn is_answering_reset(&self) -> bool {
        match self.reset {
            Reset::Done | Reset::Due | Reset::Follows => false,
            // Answered in the order in which it was sent. After an error the server skips it.
            Reset::Within => self.batch.is_answered() && self.batch.outcome.failure.is_none(),
            Reset::Sent => true,
        }
    }

    /// Takes in what the server says about the reset; false where it says something else.
    fn note_reset(&mut self, tag: u8, frame: &mut BytesMut) -> Result<bool, DriverError> {
        let is_last = self.reset == Reset::Sent;
        match tag {
            b'1' | b'2' => {}
            b'C' => {
                let told = frame.get(5..).and_then(|text| text.strip_suffix(&[0])).unwrap_or_default();
                if !self.commands.answer(told) {
                    return Err(garbled("the session has statements that others prepared"));
                }
            }
            // Of the commit.
            b'E' if !is_last && self.commands.is_answered() => return Ok(false),
            b'E' => {
                let error = error_of(frame)?;
                if is_last || error.is_fatal {
                    return Err(DriverError::Postgres(error));
                }
                // The request has its answer. The session is reset once more, and closed if that fails as well.
                self.reset = Reset::Due;
            }
            b'Z' if !self.commands.is_answered() => return Err(garbled("an end before the reset")),
            b'Z' if is_last => self.reset = Reset::Done,
            _ => return Ok(is_last),
        }
        Ok(true)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the protocol allows no other message here")]
    fn note(&mut self, message: Message) -> Result<(), DriverError> {
        match message {
            Message::BindComplete => self.batch.part()?.reached = Reached::Bound,
            Message::ParameterDescription(_)
            | Message::ParameterStatus(_)
            | Message::NoticeResponse(_)
            | Message::NotificationResponse(_) => {}
            Message::ParseComplete => self.batch.part()?.reached = Reached::Parsed,
            Message::NoData => self.batch.part()?.reached = Reached::Described,
            Message::RowDescription(body) => {
                let columns = row::describe(&body).map_err(|error| garbled(&error.to_string()))?;
                if let Some(simple) = &mut self.batch.simple {
                    simple.columns = columns;
                } else {
                    let part = self.batch.part()?;
                    part.reached = Reached::Described;
                    part.columns = columns.clone();
                    if let Some(prepared) = &mut part.parsing {
                        prepared.describe(columns);
                    }
                }
            }
            Message::CloseComplete => {
                let left = self.batch.closing.checked_sub(1);
                self.batch.closing = left.ok_or_else(|| garbled("an unexpected CloseComplete"))?;
            }
            Message::CommandComplete(_) | Message::EmptyQueryResponse => {
                if let Some(simple) = &mut self.batch.simple {
                    simple.is_over = true;
                } else if let Some(rows) = self.finish_part()? {
                    self.batch.outcome.answers.push(rows);
                }
            }
            Message::ErrorResponse(body) => {
                let mut error = PgError::from_fields(&body).map_err(|error| garbled(&error.to_string()))?;
                error.has_run = self.batch.parts.front().is_none_or(|part| part.reached == Reached::Bound);
                if error.is_fatal || self.state == State::Idle {
                    return Err(DriverError::Postgres(Box::new(error)));
                }
                let may_be_stuck = error.met_changing_catalog();
                self.batch.outcome.failure.get_or_insert_with(|| Box::new(error));
                // The server skips the rest of the batch. What it had parsed by then stays parsed.
                if let Some(part) = self.batch.parts.front() {
                    let stuck = may_be_stuck.then(|| part.key.clone());
                    drop(self.finish_part()?);
                    self.batch.parts.clear();
                    // PostgreSQL locks no function it has looked up: one that is replaced while a statement that names it is
                    // analysed stays in the statement, which fails from then on until something else has it planned anew.
                    if let Some(stuck) = stuck {
                        self.statements.forget(&stuck);
                    }
                }
            }
            _ => return Err(garbled("a message that does not belong here")),
        }
        Ok(())
    }

    /// The statement in turn is over; its rows, if they are wanted.
    fn finish_part(&mut self) -> Result<Option<Vec<Row>>, DriverError> {
        let part = self.batch.parts.pop_front().ok_or_else(|| garbled("an unexpected CommandComplete"))?;
        match part.parsing {
            Some(prepared) if part.reached >= Reached::Described => self.statements.keep(part.key, prepared),
            // Its columns are not known: as a statement of no columns it would break the connection when next used.
            Some(prepared) if part.reached == Reached::Parsed => self.statements.discard(prepared),
            Some(_) | None => {}
        }
        Ok(part.is_wanted.then_some(part.rows))
    }
}

impl Batch {
    /// Whether everything in it has been answered, or skipped because of an error.
    fn is_answered(&self) -> bool {
        let is_over =
            self.outcome.failure.is_some() || self.simple.as_ref().is_none_or(|simple| simple.is_over);
        is_over && self.parts.is_empty() && self.closing == 0
    }

    /// The statement whose turn it is.
    fn part(&mut self) -> Result<&mut Part, DriverError> {
        self.parts.front_mut().ok_or_else(|| garbled("an answer to no question"))
    }

    fn take_row(&mut self, frame: Bytes) -> Result<(), DriverError> {
        let wrong = || garbled("a row that does not fit its columns");
        if let Some(simple) = &mut self.simple {
            simple.rows.push(Row::read(frame, simple.columns.clone(), true, None).ok_or_else(wrong)?);
            return Ok(());
        }
        let share = self.intake.add(frame.len());
        let part = self.part()?;
        if part.is_wanted {
            let is_text = part.parsing.is_some();
            part.rows.push(Row::read(frame, part.columns.clone(), is_text, share).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

/// The error that a message tells of.
fn error_of(frame: &mut BytesMut) -> Result<Box<PgError>, DriverError> {
    let message = Message::parse(frame).map_err(|error| garbled(&error.to_string()))?;
    let Some(Message::ErrorResponse(body)) = message else { return Err(garbled("a short message")) };
    let error = PgError::from_fields(&body).map_err(|error| garbled(&error.to_string()))?;
    Ok(Box::new(error))
}

/// Length of a message with its tag.
fn frame_bytes(header: Header) -> usize {
    usize::try_from(header.len()).unwrap_or(0) + 1
}

/// The server broke the protocol, or bytes were lost: nothing that follows can be trusted.
fn garbled(what: &str) -> DriverError {
    DriverError::Connection(format!("the database sent what cannot be understood: {what}"))
}

#[cfg(test)]
mod tests;
