//! Blobs in a folder.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use md5::{Digest as _, Md5};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;

use super::*;
use crate::config::StorageConfig;

const MEBIBYTE: usize = 1024 * 1024;

/// Bytes without repetition.
fn body(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

async fn store_in(dir: &Path, upload_memory: u64) -> BlobStore {
    let config = StorageConfig { dir: dir.to_owned(), upload_memory, ..StorageConfig::default() };
    BlobStore::open(&config, TaskTracker::new()).await.unwrap()
}

async fn put(store: &BlobStore, body: &Bytes, frame: usize) -> (BlobId, Written) {
    let id = BlobId::random();
    let mut writer = store.writer(Identity::SERVER, id);
    let mut rest = body.clone();
    while !rest.is_empty() {
        writer.write(rest.split_to(frame.min(rest.len()))).await.unwrap();
    }
    assert_eq!(writer.size(), body.len() as u64);
    (id, writer.finish().await.unwrap())
}

async fn get(store: &BlobStore, id: BlobId, range: Range<u64>) -> Result<Vec<u8>, BlobError> {
    let chunks: Vec<Bytes> = store.read(id, range).await?.try_collect().await?;
    Ok(chunks.concat())
}

/// All files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found
}

#[tokio::test]
async fn reads_back_blobs_of_any_size_and_framing() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 64 << 20).await;
    for length in [0, 1, 65_535, 65_536, 65_537, MEBIBYTE - 1, MEBIBYTE, MEBIBYTE + 1, 3 * MEBIBYTE + 17] {
        for frame in [8 * 1024 + 1, 10 * MEBIBYTE] {
            let body = body(length);
            let (id, written) = put(&store, &body, frame).await;
            assert_eq!(written.size, length as u64);
            assert_eq!(written.md5, <[u8; 16]>::from(Md5::digest(&body)), "{length} in {frame}");
            assert!(get(&store, id, 0..length as u64).await.unwrap() == body, "{length} in {frame}");
        }
    }
}

#[tokio::test]
async fn small_buffers_suffice_without_memory() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 1).await;
    let body = body(3 * MEBIBYTE + 17);
    let (id, written) = put(&store, &body, 100_000).await;
    assert_eq!(written.md5, <[u8; 16]>::from(Md5::digest(&body)));
    assert!(get(&store, id, 0..body.len() as u64).await.unwrap() == body);
}

#[tokio::test]
async fn reads_ranges_across_chunks() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 64 << 20).await;
    let body = body(MEBIBYTE);
    let (id, _) = put(&store, &body, MEBIBYTE).await;
    for (start, end) in [(0, 1), (262_143, 262_145), (1, 1_048_576), (1_048_575, 1_048_576), (7, 7)] {
        let expected = body.slice(start..end);
        assert!(get(&store, id, start as u64..end as u64).await.unwrap() == expected, "{start}..{end}");
    }
}

#[tokio::test]
async fn distinguishes_missing_and_short_blobs() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 64 << 20).await;
    let missing = BlobId::random();
    assert_eq!(get(&store, missing, 0..1).await, Err(BlobError::NotFound(missing)));
    let (id, _) = put(&store, &body(400_000), 400_000).await;
    assert_eq!(get(&store, id, 0..400_001).await, Err(BlobError::TooShort(id)));
    assert_eq!(get(&store, id, 500_000..500_001).await, Err(BlobError::TooShort(id)));
    store.delete(id).await.unwrap();
    store.delete(id).await.unwrap();
    assert_eq!(get(&store, id, 0..1).await, Err(BlobError::NotFound(id)));
    assert_eq!(files(dir.path()), [] as [PathBuf; 0]);
}

#[tokio::test]
async fn copies_and_concatenations_outlive_their_sources() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 64 << 20).await;
    let (first, second) = (body(2 * MEBIBYTE + 5), body(3));
    let (one, _) = put(&store, &first, MEBIBYTE).await;
    let (two, _) = put(&store, &second, MEBIBYTE).await;
    let (copied, joined) = (BlobId::random(), BlobId::random());
    store.copy(one, copied).await.unwrap();
    store.concat(&[one, two, one], joined).await.unwrap();
    assert_eq!(std::fs::metadata(store_path(dir.path(), copied)).unwrap().nlink(), 2);
    store.delete(one).await.unwrap();
    store.delete(two).await.unwrap();
    assert!(get(&store, copied, 0..first.len() as u64).await.unwrap() == first);
    let all = [first.clone(), second, first].concat();
    assert!(get(&store, joined, 0..all.len() as u64).await.unwrap() == all);
    let missing = BlobId::random();
    let target = BlobId::random();
    assert_eq!(store.copy(missing, target).await, Err(BlobError::NotFound(missing)));
    assert_eq!(store.concat(&[joined, missing], target).await, Err(BlobError::NotFound(missing)));
    assert_eq!(get(&store, target, 0..1).await, Err(BlobError::NotFound(target)));
}

fn store_path(dir: &Path, id: BlobId) -> PathBuf {
    dir.join(id.path().as_ref())
}

#[tokio::test]
async fn abandoned_writer_leaves_no_files() {
    let dir = TempDir::new().unwrap();
    let store = store_in(dir.path(), 64 << 20).await;
    for is_dropped in [true, false] {
        let mut writer = store.writer(Identity::SERVER, BlobId::random());
        writer.write(body(3 * MEBIBYTE)).await.unwrap();
        let staged = files(dir.path());
        assert_eq!(staged.len(), 1);
        assert!(staged[0].to_str().unwrap().ends_with("#1"));
        if is_dropped {
            drop(writer)
        } else {
            writer.abort().await
        }
        while !files(dir.path()).is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn files_are_private_and_check_leaves_none() {
    let dir = TempDir::new().unwrap();
    let nested = dir.path().join("a/b");
    let store = store_in(&nested, 64 << 20).await;
    assert_eq!(std::fs::metadata(&nested).unwrap().mode() & 0o777, 0o700);
    store.check().await.unwrap();
    assert_eq!(files(&nested), [] as [PathBuf; 0]);
    std::fs::remove_dir_all(&nested).unwrap();
    assert!(matches!(store.check().await, Err(BlobError::Failed(_))));
}

/// Unmounts when dropped, even if the test fails.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _done = Command::new("umount").arg(&self.0).status();
    }
}

/// Requires root and the permission to mount, which containers may lack.
#[tokio::test]
async fn full_disk_is_reported_and_leaves_no_files() {
    let disk = TempDir::new().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=4M", "tmpfs"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let _mounted = Mounted(disk.path().to_owned());
    let dir = disk.path().join("storage");
    let store = store_in(&dir, 64 << 20).await;
    let mut writer = store.writer(Identity::SERVER, BlobId::random());
    let failed = loop {
        if let Err(error) = writer.write(body(MEBIBYTE)).await {
            break error;
        }
        assert!(writer.size() < 20 << 20);
    };
    assert!(matches!(failed, BlobError::Full(_)), "{failed}");
    assert!(matches!(writer.write(body(1)).await, Err(BlobError::Failed(_))), "bytes are missing");
    assert!(matches!(writer.finish().await, Err(BlobError::Failed(_))));
    while !files(&dir).is_empty() {
        tokio::task::yield_now().await;
    }
    let filler = disk.path().join("filler");
    let fill = || {
        let mut file = OpenOptions::new().create(true).append(true).open(&filler).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    };
    let failed = loop {
        // The space of a removed file is freed when its last write has ended.
        fill();
        let id = BlobId::random();
        let mut writer = store.writer(Identity::SERVER, id);
        writer.write(body(30_000)).await.unwrap();
        match writer.finish().await {
            Ok(_) => store.delete(id).await.unwrap(),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, BlobError::Full(_)), "{failed}");
    fill();
    assert!(matches!(store.check().await, Err(BlobError::Full(_))));
    assert_eq!(files(&dir), [] as [PathBuf; 0]);
    std::fs::remove_file(&filler).unwrap();
    // A process forked by another test may hold the removed file open until exec.
    while std::fs::write(&filler, vec![0; MEBIBYTE]).is_err() {
        tokio::task::yield_now().await;
    }
    let (id, _) = put(&store, &body(30_000), 30_000).await;
    assert_eq!(get(&store, id, 0..30_000).await.unwrap().len(), 30_000);
}
