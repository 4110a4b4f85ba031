//! The Debian package: the executable, a unit of systemd, and a user of its own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::VERSION;
use crate::{run, ui};

const UNIT: &str = include_str!("../../../gateway/src/cli/service/basalt.service");
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../package/postinst")),
    ("prerm", include_str!("../../package/prerm")),
    ("postrm", include_str!("../../package/postrm")),
];

/// The unit of the package and the tar archive; `basalt service install` fills in other values.
pub(super) fn unit() -> String {
    UNIT.replace("{program}", "/usr/bin/basalt")
        .replace("{project}", "/var/lib/basalt")
        .replace("{user}", "basalt")
        .replace("{group}", "basalt")
        .replace("{protect_home}", "yes")
}

/// Builds the package; `None` where Debian's `dpkg-deb` is missing.
pub(super) fn build(root: &Path, executable: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    if run::output(Command::new("dpkg-deb").arg("--version")).is_none() {
        ui::note("dpkg-deb is not installed, so no Debian package is built");
        return Ok(None);
    }
    let stage = folder.join("deb");
    if stage.exists() {
        std::fs::remove_dir_all(&stage)?;
    }
    let write = |name: &str, content: &[u8], mode: u32| -> Result<()> {
        let path = stage.join(name);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        std::fs::write(&path, content)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    let program = std::fs::read(executable)?;
    write("usr/bin/basalt", &program, 0o755)?;
    write("usr/lib/systemd/system/basalt.service", unit().as_bytes(), 0o644)?;
    write("usr/share/doc/basalt/copyright", &std::fs::read(root.join("LICENSE"))?, 0o644)?;
    for (name, script) in SCRIPTS {
        write(&format!("DEBIAN/{name}"), script.as_bytes(), 0o755)?;
    }
    let control = format!(
        "Package: basalt\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: The Basalt authors <basalt@localhost>\n\
         Installed-Size: {}\nDepends: libc6 (>= 2.{}), libgcc-s1, libstdc++6, adduser\nRecommends: ca-certificates, util-linux\nSection: database\n\
         Priority: optional\nDescription: Supabase-compatible backend in one program\n \
         REST, auth, storage, realtime and functions on PostgreSQL 18, which this program\n contains.\n",
        program.len() / 1024,
        newest_glibc(&program)
    );
    write("DEBIAN/control", control.as_bytes(), 0o644)?;
    let target = folder.join(format!("basalt_{VERSION}_amd64.deb"));
    let mut pack = Command::new("dpkg-deb");
    // PostgreSQL is compressed already; the program itself compresses well at any level.
    pack.args(["--root-owner-group", "-Zxz", "-z3", "--build"]).arg(&stage).arg(&target);
    run::run(&mut pack)?;
    std::fs::remove_dir_all(&stage)?;
    Ok(Some(target))
}

/// The newest `GLIBC_2.N` that the program refers to.
fn newest_glibc(program: &[u8]) -> u32 {
    const PREFIX: &[u8] = b"GLIBC_2.";
    let minor = |rest: &[u8]| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
        digits.take(3).fold(0_u32, |number, digit| number * 10 + u32::from(digit - b'0'))
    };
    let found = program.windows(PREFIX.len() + 3).filter_map(|window| window.strip_prefix(PREFIX)).map(minor);
    found.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_glibc_is_found() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0GLIBC_PRIVATE\0"), 34);
        assert_eq!(newest_glibc(b"none"), 0);
    }

    #[test]
    fn unit_has_no_placeholders() {
        assert!(!unit().contains(['{', '}']));
    }
}
