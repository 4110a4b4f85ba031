//! Runs the executable on a root file system that contains the C library and a shell, but neither Node nor PostgreSQL, as the
//! nightly run does. Requires root, Debian's packages, and `unshare`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{node, run, ui};

/// PostgreSQL needs the C and C++ libraries, and a shell for `initdb`.
const PACKAGES: [&str; 4] = ["libc6", "libgcc-s1", "libstdc++6", "busybox-static"];
const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nbasalt:x:1000:1000::/srv:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";

/// Checks the executable that `dist` has built.
pub(crate) fn check(root: &Path, executable: &Path) -> Result<()> {
    node::install(root, None)?;
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
    let mut drive = Command::new("node");
    drive.current_dir(root).arg("xtask/package/bare-root.mjs").arg(&folder);
    let outcome = run::run(&mut drive);
    std::fs::remove_dir_all(&folder)?;
    outcome.context("the executable failed on a bare root file system")
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
