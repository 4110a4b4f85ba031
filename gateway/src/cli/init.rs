//! `basalt init`: makes a project folder. The layout is recorded by the files themselves.

mod templates;

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use basalt_project::ProjectLayout;
use clap::Args;

use crate::config::{CommandLine, Config};
use templates::Template;

const BASALT_TOML: &str = "\
# Settings of this project; `basalt config` shows all of them. Migrations are migrations/NNNN_name.sql. New tables grant nothing:
# policies/<table>.sql grants access and states the policies of its table.
";

const FROM_SUPABASE_TOML: &str = "\
# Settings of Basalt, which override supabase/config.toml; `basalt config` shows all of them with their sources.

# [server]
# The folder of the built app, served at /.
# app_dir = \"dist\"
# On a server: the address to listen on, and the public one. Together they switch to production mode.
# host = \"0.0.0.0\"
# public_url = \"https://example.org\"
";

const CONFIG_TOML: &str = "\
# Read by Basalt and by Supabase's CLI; docs/CONFIG.md lists what each key means here.
project_id = \"PROJECT\"

[api]
schemas = [\"public\", \"graphql_public\"]
extra_search_path = [\"public\", \"extensions\"]
max_rows = 1000

[db]
port = 54322

[db.seed]
enabled = true
sql_paths = [\"./seed.sql\"]

[auth]
site_url = \"http://127.0.0.1:3000\"

[auth.email]
enable_confirmations = false
";

/// The state folder contains secrets.
const IGNORED: &str = "/.basalt/";

/// The arguments of `basalt init`.
#[derive(Debug, Args)]
pub(super) struct Init {
    /// The folder to make [default: the project folder].
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Starts from an example with a table, policies and their tests, a seed, and a page.
    #[arg(long, value_enum, value_name = "NAME", conflicts_with_all = ["supabase", "from_supabase"])]
    template: Option<Template>,
    /// Makes a folder supabase/ as Supabase's CLI does: new tables are open to the API roles, and policies protect their rows.
    #[arg(long, conflicts_with = "from_supabase")]
    supabase: bool,
    /// Prepares a folder that has supabase/ already, and reports what in it has no effect here.
    #[arg(long)]
    from_supabase: bool,
}

/// Runs `basalt init`. Existing files stay as they are.
pub(super) fn run(init: &Init, command_line: &CommandLine) -> anyhow::Result<()> {
    let project = command_line.project.as_deref().unwrap_or(".");
    let dir = init.folder.clone().unwrap_or_else(|| PathBuf::from(project));
    let mut out = io::stdout();
    if let Some(template) = init.template {
        make_from_template(&dir, template, &mut out)?;
    } else if init.from_supabase {
        prepare_supabase_folder(&dir, command_line, &mut out)?;
    } else {
        let layout = if init.supabase { ProjectLayout::Supabase } else { ProjectLayout::Basalt };
        make_empty(&dir, layout, &mut out)?;
    }
    Ok(())
}

fn make_from_template(dir: &Path, template: Template, out: &mut impl Write) -> anyhow::Result<()> {
    let mut entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
            std::fs::read_dir(dir)?
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", dir.display())),
    };
    // A new repository has a hidden folder.
    let is_visible = |name: &std::ffi::OsStr| !name.as_encoded_bytes().starts_with(b".");
    if entries.any(|entry| entry.is_ok_and(|entry| is_visible(&entry.file_name()))) {
        bail!("{} is not empty; choose the name of a new folder", dir.display());
    }
    for (name, text) in template.files(&project_id(dir)) {
        make_file(dir, name, &text, &mut io::sink())?;
    }
    ignore_state(dir)?;
    let place = dir.display();
    writeln!(out, "created {place} from the template {}\n", template.name())?;
    writeln!(out, "  cd {place}")?;
    writeln!(out, "  basalt serve             # the page is at http://localhost:8000")?;
    writeln!(out, "  basalt policies test     # runs policies/tests, which state who may do what")?;
    writeln!(out, "  basalt migration new X   # makes the next migration; a running server applies it")?;
    Ok(())
}

fn make_empty(dir: &Path, layout: ProjectLayout, out: &mut impl Write) -> anyhow::Result<()> {
    let existing = ProjectLayout::detect(dir);
    if layout == ProjectLayout::Basalt && existing == ProjectLayout::Supabase {
        bail!("{} has a folder supabase/ already; `basalt serve` runs it as it is", dir.display());
    }
    if layout == ProjectLayout::Supabase && dir.join("migrations").is_dir() {
        bail!("{} has a folder migrations/, which is Basalt's layout; use an empty folder", dir.display());
    }
    match layout {
        ProjectLayout::Basalt => {
            make_file(dir, "basalt.toml", BASALT_TOML, out)?;
            make_folder(&dir.join("migrations"))?;
            make_folder(&dir.join("policies"))?;
        }
        ProjectLayout::Supabase => {
            make_folder(&dir.join("supabase/migrations"))?;
            let config = CONFIG_TOML.replace("PROJECT", &project_id(dir));
            make_file(dir, "supabase/config.toml", &config, out)?;
            make_file(dir, "supabase/seed.sql", "", out)?;
        }
    }
    make_file(dir, ".gitignore", &format!("{IGNORED}\n"), out)?;
    writeln!(out, "`basalt migration new NAME` makes a migration, `basalt serve` starts the server.")?;
    Ok(())
}

fn prepare_supabase_folder(
    dir: &Path,
    command_line: &CommandLine,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    if ProjectLayout::detect(dir) != ProjectLayout::Supabase {
        bail!(
            "{} has no folder supabase/: run this in the folder of a Supabase project, or use `basalt init --supabase` for a new one",
            dir.display()
        );
    }
    make_file(dir, "basalt.toml", FROM_SUPABASE_TOML, out)?;
    ignore_state(dir)?;
    let project = dir.to_str().context("the folder's name is not UTF-8")?.to_owned();
    let config = Config::load(&CommandLine { project: Some(project), ..command_line.clone() })?;
    let count = |folder: &str, suffix: &str| {
        let entries = std::fs::read_dir(dir.join("supabase").join(folder)).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.path().join(suffix).exists() || name_ends_with(&entry.path(), suffix))
            .count()
    };
    let mut report = String::new();
    writeln!(report, "migrations: {}", count("migrations", ".sql"))?;
    writeln!(report, "functions:  {}", count("functions", "index.ts"))?;
    for warning in &config.warnings {
        writeln!(report, "warning: {warning}")?;
    }
    for note in &config.notes {
        writeln!(report, "note: {note}")?;
    }
    writeln!(
        report,
        "\n`basalt serve` applies the migrations and seeds, and starts the server with the project's functions."
    )?;
    writeln!(report, "docs/FROM-SUPABASE.md moves the data: accounts, rows and files.")?;
    out.write_all(report.as_bytes())?;
    Ok(())
}

fn name_ends_with(path: &Path, suffix: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(suffix.as_bytes()))
}

/// The folder's name with the characters that Supabase's CLI accepts.
fn project_id(dir: &Path) -> String {
    let full = std::path::absolute(dir).ok();
    let name = full.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let accepted = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    name.unwrap_or_default().chars().map(|c| if accepted(c) { c } else { '-' }).collect()
}

/// Adds the state folder to `.gitignore`.
fn ignore_state(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(".gitignore");
    let existing = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.context("cannot read .gitignore")?,
    };
    if existing.lines().any(|line| line.trim().trim_matches('/') == IGNORED.trim_matches('/')) {
        return Ok(());
    }
    let separator = if existing.is_empty() || existing.ends_with('\n') { "" } else { "\n" };
    std::fs::write(&path, format!("{existing}{separator}{IGNORED}\n")).context("cannot write .gitignore")
}

fn make_folder(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))
}

fn make_file(dir: &Path, name: &str, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        make_folder(parent)?;
    }
    match std::fs::File::create_new(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).with_context(|| format!("cannot write {name}"))?;
            writeln!(out, "created {name}")?;
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            writeln!(out, "{name} exists and stays as it is")?;
            Ok(())
        }
        Err(error) => Err(error).with_context(|| format!("cannot create {name}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_folder_is_ignored_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".gitignore");
        std::fs::write(&path, "node_modules").unwrap();
        for _ in 0..2 {
            ignore_state(dir.path()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "node_modules\n/.basalt/\n");
        }
    }

    #[test]
    fn template_needs_an_empty_folder() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        for template in [Template::Todo, Template::Chat, Template::Supabase] {
            let project = dir.path().join(template.name());
            make_from_template(&project, template, &mut io::sink()).unwrap();
            assert!(project.join("public/supabase.js").is_file());
            let refused = make_from_template(&project, template, &mut io::sink()).unwrap_err();
            assert!(refused.to_string().contains("is not empty"), "{refused}");
        }
    }
}
