//! The part of docs/CONFIG.md about PostgREST's names.

use std::fmt::Write as _;

use super::names::{DEFAULTS, Meaning, NAMES, variable_of};

/// How the two sets mix, who wins, and a table of all names.
pub(in crate::config) fn markdown() -> String {
    let mut text = String::from(
        "\n## In place of a PostgREST\n\n\
         `basalt serve --only rest` is configured by PostgREST's own names as well: `PGRST_*` variables, libpq's `PG*` variables\n\
         for what the connection string leaves out, and a `postgrest.conf` given as argument\n\
         (`basalt serve --only rest postgrest.conf`). As soon as one `PGRST_*` variable is set, or a file is given, PostgREST's\n\
         defaults hold where they differ from ours:\n\n",
    );
    for (name, value) in DEFAULTS {
        let value = if value.is_empty() { "empty".to_owned() } else { format!("`{value}`") };
        let _ = writeln!(text, "- `{name}`: {value}");
    }
    text.push_str(
        "\nWho wins, the strongest first: settings in the database (`ALTER ROLE login SET pgrst.NAME`, the same `IN DATABASE`,\n\
         the pre-config function), options, `BASALT_*` variables, `PGRST_*` variables, `postgrest.conf`, `basalt.toml`,\n\
         PostgREST's defaults, ours. Within PostgREST's names, a name wins over its older alias.\n\n\
         - An empty value counts as not set; an empty list in the file is an empty list.\n\
         - `@file` is read from the folder where the command is typed, for `db-uri` and `jwt-secret`.\n\
         - In the file, `$(NAME)` is an earlier setting or a variable, and `$$` a dollar sign: `jwt-role-claim-key = \"$$.role\"`.\n\
         - A name that there is not is warned of and ignored. A value that cannot be read stops the start, with its place.\n\
         - `sslmode=prefer` and `require` hide what travels and check no certificate, as in libpq; `verify-ca` and\n  \
         `verify-full` check it, name included, against those the system trusts.\n\
         - SIGUSR1 reloads the schema cache; SIGUSR2 reads the file and the database's settings again, but not addresses,\n  \
         ports, the database's login and the pools. What cannot be read leaves everything as it was.\n\
         - `basalt config --only rest postgrest.conf` shows what is in force and who says so; with `--postgrest`, in\n  \
         PostgREST's words. The admin port's `/config` shows that of the running server. No secret is in either.\n\
         - Without `--only rest` the `PGRST_*` variables are not read, and a warning says so.\n\n\
         | PostgREST | variable | here |\n|---|---|---|\n",
    );
    for name in NAMES {
        let aliases = name.aliases.iter().map(|alias| format!(", `{alias}`")).collect::<String>();
        let _ = writeln!(
            text,
            "| `{}`{aliases} | `{}` | {} |",
            name.name,
            variable_of(name.name),
            meaning(name.meaning)
        );
    }
    text.push_str("| `app.settings.*` | `PGRST_APP_SETTINGS_*` | `rest.app_settings` |\n");
    text
}

fn meaning(meaning: Meaning) -> String {
    let setting = |name: &str| format!("`{name}`");
    match meaning {
        Meaning::Same(name) | Meaning::List(name) | Meaning::Flag(name) | Meaning::Path(name) => {
            setting(name)
        }
        Meaning::Database => format!(
            "{} and {}",
            setting("database.authenticator_url"),
            setting("database.verify_certificate")
        ),
        Meaning::Secret => {
            let (secret, keys) = ("jwt.secret", "jwt.keys");
            format!("{}, or {} for a JWK or a JWK set", setting(secret), setting(keys))
        }
        Meaning::LogLevel => format!(
            "{}: `crit` and `error` log trouble only, `warn` also what is done, `info` every request, `debug` everything",
            setting("server.log")
        ),
        Meaning::LogQuery => {
            format!("{} with `basalt::query=debug`: texts of statements, never values", setting("server.log"))
        }
        Meaning::PreparedStatements => {
            format!("`false` sets `{}` to 0", "database.statement_cache")
        }
        Meaning::Immaterial => "accepted; changes no answer here".to_owned(),
        Meaning::AlwaysOn(sentence) => format!("{sentence}; `false` is warned of"),
    }
}
