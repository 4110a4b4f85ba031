//! Request bodies of S3 clients, chunked or plain. Hashes, checksums and lengths announced in the headers
//! are verified while the body is read.
//!
//! The result is only known at the end, so the consumer has to discard the data if the last read fails.

use aws_lc_rs::digest;
use axum::body::Body;
use basalt_core::convert::saturating;
use basalt_core::memory::BodyLease;
use basalt_core::random::constant_time_eq;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use md5::{Digest as _, Md5};

use super::checksum::{Algorithm, Checksum};
use super::chunked::{ChunkError, ChunkSigner, Decoder};
use super::sigv4::UNSIGNED_PAYLOAD;
use crate::lower_hex;

/// The kind of body, from `x-amz-content-sha256`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadForm {
    /// The body has this SHA-256.
    Hashed([u8; 32]),
    Unsigned,
    /// The body is `aws-chunked`.
    Chunked {
        /// Whether each chunk is signed.
        is_signed: bool,
        /// Whether trailers with checksums follow.
        has_trailers: bool,
    },
}

impl PayloadForm {
    /// Parses the header value.
    ///
    /// # Errors
    /// [`PayloadError::UnknownForm`].
    pub(crate) fn parse(text: &str) -> Result<Self, PayloadError> {
        match text {
            UNSIGNED_PAYLOAD => Ok(Self::Unsigned),
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" => {
                Ok(Self::Chunked { is_signed: true, has_trailers: false })
            }
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER" => {
                Ok(Self::Chunked { is_signed: true, has_trailers: true })
            }
            "STREAMING-UNSIGNED-PAYLOAD-TRAILER" => {
                Ok(Self::Chunked { is_signed: false, has_trailers: true })
            }
            _ => lower_hex::decode(text).map(Self::Hashed).ok_or(PayloadError::UnknownForm),
        }
    }
}

/// Why a body was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    /// `x-amz-content-sha256` is neither a known keyword nor a hash.
    #[error(
        "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value."
    )]
    UnknownForm,
    /// Invalid value of a header that describes the body.
    #[error("The value of the {0} header is invalid")]
    InvalidHeader(&'static str),
    /// `Content-MD5` is not an MD5.
    #[error("The Content-MD5 you specified was invalid.")]
    InvalidMd5,
    /// Invalid framing or chunk signature.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The body does not match the signed hash.
    #[error("The provided 'x-amz-content-sha256' header does not match what was computed.")]
    HashMismatch,
    /// The body does not match `Content-MD5`.
    #[error("The Content-MD5 you specified did not match what we received.")]
    Md5Mismatch,
    /// The body does not match the announced checksum.
    #[error("The {0} you specified did not match the calculated checksum.")]
    ChecksumMismatch(&'static str),
    /// The announced trailer is missing.
    #[error("The body has no trailer {0}, which x-amz-trailer announces")]
    MissingTrailer(&'static str),
    /// The length differs from `x-amz-decoded-content-length`.
    #[error("You did not provide the number of bytes specified by the Content-Length HTTP header")]
    LengthMismatch,
    /// The body exceeds the maximum for its kind.
    #[error("Your proposed upload exceeds the maximum allowed size")]
    TooLarge,
    /// No memory is available for the body.
    #[error("Please reduce your request rate.")]
    Busy,
    /// The client stopped sending.
    #[error("the request body ended early: {0}")]
    Disconnected(String),
}

/// What the headers announce about the body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    sha256: Option<[u8; 32]>,
    md5: Option<[u8; 16]>,
    checksum: Option<(Algorithm, String)>,
    trailer: Option<Algorithm>,
    /// Announced length of the data without framing.
    pub(crate) length: Option<u64>,
}

impl Announced {
    /// Reads the headers of a request with this kind of body.
    ///
    /// # Errors
    /// Invalid value of a header.
    pub(crate) fn read(headers: &HeaderMap, form: PayloadForm) -> Result<Self, PayloadError> {
        let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
        let number = |name: &'static str| {
            text(name)
                .map(|value| value.parse::<u64>().map_err(|_| PayloadError::InvalidHeader(name)))
                .transpose()
        };
        let length = match form {
            PayloadForm::Chunked { .. } => number("x-amz-decoded-content-length")?,
            PayloadForm::Hashed(_) | PayloadForm::Unsigned => number("content-length")?,
        };
        let md5 = text("content-md5")
            .map(|value| {
                let bytes = STANDARD.decode(value).map_err(|_| PayloadError::InvalidMd5)?;
                <[u8; 16]>::try_from(bytes).map_err(|_| PayloadError::InvalidMd5)
            })
            .transpose()?;
        let checksum = Algorithm::ALL
            .into_iter()
            .find_map(|algorithm| text(algorithm.header()).map(|value| (algorithm, value.to_owned())));
        let trailer = match (form, text("x-amz-trailer")) {
            (PayloadForm::Chunked { has_trailers: true, .. }, Some(name)) => {
                let algorithm = Algorithm::from_header(&name.to_ascii_lowercase());
                Some(algorithm.ok_or(PayloadError::InvalidHeader("x-amz-trailer"))?)
            }
            _ => None,
        };
        let sha256 = match form {
            PayloadForm::Hashed(hash) => Some(hash),
            PayloadForm::Unsigned | PayloadForm::Chunked { .. } => None,
        };
        Ok(Self { sha256, md5, checksum, trailer, length })
    }
}

/// Verifies the announcements while the body is read.
struct Checks {
    announced: Announced,
    sha256: Option<digest::Context>,
    md5: Option<Md5>,
    checksum: Option<Checksum>,
    length: u64,
}

impl Checks {
    fn new(announced: Announced) -> Self {
        let algorithm = announced.trailer.or(announced.checksum.as_ref().map(|(algorithm, _)| *algorithm));
        Self {
            sha256: announced.sha256.map(|_| digest::Context::new(&digest::SHA256)),
            md5: announced.md5.map(|_| Md5::new()),
            checksum: algorithm.map(Checksum::new),
            length: 0,
            announced,
        }
    }

    fn update(&mut self, bytes: &[u8]) -> Result<(), PayloadError> {
        self.length = self.length.saturating_add(saturating::<u64>(bytes.len()));
        if self.announced.length.is_some_and(|length| self.length > length) {
            return Err(PayloadError::LengthMismatch);
        }
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(bytes);
        }
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        if let Some(checksum) = &mut self.checksum {
            checksum.update(bytes);
        }
        Ok(())
    }

    /// Verifies everything and returns the checksum, if there was one.
    fn finish(self, trailers: &[(String, String)]) -> Result<Option<(Algorithm, String)>, PayloadError> {
        let Self { announced, sha256, md5, checksum, length } = self;
        if announced.length.is_some_and(|expected_length| expected_length != length) {
            return Err(PayloadError::LengthMismatch);
        }
        if let (Some(expected), Some(sha256)) = (announced.sha256, sha256)
            && !constant_time_eq(&expected, sha256.finish().as_ref())
        {
            return Err(PayloadError::HashMismatch);
        }
        if let (Some(expected), Some(md5)) = (announced.md5, md5)
            && expected[..] != md5.finalize()[..]
        {
            return Err(PayloadError::Md5Mismatch);
        }
        let Some(checksum) = checksum else { return Ok(None) };
        let algorithm = checksum.algorithm();
        let expected = match announced.trailer {
            Some(_) => {
                let sent = trailers.iter().find(|(name, _)| name == algorithm.header());
                sent.map(|(_, value)| value.clone())
                    .ok_or(PayloadError::MissingTrailer(algorithm.header()))?
            }
            None => announced.checksum.map(|(_, value)| value).unwrap_or_default(),
        };
        if checksum.finish() != expected {
            return Err(PayloadError::ChecksumMismatch(algorithm.header()));
        }
        Ok(Some((algorithm, expected)))
    }
}

/// A body being read.
pub(crate) struct Payload {
    body: Body,
    input: Bytes,
    decoder: Option<Decoder>,
    /// `None` after the body has ended.
    checks: Option<Checks>,
    checksum: Option<(Algorithm, String)>,
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Payload")
    }
}

impl Payload {
    /// The body of a request with these headers. `signer` continues the chain started by the request's
    /// signature.
    ///
    /// # Errors
    /// Invalid value of a header, or a signed body without `signer`.
    pub(crate) fn new(
        body: Body,
        headers: &HeaderMap,
        form: PayloadForm,
        signer: Option<ChunkSigner>,
    ) -> Result<Self, PayloadError> {
        let announced = Announced::read(headers, form)?;
        let decoder = match form {
            PayloadForm::Hashed(_) | PayloadForm::Unsigned => None,
            PayloadForm::Chunked { is_signed: true, has_trailers } => {
                // Only header signatures start a chain of chunk signatures.
                let signer = signer.ok_or(PayloadError::UnknownForm)?;
                Some(Decoder::new(Some(signer), has_trailers))
            }
            PayloadForm::Chunked { is_signed: false, has_trailers } => Some(Decoder::new(None, has_trailers)),
        };
        Ok(Self { body, input: Bytes::new(), decoder, checks: Some(Checks::new(announced)), checksum: None })
    }

    /// Announced length of the data.
    #[must_use]
    pub(crate) fn announced_length(&self) -> Option<u64> {
        self.checks.as_ref().and_then(|checks| checks.announced.length)
    }

    /// The next piece of data. `None` after the body has ended and was verified.
    ///
    /// # Errors
    /// The body is rejected; discard its data.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, PayloadError> {
        loop {
            let piece = match &mut self.decoder {
                Some(decoder) => decoder.next(&mut self.input)?,
                None => Some(std::mem::take(&mut self.input)).filter(|input| !input.is_empty()),
            };
            if let Some(piece) = piece {
                if let Some(checks) = &mut self.checks {
                    checks.update(&piece)?;
                }
                return Ok(Some(piece));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.input = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Err(PayloadError::Disconnected(error.to_string())),
                None => break,
            }
        }
        let trailers = match self.decoder.take() {
            Some(decoder) => decoder.finish()?,
            None => Vec::new(),
        };
        if let Some(checks) = self.checks.take() {
            self.checksum = checks.finish(&trailers)?;
        }
        Ok(None)
    }

    /// The verified checksum, after the body has ended.
    #[must_use]
    pub(crate) fn checksum(&self) -> Option<(Algorithm, &str)> {
        self.checksum.as_ref().map(|(algorithm, value)| (*algorithm, value.as_str()))
    }

    /// Collects the body, at most `limit` bytes, accounted for by `lease`.
    ///
    /// # Errors
    /// The body is too long or rejected, or no memory is available.
    pub(crate) async fn collect(
        mut self,
        limit: usize,
        lease: Option<BodyLease>,
    ) -> Result<Bytes, PayloadError> {
        let mut collected = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if collected.len() + piece.len() > limit {
                return Err(PayloadError::TooLarge);
            }
            if lease.as_ref().is_some_and(|lease| !lease.grow(piece.len())) {
                return Err(PayloadError::Busy);
            }
            collected.extend_from_slice(&piece);
        }
        let collected = collected.freeze();
        Ok(match lease {
            Some(lease) => lease.keep(collected),
            None => collected,
        })
    }
}
