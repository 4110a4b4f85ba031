//! HTTP/2 frames as they come in, as far as needed to know what their headers will hold. HPACK (RFC 7541) names a
//! header in a single byte, of which the HTTP library makes a hundred; and a block of headers may come in pieces
//! (CONTINUATION), which the library keeps until the last one.
//!
//! Nothing is decoded: strings are skipped, so that a header costs this a few steps. Nothing is judged either: what is
//! wrong is the library's to refuse. Pure: no I/O.

use crate::layers::heads::HEADER_COST;

const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

/// Where in the stream of frames the next byte is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// What is there of the head of a frame.
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of its payload to come; 0 in its head.
    left: usize,
    kind: Kind,
    block: Block,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One that has no headers.
    #[default]
    Other,
    /// One with a piece of a block of headers, the last one or not.
    Headers { tells_padding: bool, priority: usize, padding: usize, is_last: bool },
}

/// Bytes that blocks of headers hold.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Those that became whole: requests from now on.
    pub(super) whole: usize,
    /// The one that is not whole yet.
    pub(super) unfinished: usize,
}

/// A request has more headers than it may.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooManyHeaders;

impl Frames {
    /// Follows `input`; what the library will hold of the blocks of headers in it.
    pub(super) fn follow(&mut self, mut input: &[u8], max_headers: usize) -> Result<Held, TooManyHeaders> {
        let mut whole = 0;
        while let Some((&first, others)) = input.split_first() {
            if self.left == 0 {
                whole += self.read_head(first);
                input = others;
                continue;
            }
            let part = input.get(..self.left).unwrap_or(input);
            let taken = match &mut self.kind {
                Kind::Other => part.len(),
                Kind::Headers { tells_padding: tells @ true, padding, .. } => {
                    *tells = false;
                    *padding = usize::from(first);
                    1
                }
                Kind::Headers { priority: left @ 1.., .. } => {
                    let taken = part.len().min(*left);
                    *left -= taken;
                    taken
                }
                Kind::Headers { padding, .. } if *padding >= self.left => part.len(),
                Kind::Headers { padding, .. } => {
                    let piece = part.get(..self.left - *padding).unwrap_or(part);
                    self.block.follow(piece);
                    piece.len()
                }
            };
            if self.block.headers > max_headers {
                return Err(TooManyHeaders);
            }
            self.left -= taken;
            whole += self.end_frame();
            input = input.get(taken..).unwrap_or_default();
        }
        Ok(Held { whole, unfinished: self.block.cost() })
    }

    /// What ends with the head, if its frame is empty.
    fn read_head(&mut self, byte: u8) -> usize {
        if let Some(place) = self.head.get_mut(self.head_bytes) {
            *place = byte;
        }
        self.head_bytes += 1;
        if self.head_bytes < HEAD_BYTES {
            return 0;
        }
        let [high, middle, low, kind, flags, ..] = self.head;
        let has = |flag: u8| flags & flag != 0;
        self.head_bytes = 0;
        self.left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        let is_last = has(END_HEADERS);
        self.kind = match kind {
            HEADERS => Kind::Headers {
                tells_padding: has(PADDED),
                priority: if has(PRIORITY) { 5 } else { 0 },
                padding: 0,
                is_last,
            },
            CONTINUATION => Kind::Headers { tells_padding: false, priority: 0, padding: 0, is_last },
            _ => Kind::Other,
        };
        self.end_frame()
    }

    /// Forgets a block when its last piece is there; what it held.
    fn end_frame(&mut self) -> usize {
        if self.left == 0 && matches!(self.kind, Kind::Headers { is_last: true, .. }) {
            std::mem::take(&mut self.block).cost()
        } else {
            0
        }
    }
}

/// A block of headers so far.
#[derive(Debug, Default)]
struct Block {
    bytes: usize,
    headers: usize,
    place: Place,
    /// Strings of this header that are still to come.
    strings: u8,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    /// At the first byte of a header.
    #[default]
    First,
    /// In a number that says nothing about lengths, and goes on.
    Number,
    /// At the first byte of a string, its length.
    Length,
    /// In a length that goes on: what it is so far, and by how much the next bits count more.
    LongLength(usize, u32),
    /// In a string that goes on for so long.
    Text(usize),
}

impl Block {
    const fn cost(&self) -> usize {
        self.bytes + self.headers * HEADER_COST
    }

    fn follow(&mut self, mut piece: &[u8]) {
        self.bytes += piece.len();
        while let Some((&byte, others)) = piece.split_first() {
            piece = others;
            self.place = match self.place {
                Place::First => self.begin(byte),
                Place::Number if byte & 0x80 != 0 => Place::Number,
                Place::Number => self.next_string(),
                Place::Length => match usize::from(byte & 0x7f) {
                    0 => self.next_string(),
                    0x7f => Place::LongLength(0x7f, 0),
                    length => Place::Text(length),
                },
                Place::LongLength(length, shift) => {
                    let more = usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                    let length = length.saturating_add(more);
                    if byte & 0x80 == 0 { Place::Text(length) } else { Place::LongLength(length, shift + 7) }
                }
                Place::Text(length) => {
                    // This byte is its first.
                    let rest = length.saturating_sub(1);
                    let taken = rest.min(piece.len());
                    piece = piece.get(taken..).unwrap_or_default();
                    if taken == rest { self.next_string() } else { Place::Text(rest - taken) }
                }
            };
        }
    }

    /// What follows the first byte of a header (RFC 7541 §6).
    fn begin(&mut self, byte: u8) -> Place {
        let (prefix, has_strings) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            // The size of the table: no header.
            0x20.. => {
                self.strings = 0;
                return if byte & 0x1f == 0x1f { Place::Number } else { Place::First };
            }
            _ => (0x0f, true),
        };
        self.headers += 1;
        let index = byte & prefix;
        self.strings = match (has_strings, index) {
            (false, _) => 0,
            (true, 0) => 2,
            (true, _) => 1,
        };
        if index == prefix { Place::Number } else { self.next_string() }
    }

    fn next_string(&mut self) -> Place {
        if self.strings == 0 {
            return Place::First;
        }
        self.strings -= 1;
        Place::Length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [u8; 4] = [0, 0, 0, 1];

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &STREAM, payload].concat()
    }

    /// A literal with a new name, as long strings as said.
    fn literal(name: usize, value: usize) -> Vec<u8> {
        let string = |length: usize| {
            let mut out = vec![u8::try_from(length.min(0x7f)).unwrap()];
            if let Some(mut rest) = length.checked_sub(0x7f) {
                while rest >= 0x80 {
                    out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                    rest >>= 7;
                }
                out.push(u8::try_from(rest).unwrap());
            }
            out.extend(std::iter::repeat_n(0xff, length));
            out
        };
        [vec![0], string(name), string(value)].concat()
    }

    /// What is held in the end, the same in pieces of any size.
    fn held(input: &[u8], max_headers: usize) -> Result<Held, TooManyHeaders> {
        let at_once = Frames::default().follow(input, max_headers);
        for size in [1, 2, 3, 7, 64, 1000] {
            let mut frames = Frames::default();
            let in_pieces = input.chunks(size).try_fold(Held::default(), |before, piece| {
                let Held { whole, unfinished } = frames.follow(piece, max_headers)?;
                Ok(Held { whole: before.whole + whole, unfinished })
            });
            assert_eq!(in_pieces, at_once, "in pieces of {size}");
        }
        at_once
    }

    fn unfinished(input: &[u8], max_headers: usize) -> Result<usize, TooManyHeaders> {
        held(input, max_headers).map(|held| held.unfinished)
    }

    #[test]
    fn a_block_counts_until_its_last_piece() {
        let block = [literal(1, 300), literal(5, 20_000), vec![0x82]].concat();
        let cost = |headers: usize| block.len() + headers * HEADER_COST;
        let begun = frame(HEADERS, 0, &block);
        assert_eq!(unfinished(&begun, 100), Ok(cost(3)));
        let continued = [begun.clone(), frame(CONTINUATION, 0, &[0x82, 0x82])].concat();
        assert_eq!(unfinished(&continued, 100), Ok(cost(5) + 2));
        for end in [frame(CONTINUATION, END_HEADERS, &[]), frame(CONTINUATION, END_HEADERS, &[0x82])] {
            let last = end.len() - 9;
            let whole = cost(3) + last + last * HEADER_COST;
            assert_eq!(held(&[begun.clone(), end].concat(), 100), Ok(Held { whole, unfinished: 0 }));
        }
        let other = [frame(0, 0, &[0x82; 500]), frame(4, 0, &[0; 36]), frame(9, 1, &[])].concat();
        assert_eq!(held(&other, 0), Ok(Held::default()));
    }

    #[test]
    fn what_stands_around_a_block_is_no_part_of_it() {
        let block = [literal(1, 1), vec![0x82]].concat();
        let padded = [&[3][..], &[9, 9, 9, 9, 9], &block, &[0x82; 3]].concat();
        assert_eq!(
            unfinished(&frame(HEADERS, PADDED | PRIORITY, &padded), 2),
            Ok(block.len() + 2 * HEADER_COST)
        );
        // More padding than there is: the library will say so.
        assert_eq!(unfinished(&frame(HEADERS, PADDED, &[200, 0x82, 0x82]), 1), Ok(0));
    }

    #[test]
    fn every_kind_of_header_counts_once() {
        // Indexed, also beyond one byte; literals with a known name, kept or not; a new size of the table.
        let block: &[u8] = &[
            0x82, 0xff, 0x80, 0x01, 0x41, 1, b'a', 0x7f, 0x00, 1, b'a', 0x0f, 0x01, 0, 0x3f, 0xe1, 0x1f, 0x20,
        ];
        assert_eq!(unfinished(&frame(HEADERS, 0, block), 5), Ok(block.len() + 5 * HEADER_COST));
        assert_eq!(held(&frame(HEADERS, 0, block), 4), Err(TooManyHeaders));
        let endless =
            [frame(HEADERS, 0, &[0x82; 60]), frame(CONTINUATION, END_HEADERS, &[0x82; 60])].concat();
        assert_eq!(held(&endless, 100), Err(TooManyHeaders));
        let requests = frame(HEADERS, END_HEADERS, &[0x82; 60]).repeat(50);
        assert_eq!(unfinished(&requests, 100), Ok(0), "each block for itself");
    }
}
