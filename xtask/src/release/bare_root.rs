//! Runs the executable on a root file system that contains the C library and a shell, but neither Node nor PostgreSQL, as the
//! nightly run does. Requires root, Debian's packages, and `unshare`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{node, run, ui};

/// PostgreSQL needs the C and C++ libraries, and a shell for `initdb`.
const PACKAGES: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "busybox-static"];
const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nbasalt:x:1000:1000::/srv:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";

/// Checks what `dist` has built. Measures the start times only if the build is optimised.
pub(crate) fn check(root: &Path, files: &[PathBuf], executable: &Path, is_timed: bool) -> Result<()> {
    node::install(root, None)?;
    check_packages(files, executable)?;
    let folder = root.join("target/dist/bare-root");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    for name in ["bin", "dev", "etc", "proc", "tmp", "srv", "packages"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    unpack_packages(&folder)?;
    std::os::unix::fs::symlink("busybox", folder.join("bin/sh"))?;
    std::fs::write(folder.join("etc/passwd"), PASSWD)?;
    std::fs::write(folder.join("etc/group"), "root:x:0:\nbasalt:x:1000:\nnogroup:x:65534:\n")?;
    std::os::unix::fs::chown(folder.join("srv"), Some(1000), Some(1000))?;
    std::fs::copy(executable, folder.join("bin/basalt"))?;
    // The pinned Node: supabase-js needs a newer one than the machine may have.
    let mut drive = Command::new(root.join("node_modules/.bin/node"));
    drive.current_dir(root).arg("xtask/package/bare-root.mjs").arg(&folder);
    drive.args(is_timed.then_some("--timed"));
    let outcome = run::run(&mut drive);
    std::fs::remove_dir_all(&folder)?;
    outcome.context("the executable failed on a bare root file system")
}

/// Checks the hashes, and that the tar archive and the Debian package contain this executable and a unit.
fn check_packages(files: &[PathBuf], executable: &Path) -> Result<()> {
    let folder = executable.parent().context("a file has a folder")?;
    run::run(Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(folder))?;
    let stage = folder.join("unpacked");
    for file in files {
        let mut unpack = match file.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => {
                let mut tar = Command::new("tar");
                tar.args(["--strip-components=1", "-xzf"]).arg(file).arg("-C").arg(&stage);
                tar
            }
            Some("deb") => {
                let mut dpkg = Command::new("dpkg-deb");
                dpkg.arg("--extract").arg(file).arg(&stage);
                dpkg
            }
            _ => continue,
        };
        if stage.exists() {
            std::fs::remove_dir_all(&stage)?;
        }
        std::fs::create_dir_all(&stage)?;
        run::run(&mut unpack)?;
        let found =
            |names: [&str; 2]| names.into_iter().map(|name| stage.join(name)).find(|path| path.exists());
        let program = found(["basalt", "usr/bin/basalt"]);
        let unit = found(["basalt.service", "usr/lib/systemd/system/basalt.service"]);
        let (Some(program), Some(_unit)) = (program, unit) else {
            bail!("{} lacks the program or the unit", file.display());
        };
        run::run(Command::new("cmp").arg(program).arg(executable))
            .with_context(|| format!("{} contains another program", file.display()))?;
    }
    std::fs::remove_dir_all(stage)?;
    Ok(())
}

fn unpack_packages(folder: &Path) -> Result<()> {
    let packages = folder.join("packages");
    ui::note("downloading Debian's C library and busybox");
    let download = || {
        run::run(Command::new("apt-get").args(["download", "--quiet"]).args(PACKAGES).current_dir(&packages))
    };
    if download().is_err() {
        // A fresh machine has no package lists yet.
        run::run(Command::new("apt-get").args(["-o", "Acquire::Retries=3", "update"]))?;
        download().context("this check needs Debian's packages")?;
    }
    for entry in std::fs::read_dir(&packages)? {
        run::run(Command::new("dpkg").arg("-x").arg(entry?.path()).arg(folder))?;
    }
    std::fs::remove_dir_all(packages)?;
    // busybox-static is in usr/bin where Debian has merged both folders.
    let merged = folder.join("usr/bin/busybox");
    if merged.exists() {
        std::fs::copy(merged, folder.join("bin/busybox"))?;
    } else if !folder.join("bin/busybox").exists() {
        bail!("the package busybox-static has no busybox");
    }
    Ok(())
}
