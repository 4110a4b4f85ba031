//! The last bytes of an executable that carries PostgreSQL. `cargo xtask dist` writes them and compiles this file, too.

/// Marks a trailer, and its format.
const MAGIC: [u8; 16] = *b"basalt-archive-1";

/// Where the archive is in the executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Position of the first byte.
    pub(crate) offset: u64,
    /// Length in bytes.
    pub(crate) length: u64,
    /// Hash of these bytes.
    pub(crate) sha256: [u8; 32],
    /// PostgreSQL's version, such as `18.4`; at most 16 bytes.
    pub(crate) version: String,
}

impl Trailer {
    /// Length in bytes.
    pub(crate) const BYTES: usize = 8 + 8 + 32 + 16 + 16;

    /// The bytes to append to the archive.
    #[allow(dead_code, reason = "only the packager writes trailers")]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut version = [0_u8; 16];
        for (to, from) in version.iter_mut().zip(self.version.bytes()) {
            *to = from;
        }
        [self.offset.to_le_bytes().as_slice(), &self.length.to_le_bytes(), &self.sha256, &version, &MAGIC]
            .concat()
    }

    /// Reads the last [`Self::BYTES`] of an executable; `None` if they are not a trailer.
    #[allow(dead_code, reason = "only the server reads trailers")]
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (sha256, rest) = rest.split_first_chunk::<32>()?;
        let (version, magic) = rest.split_first_chunk::<16>()?;
        if *magic != MAGIC {
            return None;
        }
        let version: Vec<u8> = version.iter().copied().take_while(|byte| *byte != 0).collect();
        Some(Self {
            offset: u64::from_le_bytes(*offset),
            length: u64::from_le_bytes(*length),
            sha256: *sha256,
            version: String::from_utf8(version).ok()?,
        })
    }
}
