//! What PostgreSQL executed, by its own account: the text of statements, from its log.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::database::TestDatabase;

impl TestDatabase {
    /// From the next connection on, PostgreSQL logs the text of every statement in this database, values of parameters left out.
    ///
    /// # Panics
    /// The statement fails.
    pub async fn log_statements(&self) {
        for setting in
            ["log_statement = 'all'", "log_min_error_statement = 'error'", "log_parameter_max_length = 0"]
        {
            let _done = self.admin_sql(&format!("alter database {} set {setting}", self.name())).await;
        }
    }

    /// The texts executed since [`log_statements`](Self::log_statements), and those that PostgreSQL's parser refused; not the
    /// kit's own, and not the reset of sessions.
    ///
    /// # Panics
    /// The log does not come, or is none.
    pub async fn executed(&self) -> Vec<String> {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        // The log is written by a process of its own, in the order of events: once this is there, all before it is.
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
        // The last line may be half written.
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
        // At the end of every transaction; the last is `execute <unnamed>: select where pg_advisory_unlock_all() …`.
        let is_reset =
            field("message").starts_with("execute reset_") || text.contains("pg_advisory_unlock_all");
        (!text.is_empty() && !is_reset).then(|| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::cluster::{Cluster, connect};

    #[tokio::test]
    async fn text_is_there_and_values_are_not() {
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
