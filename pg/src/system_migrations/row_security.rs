//! Row-level security on the services' own tables. The API roles hold grants on `storage.objects` and others, so a
//! table without row-level security exposes every row. An event trigger (`0007_row_security_guard.sql`) keeps the
//! project's SQL from disabling it; each start enables it again, in case the trigger could not be created or was
//! bypassed.

use tokio_postgres::{Client, SimpleQueryMessage};

use super::MigrationError;

/// Lists the service tables without row-level security. A service's table belongs to the owner of the service's
/// schema; a project's table in the same schema does not.
const UNPROTECTED: &str = "
select pg_catalog.format('%I.%I', n.nspname, c.relname) as name
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('auth', 'storage', 'realtime', 'functions') and c.relowner = n.nspowner
  and c.relkind in ('r', 'p') and not c.relrowsecurity
order by 1";

/// The service tables that lack row-level security, as quoted names.
///
/// # Errors
/// The query failed.
pub async fn unprotected_tables(client: &Client) -> Result<Vec<String>, tokio_postgres::Error> {
    // The simple protocol, because `doctor` may connect through a transaction pooler.
    let messages = client.simple_query(UNPROTECTED).await?;
    let rows = messages.iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        row.get(0)
    });
    Ok(rows.map(str::to_owned).collect())
}

/// Enables row-level security on the service tables that lack it; returns their names.
pub(super) async fn restore(client: &Client) -> Result<Vec<String>, MigrationError> {
    let tables = unprotected_tables(client).await?;
    for table in &tables {
        client.batch_execute(&format!("alter table {table} enable row level security")).await?;
    }
    Ok(tables)
}
