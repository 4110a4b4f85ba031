//! Messages to the server, and their unsent bytes.
//!
//! Written without the serialisers of `postgres-protocol`, which require one contiguous buffer: a body of 50 MB,
//! which is a single parameter, would be held twice.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::statements::Prepared;
use crate::pg_error::{DriverError, PgError};
use crate::sql::Param;

/// Parameters of at least this size are sent without copying.
const SHARED_FROM_BYTES: usize = 16 * 1024;
/// A buffer that has grown beyond this size is freed.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// A parameter in text format.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Text(&'a [u8]),
    /// Text that is not copied if it is large.
    Shared(&'a Bytes),
}

impl Value<'_> {
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Null => None,
            Self::Text(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
        }
    }
}

impl<'a> From<&'a Param> for Value<'a> {
    fn from(param: &'a Param) -> Self {
        param.0.as_ref().map_or(Self::Null, Self::Shared)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.as_bytes())
    }
}

/// Bytes still to be sent.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Sent before `tail`.
    queue: VecDeque<Bytes>,
    tail: Vec<u8>,
    /// Number of bytes of `tail` already sent.
    sent: usize,
}

impl Outgoing {
    pub(super) fn has_remaining(&self) -> bool {
        !self.queue.is_empty() || self.sent < self.tail.len()
    }

    pub(super) fn chunk(&self) -> &[u8] {
        match self.queue.front() {
            Some(bytes) => bytes,
            None => self.tail.get(self.sent..).unwrap_or_default(),
        }
    }

    /// Marks `count` bytes of [`Outgoing::chunk`] as sent.
    pub(super) fn advance(&mut self, count: usize) {
        if let Some(bytes) = self.queue.front_mut() {
            bytes.advance(count.min(bytes.len()));
            if bytes.is_empty() {
                self.queue.pop_front();
            }
            return;
        }
        self.sent += count;
        if self.sent >= self.tail.len() {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.queue.clear();
        self.sent = 0;
        self.tail.clear();
        self.tail.shrink_to(KEPT_BUFFER_BYTES);
    }

    pub(super) fn parse(&mut self, statement: &Prepared, text: &str) -> Result<(), DriverError> {
        if memchr::memchr(0, text.as_bytes()).is_some() {
            return Err(unsendable("The statement has a NUL byte."));
        }
        let name = statement.name();
        self.header(b'P', 4 + name.len() + 1 + text.len() + 1 + 2)?;
        self.string(name);
        self.string(text.as_bytes());
        // The server infers the parameter types, as for literals.
        self.tail.extend_from_slice(&[0, 0]);
        self.header(b'D', 4 + 1 + name.len() + 1)?;
        self.tail.push(b'S');
        self.string(name);
        Ok(())
    }

    /// Binds the unnamed portal: parameters as text; results as text, except `bytea` if the columns are known.
    pub(super) fn bind<'a>(
        &mut self,
        statement: &Prepared,
        params: impl ExactSizeIterator<Item = Value<'a>> + Clone,
    ) -> Result<(), DriverError> {
        let count =
            u16::try_from(params.len()).map_err(|_| unsendable("It has more than 65,535 parameters."))?;
        let name = statement.name();
        let values: usize = params.clone().map(|value| 4 + value.bytes().map_or(0, <[u8]>::len)).sum();
        let formats = statement.result_formats();
        self.header(b'B', 4 + 1 + name.len() + 1 + 2 + 2 + values + 2 + 2 * formats.len())?;
        self.tail.push(0);
        self.string(name);
        self.tail.extend_from_slice(&[0, 0]);
        self.tail.extend_from_slice(&count.to_be_bytes());
        for value in params {
            match value.bytes() {
                None => self.tail.extend_from_slice(&(-1_i32).to_be_bytes()),
                Some(bytes) => {
                    self.length(bytes.len())?;
                    match value {
                        Value::Shared(shared) if shared.len() >= SHARED_FROM_BYTES => self.share(shared),
                        Value::Null | Value::Text(_) | Value::Shared(_) => self.tail.extend_from_slice(bytes),
                    }
                }
            }
        }
        self.tail.extend_from_slice(&u16::try_from(formats.len()).unwrap_or(0).to_be_bytes());
        for is_binary in formats {
            self.tail.extend_from_slice(&[0, u8::from(is_binary)]);
        }
        Ok(())
    }

    /// Executes the unnamed portal to completion.
    pub(super) fn execute(&mut self) {
        self.tail.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
    }

    pub(super) fn close(&mut self, statement: &Prepared) {
        let name = statement.name();
        // A name has only a few bytes.
        if self.header(b'C', 4 + 1 + name.len() + 1).is_ok() {
            self.tail.push(b'S');
            self.string(name);
        }
    }

    pub(super) fn sync(&mut self) {
        self.tail.extend_from_slice(b"S\0\0\0\x04");
    }

    /// Prepares one of our own commands, without requesting a description.
    pub(super) fn prepare_command(&mut self, name: &str, text: &str) {
        if self.header(b'P', 4 + name.len() + 1 + text.len() + 1 + 2).is_ok() {
            self.string(name.as_bytes());
            self.string(text.as_bytes());
            self.tail.extend_from_slice(&[0, 0]);
        }
    }

    /// Runs a command prepared by [`Outgoing::prepare_command`].
    pub(super) fn run_command(&mut self, name: &str) {
        if self.header(b'B', 4 + 1 + name.len() + 1 + 6).is_ok() {
            self.tail.push(0);
            self.string(name.as_bytes());
            self.tail.extend_from_slice(&[0; 6]);
            self.execute();
        }
    }

    /// A simple query with one of our own texts.
    pub(super) fn query(&mut self, text: &str) {
        if self.header(b'Q', 4 + text.len() + 1).is_ok() {
            self.string(text.as_bytes());
        }
    }

    /// Reports to the server of a replication stream how far its log was written, flushed and applied, which is
    /// always the same position.
    pub(super) fn standby_status(&mut self, position: u64, now: u64) {
        self.tail.extend_from_slice(b"d\0\0\0\x26r");
        for number in [position, position, position, now] {
            self.tail.extend_from_slice(&number.to_be_bytes());
        }
        self.tail.push(0);
    }

    fn header(&mut self, tag: u8, length: usize) -> Result<(), DriverError> {
        self.tail.push(tag);
        self.length(length)
    }

    fn length(&mut self, length: usize) -> Result<(), DriverError> {
        let length = i32::try_from(length).map_err(|_| unsendable("It has 2 GB or more."))?;
        self.tail.extend_from_slice(&length.to_be_bytes());
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.tail.extend_from_slice(text);
        self.tail.push(0);
    }

    fn share(&mut self, bytes: &Bytes) {
        // Sending starts once the batch is complete, so nothing of `tail` has been sent.
        self.queue.push_back(std::mem::take(&mut self.tail).into());
        self.queue.push_back(bytes.clone());
    }
}

/// The statement is too large for the protocol: an error of the request, not of the connection.
fn unsendable(detail: &str) -> DriverError {
    DriverError::Postgres(Box::new(PgError::unsendable(detail)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sent(mut outgoing: Outgoing, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while outgoing.has_remaining() {
            let chunk = outgoing.chunk();
            let count = chunk.len().min(step);
            all.extend_from_slice(&chunk[..count]);
            outgoing.advance(count);
        }
        all
    }

    /// Splits messages by their lengths; every byte must belong to one.
    fn tags(mut bytes: &[u8]) -> String {
        let mut tags = String::new();
        while let [tag, a, b, c, d, ..] = *bytes {
            tags.push(char::from(tag));
            let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).unwrap();
            bytes = &bytes[1 + length..];
        }
        assert!(bytes.is_empty());
        tags
    }

    proptest! {
        #[test]
        fn message_lengths_are_correct(
            params in proptest::collection::vec(proptest::option::of(0_usize..40_000), 0..5),
            step in 1_usize..50_000,
        ) {
            let params: Vec<Param> = params
                .into_iter()
                .map(|length| length.map_or_else(Param::null, |length| Param::from("x".repeat(length))))
                .collect();
            let mut outgoing = Outgoing::default();
            let statement = Prepared::new(7);
            outgoing.close(&statement);
            outgoing.parse(&statement, "select $1").unwrap();
            outgoing.bind(&statement, params.iter().map(Value::from)).unwrap();
            outgoing.execute();
            outgoing.sync();
            outgoing.standby_status(1, 2);
            let bytes = sent(outgoing, step);
            prop_assert_eq!(tags(&bytes), "CPDBESd");
            let values: Vec<u8> = params.iter().filter_map(|param| param.0.as_deref()).collect::<Vec<_>>().concat();
            prop_assert!(memchr::memmem::find(&bytes, &values).is_some() || params.len() > 1);
            prop_assert!(bytes.len() > values.len());
        }
    }

    #[test]
    fn statement_with_nul_byte_is_rejected() {
        assert!(Outgoing::default().parse(&Prepared::new(1), "select 1\0; drop table t").is_err());
    }
}
