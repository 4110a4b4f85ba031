//! Checks the order of modules that README.md describes: a module imports only those below it.

use std::fs;
use std::path::Path;

const TOP_TO_BOTTOM: [&str; 31] = [
    "http",
    "commands",
    "flows",
    "state",
    "cleanup",
    "sessions",
    "oauth_server",
    "factors",
    "codes",
    "providers",
    "webauthn",
    "audit",
    "hooks",
    "users",
    "emails",
    "sms",
    "captcha",
    "limits",
    "database",
    "config",
    "error",
    "origin",
    "hook_types",
    "passwords",
    "templates",
    "redirects",
    "response_padding",
    "fields",
    "go_duration",
    "migrations",
    "metrics",
];

fn rank(module: &str) -> Option<usize> {
    TOP_TO_BOTTOM.iter().position(|name| *name == module)
}

/// The modules named by paths that start at the crate's root.
fn imports(source: &str) -> impl Iterator<Item = &str> {
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("crate::").skip(1)).map(|path| {
        let end = path.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap_or(path.len());
        path.get(..end).unwrap_or_default()
    })
}

fn check(file: &Path, module: &str, upward: &mut Vec<String>) {
    if file.is_dir() {
        for entry in fs::read_dir(file).unwrap() {
            check(&entry.unwrap().path(), module, upward);
        }
    } else if file.extension().is_some_and(|extension| extension == "rs") {
        for import in imports(&fs::read_to_string(file).unwrap()) {
            if rank(import).is_none_or(|import| Some(import) < rank(module)) {
                upward.push(format!("{} imports {import}", file.display()));
            }
        }
    }
}

#[test]
fn imports_point_down() {
    let mut upward = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap();
        if !matches!(module, "lib" | "layers") {
            assert!(rank(module).is_some(), "add {module} to TOP_TO_BOTTOM");
            check(&path, module, &mut upward);
        }
    }
    assert_eq!(upward, Vec::<String>::new());
}
