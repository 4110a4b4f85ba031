//! The base backup of a running PostgreSQL, over its replication protocol: its files as a compressed tar archive, with the log that makes
//! them consistent.

use basalt_core::random;
use basalt_pg::database::Database;
use basalt_pg::replication::{CopyOutMessage, Replication};
use bytes::Buf as _;

use crate::error::BackupError;
use crate::manifest::{DatabaseKind, DatabasePart, StoredFile};
use crate::target::{Target, Upload};

/// The archive's name in its set.
pub(crate) const FILE: &str = "base.tar.gz";
/// Longest message: the server sends parts of some 100 KiB.
pub(crate) const MESSAGE_BYTES: usize = 4 << 20;

/// Copies the cluster into `sets/SET/base.tar.gz`.
///
/// # Errors
/// PostgreSQL or the target failed, or the cluster has tablespaces.
pub(crate) async fn copy(
    database: &Database,
    target: &Target,
    set: &str,
) -> Result<DatabasePart, BackupError> {
    let mut connection = Replication::connect(database, MESSAGE_BYTES).await?;
    let system_identifier = identify(&mut connection).await?.0;
    // Keeps the log of the backup until it has been sent; ends with the connection.
    let slot = format!("basalt_base_{}", hex::encode(random::bytes::<4>()));
    let _row =
        connection.query(&format!("CREATE_REPLICATION_SLOT {slot} TEMPORARY PHYSICAL RESERVE_WAL")).await?;
    let mut copy = connection.copy_out(&format!(
        "BASE_BACKUP (LABEL 'basalt {set}', CHECKPOINT 'fast', WAL true, MANIFEST 'no', COMPRESSION 'gzip', COMPRESSION_DETAIL '1')"
    ));
    let mut upload: Option<Upload> = None;
    let mut positions = Vec::new();
    while let Some(message) = copy.next().await? {
        match message {
            // The start, and after the files the end.
            CopyOutMessage::Row(row) if row.len() == 2 => positions.push(row),
            CopyOutMessage::Row(row) => {
                if row.first().is_some_and(Option::is_some) {
                    return Err(BackupError::Failed(
                        "the database has tablespaces, which a backup does not support: move their tables to pg_default and drop them"
                            .to_owned(),
                    ));
                }
            }
            CopyOutMessage::Data(mut data) => match data.try_get_u8() {
                Ok(b'n') => upload = Some(target.upload(&format!("sets/{set}/{FILE}")).await?),
                Ok(b'd') => {
                    if let Some(upload) = &mut upload {
                        upload.write(data).await?;
                    }
                }
                _ => {}
            },
        }
    }
    let position = |index: usize, column: usize| -> Result<String, BackupError> {
        let row: Option<&Vec<Option<String>>> = positions.get(index);
        let value = row.and_then(|row| row.get(column)).cloned().flatten();
        value.ok_or_else(|| BackupError::Postgres("the base backup has no start or no end".to_owned()))
    };
    let (start_lsn, end_lsn) = (position(0, 0)?, position(1, 0)?);
    let timeline = position(1, 1)?.parse().unwrap_or_default();
    let upload = upload.ok_or_else(|| BackupError::Postgres("the base backup has no files".to_owned()))?;
    let (size, sha256) = upload.finish().await?;
    Ok(DatabasePart {
        kind: DatabaseKind::Base,
        file: StoredFile { name: FILE.to_owned(), size, sha256 },
        roles: None,
        system_identifier,
        start_lsn,
        end_lsn,
        timeline,
        chain: None,
    })
}

/// The identifier and the timeline of the cluster.
pub(crate) async fn identify(connection: &mut Replication) -> Result<(String, u32), BackupError> {
    let rows = connection.query("IDENTIFY_SYSTEM").await?;
    let text = |index| rows.first().and_then(|row| row.text(index)).map(str::to_owned);
    let unknown = || BackupError::Postgres("the server does not identify itself".to_owned());
    let timeline = text(1).and_then(|timeline| timeline.parse().ok());
    Ok((text(0).ok_or_else(unknown)?, timeline.ok_or_else(unknown)?))
}
