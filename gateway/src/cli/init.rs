//! `basalt init`: makes a project folder. The layout is recorded by the files themselves.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Context as _;
use basalt_project::ProjectLayout;

const BASALT_TOML: &str = "\
# Settings of this project; `basalt config` shows all of them. Migrations are migrations/NNNN_name.sql. New tables grant nothing:
# policies/<table>.sql grants access and states the policies of its table.
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

/// Runs `basalt init` in `dir`. Existing files stay as they are.
pub(super) fn run(dir: &Path, layout: ProjectLayout) -> anyhow::Result<()> {
    let existing = ProjectLayout::of(dir);
    if layout == ProjectLayout::Basalt && existing == ProjectLayout::Supabase {
        anyhow::bail!("{} has a folder supabase/ already; `basalt serve` runs it as it is", dir.display());
    }
    if layout == ProjectLayout::Supabase && dir.join("migrations").is_dir() {
        anyhow::bail!(
            "{} has a folder migrations/, which is Basalt's layout; use an empty folder",
            dir.display()
        );
    }
    let mut out = io::stdout();
    match layout {
        ProjectLayout::Basalt => {
            make_file(dir, "basalt.toml", BASALT_TOML, &mut out)?;
            make_folder(dir, "migrations")?;
            make_folder(dir, "policies")?;
        }
        ProjectLayout::Supabase => {
            let name = dir.canonicalize().ok();
            let name =
                name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
            let name: String = name
                .unwrap_or_default()
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '-' })
                .collect();
            make_folder(dir, "supabase/migrations")?;
            make_file(dir, "supabase/config.toml", &CONFIG_TOML.replace("PROJECT", &name), &mut out)?;
            make_file(dir, "supabase/seed.sql", "", &mut out)?;
        }
    }
    make_file(dir, ".gitignore", "/.basalt/\n", &mut out)?;
    writeln!(out, "`basalt migration new NAME` makes a migration, `basalt serve` starts the server.")?;
    Ok(())
}

fn make_folder(dir: &Path, name: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir.join(name)).with_context(|| format!("cannot create {name}"))
}

fn make_file(dir: &Path, name: &str, text: &str, out: &mut impl Write) -> anyhow::Result<()> {
    let file = std::fs::File::create_new(dir.join(name));
    match file {
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
