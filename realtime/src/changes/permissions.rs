//! Reports changes that may have changed the permissions of private channels: those of published tables that
//! the policies of `realtime.messages` read, directly or through views and functions.
//!
//! Changes are noted by table, so that any number of them costs one report, and reported once their
//! transactions are visible. The next report waits until the channels have been given time to check.

use std::collections::HashSet;
use std::sync::Arc;

use basalt_pg::session::SessionError;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::PermissionSink;
use super::catalog::Catalog;
use super::snapshots::{LastTransactions, Snapshots};

/// Tables that have changed since the last report.
#[derive(Debug, Default)]
pub(super) struct ChangedTables {
    oids: Mutex<HashSet<u32>>,
    noted: Notify,
}

impl ChangedTables {
    pub(super) fn note(&self, oid: u32) {
        if self.oids.lock().insert(oid) {
            self.noted.notify_one();
        }
    }

    async fn take(&self) -> HashSet<u32> {
        self.noted.notified().await;
        std::mem::take(&mut *self.oids.lock())
    }
}

/// Dependencies of the reports.
pub(super) struct Watch {
    pub(super) changed: Arc<ChangedTables>,
    pub(super) last: Arc<LastTransactions>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) sink: Arc<dyn PermissionSink>,
}

impl Watch {
    /// Reports until it is cancelled.
    #[expect(clippy::infinite_loop, reason = "cancelled on shutdown")]
    pub(super) async fn run(self) {
        loop {
            let tables = self.changed.take().await;
            match self.may_affect_permissions(&tables).await {
                Ok(true) => self.sink.permissions_changed().await,
                Ok(false) => {}
                // The leases of private channels end nevertheless (decision 0086).
                Err(error) => {
                    tracing::debug!(%error, "could not determine whether permissions have changed");
                }
            }
        }
    }

    /// Waits until the changes are visible if one of the tables is read by policies.
    async fn may_affect_permissions(&self, tables: &HashSet<u32>) -> Result<bool, SessionError> {
        let transactions = self.last.all();
        if self.catalog.permission_tables().await?.is_disjoint(tables) {
            return Ok(false);
        }
        for xid in transactions {
            self.snapshots.wait_visible(xid).await?;
        }
        Ok(true)
    }
}
