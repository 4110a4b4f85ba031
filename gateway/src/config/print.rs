//! Prints the settings: `basalt config` (effective values and their sources) and docs/CONFIG.md (all settings).

use std::fmt::Write as _;
use std::io::{self, Write};

use basalt_core::settings::Fallback;

use super::sections::{sections, settings};
use super::{Config, Setting, Source};
use super::{gotrue, postgrest, supabase};

/// The column of the comment with the source, unless the value is longer.
const COMMENT_COLUMN: usize = 44;

/// Writes the effective configuration as TOML, with the source of each value. Secrets are shown as `(set)`.
///
/// # Errors
/// Writing to `out` fails.
pub fn print_config(config: &Config, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "# The effective configuration. Order of precedence, lowest first: default, file, variable, option."
    )?;
    match &config.project.file {
        Some(file) => writeln!(out, "# File: {}", file.display())?,
        None => writeln!(out, "# File: none in {}", config.project.dir.display())?,
    }
    for (section, _) in sections() {
        writeln!(out, "\n[{section}]")?;
        for setting in &config.effective {
            let Some(key) = setting.setting.key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'))
            else {
                continue;
            };
            let line = match setting.value.as_deref() {
                None => format!("# {key} ="),
                Some("(set)") => format!("# {key} = (set)"),
                Some(value) => format!("{key} = {value}"),
            };
            let source = match (&setting.source, &setting.value) {
                (Source::Default, None) => not_set(setting.setting),
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

/// Describes the default of a setting that is not set.
fn not_set(setting: &Setting) -> String {
    match setting.fallback {
        Fallback::By(words) | Fallback::ByOr(words, _) if words != "none" => {
            format!("not set: {}", words.replace('`', ""))
        }
        Fallback::Is(_) | Fallback::By(_) | Fallback::ByOr(..) => "not set".to_owned(),
    }
}

/// Generates docs/CONFIG.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from the tables of settings; `cargo xtask gen-docs` regenerates it.\n\n\
         Every setting can be set in `basalt.toml` in the project folder or in an environment variable\n\
         (`BASALT_SECTION_KEY`: `server.port` is `BASALT_SERVER_PORT`); a few have an option. Options override variables, variables\n\
         override the file, and the file overrides the default. A development server needs no settings.\n\n\
         - Times are seconds, or strings such as `\"15m\"`, `\"24h\"`, `\"7d\"`. Sizes are bytes, or strings such as `\"50MiB\"`.\n\
         - Lists are TOML lists; in variables, values are separated by commas.\n\
         - Relative paths are resolved against the project folder; in options, against the working directory.\n\
         - An empty variable counts as not set, unless the setting accepts an empty value.\n\
         - `basalt config` shows the effective values with their sources; all mistakes are reported together.\n\
         - **secret**: never shown. **reserved**: checked, but not used by this release yet.\n",
    );
    for (section, purpose) in sections() {
        let _ = write!(
            text,
            "\n## [{section}]\n\n{purpose}\n\n| setting | value | default | meaning |\n|---|---|---|---|\n"
        );
        for row in settings().filter(|row| row.key.split('.').next() == Some(section)) {
            let fallback = match row.fallback {
                Fallback::By(words) | Fallback::ByOr(words, _) => words.to_owned(),
                Fallback::Is("") => "empty".to_owned(),
                Fallback::Is(value) => format!("`{value}`"),
            };
            let secret = if row.is_secret { " **secret**" } else { "" };
            let reserved = if row.is_reserved { " **reserved**" } else { "" };
            let expected = (row.expected)();
            let _ = writeln!(
                text,
                "| `{}` | {expected} | {fallback} | {}{secret}{reserved} |",
                row.key,
                row.help.trim().replace('|', "\\|")
            );
        }
    }
    text.push_str(&postgrest::markdown());
    text.push_str(&gotrue::markdown());
    text.push_str(&supabase::markdown());
    text
}
