//! Detects changed files of functions in development, by comparing their sizes and times.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::source::Source;

/// Time between two scans. A scan that takes long is made less often, so that it never needs more than a small part of a processor.
pub(crate) const INTERVAL: Duration = Duration::from_millis(100);
/// Files of one scan. Changes of further files are not noticed.
const MAX_FILES: usize = 20_000;

/// The state of all files that belong to functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// By function; what is shared is under "".
    fingerprints: BTreeMap<String, u64>,
}

impl Snapshot {
    /// Scans the folder of functions and the folders of entry points elsewhere.
    pub(crate) fn take(functions_dir: &Path, sources: &[Source]) -> Self {
        let mut fingerprints = BTreeMap::new();
        let mut shared = DefaultHasher::new();
        let mut left = MAX_FILES;
        for path in sorted_entries(functions_dir) {
            let owner = sources.iter().find(|source| path.is_dir() && source.dir().starts_with(&path));
            match owner {
                Some(_) => {}
                None => hash_tree(&path, &mut shared, &mut left),
            }
        }
        fingerprints.insert(String::new(), shared.finish());
        for source in sources {
            let mut own = DefaultHasher::new();
            hash_tree(source.dir(), &mut own, &mut left);
            fingerprints.insert(source.name().to_owned(), own.finish());
        }
        Self { fingerprints }
    }

    /// Whether the function has other files than before; a change of what is shared changes all.
    pub(crate) fn changed(&self, before: &Self, function: &str) -> bool {
        let differs = |name: &str| self.fingerprints.get(name) != before.fingerprints.get(name);
        differs("") || differs(function)
    }
}

/// A short text that changes with the files of a folder.
pub(crate) fn fingerprint(dir: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    hash_tree(dir, &mut hasher, &mut MAX_FILES.clone());
    format!("{:016x}", hasher.finish())
}

/// A short text that changes with `text`.
pub(crate) fn hash_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn hash_tree(path: &Path, hasher: &mut impl Hasher, left: &mut usize) {
    let Ok(metadata) = fs::metadata(path) else { return };
    if *left == 0 {
        return;
    }
    *left -= 1;
    path.hash(hasher);
    if !metadata.is_dir() {
        (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()).hash(hasher);
        return;
    }
    for entry in sorted_entries(path) {
        hash_tree(&entry, hasher, left);
    }
}

/// The entries of a folder, without installed packages and version control.
fn sorted_entries(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let is_source = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name != "node_modules" && name != ".git"
    };
    let mut paths: Vec<PathBuf> = entries.flatten().filter(is_source).map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::FunctionsConfig;
    use crate::deno::source::discover;

    #[test]
    fn a_change_concerns_its_function_and_a_shared_one_all() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("functions/a/index.ts", "1");
        write("functions/b/index.ts", "1");
        write("functions/_shared/x.ts", "1");
        let config = FunctionsConfig { dir: dir.path().join("functions"), ..FunctionsConfig::default() };
        let snapshot = || Snapshot::take(&config.dir, &discover(&config));
        let first = snapshot();
        assert_eq!(snapshot(), first);
        let changed =
            |before: &Snapshot, after: &Snapshot| ["a", "b"].map(|name| after.changed(before, name));
        write("functions/a/lib/more.ts", "1");
        let second = snapshot();
        assert_eq!(changed(&first, &second), [true, false]);
        write("functions/_shared/x.ts", "22");
        let third = snapshot();
        assert_eq!(changed(&second, &third), [true, true]);
        write("functions/a/node_modules/p/index.js", "1");
        assert_eq!(changed(&third, &snapshot()), [false, false]);
    }
}
