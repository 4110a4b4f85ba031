//! Where requests begin and end on a connection, and targets with characters that RFC 3986 wants escaped and people often
//! do not escape: `?select=data->>name`.
//!
//! PostgREST takes such targets, and its manual writes them so; the HTTP library refuses a request line with `"`, `<`,
//! `>` or a backtick. So they are escaped while the bytes come in, in request lines and nowhere
//! else (docs/decisions/0004). To know where a request line starts, this follows the framing of HTTP/1.1 (RFC 9112 §6):
//! heads, bodies with a length, chunked bodies. What it does not understand, or what could be read in two ways, is
//! passed on untouched from there to the end of the connection, and so are HTTP/2 and upgraded connections: a body is
//! never changed. Pure: no I/O.
//!
//! One more thing is changed: a head that gives its body both a length and a coding is spoilt, so that the library
//! refuses it (400) and closes the connection. The library would go by the coding and read on, and a proxy that goes by
//! the length would take the rest of the body for its next client's request, or the other way round (RFC 9112 §6.3).

use bytes::BytesMut;

/// No header: what makes the library refuse a head.
const INVALID_HEADER_LINE: &[u8] = b"\0\r\n";
/// Header lines are kept up to this length; those that matter here are shorter.
const KEPT_LINE_BYTES: usize = 256;

/// Where in the stream of requests the next byte is.
#[derive(Debug, Default)]
pub(super) struct Framing {
    place: ParserState,
    /// The current line, up to [`KEPT_LINE_BYTES`]; without its end.
    line: Vec<u8>,
    head: Head,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    /// In a request line, or before one.
    #[default]
    RequestLine,
    /// In a header line.
    Header,
    /// In a body with this many bytes to come.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk with this many bytes to come, its line end included.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailer,
    /// Not ours to understand.
    Transparent,
    /// The same, from its preface on.
    Http2,
}

/// What the headers said about the body.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Head {
    length: Option<u64>,
    /// There is one, whether we understand it or not.
    names_length: bool,
    is_chunked: bool,
    /// Two lengths, a coding we do not know, an upgrade: what follows is not for us.
    is_unclear: bool,
}

const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`')
}

impl Framing {
    /// Follows `input`; the bytes to pass on instead, when something in it has to be changed.
    pub(super) fn follow(&mut self, input: &[u8]) -> Option<BytesMut> {
        let mut escaped: Option<BytesMut> = None;
        let mut rest = input;
        while !rest.is_empty() && !matches!(self.place, ParserState::Transparent | ParserState::Http2) {
            let position = input.len() - rest.len();
            let (part, after) = rest.split_at(self.next_part(rest));
            rest = after;
            let before = || {
                let mut out = BytesMut::with_capacity(input.len() + 64);
                out.extend_from_slice(input.get(..position).unwrap_or_default());
                out
            };
            // No way out of the loop: so it is done by many bytes at a time.
            let is_to_escape = || part.iter().fold(false, |found, byte| found | needs_escape(*byte));
            if self.place == ParserState::RequestLine && is_to_escape() {
                escape(part, escaped.get_or_insert_with(before));
            } else if self.place == ParserState::Header
                && self.head.has_length_and_transfer_encoding()
                && self.ends_head(part)
            {
                let out = escaped.get_or_insert_with(before);
                out.extend_from_slice(INVALID_HEADER_LINE);
                out.extend_from_slice(part);
            } else if let Some(out) = &mut escaped {
                out.extend_from_slice(part);
            }
            self.advance(part);
        }
        if let Some(out) = &mut escaped {
            out.extend_from_slice(rest);
        }
        escaped
    }

    /// Whether the last request was read to its end, as far as that can be told.
    pub(super) fn is_between_requests(&self) -> bool {
        self.place == ParserState::RequestLine && self.line.is_empty()
    }

    pub(super) fn is_http2(&self) -> bool {
        self.place == ParserState::Http2
    }

    /// Whether `part`, in a head, is its last line or the end of that.
    fn ends_head(&self, part: &[u8]) -> bool {
        part.ends_with(b"\n") && self.line.trim_ascii_end().is_empty() && part.trim_ascii_end().is_empty()
    }

    /// How much of `rest` belongs to the place we are in: a line with its end, or a stretch of body.
    fn next_part(&self, rest: &[u8]) -> usize {
        match self.place {
            ParserState::Body(left) | ParserState::Chunk(left) => {
                rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))
            }
            ParserState::RequestLine
            | ParserState::Header
            | ParserState::ChunkSize
            | ParserState::Trailer => memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
            ParserState::Transparent | ParserState::Http2 => rest.len(),
        }
    }

    fn advance(&mut self, part: &[u8]) {
        match self.place {
            ParserState::Body(left) => {
                let left = left - part.len() as u64;
                self.place = if left == 0 { ParserState::RequestLine } else { ParserState::Body(left) };
            }
            ParserState::Chunk(left) => {
                let left = left - part.len() as u64;
                self.place = if left == 0 { ParserState::ChunkSize } else { ParserState::Chunk(left) };
            }
            ParserState::RequestLine
            | ParserState::Header
            | ParserState::ChunkSize
            | ParserState::Trailer => {
                let is_whole = part.last() == Some(&b'\n');
                let room = KEPT_LINE_BYTES.saturating_sub(self.line.len());
                let kept = part.get(..room).unwrap_or(part);
                if is_whole && self.line.is_empty() {
                    self.place = self.after_line(kept.trim_ascii_end());
                    return;
                }
                self.line.extend_from_slice(kept);
                if is_whole {
                    let mut line = std::mem::take(&mut self.line);
                    self.place = self.after_line(line.trim_ascii_end());
                    line.clear();
                    self.line = line;
                }
            }
            ParserState::Transparent | ParserState::Http2 => {}
        }
    }

    fn after_line(&mut self, line: &[u8]) -> ParserState {
        match self.place {
            // Empty lines before a request line are allowed.
            ParserState::RequestLine if line.is_empty() => ParserState::RequestLine,
            ParserState::RequestLine if line.starts_with(b"PRI ") => ParserState::Http2,
            ParserState::RequestLine => {
                self.head = Head::default();
                ParserState::Header
            }
            ParserState::Header if line.is_empty() => self.head.body(),
            ParserState::Header => {
                self.head.read(line);
                ParserState::Header
            }
            ParserState::ChunkSize => match chunk_size(line) {
                Some(0) => ParserState::Trailer,
                Some(size) => ParserState::Chunk(size.saturating_add(2)),
                None => ParserState::Transparent,
            },
            ParserState::Trailer if line.is_empty() => ParserState::RequestLine,
            ParserState::Trailer => ParserState::Trailer,
            ParserState::Body(_) | ParserState::Chunk(_) | ParserState::Transparent | ParserState::Http2 => {
                self.place
            }
        }
    }
}

impl Head {
    /// By its length it ends at one place, by its coding at another.
    const fn has_length_and_transfer_encoding(self) -> bool {
        self.names_length && self.is_chunked
    }

    fn read(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            // A folded line, or none at all.
            self.is_unclear = true;
            return;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_whole = line.len() < KEPT_LINE_BYTES && value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(value).ok().filter(|_| is_whole);
            let length = length.and_then(|text| text.parse().ok());
            self.names_length = true;
            self.is_unclear |= length.is_none() || self.length.is_some_and(|before| Some(before) != length);
            self.length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_unclear |= self.is_chunked || !value.eq_ignore_ascii_case(b"chunked");
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") || name.first().is_some_and(u8::is_ascii_whitespace) {
            self.is_unclear = true;
        }
    }

    const fn body(self) -> ParserState {
        match self {
            Self { is_unclear: true, .. } | Self { is_chunked: true, length: Some(_), .. } => {
                ParserState::Transparent
            }
            Self { is_chunked: true, .. } => ParserState::ChunkSize,
            Self { length: Some(length @ 1..), .. } => ParserState::Body(length),
            Self { .. } => ParserState::RequestLine,
        }
    }
}

/// `1a;extension` → 26.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn escape(part: &[u8], out: &mut BytesMut) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in part {
        if needs_escape(byte) {
            let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        } else {
            out.extend_from_slice(&[byte]);
        }
    }
}
