//! `secrets.json`: read, completed, and replaced atomically. A lock file serialises concurrent first starts; readers need no
//! lock, because a new file replaces the old one by renaming.

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
/// How long to wait for another process in its first start, which generates keys and writes one small file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum length of an API key after its prefix, as for configured keys.
const MIN_KEY_LENGTH: usize = 16;
/// Length of generated secrets, which gives at least 256 bits.
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
    /// `iat` of the legacy keys in seconds since 1970, stored so that each start derives the same keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) issued_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) publishable_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret_key: Option<String>,
    /// Entries written by a newer release, kept unchanged.
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The entries that the file must have.
#[derive(Default)]
pub(super) struct Missing {
    pub(super) master_key: bool,
    pub(super) jwt_secret: bool,
    pub(super) jwt_signing_key: bool,
    pub(super) issued_at: bool,
    pub(super) publishable_key: bool,
    pub(super) secret_key: bool,
}

/// The path of the file.
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

/// The stored master key.
///
/// # Errors
/// The file is unreadable or damaged.
pub(super) fn master_key(state_dir: &Path) -> Result<Option<SecretString>, SecretsError> {
    Ok(read(&path(state_dir))?.and_then(|stored| stored.master_key).map(Into::into))
}

/// Loads the secrets and generates entries in `missing` that the file lacks. Writes the file only if it changes.
pub(super) fn load(state_dir: &Path, missing: &Missing, clock: &Clock) -> Result<Stored, SecretsError> {
    let path = path(state_dir);
    let stored = read(&path)?.unwrap_or_default();
    if missing.is_in(&stored) {
        return Ok(stored);
    }
    make_private_dir(state_dir)?;
    let _lock = lock(&state_dir.join(LOCK))?;
    // The previous holder of the lock may have generated the missing entries.
    let mut stored = read(&path)?.unwrap_or_default();
    if !missing.is_in(&stored) {
        missing.complete(&mut stored, clock)?;
        write(&path, &stored).map_err(|source| write_error(&path, source))?;
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
        let text = |wanted: bool, entry: &mut Option<String>, make: fn() -> String| {
            if wanted && entry.is_none() {
                *entry = Some(make());
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

/// Replaces the API key `old` by `new` if the file contains it; a configured key is not in the file.
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
    for entry in [&mut stored.publishable_key, &mut stored.secret_key] {
        if entry.as_deref() == Some(old.expose_secret()) {
            *entry = Some(new.expose_secret().to_owned());
            replaced = true;
        }
    }
    if !replaced {
        return Ok(());
    }
    write(&path, &stored).map_err(|source| write_error(&path, source))
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
    // serde's own message could quote a secret.
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
        let is_key =
            |text: &String| text.strip_prefix(prefix).is_some_and(|rest| rest.len() >= MIN_KEY_LENGTH);
        if text.as_ref().is_some_and(|text| !is_key(text)) {
            return Err(damaged(format!(
                "{name} is not {prefix} followed by at least {MIN_KEY_LENGTH} characters"
            )));
        }
    }
    let open_to_others = fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0);
    if open_to_others && fs::set_permissions(path, Permissions::from_mode(0o600)).is_ok() {
        tracing::warn!(path = %path.display(), "the secrets file was readable by other users; its permissions have been restricted");
    }
    Ok(Some(stored))
}

/// Creates the folder with mode 0700; an existing folder keeps its permissions.
fn make_private_dir(dir: &Path) -> Result<(), SecretsError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| write_error(dir, source))
}

fn write_error(path: &Path, source: io::Error) -> SecretsError {
    SecretsError::Io { verb: "write", path: path.to_path_buf(), remedy: remedy(&source), source }
}

fn remedy(error: &io::Error) -> &'static str {
    let is = |kinds: &[ErrorKind]| kinds.contains(&error.kind());
    if is(&[ErrorKind::StorageFull, ErrorKind::QuotaExceeded]) {
        "free some disk space"
    } else if is(&[ErrorKind::ReadOnlyFilesystem]) {
        "point server.state_dir (--data) to a writable folder"
    } else if is(&[ErrorKind::PermissionDenied]) {
        "make the user that runs Basalt the owner of the folder, or point server.state_dir (--data) elsewhere"
    } else if is(&[ErrorKind::NotADirectory, ErrorKind::AlreadyExists, ErrorKind::IsADirectory]) {
        "a file or folder of this name is in the way: move it, or point server.state_dir (--data) elsewhere"
    } else {
        "check server.state_dir (--data)"
    }
}

fn lock(path: &Path) -> Result<File, SecretsError> {
    let failed = |source| write_error(path, source);
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path).map_err(failed)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "runs before the async runtime serves requests"
                )]
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => return Err(SecretsError::Busy { path: path.to_path_buf() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
    }
}

/// Writes atomically: the content is synced before the rename, so a crash leaves either the old or the new file.
fn write(path: &Path, stored: &Stored) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", random::token(8)));
    let written = write_new(&temporary, stored).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // Report the first error, not one from the clean-up.
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
