//! A replication connection: commands that create a slot, then its stream of changes over CopyBoth
//! (docs/decisions/0063).
//!
//! It is opened like any other connection, with the same TLS and login, and uses simple queries until the stream
//! starts. The contents of the stream are opaque here: bytes with a position in the write-ahead log.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::str::FromStr;
use std::task::{Context, Poll, ready};

use basalt_core::clock::Clock;
use bytes::{Buf, Bytes, BytesMut};
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::{Header, Message};

use super::connect::Purpose;
use super::row::Row;
use super::{
    CLOSED, Connection, KEPT_BUFFER_BYTES, Limits, StatementMetrics, frame_bytes, parse_error, protocol_error,
};
use crate::database::Database;
use crate::pg_error::{DriverError, PgError};

/// Microseconds from 1970 to 2000, the epoch of PostgreSQL's clock.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Bytes before the payload of a message.
const TAG_AND_LENGTH: usize = 5;

/// A position in the write-ahead log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Lsn {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (high, low) = text.split_once('/').ok_or(())?;
        let half = |digits| u32::from_str_radix(digits, 16).map_err(|_| ());
        Ok(Self(u64::from(half(high)?) << 32 | u64::from(half(low)?)))
    }
}

/// A connection that accepts replication commands.
pub struct Replication {
    connection: Connection,
}

impl fmt::Debug for Replication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Replication")
    }
}

impl Replication {
    /// Opens a connection. A message longer than `message_bytes` ends the stream.
    ///
    /// # Errors
    /// The server is unreachable, rejects the login, or does not permit replication.
    pub async fn connect(database: &Database, message_bytes: usize) -> Result<Self, DriverError> {
        let statement_metrics = StatementMetrics::new("replication");
        let limits = Limits { statements: 0, statement_metrics, message_bytes, answers: None };
        Ok(Self { connection: Connection::open_as(database, &limits, Purpose::Replication).await? })
    }

    /// Runs a replication command or a simple query; the text must be the caller's own.
    ///
    /// # Errors
    /// The server rejects it, or the connection broke.
    pub async fn query(&mut self, command: &str) -> Result<Vec<Row>, DriverError> {
        self.connection.simple_query(command).await
    }

    /// Runs a command that copies out, such as `BASE_BACKUP`; the text must be the caller's own.
    #[must_use]
    pub fn copy_out(mut self, command: &str) -> CopyOut {
        self.connection.outgoing.query(command);
        let stream = ReplicationStream { connection: self.connection, acknowledged: Lsn::default() };
        CopyOut { stream, failure: None }
    }

    /// Runs `START_REPLICATION`; from then on the connection is a stream.
    ///
    /// # Errors
    /// The server rejects it, or the connection broke.
    pub async fn start(mut self, command: &str) -> Result<ReplicationStream, DriverError> {
        self.connection.outgoing.query(command);
        let mut stream = ReplicationStream { connection: self.connection, acknowledged: Lsn::default() };
        loop {
            let (tag, mut frame) = poll_fn(|cx| stream.poll_message(cx)).await?;
            match tag {
                // CopyBothResponse.
                b'W' => return Ok(stream),
                b'E' => return Err(DriverError::Postgres(parse_error(&mut frame)?)),
                b'N' | b'S' | b'A' => {}
                _ => return Err(protocol_error("unexpected message before the stream")),
            }
        }
    }
}

/// What a command such as `BASE_BACKUP` sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyOutMessage {
    /// A row of a result before or after the copy: its columns as text.
    Row(Vec<Option<String>>),
    /// A part of the copy.
    Data(Bytes),
}

/// The results of a command that copies out. Dropping it closes the connection, which ends the command.
pub struct CopyOut {
    stream: ReplicationStream,
    failure: Option<DriverError>,
}

impl fmt::Debug for CopyOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CopyOut")
    }
}

impl CopyOut {
    /// Returns the next message; `None` when the command has succeeded.
    ///
    /// # Errors
    /// The command failed, or the connection broke.
    pub async fn next(&mut self) -> Result<Option<CopyOutMessage>, DriverError> {
        loop {
            let (tag, mut frame) = poll_fn(|cx| self.stream.poll_message(cx)).await?;
            match tag {
                b'd' => {
                    frame.advance(TAG_AND_LENGTH);
                    return Ok(Some(CopyOutMessage::Data(frame.freeze())));
                }
                b'D' => {
                    let row = read_row(&mut frame).ok_or_else(|| protocol_error("malformed row"))?;
                    return Ok(Some(CopyOutMessage::Row(row)));
                }
                b'E' => self.failure = Some(DriverError::Postgres(parse_error(&mut frame)?)),
                // The command may still fail after its last row.
                b'Z' => return self.failure.take().map_or(Ok(None), Err),
                // Descriptions, notices and the ends of results.
                b'T' | b'C' | b'c' | b'H' | b'N' | b'S' | b'A' => {}
                _ => return Err(protocol_error("unexpected message in a copy")),
            }
        }
    }
}

/// The columns of a `DataRow`; `None` if it is malformed or not UTF-8.
fn read_row(frame: &mut BytesMut) -> Option<Vec<Option<String>>> {
    let Ok(Some(Message::DataRow(row))) = Message::parse(frame) else { return None };
    let mut columns = Vec::new();
    let mut ranges = row.ranges();
    while let Some(range) = ranges.next().ok()? {
        let column = match range {
            Some(range) => Some(std::str::from_utf8(row.buffer().get(range)?).ok()?.to_owned()),
            None => None,
        };
        columns.push(column);
    }
    Some(columns)
}

/// A frame received on the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message of the output plugin, or a part of the log itself.
    Data {
        /// Position of the first byte in the log.
        start: Lsn,
        /// Message bytes.
        payload: Bytes,
        /// End of the server's log.
        wal_end: Lsn,
    },
    /// A keep-alive message.
    KeepAlive {
        /// Position up to which the server has processed its log for this stream; nothing before it will be sent any
        /// more.
        wal_end: Lsn,
        /// Whether the server closes the connection unless it gets a reply soon.
        wants_reply: bool,
    },
}

/// Stream of a slot's changes, in commit order.
pub struct ReplicationStream {
    connection: Connection,
    acknowledged: Lsn,
}

impl fmt::Debug for ReplicationStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplicationStream(acknowledged {})", self.acknowledged)
    }
}

impl ReplicationStream {
    /// Returns the next frame. May be dropped and called again. Sends pending acknowledgements meanwhile.
    ///
    /// # Errors
    /// The connection broke, or the server ended the stream with an error; it must be discarded.
    pub async fn next(&mut self) -> Result<Frame, DriverError> {
        loop {
            let (tag, mut frame) = poll_fn(|cx| self.poll_message(cx)).await?;
            match tag {
                b'd' => {
                    return read_frame(frame.freeze())
                        .ok_or_else(|| protocol_error("malformed frame of the stream"));
                }
                b'E' => return Err(DriverError::Postgres(parse_error(&mut frame)?)),
                b'N' | b'S' | b'A' => {}
                b'c' | b'C' | b'Z' => {
                    return Err(DriverError::Connection(
                        "the server ended the replication stream".to_owned(),
                    ));
                }
                _ => return Err(protocol_error("unexpected message in the stream")),
            }
        }
    }

    /// Returns the next frame if it has already arrived.
    ///
    /// # Errors
    /// As [`ReplicationStream::next`].
    pub fn try_next(&mut self) -> Result<Option<Frame>, DriverError> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(self.next()).poll(&mut cx) {
            Poll::Ready(frame) => frame.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Acknowledges that nothing before `lsn` is needed any more, so that the server may remove it from its log. Sent
    /// by the next call of [`ReplicationStream::next`]. Also answers a [`Frame::KeepAlive`].
    pub fn acknowledge(&mut self, lsn: Lsn) {
        self.acknowledged = self.acknowledged.max(lsn);
        let Lsn(position) = self.acknowledged;
        let now = Clock::system().now().as_microsecond() - POSTGRES_EPOCH_MICROS;
        self.connection.outgoing.standby_status(position, now.cast_unsigned());
    }

    /// Last acknowledged position.
    #[must_use]
    pub const fn acknowledged(&self) -> Lsn {
        self.acknowledged
    }

    /// Reads the next complete message, with its tag.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<(u8, BytesMut), DriverError>> {
        let connection = &mut self.connection;
        let broken = |error: io::Error| DriverError::Connection(error.to_string());
        loop {
            // Bounded: a few bytes per acknowledgement, sent as soon as the socket accepts them.
            if let Poll::Ready(Err(error)) = connection.poll_send(cx) {
                return Poll::Ready(Err(broken(error)));
            }
            if let Some(header) =
                Header::parse(&connection.incoming).map_err(|error| protocol_error(&error.to_string()))?
            {
                let length = frame_bytes(header);
                if length > connection.limits.message_bytes {
                    let error = PgError::answer_too_large(connection.limits.message_bytes);
                    return Poll::Ready(Err(DriverError::Postgres(Box::new(error))));
                }
                if connection.incoming.len() >= length {
                    let frame = connection.incoming.split_to(length);
                    if length > KEPT_BUFFER_BYTES {
                        connection.incoming = BytesMut::from(&*connection.incoming);
                    }
                    return Poll::Ready(Ok((header.tag(), frame)));
                }
            }
            if ready!(connection.poll_fill(cx)).map_err(broken)? == 0 {
                return Poll::Ready(Err(DriverError::Connection(CLOSED.to_owned())));
            }
        }
    }
}

/// Parses a `CopyData` message of the server; `None` if it is too short or of an unknown kind.
fn read_frame(mut message: Bytes) -> Option<Frame> {
    if message.len() <= TAG_AND_LENGTH {
        return None;
    }
    message.advance(TAG_AND_LENGTH);
    match message.try_get_u8().ok()? {
        b'w' => {
            let (start, wal_end, _clock) =
                (message.try_get_u64().ok()?, message.try_get_u64().ok()?, message.try_get_u64().ok()?);
            Some(Frame::Data { start: Lsn(start), payload: message, wal_end: Lsn(wal_end) })
        }
        b'k' => {
            let (wal_end, _clock) = (message.try_get_u64().ok()?, message.try_get_u64().ok()?);
            let wants_reply = message.try_get_u8().ok()? != 0;
            Some(Frame::KeepAlive { wal_end: Lsn(wal_end), wants_reply })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_position_parses_to_itself() {
        for text in ["0/0", "16/B374D848", "FFFFFFFF/FFFFFFFF"] {
            assert_eq!(text.parse::<Lsn>().unwrap().to_string(), text);
        }
        assert!(
            "16".parse::<Lsn>().is_err()
                && "16/x".parse::<Lsn>().is_err()
                && "1/100000000".parse::<Lsn>().is_err()
        );
    }

    #[test]
    fn frames_are_parsed_and_short_ones_rejected() {
        let mut data = b"d\0\0\0\0w".to_vec();
        data.extend([1_u64, 2, 3].iter().flat_map(|number| number.to_be_bytes()));
        data.extend(b"payload");
        let frame = Frame::Data { start: Lsn(1), payload: Bytes::from_static(b"payload"), wal_end: Lsn(2) };
        assert_eq!(read_frame(data.clone().into()), Some(frame));
        for length in 0..30 {
            assert_eq!(read_frame(data[..length].to_vec().into()), None, "{length}");
        }
        let mut alive = b"d\0\0\0\0k".to_vec();
        alive.extend([7_u64, 3].iter().flat_map(|number| number.to_be_bytes()));
        assert_eq!(read_frame(alive.clone().into()), None);
        alive.push(1);
        let frame = Frame::KeepAlive { wal_end: Lsn(7), wants_reply: true };
        assert_eq!(read_frame(alive.into()), Some(frame));
    }
}
