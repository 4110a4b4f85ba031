//! Pieces of the write-ahead log in the target: `wal/CHAIN/SEGMENT/FROM-TO.SHA256`. A chain is the log of one cluster from the moment its
//! slot was made. While a segment is being written it is archived in pieces; once it is complete, one piece replaces them. Pieces may
//! overlap after a restart: the log never changes, so their common part is equal.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path as FilePath;

use basalt_pg::replication::Lsn;
use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use crate::manifest::Sha256;
use crate::target::Target;

/// PostgreSQL's default, with which the embedded cluster is made.
pub(crate) const SEGMENT_BYTES: u64 = 16 << 20;
/// Names of the slots that keep the log for the archive; a chain's id follows.
pub(crate) const SLOT_PREFIX: &str = "basalt_wal_";

/// Up to when a chain is complete: everything committed before `at` is archived.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// PostgreSQL's time.
    pub at: Timestamp,
    /// The end of the log at that time.
    #[serde(with = "lsn_text")]
    pub lsn: Lsn,
}

mod lsn_text {
    use basalt_pg::replication::Lsn;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(lsn: &Lsn, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(lsn)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Lsn, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|()| serde::de::Error::custom("not a position in the log"))
    }
}

/// The folder of a chain.
pub(crate) fn chain_dir(chain: &str) -> String {
    format!("wal/{chain}")
}

pub(crate) fn reach_name(chain: &str) -> String {
    format!("wal/{chain}/reach.json")
}

/// Reads how far a chain reaches; `None` if nothing was archived yet.
///
/// # Errors
/// The target does not respond.
pub async fn reach(target: &Target, chain: &str) -> Result<Option<Reach>, BackupError> {
    let name = reach_name(chain);
    if target.find(&name).await?.is_none() {
        return Ok(None);
    }
    target.get_json(&name).await.map(Some)
}

/// The segment's file name: timeline, then its number in two parts.
pub(crate) fn segment_name(timeline: u32, start: Lsn) -> String {
    let number = start.0 / SEGMENT_BYTES;
    let per_part = (1 << 32) / SEGMENT_BYTES;
    format!("{timeline:08X}{:08X}{:08X}", number / per_part, number % per_part)
}

/// The start of the segment that contains `position`.
pub(crate) const fn segment_start(position: Lsn) -> Lsn {
    Lsn(position.0 - position.0 % SEGMENT_BYTES)
}

/// Compresses and stores a piece: `bytes` of the segment from `from`.
pub(crate) async fn store(
    target: &Target,
    chain: &str,
    segment: &str,
    from: usize,
    bytes: Bytes,
) -> Result<Path, BackupError> {
    let (packed, sha256) = tokio::task::spawn_blocking(move || {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let written = encoder.write_all(&bytes).and_then(|()| encoder.finish());
        written.map(|packed| (packed, (Sha256::hex(&bytes), from + bytes.len())))
    })
    .await?
    .map_err(|source| BackupError::Failed(format!("cannot compress the log: {source}")))?;
    let (sha256, to) = sha256;
    let name = format!("{}/{segment}/{from:07x}-{to:07x}.{sha256}", chain_dir(chain));
    target.put(&name, packed.into()).await?;
    Ok(Path::from(name))
}

/// A stored piece of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) from: usize,
    pub(crate) to: usize,
    sha256: String,
    pub(crate) path: Path,
}

impl Piece {
    /// Parses a name; `None` for other objects.
    fn parse(path: &Path) -> Option<(String, Self)> {
        let mut parts = path.as_ref().rsplit('/');
        let (name, segment) = (parts.next()?, parts.next()?);
        let (range, sha256) = name.split_once('.')?;
        let (from, to) = range.split_once('-')?;
        let offset = |digits| usize::from_str_radix(digits, 16).ok().filter(|at| *at as u64 <= SEGMENT_BYTES);
        let (from, to) = (offset(from)?, offset(to)?);
        let is_segment = segment.len() == 24 && segment.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_segment && from < to).then(|| {
            let piece = Self { from, to, sha256: sha256.to_owned(), path: path.clone() };
            (segment.to_owned(), piece)
        })
    }
}

/// The pieces of a chain by segment, in order.
pub(crate) async fn list(target: &Target, chain: &str) -> Result<BTreeMap<String, Vec<Piece>>, BackupError> {
    let mut segments: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
    for object in target.list(&chain_dir(chain)).await? {
        if let Some((segment, piece)) = Piece::parse(&object.location) {
            segments.entry(segment).or_default().push(piece);
        }
    }
    Ok(segments)
}

/// What [`unpack`] found.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    pub(crate) segments: u64,
    /// Why the log ends before its last piece, if it does.
    pub(crate) gap: Option<String>,
}

/// Writes the segments of a chain from the one that contains `start` into `dir`, as far as they are complete and undamaged.
pub(crate) async fn unpack(
    target: &Target,
    chain: &str,
    timeline: u32,
    start: Lsn,
    dir: &FilePath,
) -> Result<Unpacked, BackupError> {
    let segments = list(target, chain).await?;
    let mut unpacked = Unpacked::default();
    let mut at = segment_start(start);
    let last = segments.keys().next_back().cloned().unwrap_or_default();
    loop {
        let name = segment_name(timeline, at);
        if name > last {
            return Ok(unpacked);
        }
        let pieces = segments.get(&name).map(Vec::as_slice).unwrap_or_default();
        let (bytes, problem) = assemble(target, pieces).await?;
        if !bytes.is_empty() {
            let path = dir.join(&name);
            let mut content = bytes;
            let end = content.len() as u64;
            content.resize(usize::try_from(SEGMENT_BYTES).unwrap_or(usize::MAX), 0);
            let written = tokio::task::spawn_blocking(move || fs::write(&path, &content)).await?;
            written.map_err(|source| BackupError::file("write", dir, source))?;
            unpacked.segments += 1;
            if end < SEGMENT_BYTES && name < last && problem.is_none() {
                unpacked.gap = Some(format!("the archived log has a gap in segment {name}"));
                return Ok(unpacked);
            }
        } else if problem.is_none() {
            unpacked.gap = Some(format!("the archived log lacks segment {name}"));
            return Ok(unpacked);
        }
        if let Some(problem) = problem {
            unpacked.gap = Some(problem);
            return Ok(unpacked);
        }
        at = Lsn(at.0 + SEGMENT_BYTES);
    }
}

/// The bytes of a segment from its start, as far as undamaged pieces cover it, and what is wrong with the first damaged one.
async fn assemble(target: &Target, pieces: &[Piece]) -> Result<(Vec<u8>, Option<String>), BackupError> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut problem = None;
    let mut sorted: Vec<&Piece> = pieces.iter().collect();
    // The longest first: once a segment is complete, it is all that is needed.
    sorted.sort_by_key(|piece| (piece.from, std::cmp::Reverse(piece.to)));
    for piece in sorted {
        if piece.to <= bytes.len() || piece.from > bytes.len() {
            continue;
        }
        match read(target, piece).await {
            Ok(content) => {
                bytes.truncate(piece.from);
                bytes.extend_from_slice(&content);
            }
            Err(error @ BackupError::Damaged { .. }) => problem = Some(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    // Other pieces covered the damaged one.
    if bytes.len() as u64 == SEGMENT_BYTES {
        problem = None;
    }
    Ok((bytes, problem))
}

/// Reads a piece and compares its hash.
async fn read(target: &Target, piece: &Piece) -> Result<Vec<u8>, BackupError> {
    let packed = target.get(piece.path.as_ref()).await?;
    let expected = piece.to - piece.from;
    let content = tokio::task::spawn_blocking(move || {
        let mut content = Vec::with_capacity(expected);
        GzDecoder::new(&*packed).take(SEGMENT_BYTES + 1).read_to_end(&mut content).map(|_| content)
    })
    .await?
    .map_err(|error| target.damaged(piece.path.as_ref(), &error.to_string()))?;
    if content.len() != expected || Sha256::hex(&content) != piece.sha256 {
        return Err(target.damaged(piece.path.as_ref(), "its hash differs from its name"));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_named_as_postgresql_names_them() {
        let at = |text: &str| text.parse::<Lsn>().unwrap();
        assert_eq!(segment_name(1, at("0/3000000")), "000000010000000000000003");
        assert_eq!(segment_name(2, at("1/FF000028")), "0000000200000001000000FF");
        assert_eq!(segment_start(at("1/FF123456")), at("1/FF000000"));
    }

    #[test]
    fn only_names_of_pieces_are_parsed() {
        let piece = Piece::parse(&Path::from("wal/ab/000000010000000000000003/0000000-1000000.ff")).unwrap();
        assert_eq!((piece.0.as_str(), piece.1.from, piece.1.to), ("000000010000000000000003", 0, 16 << 20));
        for other in
            ["wal/ab/reach.json", "wal/ab/000000010000000000000003/0000000-1000001.ff", "wal/ab/x/0-1.ff"]
        {
            assert_eq!(Piece::parse(&Path::from(other)), None, "{other}");
        }
    }
}
