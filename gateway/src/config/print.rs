//! The settings for people: `basalt config` (what is in force, and where it comes from) and docs/CONFIG.md (what there is).

use std::fmt::Write as _;
use std::io::{self, Write};

use basalt_core::settings::Fallback;

use super::sections::{sections, settings};
use super::{Config, Setting, Source};
use super::{gotrue, postgrest};

/// Where the comment with the source starts, unless the value is longer.
const COMMENT_COLUMN: usize = 44;

/// Writes the effective configuration as TOML; each line names its source. Secrets read `(set)`.
///
/// # Errors
/// Writing to `out` fails.
pub fn print_config(config: &Config, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# The configuration in force. Later ones win: default, file, variable, option.")?;
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

/// What holds while a setting is not written.
fn not_set(setting: &Setting) -> String {
    match setting.fallback {
        Fallback::By(words) | Fallback::ByOr(words, _) if words != "none" => {
            format!("not set: {}", words.replace('`', ""))
        }
        Fallback::Is(_) | Fallback::By(_) | Fallback::ByOr(..) => "not set".to_owned(),
    }
}

/// docs/CONFIG.md.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from the tables of settings; `BASALT_TEST_BLESS=1 cargo test -p basalt config` writes it anew.\n\n\
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
    text
}
