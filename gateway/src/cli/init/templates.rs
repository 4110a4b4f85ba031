//! The projects that `basalt init --template` makes. Their files are in the folders beside this one.

use clap::ValueEnum;

use super::CONFIG_TOML;

/// An example project.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Template {
    /// A list for each person, with attached files.
    Todo,
    /// A room in which guests write and see each other.
    Chat,
    /// The list, in the layout of Supabase's CLI.
    Supabase,
}

const BASALT_TOML: &str = include_str!("basalt.toml");
const PEOPLE: &str = include_str!("people.toml");
const STYLE: &str = include_str!("style.css");
/// A copy, so that the page loads nothing from other servers.
const SUPABASE_JS: &str = include_str!("supabase.js");

impl Template {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Todo => "todo",
            Self::Chat => "chat",
            Self::Supabase => "supabase",
        }
    }

    /// Paths and contents.
    pub(super) fn files(self, project_id: &str) -> Vec<(&'static str, String)> {
        let settings = match self {
            Self::Todo | Self::Supabase => "",
            Self::Chat => "# Guests enter with a name only.\nexternal_anonymous_users_enabled = true\n",
        };
        let mut files = vec![
            ("basalt.toml", BASALT_TOML.replace("SETTINGS\n", &format!("{settings}\n"))),
            ("policies/tests/people.toml", PEOPLE.to_owned()),
            ("public/style.css", STYLE.to_owned()),
            ("public/supabase.js", SUPABASE_JS.to_owned()),
        ];
        let mut add = |name, text: &str| files.push((name, text.to_owned()));
        match self {
            Self::Todo | Self::Supabase => {
                add("policies/tests/fixture.sql", include_str!("todo/policies/tests/fixture.sql"));
                add("policies/tests/todos.toml", include_str!("todo/policies/tests/todos.toml"));
                let objects = include_str!("todo/policies/tests/storage.objects.toml");
                add("policies/tests/storage.objects.toml", objects);
                add("public/index.html", include_str!("todo/public/index.html"));
                add("public/app.js", include_str!("todo/public/app.js"));
            }
            Self::Chat => {
                add("policies/tests/fixture.sql", include_str!("chat/policies/tests/fixture.sql"));
                add("policies/tests/messages.toml", include_str!("chat/policies/tests/messages.toml"));
                add("public/index.html", include_str!("chat/public/index.html"));
                add("public/app.js", include_str!("chat/public/app.js"));
            }
        }
        let (table, rows) = (include_str!("todo/policies/todos.sql"), include_str!("todo/seed.sql"));
        let objects = include_str!("todo/policies/storage.objects.sql");
        let migration = include_str!("todo/migrations/0001_todos.sql");
        match self {
            Self::Todo => {
                add("migrations/0001_todos.sql", migration);
                add("policies/todos.sql", table);
                add("policies/storage.objects.sql", objects);
                add("seed.sql", rows);
            }
            Self::Chat => {
                add("migrations/0001_messages.sql", include_str!("chat/migrations/0001_messages.sql"));
                add("policies/messages.sql", include_str!("chat/policies/messages.sql"));
                add("policies/realtime.messages.sql", include_str!("chat/policies/realtime.messages.sql"));
                add("seed.sql", include_str!("chat/seed.sql"));
            }
            Self::Supabase => {
                add("supabase/config.toml", &CONFIG_TOML.replace("PROJECT", project_id));
                // This layout has no policy files: policies are part of the migrations.
                let table = table.split_once("\n\n").map_or(table, |(_about, statements)| statements);
                add(
                    "supabase/migrations/20260101000000_todos.sql",
                    &format!("{migration}\n-- Who may do what.\n{table}\n{objects}"),
                );
                add("supabase/seed.sql", rows);
            }
        }
        files
    }
}
