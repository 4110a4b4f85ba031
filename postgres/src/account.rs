//! The operating system user that PostgreSQL runs as.
//!
//! PostgreSQL refuses to run as root and requires that its user owns the data folder. Root therefore runs it as the owner of an
//! existing data folder, else as `postgres`, else as `nobody`; any other user runs it as themselves. The standard library
//! drops root's supplementary groups together with the user id.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tokio::process::Command;

use crate::error::EmbeddedError;

/// The user of the child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// The user that runs this server.
    Own,
    /// Another user, if this server runs as root.
    Other {
        /// The name, for messages.
        name: String,
        /// The user id.
        uid: u32,
        /// The primary group id.
        gid: u32,
    },
}

impl Account {
    /// Chooses the account for a cluster at `data_dir`, which may not exist yet.
    pub(super) fn choose(data_dir: &Path) -> Self {
        if !geteuid().is_root() {
            return Self::Own;
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let owner = fs::metadata(data_dir.join("PG_VERSION")).ok().map(|meta| (meta.uid(), meta.gid()));
        Self::for_root(&passwd, owner)
    }

    fn for_root(passwd: &str, owner: Option<(u32, u32)>) -> Self {
        if let Some((uid, gid)) = owner.filter(|(uid, _)| *uid != 0) {
            return entry(passwd, |_, candidate| candidate == uid).unwrap_or_else(|| Self::Other {
                name: format!("#{uid}"),
                uid,
                gid,
            });
        }
        entry(passwd, |name, uid| name == "postgres" && uid != 0)
            .or_else(|| entry(passwd, |name, uid| name == "nobody" && uid != 0))
            .unwrap_or(Self::Other { name: "nobody".to_owned(), uid: 65_534, gid: 65_534 })
    }

    /// Makes `command` run as this account.
    pub(super) fn apply(&self, command: &mut Command) {
        if let Self::Other { uid, gid, .. } = self {
            command.uid(*uid).gid(*gid);
        }
    }

    /// Makes this account the owner of `path`.
    pub(super) fn give(&self, path: &Path) -> Result<(), EmbeddedError> {
        let Self::Other { uid, gid, .. } = self else { return Ok(()) };
        std::os::unix::fs::chown(path, Some(*uid), Some(*gid))
            .map_err(|source| EmbeddedError::io("change the owner of", path, source))
    }

    /// The first folder on the way to `path`, including `path`, that this account cannot traverse.
    ///
    /// `path` must exist, be absolute and contain no links.
    pub(super) fn blocked_at(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let Self::Other { uid, gid, .. } = self else { return Ok(None) };
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        for folder in ancestors {
            let meta = fs::metadata(folder)?;
            let search_bit = if meta.uid() == *uid {
                0o100
            } else if meta.gid() == *gid {
                0o010
            } else {
                0o001
            };
            if meta.mode() & search_bit == 0 {
                return Ok(Some(folder.to_path_buf()));
            }
        }
        Ok(None)
    }

    /// The user id that owns files of this account.
    pub(super) fn uid(&self) -> u32 {
        match self {
            Self::Own => geteuid().as_raw(),
            Self::Other { uid, .. } => *uid,
        }
    }

    /// A name for messages: `user postgres`, `this user`.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Own => "this user".to_owned(),
            Self::Other { name, .. } => format!("user {name}"),
        }
    }
}

/// The first account in a passwd file for which `matches(name, uid)` is true.
fn entry(passwd: &str, matches: impl Fn(&str, u32) -> bool) -> Option<Account> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        matches(name, uid).then(|| Account::Other { name: name.to_owned(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n\
                          postgres:x:101:104::/var/lib/postgresql:/bin/bash\nann:x:1000:1000::/home/ann:/bin/sh\n";

    fn other(name: &str, uid: u32, gid: u32) -> Account {
        Account::Other { name: name.to_owned(), uid, gid }
    }

    #[test]
    fn root_prefers_postgres_then_nobody() {
        assert_eq!(Account::for_root(PASSWD, None), other("postgres", 101, 104));
        let without = PASSWD.replace("postgres", "someone");
        assert_eq!(Account::for_root(&without, None), other("nobody", 65_534, 65_534));
        assert_eq!(Account::for_root("", None), other("nobody", 65_534, 65_534));
    }

    #[test]
    fn root_keeps_the_owner_of_an_existing_cluster() {
        assert_eq!(Account::for_root(PASSWD, Some((1000, 1000))), other("ann", 1000, 1000));
        assert_eq!(Account::for_root(PASSWD, Some((7, 8))), other("#7", 7, 8));
        assert_eq!(Account::for_root(PASSWD, Some((0, 0))), other("postgres", 101, 104));
    }

    #[test]
    fn reports_folder_that_blocks_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let closed = dir.path().canonicalize().unwrap().join("closed");
        let inner = closed.join("inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let stranger = other("stranger", 54_321, 54_321);
        assert_eq!(stranger.blocked_at(&inner).unwrap(), Some(closed.clone()));
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(stranger.blocked_at(&inner).unwrap(), None);
        assert_eq!(Account::Own.blocked_at(&inner).unwrap(), None);
    }
}
