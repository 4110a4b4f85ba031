//! `cargo xtask dist`: the files of a release, in `target/dist`. The executable carries PostgreSQL (decision 0155): a compressed archive and a
//! trailer behind the program, so that ordinary builds do not include it.

mod bare_root;
mod deb;
#[path = "../../postgres/src/archive/trailer.rs"]
mod trailer;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::suite::cargo;
use crate::{Arguments, dev, node, postgres_extras, run, ui};
use trailer::Trailer;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const ARCHIVE_SCRIPT: &str = include_str!("../package/archive.py");
const DOCKERFILE: &str = include_str!("../package/Dockerfile");
/// The profile in `Cargo.toml`.
const PROFILE: &str = "dist";
/// The size that the executable should not exceed.
const MAX_BYTES: u64 = 60 << 20;

const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Builds everything and prints the files.
pub(crate) fn dist(root: &Path, arguments: &Arguments) -> Result<ExitCode> {
    for file in build(root, arguments.has("--debug"), arguments.has("--check"))? {
        ui::note(&format!("{} ({} MB)", file.display(), std::fs::metadata(&file)?.len() / 1_000_000));
    }
    Ok(ExitCode::SUCCESS)
}

/// Builds everything, optionally from the debug build and with a check on a bare root file system. Returns the files to publish.
pub(crate) fn build(root: &Path, is_debug: bool, is_checked: bool) -> Result<Vec<PathBuf>> {
    if !IS_SUPPORTED {
        bail!(
            "`cargo xtask dist` supports Linux on x86-64: pgvector and the client programs exist for no other platform"
        );
    }
    node::install(root, None)?;
    postgres_extras::install(root)?;
    if is_debug {
        cargo(root, &["build", "-p", "basalt"])?;
    } else {
        ui::note("building the server, optimised for speed and size: about 15 minutes on two cores");
        cargo(root, &["build", "--profile", PROFILE, "-p", "basalt"])?;
    }
    let program = dev::target(root).join(if is_debug { "debug" } else { PROFILE }).join("basalt");
    let folder = root.join("target/dist");
    let executable = executable(root, &program, &folder)?;
    let size = std::fs::metadata(&executable)?.len();
    if !is_debug && size > MAX_BYTES {
        ui::note(&format!("{} has {size} bytes, more than the aim of {MAX_BYTES}", executable.display()));
    }
    let mut files = vec![executable.clone(), tarball(root, &executable, &folder)?];
    files.extend(deb::build(root, &executable, &folder)?);
    std::fs::write(folder.join("Dockerfile"), DOCKERFILE)?;
    replace(&executable, &folder.join("basalt"))?;
    write_checksums(&folder, &files)?;
    if is_checked {
        bare_root::check(root, &files, &folder.join("basalt"), !is_debug)?;
    }
    Ok(files)
}

/// Copies a file to where Cargo may have put the program. Cargo's file is a hard link: writing into it would change the build's own copy, and
/// the next run would append a second archive.
fn replace(from: &Path, to: &Path) -> Result<()> {
    let fresh = to.with_extension("new");
    std::fs::copy(from, &fresh)?;
    std::fs::rename(fresh, to)?;
    Ok(())
}

/// Appends the archive and its trailer to a copy of the program.
fn executable(root: &Path, program: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let archive = Archive::build(root, folder)?;
    let target = folder.join(format!("basalt-{VERSION}-linux-x64"));
    let fresh = target.with_extension("new");
    std::fs::copy(program, &fresh).with_context(|| format!("cannot copy {}", program.display()))?;
    let content = std::fs::read(&archive.file)?;
    let trailer = Trailer {
        offset: std::fs::metadata(&fresh)?.len(),
        length: content.len().try_into()?,
        sha256: archive.sha256,
        version: archive.version,
    };
    let mut file = std::fs::OpenOptions::new().append(true).open(&fresh)?;
    file.write_all(&content)?;
    file.write_all(&trailer.to_bytes())?;
    file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    drop(file);
    std::fs::rename(&fresh, &target)?;
    Ok(target)
}

/// PostgreSQL, compressed.
struct Archive {
    file: PathBuf,
    sha256: [u8; 32],
    version: String,
}

impl Archive {
    /// Packs the installed programs, unless the same ones were packed before: compressing takes a minute.
    fn build(root: &Path, folder: &Path) -> Result<Self> {
        let native = postgres_extras::native_dir(root);
        let printed = run::output(Command::new(native.join("bin/postgres")).arg("--version"));
        let version = printed.as_deref().and_then(|line| line.rsplit(' ').next());
        let version = version.context("npm's PostgreSQL does not run; run `npm ci`")?.to_owned();
        let mut hasher = DefaultHasher::new();
        (ARCHIVE_SCRIPT, std::fs::read(root.join("package-lock.json"))?).hash(&mut hasher);
        std::fs::read(root.join("xtask/src/postgres_extras.rs"))?.hash(&mut hasher);
        let file = folder.join(format!("postgresql-{version}-{:016x}.tar.xz", hasher.finish()));
        let hash_file = file.with_extension("sha256");
        if !hash_file.exists() {
            ui::note("compressing PostgreSQL");
            let mut pack = Command::new("python3");
            pack.args(["-c", ARCHIVE_SCRIPT]).arg(&native).arg(postgres_extras::extensions_dir(root));
            pack.arg(postgres_extras::clients_dir(root)).arg(&file);
            let hash =
                run::output(&mut pack).context("cannot pack PostgreSQL; python3 printed the reason")?;
            std::fs::write(&hash_file, hash)?;
        }
        let hash = std::fs::read_to_string(&hash_file)?;
        let sha256 = hex::decode(hash.trim())?.try_into();
        let sha256 = sha256.ok().with_context(|| format!("{} is not a hash", hash_file.display()))?;
        Ok(Self { file, sha256, version })
    }
}

/// The executable with the licence, the README and the unit of systemd.
fn tarball(root: &Path, executable: &Path, folder: &Path) -> Result<PathBuf> {
    let name = format!("basalt-{VERSION}-linux-x64");
    let (stage, target) = (folder.join("stage"), folder.join(format!("{name}.tar.gz")));
    let inside = stage.join(&name);
    if stage.exists() {
        std::fs::remove_dir_all(&stage)?;
    }
    std::fs::create_dir_all(&inside)?;
    std::fs::copy(executable, inside.join("basalt"))?;
    for file in ["LICENSE", "README.md", "CHANGELOG.md"] {
        std::fs::copy(root.join(file), inside.join(file))?;
    }
    std::fs::write(inside.join("basalt.service"), deb::unit())?;
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--sort=name", "-C"]).arg(&stage).arg("-czf").arg(&target).arg(&name);
    run::run(&mut tar)?;
    std::fs::remove_dir_all(&stage)?;
    Ok(target)
}

/// `SHA256SUMS`, as `sha256sum --check` reads it.
fn write_checksums(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let mut command = Command::new("sha256sum");
    command.current_dir(folder).args(files.iter().filter_map(|file| file.file_name()));
    let sums = run::output(&mut command).context("sha256sum failed")?;
    std::fs::write(folder.join("SHA256SUMS"), sums + "\n")?;
    Ok(())
}
