//! What was written under PostgREST's names, as it was written.

use super::file::Entry;
use super::names::{APP_SETTINGS, APP_SETTINGS_VARIABLE, Meaning, Name, spellings, variable_of};
use crate::config::raw::nearest;
use basalt_core::settings::Source;

/// The file, and the variables.
pub(super) struct Given {
    pub(super) entries: Vec<Entry>,
    pub(super) variables: Vec<(String, String)>,
}

impl Given {
    /// The value in force: a variable before the file, a name before its aliases.
    pub(super) fn get(&self, name: &Name) -> Option<(&str, Source)> {
        let spellings = std::iter::once(name.name).chain(name.aliases.iter().copied());
        spellings.into_iter().find_map(|spelling| {
            let variable = variable_of(spelling);
            let set = self.variables.iter().find(|(known, _)| *known == variable);
            if let Some((_, text)) = set {
                return Some((text.as_str(), Source::Variable(variable)));
            }
            // An empty list is something to say.
            let counts = |entry: &&Entry| !entry.value.is_empty() || matches!(name.meaning, Meaning::List(_));
            let entry = self.entries.iter().rev().find(|entry| entry.name == spelling);
            entry.filter(counts).map(|entry| (entry.value.as_str(), entry.source.clone()))
        })
    }

    pub(super) fn warn_of_unknown(&self, warnings: &mut Vec<String>) {
        let advice = |near: Option<String>| {
            near.map_or_else(
                || "it is ignored".to_owned(),
                |near| format!("it is ignored; did you mean {near}?"),
            )
        };
        for (variable, _) in &self.variables {
            let is_known = variable.starts_with(APP_SETTINGS_VARIABLE)
                || spellings().any(|name| variable_of(name) == *variable);
            if !is_known {
                let near = nearest(variable, spellings().map(variable_of));
                warnings.push(format!("{variable}: PostgREST has no such setting; {}", advice(near)));
            }
        }
        for entry in &self.entries {
            if !entry.name.starts_with(APP_SETTINGS) && !spellings().any(|name| name == entry.name) {
                let near = nearest(&entry.name, spellings().map(ToOwned::to_owned));
                warnings.push(format!(
                    "{}: PostgREST has no setting {}; {}",
                    entry.source,
                    entry.name,
                    advice(near)
                ));
            }
        }
    }
}
