//! Proves who may do what: every case of `policies/tests/*.toml` is tried as every person of `people.toml`, over the
//! rows of `fixture.sql`. Those listed as allowed must succeed, all others must be refused. It all happens in one
//! transaction that is rolled back, so it can run on any database.
//!
//! "Refused" is what a client cannot get past: SQLSTATE 42501, or a statement that finds no row. Any other error is a
//! fault of the case, unless it names the SQLSTATE it expects. A table of schema `public` without cases for all four
//! verbs is a fault too, as are a function of it that no case calls and a bucket whose objects no case tries: what was
//! forgotten is what leaks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use basalt_pg::pg_error::DriverError;
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
pub(crate) struct TestFile {
    /// `schema.table`; none in a file about functions.
    pub(crate) table: Option<String>,
    case: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What is tried, in words.
    name: String,
    /// One statement; its first word is the verb.
    sql: String,
    /// Who may.
    allowed: Vec<String>,
    /// Those it fails for with this SQLSTATE although policies allow it.
    #[serde(default)]
    fails: BTreeMap<String, String>,
    /// What the refusals of these people say, in part: where several things refuse, the one that should.
    #[serde(default)]
    says: BTreeMap<String, String>,
    /// Settings of the transaction that a service would make, `storage.allow_delete_query` for one.
    #[serde(default)]
    settings: BTreeMap<String, String>,
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
    Refused {
        /// What PostgreSQL said; none where no row was found.
        message: Option<String>,
    },
    Failed {
        code: String,
        message: String,
    },
}

/// The cases of a project, read and ready to be tried inside one transaction.
pub(crate) struct Cases {
    people: BTreeMap<String, Person>,
    pub(crate) files: Vec<(String, TestFile)>,
}

impl Cases {
    fn read(dir: &Path) -> Result<Self, ProjectError> {
        Ok(Self { people: read(dir, "people.toml")?, files: test_files(dir)? })
    }

    /// Tries the cases of one file as every person, until `stop` says that the faults so far are enough.
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
                if let Some(fault) = judge(case, name, &answer) {
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

    /// Names in cases that `people.toml` does not know.
    fn unknown_names(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (path, file) in &self.files {
            for case in &file.case {
                let names = case.allowed.iter().chain(case.fails.keys()).chain(case.says.keys());
                for name in names.filter(|name| !self.people.contains_key(*name)) {
                    faults.push(format!("{path}: {}: people.toml has no {name}", case.name));
                }
            }
        }
        faults
    }
}

impl Project {
    /// Tries every case. The connection must be able to become the project's owner and the API roles.
    ///
    /// # Errors
    /// A test file is not understood, the fixture fails, or the connection breaks. What the policies get wrong is in
    /// the outcome.
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

    /// A transaction with the rows of the fixture. The caller rolls it back.
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

/// What is wrong with an answer, if anything.
fn judge(case: &Case, name: &str, answer: &Answer) -> Option<String> {
    let is_allowed = case.allowed.iter().any(|allowed| allowed == name);
    match (answer, case.fails.get(name)) {
        (Answer::Failed { code, .. }, Some(expected)) if code == expected => None,
        (Answer::Failed { code, message }, _) => Some(format!("{name} got an error: {message} ({code})")),
        (_, Some(expected)) => Some(format!("{name} should get error {expected} and got {answer:?}")),
        (Answer::Done, None) if !is_allowed => Some(format!("{name} may, and should not")),
        (Answer::Refused { .. }, None) if is_allowed => Some(format!("{name} may not, and should")),
        (Answer::Refused { message }, None) => case.says.get(name).and_then(|says| {
            let is_said = message.as_ref().is_some_and(|message| message.contains(says));
            (!is_said).then(|| format!("{name} should be told {says:?} and got {message:?}"))
        }),
        (Answer::Done, None) => None,
    }
}

/// Takes back what the attempt before has done, and runs a statement as a person: two round trips, since there are
/// thousands of attempts.
async fn attempt(
    transaction: &Transaction<'_>,
    person: &Person,
    case: &Case,
) -> Result<Answer, ProjectError> {
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
        Ok(messages) if touched_a_row(&messages) => Answer::Done,
        Ok(_) => Answer::Refused { message: None },
        Err(error) => match DriverError::from(error) {
            DriverError::Postgres(error) if error.code == "42501" => {
                Answer::Refused { message: Some(error.message) }
            }
            DriverError::Postgres(error) => Answer::Failed { code: error.code, message: error.message },
            DriverError::Connection(text) => return Err(ProjectError::Connection(text)),
        },
    };
    Ok(answer)
}

/// A string as SQL writes it; the files' texts hold no NUL, which TOML refuses.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
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

const VERBS: [&str; 4] = ["select", "insert", "update", "delete"];

/// Tables and functions of `public` and buckets that no case tries, and verbs that a file leaves out.
async fn check_coverage(
    transaction: &Transaction<'_>,
    files: &[(String, TestFile)],
    outcome: &mut Outcome,
) -> Result<(), ProjectError> {
    for (path, file) in files {
        let verbs: BTreeSet<String> = file.case.iter().map(Case::verb).collect();
        for verb in VERBS {
            if file.table.is_some() && !verbs.contains(verb) {
                outcome.faults.push(format!("{path}: nothing tries to {verb}"));
            }
        }
        for verb in &verbs {
            if !VERBS.contains(&verb.as_str()) {
                outcome
                    .faults
                    .push(format!("{path}: a case begins with {verb}, which is none of the four verbs"));
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
            outcome.faults.push(format!("public.{name}() is called by no case in {FOLDER}"));
        }
    }
    for row in transaction.query("select id from storage.buckets order by 1", &[]).await? {
        let bucket: String = row.try_get(0)?;
        for verb in VERBS {
            let of_bucket = |case: &Case| case.verb() == verb && case.sql.contains(&format!("'{bucket}'"));
            let objects = files.iter().filter(|(_, file)| file.table.as_deref() == Some("storage.objects"));
            if !objects.flat_map(|(_, file)| &file.case).any(of_bucket) {
                outcome
                    .faults
                    .push(format!("bucket {bucket}: no case in {FOLDER} tries to {verb} its objects"));
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
            "name = 'n'\nsql = 'Update t set x = 1'\nallowed = ['owner']\nfails = { manager = '23514' }\nsays = { viewer = 'permission denied' }",
        )
        .unwrap()
    }

    fn failed(code: &str) -> Answer {
        Answer::Failed { code: code.to_owned(), message: String::new() }
    }

    fn refused(message: Option<&str>) -> Answer {
        Answer::Refused { message: message.map(str::to_owned) }
    }

    #[test]
    fn only_what_is_stated_passes() {
        let case = case();
        assert_eq!(case.verb(), "update");
        assert_eq!(judge(&case, "owner", &Answer::Done), None);
        assert_eq!(judge(&case, "viewer", &refused(Some("permission denied for x"))), None);
        assert_eq!(judge(&case, "manager", &failed("23514")), None);
        for (name, answer) in [
            ("owner", refused(None)),
            ("viewer", refused(Some("something else"))),
            ("viewer", refused(None)),
            ("viewer", Answer::Done),
            ("viewer", failed("23514")),
            ("manager", failed("23505")),
            ("manager", Answer::Done),
        ] {
            assert!(judge(&case, name, &answer).is_some(), "{name} {answer:?}");
        }
    }
}
