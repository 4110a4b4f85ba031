//! Tests policies: every case in `policies/tests/*.toml` runs as every person in `people.toml`, against the rows of
//! `fixture.sql`. It must succeed for the people it lists as allowed and be denied for all others. Everything runs in one
//! transaction that is rolled back, so it can run on any database.
//!
//! "Denied" means SQLSTATE 42501, or a statement that affects no row. Any other error is a fault of the case, unless the
//! case expects its SQLSTATE. A table in schema `public` without cases for all four verbs is a fault too, as are a function
//! in it that no case calls and a bucket whose objects no case uses: leaks happen where no test looks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use basalt_pg::pg_error::DriverError;
use serde::Deserialize;
use tokio_postgres::{Client, SimpleQueryMessage, Transaction};

use crate::error::ProjectError;
use crate::{Project, statements};

const FOLDER: &str = "policies/tests";

/// A user in `people.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    /// The role that requests run as.
    role: String,
    /// The claim `sub`; `None` for anonymous requests.
    sub: Option<String>,
    /// The claim `email`.
    email: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TestFile {
    /// `schema.table`; `None` in a file about functions.
    pub(crate) table: Option<String>,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// Description of the case.
    name: String,
    /// One statement; its first word is the verb.
    sql: String,
    /// The people for whom it must succeed.
    allowed: Vec<String>,
    /// People for whom it must fail with this SQLSTATE although policies allow it.
    #[serde(default)]
    fails: BTreeMap<String, String>,
    /// Expected part of the error message, by person: identifies the check that should deny the statement if several could.
    #[serde(default)]
    says: BTreeMap<String, String>,
    /// Transaction settings that a service would set, for example `storage.allow_delete_query`.
    #[serde(default)]
    settings: BTreeMap<String, String>,
}

/// The result of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of statements run: cases times people.
    pub checks: usize,
    /// The deviations from the expectations, as messages.
    pub faults: Vec<String>,
}

/// The result of a statement.
#[derive(Debug, PartialEq, Eq)]
enum Attempt {
    Succeeded,
    Denied {
        /// PostgreSQL's message; `None` if no row was affected.
        message: Option<String>,
    },
    Failed {
        code: String,
        message: String,
    },
}

/// The parsed cases of a project.
pub(crate) struct Cases {
    people: BTreeMap<String, Person>,
    pub(crate) files: Vec<(String, TestFile)>,
}

impl Cases {
    fn read(dir: &Path) -> Result<Self, ProjectError> {
        Ok(Self { people: read(dir, "people.toml")?, files: test_files(dir)? })
    }

    /// Runs the cases of one file as every person, until `stop` returns true for the faults so far.
    pub(crate) async fn attempt(
        &self,
        transaction: &Transaction<'_>,
        (path, file): &(String, TestFile),
        outcome: &mut Outcome,
        stop: impl Fn(&Outcome) -> bool,
    ) -> Result<(), ProjectError> {
        transaction.batch_execute("savepoint attempt").await?;
        'cases: for case in &file.case {
            for (name, person) in &self.people {
                outcome.checks += 1;
                let answer = attempt(transaction, person, case).await?;
                if let Some(fault) = verify(case, name, &answer) {
                    outcome.faults.push(format!("{path}: {}: {fault}", case.name));
                    if stop(outcome) {
                        break 'cases;
                    }
                }
            }
        }
        transaction.batch_execute("rollback to savepoint attempt; release savepoint attempt").await?;
        Ok(())
    }

    /// Names in cases that `people.toml` does not define.
    fn unknown_names(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (path, file) in &self.files {
            for case in &file.case {
                let names = case.allowed.iter().chain(case.fails.keys()).chain(case.says.keys());
                for name in names.filter(|name| !self.people.contains_key(*name)) {
                    faults.push(format!("{path}: {}: people.toml does not define {name}", case.name));
                }
            }
        }
        faults
    }
}

impl Project {
    /// Runs every case. The connection must be able to switch to the project's owner and the API roles.
    ///
    /// # Errors
    /// A test file is invalid, the fixture fails, or the connection breaks. Deviations of the policies are in the outcome.
    pub async fn test_policies(&self, client: &mut Client) -> Result<Outcome, ProjectError> {
        let (cases, transaction) = self.begin_cases(client).await?;
        let mut outcome = Outcome::default();
        check_coverage(&transaction, &cases.files, &mut outcome).await?;
        outcome.faults.extend(cases.unknown_names());
        for file in &cases.files {
            cases.attempt(&transaction, file, &mut outcome, |_| false).await?;
        }
        transaction.rollback().await?;
        Ok(outcome)
    }

    /// Begins a transaction with the rows of the fixture, which the caller rolls back.
    pub(crate) async fn begin_cases<'a>(
        &self,
        client: &'a mut Client,
    ) -> Result<(Cases, Transaction<'a>), ProjectError> {
        let cases = Cases::read(self.dir())?;
        let fixture_path = format!("{FOLDER}/fixture.sql");
        let fixture = read_text(self.dir(), "fixture.sql")?;
        let owner: String = client.query_one("select basalt.project_owner()::text", &[]).await?.try_get(0)?;
        let transaction = client.transaction().await?;
        transaction
            .execute(
                "select set_config('role', $1, true),
                   set_config('search_path', '\"$user\", public, extensions', true)",
                &[&owner],
            )
            .await?;
        statements::run(&transaction, &fixture_path, &fixture).await?;
        transaction.batch_execute("set constraints all immediate; set local role none").await?;
        Ok((cases, transaction))
    }
}

/// The deviation of a result from the expectation, if any.
fn verify(case: &Case, name: &str, answer: &Attempt) -> Option<String> {
    let is_allowed = case.allowed.iter().any(|allowed| allowed == name);
    match (answer, case.fails.get(name)) {
        (Attempt::Failed { code, .. }, Some(expected)) if code == expected => None,
        (Attempt::Failed { code, message }, _) => {
            Some(format!("{name}: unexpected error: {message} ({code})"))
        }
        (_, Some(expected)) => Some(format!("{name}: expected error {expected}, got {answer:?}")),
        (Attempt::Succeeded, None) if !is_allowed => Some(format!("{name} is allowed but must not be")),
        (Attempt::Denied { .. }, None) if is_allowed => Some(format!("{name} is denied but must be allowed")),
        (Attempt::Denied { message }, None) => case.says.get(name).and_then(|says| {
            let matches = message.as_ref().is_some_and(|message| message.contains(says));
            (!matches).then(|| format!("{name}: expected a message with {says:?}, got {message:?}"))
        }),
        (Attempt::Succeeded, None) => None,
    }
}

/// Reverts the previous attempt and runs a statement as a person, in two round trips because there are thousands of
/// attempts.
async fn attempt(
    transaction: &Transaction<'_>,
    person: &Person,
    case: &Case,
) -> Result<Attempt, ProjectError> {
    let claims = serde_json::json!({"role": person.role, "sub": person.sub, "email": person.email});
    let claims = claims.to_string();
    let settings = case.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let settings = settings.chain([("request.jwt.claims", claims.as_str()), ("role", &person.role)]);
    let mut prepare = "rollback to savepoint attempt".to_owned();
    for (name, value) in settings {
        prepare.push_str("; select set_config(");
        prepare.push_str(&literal(name));
        prepare.push(',');
        prepare.push_str(&literal(value));
        prepare.push_str(", true)");
    }
    transaction.batch_execute(&prepare).await?;
    let statement = format!("{}; set constraints all immediate", case.sql);
    let answer = match transaction.simple_query(&statement).await {
        Ok(messages) if touched_a_row(&messages) => Attempt::Succeeded,
        Ok(_) => Attempt::Denied { message: None },
        Err(error) => match DriverError::from(error) {
            DriverError::Postgres(error) if error.code == "42501" => {
                Attempt::Denied { message: Some(error.message) }
            }
            DriverError::Postgres(error) => Attempt::Failed { code: error.code, message: error.message },
            DriverError::Connection(text) => return Err(ProjectError::Connection(text)),
        },
    };
    Ok(answer)
}

/// A string as an SQL literal; TOML rejects NUL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether the first statement read or wrote a row, according to its command tag.
fn touched_a_row(messages: &[SimpleQueryMessage]) -> bool {
    messages
        .iter()
        .find_map(|message| {
            if let SimpleQueryMessage::CommandComplete(count) = message { Some(*count > 0) } else { None }
        })
        .unwrap_or(false)
}

const VERBS: [&str; 4] = ["select", "insert", "update", "delete"];

/// Reports tables and functions in `public` and buckets without cases, and verbs that a file lacks.
async fn check_coverage(
    transaction: &Transaction<'_>,
    files: &[(String, TestFile)],
    outcome: &mut Outcome,
) -> Result<(), ProjectError> {
    for (path, file) in files {
        let verbs: BTreeSet<String> = file.case.iter().map(Case::verb).collect();
        for verb in VERBS {
            if file.table.is_some() && !verbs.contains(verb) {
                outcome.faults.push(format!("{path}: no case with {verb}"));
            }
        }
        for verb in &verbs {
            if !VERBS.contains(&verb.as_str()) {
                outcome
                    .faults
                    .push(format!("{path}: a case starts with {verb}, which is not one of the four verbs"));
            }
        }
    }
    let all_cases = || files.iter().flat_map(|(_, file)| &file.case);
    let functions = transaction
        .query(
            "select distinct p.proname::text
             from pg_catalog.pg_proc p
             join pg_catalog.pg_namespace n on n.oid = p.pronamespace
             where n.nspname = 'public' and p.prokind in ('f', 'p')
               and p.prorettype not in ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
               and not exists (
                 select from pg_catalog.pg_depend d
                 where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
               )
             order by 1",
            &[],
        )
        .await?;
    for row in functions {
        let name: String = row.try_get(0)?;
        if !all_cases().any(|case| case.sql.contains(&format!("{name}("))) {
            outcome.faults.push(format!("no case in {FOLDER} calls public.{name}()"));
        }
    }
    for row in transaction.query("select id from storage.buckets order by 1", &[]).await? {
        let bucket: String = row.try_get(0)?;
        for verb in VERBS {
            let is_about_bucket =
                |case: &Case| case.verb() == verb && case.sql.contains(&format!("'{bucket}'"));
            let objects = files.iter().filter(|(_, file)| file.table.as_deref() == Some("storage.objects"));
            if !objects.flat_map(|(_, file)| &file.case).any(is_about_bucket) {
                outcome
                    .faults
                    .push(format!("bucket {bucket}: no case in {FOLDER} with {verb} on its objects"));
            }
        }
    }
    let tested: Vec<&str> = files.iter().filter_map(|(_, file)| file.table.as_deref()).collect();
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

/// The test files, by name.
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
            "name = 'n'\nsql = 'Update t set x = 1'\nallowed = ['owner']\nfails = { manager = '23514' }\nsays = { viewer = 'permission denied' }",
        )
        .unwrap()
    }

    fn failed(code: &str) -> Attempt {
        Attempt::Failed { code: code.to_owned(), message: String::new() }
    }

    fn denied(message: Option<&str>) -> Attempt {
        Attempt::Denied { message: message.map(str::to_owned) }
    }

    #[test]
    fn only_expected_results_pass() {
        let case = case();
        assert_eq!(case.verb(), "update");
        assert_eq!(verify(&case, "owner", &Attempt::Succeeded), None);
        assert_eq!(verify(&case, "viewer", &denied(Some("permission denied for x"))), None);
        assert_eq!(verify(&case, "manager", &failed("23514")), None);
        for (name, answer) in [
            ("owner", denied(None)),
            ("viewer", denied(Some("something else"))),
            ("viewer", denied(None)),
            ("viewer", Attempt::Succeeded),
            ("viewer", failed("23514")),
            ("manager", failed("23505")),
            ("manager", Attempt::Succeeded),
        ] {
            assert!(verify(&case, name, &answer).is_some(), "{name} {answer:?}");
        }
    }
}
