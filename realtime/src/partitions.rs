//! The daily partitions of `realtime.messages` (realtime.md 4). A message whose day has none is lost, so this runs at
//! the server's start and every hour, whether or not a client is connected.

use std::time::Duration;

use basalt_pg::database::Database;
use basalt_pg::pg_error::DriverError;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

/// Partitions reach three days ahead, so even a long pause loses nothing.
const INTERVAL: Duration = Duration::from_secs(3600);
/// After a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Calls [`maintain`] at once and every hour until `stop`. It connects anew each time: a connection held for an hour to
/// be used for a millisecond is one that others lack.
pub async fn keep(admin: Database, stop: CancellationToken) {
    loop {
        let pause = match once(&admin).await {
            Ok(()) => INTERVAL,
            Err(error) => {
                tracing::debug!(
                    ?error,
                    "the partitions of realtime.messages were not maintained; trying again in a minute"
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

/// Makes the partitions from yesterday to three days ahead and drops those older than 72 hours. One round trip when
/// there is nothing to do; safe on several servers at once.
///
/// # Errors
/// The database is out of reach, or the login is neither a superuser nor the owner of schema `realtime`.
pub async fn maintain(client: &Client) -> Result<(), DriverError> {
    Ok(client.batch_execute("select realtime.maintain_partitions()").await?)
}
