//! Maintains the daily partitions of `realtime.messages` (realtime.md 4). A message whose day has no
//! partition is lost, so this runs at startup and every hour, whether or not a client is connected.

use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

/// Partitions exist three days ahead, so a long outage loses nothing.
const INTERVAL: Duration = Duration::from_secs(3600);
/// Delay after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Runs [`maintain`] immediately and then every hour until `stop`. Each run opens its own connection:
/// holding one for an hour to use it for a millisecond would waste it.
pub async fn keep(admin: Database, stop: CancellationToken) {
    loop {
        let pause = match once(&admin).await {
            Ok(()) => INTERVAL,
            Err(error) => {
                tracing::debug!(
                    ?error,
                    "could not maintain the partitions of realtime.messages; retrying in a minute"
                );
                RETRY
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn once(admin: &Database) -> Result<(), DriverError> {
    maintain(&admin.connect().await?).await
}

/// Creates the partitions from yesterday to three days ahead and drops those older than 72 hours. Costs one
/// round trip when there is nothing to do; several servers may run it concurrently.
///
/// # Errors
/// The database is unreachable, or the login is neither a superuser nor the owner of schema `realtime`.
pub async fn maintain(client: &Client) -> Result<(), DriverError> {
    Ok(client.batch_execute("select realtime.maintain_partitions()").await?)
}
