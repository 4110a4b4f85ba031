//! What a project in Supabase's layout asks for and this server cannot serve, known before the database is created.

use basalt_postgres::{Embedded, ExtensionKind};
use basalt_project::Project;

use crate::config::Config;
use crate::database_setup;
use crate::function_facts;

/// What to report before the first start.
#[derive(Debug, Default)]
pub(crate) struct Unserved {
    /// Each prevents a file or function from running; with the remedy.
    pub(crate) problems: Vec<String>,
    /// Differences that prevent nothing.
    pub(crate) notes: Vec<String>,
}

/// Compares the project's extensions with those that the embedded PostgreSQL can create. Errors are left to the start, which meets them
/// again.
pub(crate) async fn missing_extensions(config: &Config) -> Unserved {
    let mut found = Unserved::default();
    let Some(settings) = &config.project.supabase else { return found };
    if config.is_embedded()
        && let Ok(project) = Project::open(&config.project.dir)
        && let Ok(uses) = project.supabase_extensions(settings)
        && let Ok(available) =
            Embedded::available_extensions(&database_setup::paths_of_programs(config)).await
    {
        let (mut emulated, mut empty) = (Vec::new(), Vec::new());
        for used in uses {
            match available.get(&used.name) {
                Some(ExtensionKind::Real) => {}
                Some(ExtensionKind::Emulated) => emulated.push(used.name),
                Some(ExtensionKind::NameOnly) => empty.push(used.name),
                None => found.problems.push(format!(
                    "{}, line {}: the extension {} is not available in the embedded PostgreSQL, so this file will fail: set database.url \
                     to a PostgreSQL that has it, or remove the statement",
                    used.file, used.line, used.name
                )),
            }
        }
        if !emulated.is_empty() {
            found.notes.push(format!("emulated extensions (docs/FROM-SUPABASE.md): {}", emulated.join(", ")));
        }
        if !empty.is_empty() {
            found
                .notes
                .push(format!("extensions without objects, accepted by name only: {}", empty.join(", ")));
        }
    }
    found
}

/// [`missing_extensions`], and the functions that cannot run.
pub(crate) async fn unserved(config: &Config) -> Unserved {
    let mut found = missing_extensions(config).await;
    if config.project.supabase.is_none() {
        return found;
    }
    let functions =
        basalt_functions::inspect(&config.functions, &function_facts::facts(config, None), false).await;
    let unable: Vec<_> =
        functions.iter().filter(|function| function.is_enabled && function.problem.is_some()).collect();
    if let Some(problem) = unable.first().and_then(|first| first.problem.as_ref()) {
        let names: Vec<&str> = unable.iter().take(10).map(|function| function.name.as_str()).collect();
        let more = unable.len().saturating_sub(names.len());
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        found.problems.push(format!("the functions {}{rest} cannot run: {problem}", names.join(", ")));
    }
    found
}
