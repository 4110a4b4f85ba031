//! Checks what several servers on one database must share.

use basalt_storage::Backend;
use basalt_storage::blobs::{BlobError, BlobId, BlobStore};
use tokio_postgres::Client;
use tokio_util::task::TaskTracker;

use super::Report;
use crate::config::{Config, Only};
use crate::running;

/// Number of objects whose blobs are checked.
const SAMPLE: i64 = 20;

/// Checks the other servers that are using the database.
pub(super) async fn examine(
    client: &Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    const SUBJECT: &str = "servers";
    // Every server with realtime has its own active replication slot.
    const STREAMING: &str = "
        select count(*) from pg_catalog.pg_replication_slots
        where active and database = current_database() and slot_name like 'basalt\\_realtime\\_%'";
    let streaming: i64 = client.query_one(STREAMING, &[]).await?.try_get(0)?;
    let own = i64::from(running::read(&config.server.state_dir).is_some());
    let others = streaming - own;
    if others < 1 {
        return Ok(());
    }
    let runs = |service: Only| config.only.is_none_or(|only| only == service);
    if runs(Only::Realtime) && config.realtime.nats_url.is_none() {
        report.fail(
            SUBJECT,
            format!(
                "{others} other servers use this database, and realtime.nats_url is not set: broadcasts and presence of one server do not reach clients of \
                 the others; run NATS and set realtime.nats_url on each server"
            ),
        );
    } else {
        report.ok(SUBJECT, format!("{others} other servers use this database"));
    }
    if runs(Only::Storage) && config.storage.backend == Backend::File {
        shared_folder(client, config, report).await?;
    }
    Ok(())
}

/// Whether the storage folder also has objects stored by other servers.
async fn shared_folder(
    client: &Client,
    config: &Config,
    report: &mut Report,
) -> Result<(), tokio_postgres::Error> {
    const SUBJECT: &str = "objects";
    const NEWEST: &str = "
        select storage.blob_of(version)::text from storage.objects
        where storage.blob_of(version) is not null order by created_at desc limit $1";
    const REMEDY: &str =
        "set storage.backend to \"s3\" on each server, or storage.dir to a folder that all of them mount";
    let dir = config.storage.dir.display();
    let exists = "select pg_catalog.to_regclass('storage.objects') is not null";
    let exists: bool = client.query_one(exists, &[]).await?.try_get(0)?;
    let rows = if exists { client.query(NEWEST, &[&SAMPLE]).await? } else { Vec::new() };
    let mut missing = 0;
    if !rows.is_empty() && config.storage.dir.exists() {
        let Ok(blobs) = BlobStore::open(&config.storage, TaskTracker::new()).await else { return Ok(()) };
        for row in &rows {
            let Some(blob) = BlobId::parse(&row.try_get::<_, String>(0)?) else { continue };
            if matches!(blobs.read(blob, 0..0).await, Err(BlobError::NotFound(_))) {
                missing += 1;
            }
        }
    } else {
        missing = rows.len();
    }
    let count = rows.len();
    if count > 0 && missing == 0 {
        report.ok(SUBJECT, format!("{dir} has the newest objects of all servers"));
    } else if count > 0 {
        report.fail(SUBJECT, format!("{dir} lacks {missing} of the {count} newest objects, because other servers store them elsewhere: {REMEDY}"));
    } else {
        report.fail(
            SUBJECT,
            format!("{dir} is a local folder, and other servers store their objects elsewhere: {REMEDY} (then upload a file and run this again)"),
        );
    }
    Ok(())
}
