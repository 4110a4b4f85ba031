//! The part of docs/CONFIG.md about GoTrue's names.

use std::fmt::Write as _;

use super::names::{DEFAULTS, LATER, Meaning, NAMES, PREFIX, REQUIRED, UNPREFIXED, settings};

/// How the two sets mix, and a table of all names.
pub(in crate::config) fn markdown() -> String {
    let mut text = String::from(
        "\n## In place of a GoTrue\n\n\
         `basalt serve --only auth` is configured by GoTrue's own `GOTRUE_*` variables as well. As soon as one is set, GoTrue's\n\
         defaults hold where they differ from ours:\n\n",
    );
    for (name, value) in DEFAULTS {
        let value = if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") };
        let _ = writeln!(text, "- `{name}`: {value}");
    }
    text.push_str("\nRequired, as there:\n\n");
    for (_, sentence) in REQUIRED {
        let _ = writeln!(text, "- {sentence}");
    }
    let unprefixed: Vec<String> = UNPREFIXED.iter().map(|(name, _)| format!("`{name}`")).collect();
    let _ = write!(
        text,
        "\nOptions win over `BASALT_*` variables, those over `GOTRUE_*` variables, those over `basalt.toml`, GoTrue's defaults and\n\
         ours. {} count without the prefix, too, where the prefixed name is not set.\n\n\
         - An empty value counts as not set. A value that cannot be read stops the start and names its variable.\n\
         - A name that there is not is warned of and ignored; so is one of a feature that is not available yet.\n\
         - `/health` is GoTrue's own; ours, `/ready` and `/metrics` are on `server.admin_port`.\n\
         - The login of the database URL acts as `supabase_auth_admin` where it may, so that several servers with different\n  \
         secrets share one database (docs/decisions/0012).\n\
         - `basalt config --only auth` shows what is in force, who says so, and the warnings.\n\
         - Without `--only auth` the `GOTRUE_*` variables are not read, and a warning says so.\n\n\
         | variable | here |\n|---|---|\n",
        unprefixed.join(", ")
    );
    for (name, row) in settings().filter(|(_, row)| !is_ours_alone(row.key)) {
        let name = name.replace("_URL_PATHS_", "_URLPATHS_");
        let _ = writeln!(text, "| `{PREFIX}{name}` | `{}` |", row.key);
    }
    for (name, meaning) in NAMES {
        let all = if name.ends_with('_') { "*" } else { "" };
        let _ = writeln!(text, "| `{PREFIX}{name}{all}` | {} |", words(*meaning));
    }
    for (start, feature) in LATER {
        let all = if start.ends_with('_') { "*" } else { "" };
        let _ = writeln!(text, "| `{PREFIX}{start}{all}`, the others | not available yet: {feature} |");
    }
    text
}

/// Settings that GoTrue does not have: it would be strange to write them in its words.
fn is_ours_alone(name: &str) -> bool {
    const OURS: [&str; 6] = [
        "jwt.anon_key",
        "jwt.service_key",
        "jwt.publishable_key",
        "jwt.secret_key",
        "jwt.secret_is_base64",
        "auth.password_hash_queue",
    ];
    OURS.contains(&name)
        || name.starts_with("auth.password_argon2_")
        || name.starts_with("auth.password_hash_")
}

fn words(meaning: Meaning) -> String {
    match meaning {
        Meaning::Same(name) => format!("`{name}`"),
        Meaning::Database => {
            format!("`{}` and `{}`", "database.url", "database.verify_certificate")
        }
        Meaning::Smtp => format!("a part of `{}`", "mail.smtp_url"),
        Meaning::Headers => format!("`{}`", "mail.headers"),
        Meaning::LogLevel => format!("`{}`", "server.log"),
        Meaning::Immaterial => "accepted; changes no answer here".to_owned(),
        Meaning::Instead(sentence) => format!("not read: {sentence}"),
    }
}
