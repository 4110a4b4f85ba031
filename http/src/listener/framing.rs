//! Tracks where requests begin and end on a connection, and escapes characters in request targets that RFC 3986
//! requires to be escaped but that clients often do not: `?select=data->>name`.
//!
//! PostgREST accepts such targets, and its manual contains them, but the HTTP library rejects a request line with
//! `"`, `<`, `>` or a backtick. They are therefore escaped as the bytes arrive, in request lines only
//! (docs/decisions/0004). To find request lines, this module follows the framing of HTTP/1.1 (RFC 9112 §6): heads,
//! bodies with a length, chunked bodies. From the first unknown or ambiguous construct on, the rest of the connection
//! is passed on unchanged, as are HTTP/2 and upgraded connections: a body is never modified. Pure: no I/O.
//!
//! One other thing is changed: a head with both a length and a transfer encoding is made invalid, so that the library
//! rejects it (400) and closes the connection. The library would follow the encoding and continue reading, while a
//! proxy that follows the length would treat the rest of the body as its next client's request, or vice versa (RFC
//! 9112 §6.3).

use basalt_core::convert::saturating;
use bytes::BytesMut;

/// Not a valid header line; makes the library reject the head.
const INVALID_HEADER_LINE: &[u8] = b"\0\r\n";
/// Maximum length of header lines that are kept; the relevant ones are shorter.
const MAX_LINE_BYTES: usize = 256;

/// Position of the next byte within the stream of requests.
#[derive(Debug, Default)]
pub(super) struct Framing {
    state: ParserState,
    /// The current line without its end, up to [`MAX_LINE_BYTES`].
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
    /// In a body with this many bytes remaining.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk with this many bytes remaining, including its line end.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailer,
    /// Passed on without interpretation.
    Transparent,
    /// HTTP/2, from its preface on; also passed on.
    Http2,
}

/// Framing information from the headers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Head {
    length: Option<u64>,
    /// Whether a `Content-Length` is present, valid or not.
    names_length: bool,
    is_chunked: bool,
    /// Conflicting lengths, an unknown encoding or an upgrade: the rest is not interpreted.
    is_ambiguous: bool,
}

const fn needs_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'<' | b'>' | b'`')
}

impl Framing {
    /// Follows `input`; returns the bytes to pass on instead if any must be changed.
    pub(super) fn follow(&mut self, input: &[u8]) -> Option<BytesMut> {
        let mut escaped: Option<BytesMut> = None;
        let mut rest = input;
        while !rest.is_empty() && !matches!(self.state, ParserState::Transparent | ParserState::Http2) {
            let position = input.len() - rest.len();
            let (part, after) = rest.split_at(self.next_part(rest));
            rest = after;
            let before = || {
                let mut out = BytesMut::with_capacity(input.len() + 64);
                out.extend_from_slice(input.get(..position).unwrap_or_default());
                out
            };
            // Without an early exit the loop is vectorised.
            let is_to_escape = || part.iter().fold(false, |found, byte| found | needs_escape(*byte));
            if self.state == ParserState::RequestLine && is_to_escape() {
                escape(part, escaped.get_or_insert_with(before));
            } else if self.state == ParserState::Header
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

    /// Whether the last request was read completely, as far as that is known.
    pub(super) fn is_between_requests(&self) -> bool {
        self.state == ParserState::RequestLine && self.line.is_empty()
    }

    pub(super) fn is_http2(&self) -> bool {
        self.state == ParserState::Http2
    }

    /// Whether `part`, in a head, completes its last line.
    fn ends_head(&self, part: &[u8]) -> bool {
        part.ends_with(b"\n") && self.line.trim_ascii_end().is_empty() && part.trim_ascii_end().is_empty()
    }

    /// Length of the part of `rest` that belongs to the current state: a line with its end, or a stretch of body.
    fn next_part(&self, rest: &[u8]) -> usize {
        match self.state {
            ParserState::Body(left) | ParserState::Chunk(left) => rest.len().min(saturating::<usize>(left)),
            ParserState::RequestLine
            | ParserState::Header
            | ParserState::ChunkSize
            | ParserState::Trailer => memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
            ParserState::Transparent | ParserState::Http2 => rest.len(),
        }
    }

    fn advance(&mut self, part: &[u8]) {
        match self.state {
            ParserState::Body(left) => {
                let left = left - part.len() as u64;
                self.state = if left == 0 { ParserState::RequestLine } else { ParserState::Body(left) };
            }
            ParserState::Chunk(left) => {
                let left = left - part.len() as u64;
                self.state = if left == 0 { ParserState::ChunkSize } else { ParserState::Chunk(left) };
            }
            ParserState::RequestLine
            | ParserState::Header
            | ParserState::ChunkSize
            | ParserState::Trailer => {
                let is_complete = part.last() == Some(&b'\n');
                let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
                let kept = part.get(..room).unwrap_or(part);
                if is_complete && self.line.is_empty() {
                    self.state = self.after_line(kept.trim_ascii_end());
                    return;
                }
                self.line.extend_from_slice(kept);
                if is_complete {
                    let mut line = std::mem::take(&mut self.line);
                    self.state = self.after_line(line.trim_ascii_end());
                    line.clear();
                    self.line = line;
                }
            }
            ParserState::Transparent | ParserState::Http2 => {}
        }
    }

    fn after_line(&mut self, line: &[u8]) -> ParserState {
        match self.state {
            // Empty lines before a request line are allowed.
            ParserState::RequestLine if line.is_empty() => ParserState::RequestLine,
            ParserState::RequestLine if line.starts_with(b"PRI ") => ParserState::Http2,
            ParserState::RequestLine => {
                self.head = Head::default();
                ParserState::Header
            }
            ParserState::Header if line.is_empty() => self.head.body(),
            ParserState::Header => {
                self.head.parse_header(line);
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
                self.state
            }
        }
    }
}

impl Head {
    /// Whether the body would end at different positions by its length and by its encoding.
    const fn has_length_and_transfer_encoding(self) -> bool {
        self.names_length && self.is_chunked
    }

    fn parse_header(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            // A folded line, or not a header.
            self.is_ambiguous = true;
            return;
        };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.eq_ignore_ascii_case(b"content-length") {
            let is_complete = line.len() < MAX_LINE_BYTES && value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(value).ok().filter(|_| is_complete);
            let length = length.and_then(|text| text.parse().ok());
            self.names_length = true;
            self.is_ambiguous |= length.is_none() || self.length.is_some_and(|before| Some(before) != length);
            self.length = length;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_ambiguous |= self.is_chunked || !value.eq_ignore_ascii_case(b"chunked");
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"upgrade") || name.first().is_some_and(u8::is_ascii_whitespace) {
            self.is_ambiguous = true;
        }
    }

    const fn body(self) -> ParserState {
        match self {
            Self { is_ambiguous: true, .. } | Self { is_chunked: true, length: Some(_), .. } => {
                ParserState::Transparent
            }
            Self { is_chunked: true, .. } => ParserState::ChunkSize,
            Self { length: Some(length @ 1..), .. } => ParserState::Body(length),
            Self { .. } => ParserState::RequestLine,
        }
    }
}

/// Parses a chunk size: `1a;extension` is 26.
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
