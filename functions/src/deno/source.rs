//! The TypeScript functions of a project: which folders are functions, and which files and settings belong to each.

use std::fs;
use std::path::{Path, PathBuf};

use crate::config::{EXTENSIONS, FunctionSettings, FunctionsConfig, is_name};

/// A function's files and settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The file to run.
    pub(crate) entry: PathBuf,
    pub(crate) settings: FunctionSettings,
    /// What resolves its imports.
    pub(crate) imports: Imports,
    /// The lock file beside its configuration.
    pub(crate) lock: Option<PathBuf>,
}

/// What resolves the names that a function imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Imports {
    /// `deno.json` or `deno.jsonc`.
    Config(PathBuf),
    /// `import_map.json`.
    Map(PathBuf),
    /// `package.json`, with the `node_modules` folder that holds its packages.
    Package(PathBuf),
    /// Nothing: all names are relative paths or URLs.
    None,
}

impl Source {
    pub(crate) fn name(&self) -> &str {
        &self.settings.name
    }

    /// The folder of the entry point.
    pub(crate) fn dir(&self) -> &Path {
        self.entry.parent().unwrap_or(Path::new("/"))
    }
}

/// The functions of the project, by name: every folder with an `index.ts`, and every section with an `entrypoint`.
pub(crate) fn discover(config: &FunctionsConfig) -> Vec<Source> {
    let mut names: Vec<String> = folders_with_index(&config.dir);
    let with_entry = config.each.iter().filter(|section| section.entrypoint.is_some());
    names.extend(with_entry.map(|section| section.name.clone()));
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| source(config, name)).collect()
}

fn source(config: &FunctionsConfig, name: String) -> Option<Source> {
    let section = config.each.iter().find(|section| section.name == name).cloned();
    let settings = section.unwrap_or_else(|| FunctionSettings::new(name));
    let folder = config.dir.join(&settings.name);
    let entry = match &settings.entrypoint {
        Some(entry) => Some(config.base_dir().join(entry)),
        None => index_in(&folder),
    }?;
    let dir = entry.parent().unwrap_or(&folder).to_path_buf();
    let imports = match &settings.import_map {
        Some(path) => imports_file(config.base_dir().join(path)),
        None => default_imports(&dir, &config.dir),
    };
    let beside = |folder: &Path| Some(folder.join("deno.lock")).filter(|path| path.is_file());
    let configured_in = match &imports {
        Imports::Config(path) | Imports::Map(path) => path.parent(),
        Imports::Package(_) | Imports::None => None,
    };
    let lock = beside(&dir).or_else(|| beside(configured_in?));
    Some(Source { entry, settings, imports, lock })
}

fn folders_with_index(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let function = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        (is_name(&name) && index_in(&entry.path()).is_some()).then_some(name)
    };
    entries.flatten().filter_map(function).collect()
}

fn index_in(dir: &Path) -> Option<PathBuf> {
    EXTENSIONS.iter().map(|ending| dir.join(format!("index.{ending}"))).find(|path| path.is_file())
}

/// Import maps and `deno.json` files have the same `imports`, but Deno has an option for each.
fn imports_file(path: PathBuf) -> Imports {
    let is_config =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("deno.json"));
    if is_config { Imports::Config(path) } else { Imports::Map(path) }
}

/// The first of the function's own files, then the import map of all functions (functions.md 3.6).
fn default_imports(dir: &Path, functions: &Path) -> Imports {
    let own = ["deno.json", "deno.jsonc", "import_map.json"].map(|name| dir.join(name));
    let shared = ["import_map.json", "deno.json", "deno.jsonc"].map(|name| functions.join(name));
    if let Some(path) = own.into_iter().chain(shared).find(|path| path.is_file()) {
        return imports_file(path);
    }
    let package = dir.join("package.json");
    let modules = dir.ancestors().map(|above| above.join("node_modules")).find(|path| path.is_dir());
    match modules {
        Some(modules) if package.is_file() => Imports::Package(modules),
        Some(_) | None => Imports::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[&str]) -> (tempfile::TempDir, FunctionsConfig) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let config = FunctionsConfig { dir: dir.path().join("functions"), ..FunctionsConfig::default() };
        (dir, config)
    }

    fn imports_of(files: &[&str]) -> Imports {
        let (dir, config) = project(files);
        let found = discover(&config).remove(0).imports;
        let relative = |path: PathBuf| path.strip_prefix(dir.path()).unwrap().to_path_buf();
        match found {
            Imports::Config(path) => Imports::Config(relative(path)),
            Imports::Map(path) => Imports::Map(relative(path)),
            Imports::Package(path) => Imports::Package(relative(path)),
            Imports::None => Imports::None,
        }
    }

    #[test]
    fn finds_folders_with_index_and_configured_entry_points() {
        let (dir, mut config) = project(&[
            "functions/b/index.ts",
            "functions/a/index.js",
            "functions/_shared/index.ts",
            "functions/.git/index.ts",
            "functions/1st/index.ts",
            "functions/empty/readme.md",
            "jobs/nightly.ts",
        ]);
        let entrypoint = Some(PathBuf::from("jobs/nightly.ts"));
        config.each.push(FunctionSettings { entrypoint, ..FunctionSettings::new("nightly".to_owned()) });
        let found = discover(&config);
        let names: Vec<&str> = found.iter().map(Source::name).collect();
        assert_eq!(names, ["a", "b", "nightly"]);
        assert_eq!(found[2].entry, dir.path().join("jobs/nightly.ts"));
    }

    #[test]
    fn own_import_map_wins_over_shared_one() {
        let index = "functions/a/index.ts";
        let path = PathBuf::from;
        assert_eq!(imports_of(&[index]), Imports::None);
        assert_eq!(
            imports_of(&[index, "functions/import_map.json"]),
            Imports::Map(path("functions/import_map.json"))
        );
        assert_eq!(
            imports_of(&[index, "functions/import_map.json", "functions/a/deno.json"]),
            Imports::Config(path("functions/a/deno.json"))
        );
        assert_eq!(
            imports_of(&[index, "functions/a/package.json", "functions/a/node_modules/x/index.js"]),
            Imports::Package(path("functions/a/node_modules"))
        );
    }

    #[test]
    fn lock_file_beside_the_function_is_used() {
        let (dir, config) = project(&["functions/a/index.ts", "functions/a/deno.lock"]);
        let found = discover(&config).remove(0);
        assert_eq!(found.lock, Some(dir.path().join("functions/a/deno.lock")));
    }
}
