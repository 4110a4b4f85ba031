//! Proves who may do what: every case of `policies/tests/*.toml` is tried as every person of `people.toml`, over the
//! rows of `fixture.sql`. Those listed as allowed must succeed, all others must be refused. It all happens in one
//! transaction that is rolled back, so it can run on any database.
//!
//! "Refused" is what a client cannot get past: SQLSTATE 42501, or a statement that finds no row. Any other error is a
//! fault of the case, unless it names the SQLSTATE it expects. A table of schema `public` without cases for all four
//! verbs is a fault too: a forgotten table is the one that leaks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use basalt_core::pg_error::DriverError;
use serde::Deserialize;
use tokio_postgres::{Client, SimpleQueryMessage, Transaction};

use crate::error::ProjectError;
use crate::{Project, statements};

const FOLDER: &str = "policies/tests";

/// A person who sends requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    /// Role that requests run as.
    role: String,
    /// Claim `sub`; none for visitors.
    sub: Option<String>,
    /// Claim `email`.
    email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestFile {
    /// `schema.table`.
    table: String,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is tried, in words.
    name: String,
    /// One statement; its first word is the verb.
    sql: String,
    /// Who may.
    allowed: Vec<String>,
    /// Those it fails for with this SQLSTATE although policies allow it.
    #[serde(default)]
    fails: BTreeMap<String, String>,
}

/// What a run found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Cases times people.
    pub checks: usize,
    /// What is not as stated, in sentences.
    pub faults: Vec<String>,
}

/// What became of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Refused,
    Failed { code: String, message: String },
}

impl Project {
    /// Tries every case. The connection must be able to become the project's owner and the API roles.
    ///
    /// # Errors
    /// A test file is not understood, the fixture fails, or the connection breaks. What the policies get wrong is in
    /// the outcome.
    pub async fn test_policies(&self, client: &mut Client) -> Result<Outcome, ProjectError> {
        let people: BTreeMap<String, Person> = read(self.dir(), "people.toml")?;
        let files = test_files(self.dir())?;
        let fixture_path = format!("{FOLDER}/fixture.sql");
        let fixture = read_text(self.dir(), "fixture.sql")?;

        let owner: String = client.query_one("select basalt.project_owner()::text", &[]).await?.try_get(0)?;
        let mut transaction = client.transaction().await?;
        let mut outcome = Outcome::default();
        check_coverage(&transaction, &files, &mut outcome).await?;

        transaction
            .execute(
                "select set_config('role', $1, true),
                   set_config('search_path', '\"$user\", public, extensions', true)",
                &[&owner],
            )
            .await?;
        statements::run(&transaction, &fixture_path, &fixture).await?;
        transaction.batch_execute("set constraints all immediate; set local role none").await?;

        for (path, file) in &files {
            for case in &file.case {
                for name in case.allowed.iter().chain(case.fails.keys()) {
                    if !people.contains_key(name) {
                        outcome.faults.push(format!("{path}: {}: people.toml has no {name}", case.name));
                    }
                }
                for (name, person) in &people {
                    outcome.checks += 1;
                    let answer = attempt(&mut transaction, person, &case.sql).await?;
                    if let Some(fault) = judge(case, name, &answer) {
                        outcome.faults.push(format!("{path}: {}: {fault}", case.name));
                    }
                }
            }
        }
        transaction.rollback().await?;
        Ok(outcome)
    }
}

/// What is wrong with an answer, if anything.
fn judge(case: &Case, name: &str, answer: &Answer) -> Option<String> {
    let is_allowed = case.allowed.iter().any(|allowed| allowed == name);
    match (answer, case.fails.get(name)) {
        (Answer::Failed { code, .. }, Some(expected)) if code == expected => None,
        (Answer::Failed { code, message }, _) => Some(format!("{name} got an error: {message} ({code})")),
        (_, Some(expected)) => Some(format!("{name} should get error {expected} and got {answer:?}")),
        (Answer::Done, None) if !is_allowed => Some(format!("{name} may, and should not")),
        (Answer::Refused, None) if is_allowed => Some(format!("{name} may not, and should")),
        (Answer::Done | Answer::Refused, None) => None,
    }
}

/// Runs a statement as a person and takes it back.
async fn attempt(
    transaction: &mut Transaction<'_>,
    person: &Person,
    sql: &str,
) -> Result<Answer, ProjectError> {
    let savepoint = transaction.savepoint("attempt").await?;
    let claims = serde_json::json!({"role": person.role, "sub": person.sub, "email": person.email});
    savepoint
        .execute(
            "select set_config('request.jwt.claims', $1, true), set_config('role', $2, true)",
            &[&claims.to_string(), &person.role],
        )
        .await?;
    let answer = match savepoint.simple_query(&format!("{sql}; set constraints all immediate")).await {
        Ok(messages) if touched_a_row(&messages) => Answer::Done,
        Ok(_) => Answer::Refused,
        Err(error) => match DriverError::from(error) {
            DriverError::Postgres(error) if error.code == "42501" => Answer::Refused,
            DriverError::Postgres(error) => Answer::Failed { code: error.code, message: error.message },
            DriverError::Connection(text) => return Err(ProjectError::Connection(text)),
        },
    };
    savepoint.rollback().await?;
    Ok(answer)
}

/// The first statement's tag counts: rows read, or rows written.
fn touched_a_row(messages: &[SimpleQueryMessage]) -> bool {
    messages
        .iter()
        .find_map(|message| {
            if let SimpleQueryMessage::CommandComplete(count) = message { Some(*count > 0) } else { None }
        })
        .unwrap_or(false)
}

/// Tables of `public` that no file tests, and verbs that a file leaves out.
async fn check_coverage(
    transaction: &Transaction<'_>,
    files: &[(String, TestFile)],
    outcome: &mut Outcome,
) -> Result<(), ProjectError> {
    for (path, file) in files {
        let verbs: BTreeSet<String> = file.case.iter().map(Case::verb).collect();
        for verb in ["select", "insert", "update", "delete"] {
            if !verbs.contains(verb) {
                outcome.faults.push(format!("{path}: nothing tries to {verb}"));
            }
        }
        for verb in &verbs {
            if !["select", "insert", "update", "delete"].contains(&verb.as_str()) {
                outcome
                    .faults
                    .push(format!("{path}: a case begins with {verb}, which is none of the four verbs"));
            }
        }
    }
    let tested: Vec<&str> = files.iter().map(|(_, file)| file.table.as_str()).collect();
    let tables = transaction
        .query(
            "select n.nspname || '.' || c.relname, c.relrowsecurity
             from pg_catalog.pg_class c
             join pg_catalog.pg_namespace n on n.oid = c.relnamespace
             where n.nspname = 'public' and c.relkind in ('r', 'p') and not c.relispartition
             order by 1",
            &[],
        )
        .await?;
    for row in tables {
        let (table, has_rls): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
        if !tested.contains(&table.as_str()) {
            outcome.faults.push(format!("{table} has no file in {FOLDER}"));
        }
        if !has_rls {
            outcome.faults.push(format!("{table} has no row-level security"));
        }
    }
    Ok(())
}

impl Case {
    fn verb(&self) -> String {
        self.sql.split_whitespace().next().unwrap_or_default().to_lowercase()
    }
}

/// The files of cases, by name.
fn test_files(dir: &Path) -> Result<Vec<(String, TestFile)>, ProjectError> {
    let unreadable = |source| ProjectError::Read { file: FOLDER.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir.join(FOLDER)).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".toml") && name != "people.toml" {
            names.push(name);
        }
    }
    names.sort_unstable();
    names.into_iter().map(|name| Ok((format!("{FOLDER}/{name}"), read(dir, &name)?))).collect()
}

fn read<T: serde::de::DeserializeOwned>(dir: &Path, name: &str) -> Result<T, ProjectError> {
    let text = read_text(dir, name)?;
    toml::from_str(&text).map_err(|error| ProjectError::TestFile {
        file: format!("{FOLDER}/{name}"),
        message: error.to_string(),
    })
}

fn read_text(dir: &Path, name: &str) -> Result<String, ProjectError> {
    let file = format!("{FOLDER}/{name}");
    std::fs::read_to_string(dir.join(&file)).map_err(|source| ProjectError::Read { file, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        toml::from_str(
            "name = 'n'\nsql = 'Update t set x = 1'\nallowed = ['owner']\nfails = { manager = '23514' }",
        )
        .unwrap()
    }

    fn failed(code: &str) -> Answer {
        Answer::Failed { code: code.to_owned(), message: String::new() }
    }

    #[test]
    fn only_what_is_stated_passes() {
        let case = case();
        assert_eq!(case.verb(), "update");
        assert_eq!(judge(&case, "owner", &Answer::Done), None);
        assert_eq!(judge(&case, "viewer", &Answer::Refused), None);
        assert_eq!(judge(&case, "manager", &failed("23514")), None);
        for (name, answer) in [
            ("owner", Answer::Refused),
            ("viewer", Answer::Done),
            ("viewer", failed("23514")),
            ("manager", failed("23505")),
            ("manager", Answer::Done),
        ] {
            assert!(judge(&case, name, &answer).is_some(), "{name} {answer:?}");
        }
    }
}
