//! The statements that PostgreSQL executed, from its log.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::database::TestDatabase;

impl TestDatabase {
    /// Turns on statement logging for new connections to this database, without parameter values.
    ///
    /// # Panics
    /// If the statement fails.
    pub async fn log_statements(&self) {
        for setting in
            ["log_statement = 'all'", "log_min_error_statement = 'error'", "log_parameter_max_length = 0"]
        {
            let _done = self.admin_sql(&format!("alter database {} set {setting}", self.name())).await;
        }
    }

    /// The statements since [`log_statements`](Self::log_statements), including rejected ones; without the kit's own and the
    /// session reset.
    ///
    /// # Panics
    /// If the log does not appear or is invalid.
    pub async fn executed(&self) -> Vec<String> {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        // A separate process writes the log in order: once this marker is in it, all earlier lines are.
        let last = format!("executed so far, {}", ASKED.fetch_add(1, Ordering::Relaxed));
        let _done = self.admin_sql(&format!("select '{last}'")).await;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let file = self.cluster().log_file();
            let text =
                fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            if text.contains(&last) {
                return text.lines().filter_map(|line| self.text_of(line)).collect();
            }
            assert!(Instant::now() < deadline, "PostgreSQL did not log {last:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn text_of(&self, line: &str) -> Option<String> {
        // The last line may be incomplete.
        let event: Value = serde_json::from_str(line).ok()?;
        let field = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        if field("dbname") != self.name() || field("application_name") == "testkit" {
            return None;
        }
        let text = match field("error_severity") {
            // `execute s1: select …` and `statement: begin`.
            "LOG" => field("message").split_once(": ")?.1,
            _ => field("statement"),
        };
        // The session reset at the end of every transaction; its last statement is `select where pg_advisory_unlock_all() …`.
        let is_reset =
            field("message").starts_with("execute reset_") || text.contains("pg_advisory_unlock_all");
        (!text.is_empty() && !is_reset).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::{Cluster, connect};

    #[tokio::test]
    async fn logs_statement_text_without_values() {
        let database = Cluster::get().await.empty_database().await;
        database.log_statements().await;
        let mut config = database.config();
        config.application_name("another");
        let client = crate::runtime::on_runtime(connect(config)).await;
        let _rows = client.query("select $1::text", &[&"a value"]).await.unwrap();
        let _error = client.batch_execute("select from from").await.unwrap_err();
        assert_eq!(database.executed().await, ["select $1::text", "select from from"]);
    }
}
