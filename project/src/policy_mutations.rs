//! Proves the proof: each policy and each grant is dropped or weakened in turn, and a case must notice.
//!
//! Left out is what no caller could notice: a grant for a command that no policy allows the role.

use tokio_postgres::{Client, Transaction};

use crate::Project;
use crate::error::ProjectError;
use crate::policy_tests::{Cases, Outcome};

/// Statements that take away or give too much, each with the table whose cases must notice; null: those of functions.
const MUTATIONS: &str = include_str!("policy_mutations.sql");

/// What a run found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Mutations {
    /// How many were tried.
    pub count: usize,
    /// Those that no case noticed, as SQL.
    pub survivors: Vec<String>,
}

impl Project {
    /// Tries all of them, in one transaction that is rolled back.
    ///
    /// # Errors
    /// As [`Project::test_policies`].
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
            if !is_noticed(&savepoint, &cases, table.as_deref()).await? {
                found.survivors.push(sql);
            }
            savepoint.rollback().await?;
        }
        transaction.rollback().await?;
        Ok(found)
    }
}

async fn is_noticed(
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
