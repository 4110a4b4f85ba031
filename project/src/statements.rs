//! Runs a file's statements one by one inside the caller's transaction.

use basalt_pg::pg_error::DriverError;
use basalt_pg::system_migrations::line_of;
use tokio_postgres::Transaction;

use crate::error::{ProjectError, StatementError};
use crate::split::{Statement, split};

/// Runs the statements of `sql` and returns their texts for the history.
pub(crate) async fn run(
    transaction: &Transaction<'_>,
    file: &str,
    sql: &str,
) -> Result<Vec<String>, ProjectError> {
    let statements = split(sql);
    for statement in &statements {
        if let Some(reason) = rejection(statement) {
            return Err(ProjectError::Refused { file: file.to_owned(), line: statement.line, reason });
        }
    }
    for (index, statement) in statements.iter().enumerate() {
        if let Err(error) = transaction.simple_query(statement.text).await {
            return Err(match DriverError::from(error) {
                DriverError::Postgres(error) => ProjectError::Statement(Box::new(StatementError {
                    file: file.to_owned(),
                    line: statement.line + line_of(statement.text, error.position) - 1,
                    statement: index + 1,
                    error: *error,
                })),
                DriverError::Connection(text) => ProjectError::Connection(text),
            });
        }
    }
    Ok(statements.iter().map(|statement| statement.text.to_owned()).collect())
}

/// Why a statement must not run: it would end the transaction that makes the file atomic, or wait for data that no client
/// sends.
fn rejection(statement: &Statement<'_>) -> Option<&'static str> {
    let [first, second] = statement.first_words();
    match (first.as_str(), second.as_str()) {
        ("rollback", "to") => None,
        ("begin" | "start" | "commit" | "end" | "rollback" | "abort", _) | ("prepare", "transaction") => {
            Some("the file runs in one transaction: remove BEGIN, COMMIT and ROLLBACK")
        }
        ("copy", _) if statement.text.to_lowercase().contains("from stdin") => {
            Some("COPY FROM STDIN is not supported: use INSERT")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_transaction_control_only() {
        let refused = |sql| rejection(split(sql).first().unwrap()).is_some();
        for sql in [
            "BEGIN",
            "commit;",
            "Start Transaction",
            "rollback",
            "copy t from STDIN",
            "prepare transaction 'x'",
        ] {
            assert!(refused(sql), "{sql}");
        }
        for sql in [
            "rollback to s",
            "savepoint s",
            "create table begin_x ()",
            "copy t to '/x'",
            "prepare x as select 1",
        ] {
            assert!(!refused(sql), "{sql}");
        }
    }
}
