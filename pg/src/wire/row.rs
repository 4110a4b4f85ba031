//! Rows as received: one slice of the read buffer, split into cells on access.

use std::fmt;
use std::io;
use std::sync::Arc;

use basalt_core::memory::ByteLease;
use bytes::Bytes;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::RowDescriptionBody;

/// Oid of `bytea`, fixed in PostgreSQL's catalog.
const BYTEA: u32 = 17;
/// Offset of the cells, after tag, length and number of columns.
const CELLS_AT: usize = 7;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Column name.
    pub name: Box<str>,
    /// Oid of its type; for a domain, of its base type.
    pub type_oid: u32,
}

/// Columns of a result, shared by its rows and the prepared statement.
pub(super) type Columns = Arc<[Column]>;

/// A row of a result. Cheap to clone; keeps the message that contains it in memory.
#[derive(Clone)]
pub struct Row {
    frame: Bytes,
    columns: Columns,
    /// Whether `bytea` is in text format.
    is_text: bool,
    /// Memory share of a result that is not small.
    share: Option<ByteLease>,
}

impl fmt::Debug for Row {
    /// Omits the values, which must not be logged (STYLE 7.6).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Row({} columns, {} bytes)", self.columns.len(), self.frame.len())
    }
}

impl Row {
    /// Parses a `DataRow` message; `None` if its lengths are inconsistent with each other or with the columns.
    pub(super) fn read(
        frame: Bytes,
        columns: Columns,
        is_text: bool,
        share: Option<ByteLease>,
    ) -> Option<Self> {
        let count = u16::from_be_bytes([*frame.get(5)?, *frame.get(6)?]);
        let mut at = CELLS_AT;
        for _ in 0..count {
            (_, at) = cell(&frame, at)?;
        }
        (at == frame.len() && usize::from(count) == columns.len()).then_some(Self {
            frame,
            columns,
            is_text,
            share,
        })
    }

    /// Columns of the row.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether the row has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Size of the message: the cells, and a few bytes for each.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.frame.len()
    }

    /// Text of a cell; `None` for NULL and for missing columns.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.cells().nth(column)??).ok()
    }

    /// Cell as an integer.
    #[must_use]
    pub fn number(&self, column: usize) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// Bytes of a cell, without copying; they still count as memory of the result. For `bytea` its content, otherwise
    /// the text.
    #[must_use]
    pub fn bytes(&self, column: usize) -> Option<Bytes> {
        let cell = self.cells().nth(column)??;
        if self.is_text && self.columns.get(column).is_some_and(Column::is_bytea) {
            return decode_bytea(cell);
        }
        let bytes = self.frame.slice_ref(cell);
        Some(match &self.share {
            Some(share) => share.keep(bytes),
            None => bytes,
        })
    }

    /// Memory share of a result that is not small, for data derived from its rows.
    #[must_use]
    pub fn share(&self) -> Option<&ByteLease> {
        self.share.as_ref()
    }

    /// All cells in order, as received; `None` is NULL.
    pub fn cells(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut at = CELLS_AT;
        self.columns.iter().map_while(move |_| {
            let (value, next) = cell(&self.frame, at)?;
            at = next;
            Some(value)
        })
    }
}

/// Cell at `at`, and the offset of the next one.
fn cell(frame: &[u8], at: usize) -> Option<(Option<&[u8]>, usize)> {
    let length = i32::from_be_bytes(frame.get(at..)?.first_chunk::<4>().copied()?);
    let begin = at + 4;
    match usize::try_from(length) {
        Ok(length) => {
            let end = begin.checked_add(length)?;
            Some((Some(frame.get(begin..end)?), end))
        }
        Err(_) => (length == -1).then_some((None, begin)),
    }
}

/// Decodes the text of a `bytea`, in either of PostgreSQL's formats: `\x0aff`, or, with the `bytea_output` of old
/// databases, the bytes with `\377` for unprintable ones and `\\` for a backslash.
fn decode_bytea(text: &[u8]) -> Option<Bytes> {
    let digit =
        |byte: &u8, radix| char::from(*byte).to_digit(radix).and_then(|digit| u8::try_from(digit).ok());
    if let Some(digits) = text.strip_prefix(b"\\x") {
        let pairs = digits.chunks_exact(2);
        let bytes = pairs.map(|pair| Some(digit(pair.first()?, 16)? << 4 | digit(pair.get(1)?, 16)?));
        return bytes.collect::<Option<Vec<u8>>>().map(Bytes::from);
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((&first, after)) = rest.split_first() {
        let byte;
        (byte, rest) = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => (b'\\', after),
            (b'\\', [high, middle, low, after @ ..]) => {
                let (high, middle) = (digit(high, 8).filter(|high| *high < 4)?, digit(middle, 8)?);
                (high << 6 | middle << 3 | digit(low, 8)?, after)
            }
            (b'\\', _) => return None,
            (byte, after) => (byte, after),
        };
        bytes.push(byte);
    }
    Some(Bytes::from(bytes))
}

impl Column {
    pub(super) fn is_bytea(&self) -> bool {
        self.type_oid == BYTEA
    }
}

/// The columns of a `RowDescription`; the server names the base type of a domain.
pub(super) fn describe(body: &RowDescriptionBody) -> io::Result<Columns> {
    let columns =
        body.fields().map(|field| Ok(Column { name: field.name().into(), type_oid: field.type_oid() }));
    columns.collect::<Vec<Column>>().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(cells: &[Option<&[u8]>]) -> Vec<u8> {
        let mut frame = vec![b'D', 0, 0, 0, 0];
        frame.extend_from_slice(&u16::try_from(cells.len()).unwrap().to_be_bytes());
        for cell in cells {
            match cell {
                Some(bytes) => {
                    frame.extend_from_slice(&i32::try_from(bytes.len()).unwrap().to_be_bytes());
                    frame.extend_from_slice(bytes);
                }
                None => frame.extend_from_slice(&(-1_i32).to_be_bytes()),
            }
        }
        frame
    }

    fn columns(types: &[u32]) -> Columns {
        types.iter().map(|&type_oid| Column { name: "c".into(), type_oid }).collect()
    }

    #[test]
    fn cells_are_text_numbers_bytes_or_null() {
        let frame = frame(&[Some(b"42"), None, Some(b""), Some(b"\\x0aFF")]);
        let row = Row::read(frame.into(), columns(&[23, 25, 25, BYTEA]), true, None).unwrap();
        assert_eq!((row.number(0), row.text(1), row.text(2), row.text(4)), (Some(42), None, Some(""), None));
        assert_eq!(row.bytes(3).unwrap().as_ref(), [10, 255]);
        assert_eq!(row.bytes(0).unwrap(), "42");
        assert_eq!(row.len(), 4);
        assert_eq!(format!("{row:?}"), "Row(4 columns, 31 bytes)");
    }

    #[test]
    fn bytea_is_read_in_both_of_its_texts() {
        let read = |text: &[u8]| decode_bytea(text).map(|bytes| bytes.to_vec());
        assert_eq!(read(b"\\x00ff5c"), Some(vec![0, 255, b'\\']));
        assert_eq!(read(b"\\000\\377a\\\\x"), Some(b"\0\xffa\\x".to_vec()));
        assert_eq!((read(b""), read(b"\\x")), (Some(Vec::new()), Some(Vec::new())));
        for wrong in [&b"\\"[..], b"\\01", b"\\400", b"\\18a", b"a\\", b"\\xg0"] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_row_that_contradicts_itself_is_none() {
        let whole = frame(&[Some(b"abc"), None]);
        assert!(Row::read(whole.clone().into(), columns(&[25, 25]), true, None).is_some());
        for length in 0..whole.len() {
            assert!(
                Row::read(whole[..length].to_vec().into(), columns(&[25, 25]), true, None).is_none(),
                "{length}"
            );
        }
        assert!(Row::read(whole.clone().into(), columns(&[25]), true, None).is_none());
        let mut longer = whole.clone();
        longer.push(0);
        assert!(Row::read(longer.into(), columns(&[25, 25]), true, None).is_none());
        let mut negative = whole;
        negative[7..11].copy_from_slice(&(-2_i32).to_be_bytes());
        assert!(Row::read(negative.into(), columns(&[25, 25]), true, None).is_none());
    }
}
