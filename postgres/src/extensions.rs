//! Extensions that PostgreSQL itself does not ship, offered through PostgreSQL 18's `extension_control_path`.
//!
//! Each start writes three kinds of files to the state folder: the emulated extensions of `postgres/extensions/`
//! (decision 0125), compiled ones from a folder `pg-extensions/MAJOR` near the executable (pgvector, fetched by
//! `cargo xtask`), and control files that make some of PostgreSQL's own extensions trusted, so that the role `postgres`
//! can create them without being a superuser, as on Supabase.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};

use crate::account::Account;
use crate::binaries::Binaries;
use crate::data_dirs::DataDirs;
use crate::error::EmbeddedError;
use crate::owner::beside;

/// An emulated extension: its control file and its script.
struct Emulated {
    name: &'static str,
    version: &'static str,
    control: &'static str,
    script: &'static str,
    /// Whether the server's own worker is part of it, so that the emulation replaces an installed extension.
    has_worker: bool,
}

macro_rules! emulated {
    ($name:literal, $version:literal, has_worker: $has_worker:literal) => {
        Emulated {
            name: $name,
            version: $version,
            control: include_str!(concat!("../extensions/", $name, "/", $name, ".control")),
            script: include_str!(concat!("../extensions/", $name, "/", $name, "--", $version, ".sql")),
            has_worker: $has_worker,
        }
    };
}

const EMULATED: &[Emulated] = &[
    emulated!("pg_cron", "1.6.4", has_worker: true),
    emulated!("pg_net", "0.14.0", has_worker: true),
    emulated!("supabase_vault", "0.3.1", has_worker: true),
    emulated!("pgmq", "1.5.1", has_worker: false),
    emulated!("pgjwt", "0.2.0", has_worker: false),
    emulated!("http", "1.6", has_worker: false),
    emulated!("pg_graphql", "1.5.11", has_worker: false),
];

/// Around each script: its objects belong to the superuser that made the cluster, whoever creates the extension.
const BEFORE: &str = include_str!("../extensions/before.sql");
const AFTER: &str = include_str!("../extensions/after.sql");

/// An extension without objects: dumps of hosted projects create whatever the host had installed.
struct NameOnly {
    name: &'static str,
    version: &'static str,
    /// The schema that belongs to the extension, if it has its own.
    schema: Option<&'static str>,
}

const NAME_ONLY: &[NameOnly] = &[
    NameOnly { name: "pgsodium", version: "3.1.8", schema: Some("pgsodium") },
    NameOnly { name: "pg_tle", version: "1.4.0", schema: Some("pgtle") },
    NameOnly { name: "hypopg", version: "1.4.1", schema: None },
    NameOnly { name: "index_advisor", version: "0.2.0", schema: None },
    NameOnly { name: "plpgsql_check", version: "2.7", schema: None },
    NameOnly { name: "wrappers", version: "0.5.0", schema: None },
    NameOnly { name: "pgaudit", version: "18.0", schema: None },
    NameOnly { name: "pg_repack", version: "1.5.2", schema: None },
];

/// Extensions in plain SQL, which work with every version: taken from any PostgreSQL that the system's packages have installed.
const PLAIN_SQL: &[&str] = &["pgtap"];
/// Where the system's packages put a folder for each major version.
const SYSTEM_SHARE: &str = "/usr/share/postgresql";

/// Extensions of PostgreSQL that only a superuser may create, and that Supabase's `postgres` creates. Their scripts
/// give no access to files or programs.
const TRUSTED: &[&str] = &[
    "autoinc",
    "bloom",
    "dblink",
    "earthdistance",
    "insert_username",
    "moddatetime",
    "pg_buffercache",
    "pg_freespacemap",
    "pg_prewarm",
    "pg_stat_statements",
    "pg_visibility",
    "pg_walinspect",
    "pgrowlocks",
    "pgstattuple",
    "postgres_fdw",
    "refint",
    "sslinfo",
    "xml2",
];

/// The vault's key, in the folder of the socket, which only PostgreSQL's user and the server can enter.
const VAULT_KEY_FILE: &str = "vault.key";

/// Writes the files; replaces those of an earlier release. `roots` are searched upwards for `pg-extensions/MAJOR`.
pub(super) fn unpack(dirs: &DataDirs, binaries: &Binaries, roots: &[PathBuf]) -> Result<(), EmbeddedError> {
    let system = system_dir(binaries);
    let controls = dirs.extensions_dir.join("extension");
    let libraries = dirs.extensions_dir.join("lib");
    for dir in [&dirs.extensions_dir, &controls, &libraries] {
        fs::set_permissions(dir, Permissions::from_mode(0o755))
            .map_err(|source| EmbeddedError::io("open up the folder", dir, source))?;
    }
    // An extension that was installed for this PostgreSQL wins.
    let is_installed =
        |name: &str| system.as_ref().is_some_and(|dir| dir.join(format!("{name}.control")).exists());
    for Emulated { name, version, control, script, has_worker } in EMULATED {
        if *has_worker || !is_installed(name) {
            write(&controls.join(format!("{name}.control")), control.as_bytes())?;
            let script = format!("{BEFORE}{script}\n{AFTER}");
            write(&controls.join(format!("{name}--{version}.sql")), script.as_bytes())?;
        }
    }
    for NameOnly { name, version, schema } in NAME_ONLY {
        if !is_installed(name) {
            let schema = schema.map(|schema| format!("schema = '{schema}'\n")).unwrap_or_default();
            let control = format!(
                "comment = 'Without objects: accepted so that dumps can be restored'\n\
                 default_version = '{version}'\nrelocatable = false\ntrusted = true\n{schema}"
            );
            write(&controls.join(format!("{name}.control")), control.as_bytes())?;
            write(&controls.join(format!("{name}--{version}.sql")), b"-- This extension has no objects.\n")?;
        }
    }
    if let Some(system) = &system {
        trust(system, &controls)?;
    }
    for name in PLAIN_SQL.iter().filter(|name| !is_installed(name)) {
        if let Some(dir) = plain_sql_dir(Path::new(SYSTEM_SHARE), name) {
            copy_matching(&dir, &controls, |file| file.starts_with(name))?;
        }
    }
    if let Some(compiled) = compiled_dir(binaries, roots) {
        copy_files(&compiled.join("extension"), &controls)?;
        copy_files(&compiled.join("lib"), &libraries)?;
    }
    Ok(())
}

/// How an extension is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    /// The extension itself.
    Real,
    /// Our own SQL and workers, with the extension's interface.
    Emulated,
    /// No objects: only the name is accepted.
    NameOnly,
}

/// The extensions that a server with these programs can create.
pub(super) fn available(binaries: &Binaries, roots: &[PathBuf]) -> BTreeMap<String, ExtensionKind> {
    let mut found: BTreeMap<String, ExtensionKind> = BTreeMap::new();
    found.extend(NAME_ONLY.iter().map(|extension| (extension.name.to_owned(), ExtensionKind::NameOnly)));
    let emulated =
        |has_worker: bool| EMULATED.iter().filter(move |extension| extension.has_worker == has_worker);
    found.extend(emulated(false).map(|extension| (extension.name.to_owned(), ExtensionKind::Emulated)));
    let plain = PLAIN_SQL.iter().filter(|name| plain_sql_dir(Path::new(SYSTEM_SHARE), name).is_some());
    found.extend(plain.map(|name| ((*name).to_owned(), ExtensionKind::Real)));
    let compiled = compiled_dir(binaries, roots).map(|dir| dir.join("extension"));
    for dir in [system_dir(binaries), compiled].into_iter().flatten() {
        let controls = fs::read_dir(dir).into_iter().flatten().flatten();
        found.extend(controls.filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(".control")?.to_owned();
            Some((name, ExtensionKind::Real))
        }));
    }
    // These replace an installed extension.
    found.extend(emulated(true).map(|extension| (extension.name.to_owned(), ExtensionKind::Emulated)));
    found
}

/// The folder of compiled extensions for this major version.
fn compiled_dir(binaries: &Binaries, roots: &[PathBuf]) -> Option<PathBuf> {
    let folders = roots.iter().flat_map(|root| root.ancestors());
    folders.map(|root| root.join("pg-extensions").join(binaries.major.to_string())).find(|dir| dir.is_dir())
}

/// The folder of the newest version below `share` that has the extension.
fn plain_sql_dir(share: &Path, name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(share).ok()?.flatten();
    versions
        .filter_map(|entry| {
            let major: u32 = entry.file_name().to_str()?.parse().ok()?;
            let dir = entry.path().join("extension");
            dir.join(format!("{name}.control")).exists().then_some((major, dir))
        })
        .max_by_key(|(major, _)| *major)
        .map(|(_, dir)| dir)
}

/// Writes copies of the control files of [`TRUSTED`] extensions that say so and refer to the original scripts.
fn trust(system: &Path, controls: &Path) -> Result<(), EmbeddedError> {
    // A quote would end the string in the control file.
    if system.to_string_lossy().contains('\'') {
        return Ok(());
    }
    for name in TRUSTED {
        let original = system.join(format!("{name}.control"));
        let text = match fs::read_to_string(&original) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(source) => return Err(EmbeddedError::io("read", &original, source)),
        };
        let control = format!("{text}\ntrusted = true\ndirectory = '{}'\n", system.display());
        write(&controls.join(format!("{name}.control")), control.as_bytes())?;
    }
    Ok(())
}

/// Whether this PostgreSQL has the library `name`.
pub(super) fn has_library(binaries: &Binaries, name: &str) -> bool {
    let file = format!("{name}.so");
    ["../lib/postgresql", "../lib"].iter().any(|dir| binaries.bin_dir.join(dir).join(&file).exists())
}

/// The folder of the control files that came with this PostgreSQL.
fn system_dir(binaries: &Binaries) -> Option<PathBuf> {
    let candidates = [
        binaries.bin_dir.join("../share/postgresql/extension"),
        binaries.bin_dir.join("../share/extension"),
        PathBuf::from(format!("/usr/share/postgresql/{}/extension", binaries.major)),
    ];
    candidates
        .into_iter()
        .find_map(|dir| dir.canonicalize().ok().filter(|dir| dir.join("plpgsql.control").exists()))
}

/// Writes the vault's key where PostgreSQL can read it, and nobody else.
pub(super) fn write_vault_key(
    run_dir: &Path,
    key: &SecretString,
    account: &Account,
) -> Result<(), EmbeddedError> {
    let path = run_dir.join(VAULT_KEY_FILE);
    write_with_mode(&path, key.expose_secret().as_bytes(), 0o600)?;
    account.give(&path)
}

fn copy_files(from: &Path, to: &Path) -> Result<(), EmbeddedError> {
    copy_matching(from, to, |_| true)
}

fn copy_matching(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<(), EmbeddedError> {
    let failed = |source| EmbeddedError::io("copy", from, source);
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().filter(|name| name.to_str().is_some_and(&is_wanted));
        if let Some(name) = name.filter(|_| path.is_file()) {
            write(&to.join(name), &fs::read(&path).map_err(failed)?)?;
        }
    }
    Ok(())
}

/// Writes a file that everyone can read, unless it has this content already.
fn write(path: &Path, content: &[u8]) -> Result<(), EmbeddedError> {
    if fs::read(path).is_ok_and(|current| current == content) {
        return Ok(());
    }
    write_with_mode(path, content, 0o644)
}

/// Replaces the file in one step: a backend may have the old library mapped.
pub(super) fn write_with_mode(path: &Path, content: &[u8], mode: u32) -> Result<(), EmbeddedError> {
    let fresh = beside(path, ".new");
    let write = || {
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        fs::rename(&fresh, path)
    };
    write().map_err(|source| EmbeddedError::io("write", path, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_files_name_the_shipped_version() {
        for Emulated { name, version, control, script, .. } in EMULATED {
            assert!(control.contains(&format!("default_version = '{version}'")), "{name}");
            assert!(control.contains("trusted = true"), "{name}: `postgres` could not create it");
            assert!(script.starts_with("-- "), "{name}");
        }
    }

    #[test]
    fn plain_sql_comes_from_the_newest_version() {
        let share = tempfile::tempdir().unwrap();
        for (folder, file) in
            [("15", "pgtap.control"), ("17", "pgtap.control"), ("18", "x"), ("common", "pgtap.control")]
        {
            let dir = share.path().join(folder).join("extension");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(file), "").unwrap();
        }
        assert_eq!(plain_sql_dir(share.path(), "pgtap"), Some(share.path().join("17/extension")));
        assert_eq!(plain_sql_dir(share.path(), "other"), None);
        assert_eq!(plain_sql_dir(Path::new("/nonexistent"), "pgtap"), None);
    }

    #[test]
    fn key_file_is_private() {
        let dir = tempfile::tempdir().unwrap();
        for key in ["first", "second"] {
            write_vault_key(dir.path(), &key.to_owned().into(), &Account::Own).unwrap();
            let path = dir.path().join(VAULT_KEY_FILE);
            assert_eq!(fs::read_to_string(&path).unwrap(), key);
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
