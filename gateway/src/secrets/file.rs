//! `secrets.json`: read, completed, and written whole or not at all. A lock beside it separates two first starts; a
//! reader needs none, because a new file only ever replaces the old one by renaming.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use basalt_core::clock::Clock;
use basalt_core::keys::{ApiKeyKind, generate_es256, opaque_key};
use basalt_core::random;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::SecretsError;

const NAME: &str = "secrets.json";
const LOCK: &str = "secrets.lock";
/// How long to wait for another process that makes its first start: it generates keys and writes one small file.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
/// Least length of an API key after its prefix, as for configured ones.
const KEY_LENGTH: usize = 16;
/// Of generated texts; 256 bits and more.
const LENGTH: usize = 48;

/// The file's content. No `Debug`: it would show secrets.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(super) struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) master_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jwt_secret: Option<String>,
    /// A private JWK.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jwt_signing_key: Option<Value>,
    /// `iat` of the legacy keys, so that they are the same after each start. Seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) issued_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) publishable_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret_key: Option<String>,
    /// What a newer release keeps here stays here.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Which entries must be in the file.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) master_key: bool,
    pub(super) jwt_secret: bool,
    pub(super) jwt_signing_key: bool,
    pub(super) issued_at: bool,
    pub(super) publishable_key: bool,
    pub(super) secret_key: bool,
}

/// The file.
pub(super) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join(NAME)
}

/// Whether the file holds a master key.
///
/// # Errors
/// The file is unreadable or damaged.
pub(super) fn has_master_key(state_dir: &Path) -> Result<bool, SecretsError> {
    Ok(read(&path(state_dir))?.is_some_and(|stored| stored.master_key.is_some()))
}

/// The stored secrets, with everything in `missing` present. Writes only when something is to be added.
pub(super) fn load(state_dir: &Path, missing: &Missing, clock: &Clock) -> Result<Stored, SecretsError> {
    let path = path(state_dir);
    let stored = read(&path)?.unwrap_or_default();
    if missing.is_in(&stored) {
        return Ok(stored);
    }
    make_private_dir(state_dir)?;
    let _lock = lock(&state_dir.join(LOCK))?;
    // The process that held the lock before us may have written what we lack.
    let mut stored = read(&path)?.unwrap_or_default();
    if !missing.is_in(&stored) {
        missing.complete(&mut stored, clock)?;
        write(&path, &stored).map_err(|source| not_kept(&path, source))?;
    }
    Ok(stored)
}

impl Missing {
    fn is_in(&self, stored: &Stored) -> bool {
        !(self.master_key && stored.master_key.is_none()
            || self.jwt_secret && stored.jwt_secret.is_none()
            || self.jwt_signing_key && stored.jwt_signing_key.is_none()
            || self.issued_at && stored.issued_at.is_none()
            || self.publishable_key && stored.publishable_key.is_none()
            || self.secret_key && stored.secret_key.is_none())
    }

    fn complete(&self, stored: &mut Stored, clock: &Clock) -> Result<(), SecretsError> {
        let text = |wanted: bool, place: &mut Option<String>, make: fn() -> String| {
            if wanted && place.is_none() {
                *place = Some(make());
            }
        };
        text(self.master_key, &mut stored.master_key, || random::token(LENGTH));
        text(self.jwt_secret, &mut stored.jwt_secret, || random::token(LENGTH));
        text(self.publishable_key, &mut stored.publishable_key, || opaque_key(ApiKeyKind::Publishable));
        text(self.secret_key, &mut stored.secret_key, || opaque_key(ApiKeyKind::Secret));
        if self.jwt_signing_key && stored.jwt_signing_key.is_none() {
            stored.jwt_signing_key = Some(generate_es256()?);
        }
        if self.issued_at && stored.issued_at.is_none() {
            stored.issued_at = Some(clock.unix_seconds());
        }
        Ok(())
    }
}

/// Puts `new` in the place of `old`, where the file holds that; a configured key stays as it is.
///
/// # Errors
/// Reading or writing the file fails.
pub fn replace_api_key(state_dir: &Path, old: &SecretString, new: &SecretString) -> Result<(), SecretsError> {
    let path = path(state_dir);
    if !path.exists() {
        return Ok(());
    }
    let _lock = lock(&state_dir.join(LOCK))?;
    let Some(mut stored) = read(&path)? else { return Ok(()) };
    let mut replaced = false;
    for place in [&mut stored.publishable_key, &mut stored.secret_key] {
        if place.as_deref() == Some(old.expose_secret()) {
            *place = Some(new.expose_secret().to_owned());
            replaced = true;
        }
    }
    if !replaced {
        return Ok(());
    }
    write(&path, &stored).map_err(|source| not_kept(&path, source))
}

fn read(path: &Path) -> Result<Option<Stored>, SecretsError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let remedy = remedy(&source);
            return Err(SecretsError::Io { verb: "read", path: path.to_path_buf(), source, remedy });
        }
    };
    let damaged = |problem: String| SecretsError::Damaged { path: path.to_path_buf(), problem };
    if bytes.is_empty() {
        return Err(damaged("the file is empty".to_owned()));
    }
    // The library's own message could quote a value.
    let stored: Stored = serde_json::from_slice(&bytes).map_err(|error| {
        let kind = if error.is_data() { "an entry has the wrong type" } else { "not JSON" };
        damaged(format!("{kind}, line {}", error.line()))
    })?;
    for (name, text) in [("master_key", &stored.master_key), ("jwt_secret", &stored.jwt_secret)] {
        if text.as_ref().is_some_and(|text| text.len() < 32) {
            return Err(damaged(format!("{name} is too short")));
        }
    }
    for (name, text, prefix) in [
        ("publishable_key", &stored.publishable_key, "sb_publishable_"),
        ("secret_key", &stored.secret_key, "sb_secret_"),
    ] {
        let is_key = |text: &String| text.strip_prefix(prefix).is_some_and(|rest| rest.len() >= KEY_LENGTH);
        if text.as_ref().is_some_and(|text| !is_key(text)) {
            return Err(damaged(format!("{name} is not {prefix} and at least {KEY_LENGTH} characters")));
        }
    }
    let open_to_others = fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if open_to_others && fs::set_permissions(path, Permissions::from_mode(0o600)).is_ok() {
        tracing::warn!(path = %path.display(), "the secrets were readable by other users; they no longer are");
    }
    Ok(Some(stored))
}

/// 0700 for a folder that we make; one that is there keeps the rights it was given.
fn make_private_dir(dir: &Path) -> Result<(), SecretsError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| not_kept(dir, source))
}

fn not_kept(path: &Path, source: io::Error) -> SecretsError {
    SecretsError::Io { verb: "keep", path: path.to_path_buf(), remedy: remedy(&source), source }
}

fn remedy(error: &io::Error) -> &'static str {
    let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
    if is(&[ErrorKind::StorageFull, ErrorKind::QuotaExceeded]) {
        "free some disk space"
    } else if is(&[ErrorKind::ReadOnlyFilesystem]) {
        "point server.state_dir (--data) to a folder that can be written"
    } else if is(&[ErrorKind::PermissionDenied]) {
        "give the folder to the user that runs Basalt, or point server.state_dir (--data) elsewhere"
    } else if is(&[ErrorKind::NotADirectory, ErrorKind::AlreadyExists, ErrorKind::IsADirectory]) {
        "something else is in the way: move it, or point server.state_dir (--data) elsewhere"
    } else {
        "check server.state_dir (--data)"
    }
}

fn lock(path: &Path) -> Result<File, SecretsError> {
    let failed = |source| not_kept(path, source);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(failed)?;
    let patience = Instant::now() + LOCK_PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < patience => {
                #[expect(clippy::disallowed_methods, reason = "before the runtime serves anything")]
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Err(SecretsError::Busy { path: path.to_path_buf() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// A kill at any moment leaves the old file or the new one: the content is on disk before the name is.
fn write(path: &Path, stored: &Stored) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", random::token(8)));
    let written = write_new(&temporary, stored).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first error is the one to report.
        drop(fs::remove_file(&temporary));
    }
    written?;
    let dir = path.parent().unwrap_or(path);
    File::open(dir)?.sync_all()
}

fn write_new(path: &Path, stored: &Stored) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(stored)?;
    text.push(b'\n');
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(&text)?;
    file.sync_all()
}
