//! Mutation tests for the policy tests: each policy and each grant is dropped or weakened in turn, and a case must fail.
//!
//! Changes without an observable effect are skipped: a grant for a command that no policy allows the role.

use tokio_postgres::{Client, Transaction};

use crate::Project;
use crate::error::ProjectError;
use crate::policy_tests::{Cases, Outcome};

/// Mutations as SQL, each with the table whose cases must fail, or null for the cases of functions.
const MUTATIONS: &str = include_str!("policy_mutations.sql");

/// The result of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mutations {
    /// Number of mutations.
    pub count: usize,
    /// Mutations that no case detected, as SQL.
    pub survivors: Vec<String>,
}

impl Project {
    /// Runs all mutations in one transaction that is rolled back.
    ///
    /// # Errors
    /// As for [`Project::test_policies`].
    pub async fn mutate_policies(&self, client: &mut Client) -> Result<Mutations, ProjectError> {
        let (cases, mut transaction) = self.begin_cases(client).await?;
        let tables: Vec<String> = cases.files.iter().filter_map(|(_, file)| file.table.clone()).collect();
        let rows = transaction.query(MUTATIONS, &[&tables]).await?;
        let mut found = Mutations::default();
        for row in rows {
            let (table, sql): (Option<String>, String) = (row.try_get("table")?, row.try_get("sql")?);
            found.count += 1;
            let savepoint = transaction.savepoint("mutation").await?;
            savepoint.batch_execute(&sql).await?;
            if !is_detected(&savepoint, &cases, table.as_deref()).await? {
                found.survivors.push(sql);
            }
            savepoint.rollback().await?;
        }
        transaction.rollback().await?;
        Ok(found)
    }
}

async fn is_detected(
    transaction: &Transaction<'_>,
    cases: &Cases,
    table: Option<&str>,
) -> Result<bool, ProjectError> {
    let mut outcome = Outcome::default();
    for file in cases.files.iter().filter(|(_, file)| file.table.as_deref() == table) {
        cases.attempt(transaction, file, &mut outcome, |_| true).await?;
    }
    Ok(!outcome.faults.is_empty())
}
