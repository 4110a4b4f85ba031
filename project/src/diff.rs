//! `basalt db diff`: what a database has that the project's files do not make, and the reverse. The second side is a database to which only the
//! files have been applied.

use std::collections::BTreeMap;
use std::fmt;

use tokio_postgres::Client;

use crate::error::ProjectError;

/// The objects of one database: definitions by kind and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inventory(BTreeMap<(String, String), String>);

/// A difference between a database and the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the database has it; with its definition.
    OnlyInDatabase(String, String),
    /// Only the files make it.
    OnlyInFiles(String),
    /// Both have it; the definitions in the database and in the files.
    Differs(String, String, String),
}

impl Inventory {
    /// Reads the objects of a database.
    ///
    /// # Errors
    /// The connection breaks.
    pub async fn read(client: &Client) -> Result<Self, ProjectError> {
        // Definitions then name every schema.
        client.batch_execute("set search_path = ''").await?;
        let mut objects = BTreeMap::new();
        for row in client.query(include_str!("inventory.sql"), &[]).await? {
            objects.insert((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?);
        }
        client.batch_execute("reset search_path").await?;
        Ok(Self(objects))
    }

    /// How `self`, a database, differs from what the files make.
    #[must_use]
    pub fn differences(&self, files: &Self) -> Vec<Difference> {
        let title = |(kind, name): &(String, String)| format!("{kind} {name}");
        let mut differences = Vec::new();
        for (object, definition) in &self.0 {
            match files.0.get(object) {
                None => {
                    differences.push(Difference::OnlyInDatabase(title(object), definition.clone()));
                }
                Some(made) if made != definition => {
                    differences.push(Difference::Differs(title(object), definition.clone(), made.clone()));
                }
                Some(_) => {}
            }
        }
        let missing = files.0.keys().filter(|object| !self.0.contains_key(*object));
        differences.extend(missing.map(|object| Difference::OnlyInFiles(title(object))));
        differences
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyInDatabase(object, definition) if definition.is_empty() => write!(f, "+ {object}"),
            Self::OnlyInDatabase(object, definition) => write!(f, "+ {object}\n    {}", indented(definition)),
            Self::OnlyInFiles(object) => write!(f, "- {object}"),
            Self::Differs(object, database, files) => {
                write!(f, "~ {object}\n    database: {}\n    files: {}", indented(database), indented(files))
            }
        }
    }
}

fn indented(definition: &str) -> String {
    definition.trim().replace('\n', "\n    ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_both_sides() {
        let inventory = |objects: &[(&str, &str)]| {
            let object = |(name, definition): &(&str, &str)| {
                (("table".to_owned(), (*name).to_owned()), (*definition).to_owned())
            };
            Inventory(objects.iter().map(object).collect())
        };
        let database = inventory(&[("a", "1"), ("b", "1"), ("c", "")]);
        let files = inventory(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let lines: Vec<String> = database.differences(&files).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["~ table b\n    database: 1\n    files: 2", "+ table c", "- table d"]);
        assert!(files.differences(&files).is_empty());
    }
}
