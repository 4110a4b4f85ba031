//! The daily partitions of `realtime.messages` (realtime.md 4). A message whose day has none is lost, so this runs at
//! the server's start and every [`INTERVAL`], whether or not anybody is connected.

use std::time::Duration;

use basalt_core::pg_error::DriverError;
use tokio_postgres::Client;

/// How often to call [`maintain`]. Partitions reach three days ahead, so even a long pause loses nothing.
pub const INTERVAL: Duration = Duration::from_secs(3600);

/// Makes the partitions from yesterday to three days ahead and drops those older than 72 hours. One round trip when
/// there is nothing to do; safe on several servers at once.
///
/// # Errors
/// The database is out of reach, or the login is neither a superuser nor the owner of schema `realtime`.
pub async fn maintain(client: &Client) -> Result<(), DriverError> {
    Ok(client.batch_execute("select realtime.maintain_partitions()").await?)
}
