//! A hook as a PostgreSQL function (auth.md §3.20). It runs as `supabase_auth_admin`, in a transaction of its own.

use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_pg::pool::{ServicePool, Tx};
use basalt_pg::session::SessionError;
use serde_json::Value;
use tokio::time::Instant;

use super::parse;
use crate::database::column;
use crate::error::AuthError;
use crate::hook_types::ANSWER_BYTES;
use crate::hook_types::error::HookError;

/// Time for the function, including the wait for a connection.
const SECONDS: u64 = 2;

/// The call of a function, whose names are valid identifiers.
pub(super) struct HookFunction {
    sql: String,
    /// For messages.
    uri: String,
}

impl HookFunction {
    pub(super) fn new(schema: &str, name: &str) -> Self {
        // A larger answer is not sent to us.
        let sql = format!(
            "with hook as materialized (select \"{schema}\".\"{name}\"($1::jsonb)::text as answer) \
             select case when octet_length(h.answer) <= {ANSWER_BYTES} then h.answer end as answer, \
             coalesce(octet_length(h.answer) > {ANSWER_BYTES}, false) as is_too_large from hook h"
        );
        Self { sql, uri: format!("pg-functions://postgres/{schema}/{name}") }
    }

    /// Calls the function and returns its answer; `Null` if it has none.
    pub(super) async fn call(
        &self,
        pool: &ServicePool,
        identity: Identity,
        input: &Value,
        deadline: Instant,
    ) -> Result<Value, AuthError> {
        let deadline = deadline.min(Instant::now() + Duration::from_secs(SECONDS));
        let tx = pool.begin_for(identity, deadline).await?;
        let answered = self.run(&tx, input).await;
        tx.finish(answered).await
    }

    async fn run(&self, tx: &Tx, input: &Value) -> Result<Value, AuthError> {
        let row = tx.query_one(&self.sql, &[input]).await.map_err(|error| self.failure(error))?;
        if column(&row, "is_too_large")? {
            return Err(HookError::TooLarge.into());
        }
        let answer: Option<&str> = column(&row, "answer")?;
        Ok(parse(answer.unwrap_or_default().as_bytes())?)
    }

    fn failure(&self, error: SessionError) -> AuthError {
        match error {
            SessionError::Deadline => HookError::Timeout(SECONDS).into(),
            SessionError::Postgres(error) if error.code == "57014" => HookError::Timeout(SECONDS).into(),
            SessionError::Postgres(error) if !error.is_unavailable() => {
                let message = format!("Error running hook URI: {}", self.uri);
                let reason = format!("{}: {}", error.code, error.message);
                HookError::Failed { message, reason }.into()
            }
            other @ (SessionError::Postgres(_)
            | SessionError::PoolTimeout
            | SessionError::QueueFull
            | SessionError::Unreachable(_)
            | SessionError::Unavailable(_)) => other.into(),
        }
    }
}
