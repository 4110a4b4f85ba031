//! Sends one request and records its response in `net._http_response`.

use std::sync::Arc;
use std::time::Duration;

use basalt_core::http_client::Answer;
use basalt_pg::jobs::{Done, Failure, Handler, Job};
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::outbound::{self, NoResponse, Outbound, Request};
use crate::ExtensionsConfig;

const STATEMENT_LIMIT: Duration = Duration::from_secs(10);

/// The real pg_net, or a database without it, records nothing for a webhook of ours.
const RECORD: &str = "
insert into net._http_response (id, status_code, content_type, headers, content, timed_out, error_msg)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (id) do nothing";

const CLEAN: &str = "
delete from net._http_response where ctid = any(array(
  select ctid from net._http_response where created < now() - make_interval(secs => $1) limit 10000))";

/// What webhooks have sent.
const CLEAN_HOOKS: &str = "
delete from supabase_functions.hooks where ctid = any(array(
  select ctid from supabase_functions.hooks where created_at < now() - make_interval(secs => $1) limit 10000))";

/// How often old responses are deleted.
const CLEAN_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Sender {
    pool: ServicePool,
    outbound: Arc<Outbound>,
    retention: Duration,
    cleaned: Mutex<Option<Instant>>,
}

impl Handler for Sender {
    async fn run(&self, job: &Job) -> Result<Done, Failure> {
        let id = job.key.parse().map_err(|_| Failure::permanent("the key is not a number"))?;
        let response = if job.attempt > 1 {
            Err(NoResponse::new(
                "the server stopped while the request was being sent; its response is unknown",
            ))
        } else {
            match request(&job.row) {
                Ok(request) => self.outbound.send(request).await,
                Err(error) => Err(error),
            }
        };
        self.record(id, response).await.map_err(|error| Failure::transient(error.to_string()))?;
        self.clean().await;
        Ok(Done::default())
    }
}

impl Sender {
    pub(super) fn new(pool: ServicePool, outbound: Arc<Outbound>, config: &ExtensionsConfig) -> Self {
        Self { pool, outbound, retention: config.net_retention, cleaned: Mutex::default() }
    }

    async fn record(&self, id: i64, response: Result<Answer, NoResponse>) -> Result<(), SessionError> {
        let (status, content_type, headers, content, error) = match response {
            Ok(answer) => {
                let content_type = answer.headers.get(CONTENT_TYPE).map(outbound::text_of);
                let status = i32::from(answer.status.as_u16());
                let headers = outbound::headers_of(&answer.headers);
                (Some(status), content_type, Some(headers), Some(outbound::text_of_body(&answer.body)), None)
            }
            Err(error) => (None, None, None, None, Some(error)),
        };
        let is_timeout = error.as_ref().is_some_and(|error| error.is_timeout);
        let message = error.map(|error| error.message);
        let tx = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await?;
        let recorded = tx
            .execute(RECORD, &[&id, &status, &content_type, &headers, &content, &is_timeout, &message])
            .await;
        match tx.finish(recorded).await {
            Ok(_) => Ok(()),
            Err(SessionError::Postgres(error)) if has_no_responses(&error.code) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes old responses and records of webhooks now and then. A failure is repaired by the next time.
    async fn clean(&self) {
        {
            let mut cleaned = self.cleaned.lock();
            if cleaned.is_some_and(|at| at.elapsed() < CLEAN_INTERVAL) {
                return;
            }
            *cleaned = Some(Instant::now());
        }
        for statement in [CLEAN, CLEAN_HOOKS] {
            let Ok(tx) = self.pool.autocommit(Instant::now() + STATEMENT_LIMIT).await else { return };
            let deleted = tx.execute(statement, &[&self.retention.as_secs_f64()]).await;
            if let Err(error) = tx.finish(deleted).await {
                tracing::debug!(%error, "cannot delete old responses");
            }
        }
    }
}

/// Whether the error says that the table of our emulation does not exist.
fn has_no_responses(code: &str) -> bool {
    // Undefined table, schema, column; no unique constraint on `id`.
    matches!(code, "42P01" | "3F000" | "42703" | "42P10")
}

/// Reads a queued request.
fn request(row: &Row) -> Result<Request, NoResponse> {
    let unreadable = |error: tokio_postgres::Error| NoResponse::new(error.to_string());
    let method: String = row.try_get("method").map_err(unreadable)?;
    let url: String = row.try_get("url").map_err(unreadable)?;
    let headers: Value = row.try_get("headers").map_err(unreadable)?;
    let body: Option<Vec<u8>> = row.try_get("body").map_err(unreadable)?;
    let timeout: i32 = row.try_get("timeout_milliseconds").map_err(unreadable)?;
    Ok(Request {
        method: outbound::parse_method(&method)?,
        url: outbound::parse_url(&url)?,
        headers: outbound::parse_headers(&headers)?,
        body: body.unwrap_or_default().into(),
        timeout: Duration::from_millis(timeout.unsigned_abs().into()),
    })
}
