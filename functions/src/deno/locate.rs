//! Finds the Deno program: `functions.deno_path`; the npm package `@deno/*` in a `node_modules` of the project folder, the working
//! directory, the executable's folder, or any folder above these; `PATH`.
//!
//! The program is called directly: the launcher of the npm package `deno` needs Node, and its post-install script may be disabled.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where to search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Search<'a> {
    /// `functions.deno_path`.
    pub(crate) configured: Option<&'a Path>,
    /// Folders to search for `node_modules`, including their parents.
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) path: Option<&'a OsStr>,
}

/// The program, or what to do to get it.
pub(crate) fn find(search: &Search<'_>) -> Result<PathBuf, String> {
    if let Some(path) = search.configured {
        return if path.is_file() {
            Ok(path.to_path_buf())
        } else {
            Err(format!(
                "functions.deno_path ({}) is not a file: set it to the program, or remove the setting",
                path.display()
            ))
        };
    }
    let in_modules = search.roots.iter().flat_map(|root| root.ancestors()).flat_map(|folder| {
        let scope = folder.join("node_modules/@deno");
        package_names().iter().map(move |name| scope.join(name).join("deno"))
    });
    let in_path = search.path.map(std::env::split_paths).into_iter().flatten();
    let in_path = in_path.filter(|dir| dir.is_absolute()).map(|dir| dir.join("deno"));
    in_modules.chain(in_path).find(|program| program.is_file()).ok_or_else(|| {
        let roots: Vec<String> =
            search.roots.iter().map(|root| root.join("node_modules").display().to_string()).collect();
        format!(
            "Deno was not found (searched: {} and above, PATH): run `npm install deno` in the project folder, or set functions.deno_path",
            roots.join(", ")
        )
    })
}

/// The npm packages that contain a program for this machine.
fn package_names() -> &'static [&'static str] {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => &["linux-x64-glibc"],
        ("linux", "aarch64") => &["linux-arm64-glibc"],
        ("macos", "x86_64") => &["darwin-x64"],
        ("macos", "aarch64") => &["darwin-arm64"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn program(dir: &Path) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("deno"), "").unwrap();
        dir.join("deno")
    }

    #[test]
    fn setting_wins_over_npm_and_npm_over_path() {
        let dir = tempfile::tempdir().unwrap();
        let name = package_names()[0];
        let on_path = program(&dir.path().join("bin"));
        let project = dir.path().join("a/b");
        fs::create_dir_all(&project).unwrap();
        let path = dir.path().join("bin");
        let search = Search { configured: None, roots: vec![project], path: Some(path.as_os_str()) };
        assert_eq!(find(&search), Ok(on_path));
        let npm = program(&dir.path().join("node_modules/@deno").join(name));
        assert_eq!(find(&search), Ok(npm));
        let chosen = program(&dir.path().join("chosen"));
        assert_eq!(find(&Search { configured: Some(&chosen), ..search.clone() }), Ok(chosen));
        let missing = find(&Search { configured: Some(Path::new("/nowhere/deno")), ..search }).unwrap_err();
        assert!(missing.contains("functions.deno_path (/nowhere/deno)"), "{missing}");
    }

    #[test]
    fn error_names_the_remedy() {
        let search = Search { configured: None, roots: vec![PathBuf::from("/nowhere")], path: None };
        let error = find(&search).unwrap_err();
        assert!(error.contains("npm install deno") && error.contains("functions.deno_path"), "{error}");
    }
}
