//! Decoder for `aws-chunked` bodies: chunks with a length, optionally signed, followed by trailers with
//! checksums.
//!
//! Data is passed on before its chunk's signature has been verified, because an upload only takes effect
//! after its complete body was accepted. The decoder buffers at most one line.

use aws_lc_rs::digest;
use basalt_core::convert::saturating;
use basalt_core::random::constant_time_eq;
use bytes::Bytes;

use super::sigv4::{Signature, SigningKey};
use crate::lower_hex;

/// Maximum length of a line: a chunk header with signature, or a trailer.
const MAX_LINE: usize = 1024;
/// Most trailers of a body.
const MAX_TRAILERS: usize = 16;
/// SHA-256 of the empty string.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Why a body was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// Invalid framing.
    #[error("The chunks of the body cannot be read")]
    Malformed,
    /// A chunk or the trailers do not match their signature.
    #[error("The signature of a chunk does not match")]
    BadSignature,
    /// The body ends before its last chunk.
    #[error("You did not provide the number of bytes specified by the Content-Length HTTP header")]
    Incomplete,
}

/// Computes the chain of chunk signatures.
#[derive(Debug, Clone)]
pub struct ChunkSigner {
    key: SigningKey,
    time: String,
    scope: String,
    previous: [u8; 32],
}

impl ChunkSigner {
    /// Starts the chain with the request's signature.
    #[must_use]
    pub fn new(signature: &Signature, key: SigningKey) -> Self {
        Self {
            key,
            time: signature.time.text.clone(),
            scope: signature.credential.scope(),
            previous: signature.bytes(),
        }
    }

    /// Signature of the next chunk, given its hash.
    pub fn sign_chunk(&mut self, sha256: &[u8]) -> [u8; 32] {
        let content = format!("{EMPTY_SHA256}\n{}", hex::encode(sha256));
        self.sign("AWS4-HMAC-SHA256-PAYLOAD", &content)
    }

    /// Signature of the trailers, given their hash.
    pub fn sign_trailers(&mut self, sha256: &[u8]) -> [u8; 32] {
        self.sign("AWS4-HMAC-SHA256-TRAILER", &hex::encode(sha256))
    }

    fn sign(&mut self, algorithm: &str, content: &str) -> [u8; 32] {
        let Self { time, scope, .. } = self;
        let previous = hex::encode(self.previous);
        let text = format!("{algorithm}\n{time}\n{scope}\n{previous}\n{content}");
        self.previous = self.key.sign(text.as_bytes());
        self.previous
    }
}

enum State {
    /// Expecting a chunk header.
    Head,
    /// Expecting this many bytes of data.
    Data(u64),
    /// Expecting the line end after the data.
    DataEnd,
    /// Expecting trailers, or the empty line that ends them.
    Trailers,
    /// The body is complete.
    Done,
}

/// Decodes one body.
pub struct Decoder {
    state: State,
    signer: Option<ChunkSigner>,
    has_trailers: bool,
    line: Vec<u8>,
    /// Signature stated in the chunk header.
    claimed: [u8; 32],
    hash: digest::Context,
    trailers: Vec<(String, String)>,
    trailers_signed: bool,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// `signer` is given for signed chunks; `has_trailers` if the request announces trailers.
    #[must_use]
    pub fn new(signer: Option<ChunkSigner>, has_trailers: bool) -> Self {
        Self {
            state: State::Head,
            signer,
            has_trailers,
            line: Vec::new(),
            claimed: [0; 32],
            hash: digest::Context::new(&digest::SHA256),
            trailers: Vec::new(),
            trailers_signed: false,
        }
    }

    /// Consumes framing and at most one piece of data from `input`. `None` when `input` is exhausted.
    ///
    /// # Errors
    /// The body is rejected.
    pub fn next(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, ChunkError> {
        while !input.is_empty() {
            match self.state {
                State::Data(left) => {
                    let length = saturating::<usize>(left).min(input.len());
                    let piece = input.split_to(length);
                    let left = left.saturating_sub(saturating::<u64>(length));
                    if self.signer.is_some() {
                        self.hash.update(&piece);
                    }
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                    if left == 0 {
                        self.check_chunk()?;
                    }
                    return Ok(Some(piece));
                }
                State::Head | State::DataEnd | State::Trailers => {
                    if let Some(line) = self.take_line(input)? {
                        self.read_line(&line)?;
                    }
                }
                State::Done => return Err(ChunkError::Malformed),
            }
        }
        Ok(None)
    }

    /// Returns the trailers after the body has ended.
    ///
    /// # Errors
    /// The last chunk is missing.
    pub fn finish(self) -> Result<Vec<(String, String)>, ChunkError> {
        match self.state {
            State::Done => Ok(self.trailers),
            State::Head | State::Data(_) | State::DataEnd | State::Trailers => Err(ChunkError::Incomplete),
        }
    }

    /// Takes a complete line without its end, once available.
    fn take_line(&mut self, input: &mut Bytes) -> Result<Option<Vec<u8>>, ChunkError> {
        let end = input.iter().position(|byte| *byte == b'\n');
        let taken = input.split_to(end.map_or(input.len(), |end| end + 1));
        if self.line.len() + taken.len() > MAX_LINE {
            return Err(ChunkError::Malformed);
        }
        self.line.extend_from_slice(&taken);
        if end.is_none() {
            return Ok(None);
        }
        let mut line = std::mem::take(&mut self.line);
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    fn read_line(&mut self, line: &[u8]) -> Result<(), ChunkError> {
        let line = std::str::from_utf8(line).map_err(|_| ChunkError::Malformed)?;
        match self.state {
            State::Head => self.read_head(line),
            State::DataEnd if line.is_empty() => {
                self.state = State::Head;
                Ok(())
            }
            State::Trailers => self.read_trailer(line),
            State::DataEnd | State::Data(_) | State::Done => Err(ChunkError::Malformed),
        }
    }

    /// Parses `10000;chunk-signature=…`, or the length alone.
    fn read_head(&mut self, line: &str) -> Result<(), ChunkError> {
        let (length, extension) = line.split_once(';').unwrap_or((line, ""));
        let is_number =
            (1..=16).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_hexdigit());
        let length =
            u64::from_str_radix(length, 16).ok().filter(|_| is_number).ok_or(ChunkError::Malformed)?;
        if self.signer.is_some() {
            self.claimed = extension
                .strip_prefix("chunk-signature=")
                .and_then(lower_hex::decode)
                .ok_or(ChunkError::Malformed)?;
        }
        if length == 0 {
            self.check_chunk()?;
            self.state = State::Trailers;
        } else {
            self.state = State::Data(length);
        }
        Ok(())
    }

    /// Verifies the signature of a complete chunk.
    fn check_chunk(&mut self) -> Result<(), ChunkError> {
        let Some(signer) = &mut self.signer else { return Ok(()) };
        let hash = std::mem::replace(&mut self.hash, digest::Context::new(&digest::SHA256)).finish();
        let expected = signer.sign_chunk(hash.as_ref());
        if constant_time_eq(&expected, &self.claimed) { Ok(()) } else { Err(ChunkError::BadSignature) }
    }

    /// Handles a trailer, or the empty line that ends the body. Some signers also send one before the
    /// trailers' signature.
    fn read_trailer(&mut self, line: &str) -> Result<(), ChunkError> {
        let wants_signature = self.signer.is_some() && self.has_trailers && !self.trailers_signed;
        if line.is_empty() {
            if !wants_signature {
                self.state = State::Done;
            } else if self.trailers.is_empty() {
                return Err(ChunkError::BadSignature);
            }
            return Ok(());
        }
        let (name, value) = line.split_once(':').ok_or(ChunkError::Malformed)?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        if !self.has_trailers || self.trailers_signed || self.trailers.len() >= MAX_TRAILERS {
            return Err(ChunkError::Malformed);
        }
        if name == "x-amz-trailer-signature" {
            return self.check_trailers(value);
        }
        self.trailers.push((name, value.to_owned()));
        Ok(())
    }

    fn check_trailers(&mut self, claimed: &str) -> Result<(), ChunkError> {
        let Some(signer) = &mut self.signer else { return Err(ChunkError::Malformed) };
        let claimed: [u8; 32] = lower_hex::decode(claimed).ok_or(ChunkError::Malformed)?;
        let canonical: String =
            self.trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let hash = digest::digest(&digest::SHA256, canonical.as_bytes());
        if !constant_time_eq(&signer.sign_trailers(hash.as_ref()), &claimed) {
            return Err(ChunkError::BadSignature);
        }
        self.trailers_signed = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
