//! Rows as the server sent them: one slice of the read buffer, cut up when somebody looks.

use std::io;

use bytes::Bytes;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::RowDescriptionBody;

/// `bytea`'s object id, fixed in PostgreSQL's catalog.
const BYTEA: u32 = 17;
/// Tag, length and number of columns stand before the cells.
const CELLS_AT: usize = 7;

/// One row of an answer. Cheap to clone; keeps the message it came with in memory.
#[derive(Clone, Debug)]
pub struct Row {
    frame: Bytes,
    columns: u16,
    /// Columns that are `bytea` as text.
    hex: u64,
}

impl Row {
    /// Reads a `DataRow` message; `None` when its lengths contradict each other.
    pub(super) fn read(frame: Bytes, hex: u64) -> Option<Self> {
        let columns = u16::from_be_bytes([*frame.get(5)?, *frame.get(6)?]);
        let mut at = CELLS_AT;
        for _ in 0..columns {
            (_, at) = cell(&frame, at)?;
        }
        (at == frame.len()).then_some(Self { frame, columns, hex })
    }

    /// Number of columns.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.columns as usize
    }

    /// Whether it has no columns.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// The cell as PostgreSQL's text of it; `None` for NULL and for columns that are not there.
    #[must_use]
    pub fn text(&self, column: usize) -> Option<&str> {
        std::str::from_utf8(self.cells().nth(column)??).ok()
    }

    /// The cell as a whole number.
    #[must_use]
    pub fn number(&self, column: usize) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// The cell's bytes, not copied: the content of a `bytea`, of everything else the text.
    #[must_use]
    pub fn bytes(&self, column: usize) -> Option<Bytes> {
        let cell = self.cells().nth(column)??;
        if column < 64 && self.hex >> column & 1 == 1 {
            return from_hex(cell);
        }
        Some(self.frame.slice_ref(cell))
    }

    /// All cells in order, as sent; `None` is NULL.
    pub fn cells(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut at = CELLS_AT;
        (0..self.columns).map_while(move |_| {
            let (value, next) = cell(&self.frame, at)?;
            at = next;
            Some(value)
        })
    }
}

/// The cell at `at`, and where the next one begins.
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

/// `\x0aff` as bytes.
fn from_hex(text: &[u8]) -> Option<Bytes> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let digits = text.strip_prefix(b"\\x")?;
    let pairs = digits.chunks_exact(2);
    pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect::<Option<Vec<u8>>>().map(Bytes::from)
}

/// Number of columns, and which of the first 64 are `bytea` (the server names the base type of a domain).
pub(super) fn describe(body: &RowDescriptionBody) -> io::Result<(u16, u64)> {
    let mut fields = body.fields();
    let (mut count, mut bytea) = (0_u16, 0_u64);
    while let Some(field) = fields.next()? {
        if field.type_oid() == BYTEA && count < 64 {
            bytea |= 1 << count;
        }
        count = count.saturating_add(1);
    }
    Ok((count, bytea))
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

    #[test]
    fn cells_are_text_numbers_bytes_or_null() {
        let frame = frame(&[Some(b"42"), None, Some(b""), Some(b"\\x0aFF")]);
        let row = Row::read(frame.into(), 0b1000).unwrap();
        assert_eq!((row.number(0), row.text(1), row.text(2), row.text(4)), (Some(42), None, Some(""), None));
        assert_eq!(row.bytes(3).unwrap().as_ref(), [10, 255]);
        assert_eq!(row.bytes(0).unwrap(), "42");
        assert_eq!(row.len(), 4);
    }

    #[test]
    fn a_row_that_contradicts_itself_is_none() {
        let whole = frame(&[Some(b"abc"), None]);
        assert!(Row::read(whole.clone().into(), 0).is_some());
        for length in 0..whole.len() {
            assert!(Row::read(whole[..length].to_vec().into(), 0).is_none(), "{length}");
        }
        let mut longer = whole.clone();
        longer.push(0);
        assert!(Row::read(longer.into(), 0).is_none());
        let mut negative = whole;
        negative[7..11].copy_from_slice(&(-2_i32).to_be_bytes());
        assert!(Row::read(negative.into(), 0).is_none());
    }
}
