//! Checksums that S3 clients send with a body, in a header or a trailer.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;

/// Checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// CRC-32, as in zip.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// CRC-64/NVME.
    Crc64Nvme,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// Name of the header or trailer.
    #[must_use]
    pub(crate) const fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// The algorithm of a header, given in lower case.
    #[must_use]
    pub(crate) fn from_header(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.header() == name)
    }
}

/// A checksum being computed.
pub(crate) struct Checksum {
    algorithm: Algorithm,
    state: State,
}

enum State {
    Crc(Box<crc_fast::Digest>),
    Sha(digest::Context),
}

impl Checksum {
    #[must_use]
    pub(crate) fn new(algorithm: Algorithm) -> Self {
        let crc = |algorithm| State::Crc(Box::new(crc_fast::Digest::new(algorithm)));
        let state = match algorithm {
            Algorithm::Crc32 => crc(CrcAlgorithm::Crc32IsoHdlc),
            Algorithm::Crc32c => crc(CrcAlgorithm::Crc32Iscsi),
            Algorithm::Crc64Nvme => crc(CrcAlgorithm::Crc64Nvme),
            Algorithm::Sha1 => State::Sha(digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY)),
            Algorithm::Sha256 => State::Sha(digest::Context::new(&digest::SHA256)),
        };
        Self { algorithm, state }
    }

    #[must_use]
    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Crc(crc) => crc.update(bytes),
            State::Sha(sha) => sha.update(bytes),
        }
    }

    /// The checksum in S3's format: base64 of the big-endian bytes.
    #[must_use]
    pub(crate) fn finish(self) -> String {
        match self.state {
            State::Crc(crc) => {
                let bytes = crc.finalize().to_be_bytes();
                // 32-bit checksums are in the lower half.
                let offset = if self.algorithm == Algorithm::Crc64Nvme { 0 } else { 4 };
                STANDARD.encode(bytes.get(offset..).unwrap_or_default())
            }
            State::Sha(sha) => STANDARD.encode(sha.finish().as_ref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values from the CRC catalogue, for `123456789`.
    #[test]
    fn matches_published_check_values() {
        let cases = [
            (Algorithm::Crc32, "y/Q5Jg=="),
            (Algorithm::Crc32c, "4waSgw=="),
            (Algorithm::Crc64Nvme, "rosUhgp5mIg="),
            (Algorithm::Sha1, "98O8HYCOBHMq32eZZczDTKeuNEE="),
            (Algorithm::Sha256, "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
        ];
        for (algorithm, expected) in cases {
            let mut checksum = Checksum::new(algorithm);
            checksum.update(b"1234");
            checksum.update(b"56789");
            assert_eq!(checksum.finish(), expected, "{algorithm:?}");
            assert_eq!(Algorithm::from_header(algorithm.header()), Some(algorithm));
        }
        assert_eq!(Algorithm::from_header("x-amz-checksum-crc32-c"), None);
    }
}
