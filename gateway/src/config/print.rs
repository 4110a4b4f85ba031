//! The settings for people: `basalt config` (what is in force, and who says so) and docs/CONFIG.md (what there is).

use std::fmt::Write as _;
use std::io::{self, Write};

use super::keys::{Fallback, SECTIONS, TABLE};
use super::{Config, Source};
use super::{gotrue, postgrest};

/// Where the comment with the source starts, unless the value is longer.
const COMMENT_COLUMN: usize = 44;

/// Writes the effective configuration as TOML; each line names its source. Secrets read `(set)`.
///
/// # Errors
/// `out` cannot be written to.
pub fn print_config(config: &Config, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# The configuration in force. Later ones win: default, file, variable, option.")?;
    match &config.project.file {
        Some(file) => writeln!(out, "# File: {}", file.display())?,
        None => writeln!(out, "# File: none in {}", config.project.dir.display())?,
    }
    for (section, _) in SECTIONS {
        writeln!(out, "\n[{section}]")?;
        for setting in &config.effective {
            let Some(key) = setting.name.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let line = match setting.value.as_deref() {
                None => format!("# {key} ="),
                Some("(set)") => format!("# {key} = (set)"),
                Some(value) => format!("{key} = {value}"),
            };
            let source = match (&setting.source, &setting.value) {
                (Source::Default, None) => not_set(setting.name),
                (source, _) => source.to_string(),
            };
            writeln!(out, "{line:COMMENT_COLUMN$} # {source}")?;
        }
    }
    if !config.warnings.is_empty() {
        writeln!(out)?;
    }
    for warning in &config.warnings {
        writeln!(out, "# warning: {warning}")?;
    }
    Ok(())
}

/// What holds instead of a value that nobody wrote.
fn not_set(name: &str) -> String {
    match TABLE.iter().find(|row| row.name == name).map(|row| row.fallback) {
        Some(Fallback::By(words)) if words != "none" => format!("not set: {}", words.replace('`', "")),
        Some(Fallback::Is(_) | Fallback::By(_)) | None => "not set".to_owned(),
    }
}

/// docs/CONFIG.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from `gateway/src/config/keys.rs`; `BASALT_TEST_BLESS=1 cargo test -p basalt config` writes it anew.\n\n\
         Every setting can stand in `basalt.toml` in the project folder, in an environment variable\n\
         (`BASALT_SECTION_KEY`, so `server.port` is `BASALT_SERVER_PORT`), and a few in an option. An option wins over a\n\
         variable, a variable over the file, the file over the default. A laptop needs none of them.\n\n\
         - Times are seconds, or texts such as `\"15m\"`, `\"24h\"`, `\"7d\"`. Sizes are bytes, or texts such as `\"50MiB\"`.\n\
         - Lists are TOML lists; in variables, separated by commas.\n\
         - Relative paths start in the project folder; those of options where the command is typed.\n\
         - An empty variable counts as not set, except where text may be empty.\n\
         - `basalt config` shows what is in force and where each value comes from; mistakes are reported all at once.\n\
         - **secret**: never shown. **reserved**: checked, but no part of this release reads it yet.\n",
    );
    for (section, purpose) in SECTIONS {
        let _ = write!(
            text,
            "\n## [{section}]\n\n{purpose}\n\n| setting | value | default | meaning |\n|---|---|---|---|\n"
        );
        for row in TABLE.iter().filter(|row| row.name.split('.').next() == Some(section)) {
            let fallback = match row.fallback {
                Fallback::By(words) => words.to_owned(),
                Fallback::Is("") => "empty".to_owned(),
                Fallback::Is(value) => format!("`{value}`"),
            };
            let secret = if row.secret { " **secret**" } else { "" };
            let reserved = if row.reserved { " **reserved**" } else { "" };
            let expected = (row.expected)();
            let _ = writeln!(
                text,
                "| `{}` | {expected} | {fallback} | {}{secret}{reserved} |",
                row.name,
                row.meaning.replace('|', "\\|")
            );
        }
    }
    text.push_str(&postgrest::markdown());
    text.push_str(&gotrue::markdown());
    text
}
