//! Decoder for the output plugin `pgoutput`, protocol version 1, values in text format.
//!
//! The lengths in a message are not trusted, although PostgreSQL wrote them: an inconsistent message is an
//! error, and decoding never allocates more than the message's size.

use std::str;

use bytes::{Buf, Bytes};

/// Microseconds from 1970 to 2000, PostgreSQL's epoch.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// A decoded message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Start of a committed transaction.
    Begin(Begin),
    /// End of a transaction.
    Commit {
        /// Log position after the transaction.
        end: u64,
    },
    /// Definition of a table; precedes its first change, and its first change after a change of the
    /// definition.
    Relation(Relation),
    /// A changed row.
    Change {
        /// Object id of the table.
        relation: u32,
        /// The change and its values.
        change: RowChange,
    },
    /// Tables were truncated.
    Truncate {
        /// Object ids of the tables.
        relations: Vec<u32>,
    },
    /// Origins, types, and messages of `pg_logical_emit_message`: ignored.
    Other,
}

/// Header of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Lower 32 bits of the transaction id.
    pub xid: u32,
    /// Commit time in microseconds since 1970.
    pub committed_micros: i64,
}

/// Definition of a table at the time of the changes that follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Object id.
    pub oid: u32,
    /// Schema of the table.
    pub schema: String,
    /// Table name, without schema.
    pub name: String,
    /// `REPLICA IDENTITY`: `d`efault, `f`ull, `i`ndex, or `n`othing.
    pub identity: u8,
    /// Published columns, in table order.
    pub columns: Vec<RelationColumn>,
}

/// A column of a [`Relation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationColumn {
    /// Column name.
    pub name: String,
    /// Object id of its type.
    pub type_oid: u32,
    /// Whether the column is part of the replica identity.
    pub is_key: bool,
}

/// The change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// INSERT.
    Insert {
        /// The new row.
        new: Tuple,
    },
    /// UPDATE.
    Update {
        /// What was sent of the previous row: nothing, its replica identity, or all columns.
        old: Option<Old>,
        /// The new row.
        new: Tuple,
    },
    /// DELETE.
    Delete {
        /// What was sent of the deleted row.
        old: Old,
    },
}

/// A row before its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Old {
    /// Only the columns of the replica identity have values; the others are NULL.
    Key(Tuple),
    /// All columns.
    Full(Tuple),
}

impl Old {
    /// The values.
    #[must_use]
    pub const fn tuple(&self) -> &Tuple {
        match self {
            Self::Key(tuple) | Self::Full(tuple) => tuple,
        }
    }
}

/// The values of a row, one for each column of its [`Relation`].
pub type Tuple = Vec<Value>;

/// The value of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// Stored out of line and unchanged, so PostgreSQL did not send it.
    Unchanged,
    /// UTF-8 text.
    Text(Bytes),
}

impl Value {
    /// The text, unless NULL or unchanged.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(bytes) => str::from_utf8(bytes).ok(),
            Self::Null | Self::Unchanged => None,
        }
    }
}

/// The message is inconsistent, or of an unsupported protocol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid replication message: {0}")]
pub struct DecodeError(&'static str);

/// Object id of the table if the message is a row change. Inspects only the first five bytes.
#[must_use]
pub fn changed_relation(message: &[u8]) -> Option<u32> {
    match message {
        [b'I' | b'U' | b'D', oid @ ..] => Some(u32::from_be_bytes(*oid.first_chunk::<4>()?)),
        _ => None,
    }
}

/// Decodes a message.
///
/// # Errors
/// The message is inconsistent.
pub fn decode(message: Bytes) -> Result<Message, DecodeError> {
    let mut reader = Reader(message);
    let decoded = match reader.byte()? {
        b'B' => {
            let (_final_lsn, micros, xid) = (reader.u64()?, reader.u64()?, reader.u32()?);
            let committed_micros = micros.cast_signed().saturating_add(POSTGRES_EPOCH_MICROS);
            Message::Begin(Begin { xid, committed_micros })
        }
        b'C' => {
            let (_flags, _lsn, end, _micros) = (reader.byte()?, reader.u64()?, reader.u64()?, reader.u64()?);
            Message::Commit { end }
        }
        b'R' => Message::Relation(reader.relation()?),
        b'I' => {
            let relation = reader.u32()?;
            reader.expect(b'N')?;
            Message::Change { relation, change: RowChange::Insert { new: reader.tuple()? } }
        }
        b'U' => {
            let relation = reader.u32()?;
            let old = match reader.byte()? {
                b'N' => None,
                kind => {
                    let old = reader.old(kind)?;
                    reader.expect(b'N')?;
                    Some(old)
                }
            };
            Message::Change { relation, change: RowChange::Update { old, new: reader.tuple()? } }
        }
        b'D' => {
            let relation = reader.u32()?;
            let kind = reader.byte()?;
            Message::Change { relation, change: RowChange::Delete { old: reader.old(kind)? } }
        }
        b'T' => {
            let (count, _options) = (reader.u32()?, reader.byte()?);
            // Bounded by the message: each id is read before the next.
            let relations = (0..count).map(|_| reader.u32()).collect::<Result<_, _>>()?;
            Message::Truncate { relations }
        }
        b'O' | b'Y' | b'M' => return Ok(Message::Other),
        _ => return Err(DecodeError("unknown kind")),
    };
    if reader.0.has_remaining() {
        return Err(DecodeError("trailing bytes"));
    }
    Ok(decoded)
}

struct Reader(Bytes);

const TRUNCATED: DecodeError = DecodeError("truncated");

impl Reader {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        self.0.try_get_u8().map_err(|_| TRUNCATED)
    }

    fn u16(&mut self) -> Result<u16, DecodeError> {
        self.0.try_get_u16().map_err(|_| TRUNCATED)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.0.try_get_u32().map_err(|_| TRUNCATED)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.0.try_get_u64().map_err(|_| TRUNCATED)
    }

    fn expect(&mut self, tag: u8) -> Result<(), DecodeError> {
        if self.byte()? == tag { Ok(()) } else { Err(DecodeError("tuple expected")) }
    }

    /// Reads text up to a NUL byte.
    fn string(&mut self) -> Result<String, DecodeError> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(TRUNCATED)?;
        let text = self.0.split_to(end);
        self.0.advance(1);
        String::from_utf8(text.into()).map_err(|_| DecodeError("a name is not UTF-8"))
    }

    fn relation(&mut self) -> Result<Relation, DecodeError> {
        let (oid, schema, name, identity) = (self.u32()?, self.string()?, self.string()?, self.byte()?);
        let count = self.u16()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let flags = self.byte()?;
            let (name, type_oid, _modifier) = (self.string()?, self.u32()?, self.u32()?);
            columns.push(RelationColumn { name, type_oid, is_key: flags & 1 != 0 });
        }
        // The plugin sends an empty name for `pg_catalog`.
        let schema = if schema.is_empty() { "pg_catalog".to_owned() } else { schema };
        Ok(Relation { oid, schema, name, identity, columns })
    }

    fn old(&mut self, kind: u8) -> Result<Old, DecodeError> {
        match kind {
            b'K' => Ok(Old::Key(self.tuple()?)),
            b'O' => Ok(Old::Full(self.tuple()?)),
            _ => Err(DecodeError("unknown kind of old row")),
        }
    }

    fn tuple(&mut self) -> Result<Tuple, DecodeError> {
        let count = self.u16()?;
        let mut tuple = Vec::new();
        for _ in 0..count {
            tuple.push(match self.byte()? {
                b'n' => Value::Null,
                b'u' => Value::Unchanged,
                b't' => {
                    let length = usize::try_from(self.u32()?).map_err(|_| TRUNCATED)?;
                    if length > self.0.len() {
                        return Err(TRUNCATED);
                    }
                    let text = self.0.split_to(length);
                    if str::from_utf8(&text).is_err() {
                        return Err(DecodeError("a value is not UTF-8"));
                    }
                    Value::Text(text)
                }
                _ => return Err(DecodeError("unknown kind of value")),
            });
        }
        Ok(tuple)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn write_tuple(out: &mut Vec<u8>, tuple: &Tuple) {
        out.extend(u16::try_from(tuple.len()).unwrap().to_be_bytes());
        for value in tuple {
            match value {
                Value::Null => out.push(b'n'),
                Value::Unchanged => out.push(b'u'),
                Value::Text(text) => {
                    out.push(b't');
                    out.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                    out.extend_from_slice(text);
                }
            }
        }
    }

    fn write_old(out: &mut Vec<u8>, old: &Old) {
        out.push(if matches!(old, Old::Key(_)) { b'K' } else { b'O' });
        write_tuple(out, old.tuple());
    }

    /// Encodes as PostgreSQL does.
    fn write(message: &Message) -> Vec<u8> {
        let mut out = Vec::new();
        match message {
            Message::Begin(begin) => {
                out.push(b'B');
                out.extend(0_u64.to_be_bytes());
                out.extend((begin.committed_micros - POSTGRES_EPOCH_MICROS).to_be_bytes());
                out.extend(begin.xid.to_be_bytes());
            }
            Message::Commit { end } => {
                out.extend(b"C\0");
                out.extend(0_u64.to_be_bytes());
                out.extend(end.to_be_bytes());
                out.extend(0_u64.to_be_bytes());
            }
            Message::Relation(relation) => {
                out.push(b'R');
                out.extend(relation.oid.to_be_bytes());
                for name in [&relation.schema, &relation.name] {
                    out.extend(name.bytes());
                    out.push(0);
                }
                out.push(relation.identity);
                out.extend(u16::try_from(relation.columns.len()).unwrap().to_be_bytes());
                for column in &relation.columns {
                    out.push(u8::from(column.is_key));
                    out.extend(column.name.bytes());
                    out.push(0);
                    out.extend(column.type_oid.to_be_bytes());
                    out.extend((-1_i32).to_be_bytes());
                }
            }
            Message::Change { relation, change } => {
                let tag = match change {
                    RowChange::Insert { .. } => b'I',
                    RowChange::Update { .. } => b'U',
                    RowChange::Delete { .. } => b'D',
                };
                out.push(tag);
                out.extend(relation.to_be_bytes());
                match change {
                    RowChange::Insert { new } => {
                        out.push(b'N');
                        write_tuple(&mut out, new);
                    }
                    RowChange::Update { old, new } => {
                        if let Some(old) = old {
                            write_old(&mut out, old);
                        }
                        out.push(b'N');
                        write_tuple(&mut out, new);
                    }
                    RowChange::Delete { old } => write_old(&mut out, old),
                }
            }
            Message::Truncate { relations } => {
                out.push(b'T');
                out.extend(u32::try_from(relations.len()).unwrap().to_be_bytes());
                out.push(0);
                for relation in relations {
                    out.extend(relation.to_be_bytes());
                }
            }
            Message::Other => out.push(b'O'),
        }
        out
    }

    fn tuple() -> impl Strategy<Value = Tuple> {
        let value = prop_oneof![
            Just(Value::Null),
            Just(Value::Unchanged),
            ".{0,12}".prop_map(|text| Value::Text(text.into())),
        ];
        vec(value, 0..5)
    }

    fn old() -> impl Strategy<Value = Old> {
        (any::<bool>(), tuple())
            .prop_map(|(full, tuple)| if full { Old::Full(tuple) } else { Old::Key(tuple) })
    }

    fn message() -> impl Strategy<Value = Message> {
        let name = "[a-z \u{e9}\"]{1,8}";
        let column = (name, any::<u32>(), any::<bool>())
            .prop_map(|(name, type_oid, is_key)| RelationColumn { name, type_oid, is_key });
        let relation =
            (any::<u32>(), name, name, vec(column, 0..4)).prop_map(|(oid, schema, name, columns)| {
                Message::Relation(Relation { oid, schema, name, identity: b'd', columns })
            });
        let change = prop_oneof![
            tuple().prop_map(|new| RowChange::Insert { new }),
            (proptest::option::of(old()), tuple()).prop_map(|(old, new)| RowChange::Update { old, new }),
            old().prop_map(|old| RowChange::Delete { old }),
        ];
        prop_oneof![
            (any::<u32>(), -1_000_000_i64..4_000_000_000_000_000)
                .prop_map(|(xid, committed_micros)| Message::Begin(Begin { xid, committed_micros })),
            any::<u64>().prop_map(|end| Message::Commit { end }),
            relation,
            (any::<u32>(), change).prop_map(|(relation, change)| Message::Change { relation, change }),
            vec(any::<u32>(), 1..4).prop_map(|relations| Message::Truncate { relations }),
        ]
    }

    proptest! {
        #[test]
        fn messages_round_trip(message in message()) {
            let bytes = write(&message);
            if let Message::Change { relation, .. } = &message {
                prop_assert_eq!(changed_relation(&bytes), Some(*relation));
            } else {
                prop_assert_eq!(changed_relation(&bytes), None);
            }
            prop_assert_eq!(decode(bytes.into()), Ok(message));
        }

        #[test]
        fn rejects_truncated_and_extended_messages(message in message(), extra in 1_u8..3) {
            let bytes = write(&message);
            for length in 0..bytes.len() {
                prop_assert!(decode(bytes[..length].to_vec().into()).is_err());
            }
            let longer = [&*bytes, &vec![0; usize::from(extra)]].concat();
            prop_assert!(decode(longer.into()).is_err());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            let _read = changed_relation(&bytes);
            let _read = decode(bytes.into());
        }
    }
}
