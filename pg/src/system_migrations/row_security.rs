//! Owners, row-level security and grants of the services' own tables, and the search path of their functions. The API roles hold grants on `storage.objects` and others, so a
//! table without row-level security exposes every row. An event trigger (`0007_row_security_guard.sql`) keeps the
//! project's SQL from disabling it; each start enables it again, in case the trigger could not be created or was
//! bypassed. Grants that a project's SQL has revoked are restored from a record (`0010_service_grants.sql`).

use tokio_postgres::{Client, SimpleQueryMessage};

use super::{MigrationError, execute_with_retries};

/// Lists the service tables without row-level security. A service's table belongs to the owner of the service's
/// schema; a project's table in the same schema does not.
const UNPROTECTED: &str = "
select pg_catalog.format('%I.%I', n.nspname, c.relname) as name
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('auth', 'storage', 'realtime', 'functions') and c.relowner = n.nspowner
  and c.relkind in ('r', 'p') and not c.relrowsecurity
order by 1";

/// Whether this release's record of the services' objects exists (`0009_service_objects_guard.sql`).
const HAS_RECORD: &str = "select 1 where to_regclass('basalt.service_objects') is not null";

/// Lists the recorded service tables that belong to another role than their schema, and the statement that gives each
/// back.
const DISPLACED: &str = "
select o.identity, pg_catalog.format('alter table %s owner to %I', o.identity, pg_catalog.pg_get_userbyid(n.nspowner))
from basalt.service_objects o
join pg_catalog.pg_class c on c.oid = pg_catalog.to_regclass(o.identity)
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where o.kind = 'table' and c.relowner <> n.nspowner
order by 1";

/// Whether the record of grants exists (`0010_service_grants.sql`).
const HAS_GRANTS: &str = "select 1 where to_regclass('basalt.service_grants') is not null";

/// Lets the services' functions look up types in `pg_temp` last. With an empty search path, types and tables are looked up there first, so a
/// session could replace `text` with a domain whose check runs as the owner of a SECURITY DEFINER function, a superuser. Applies to all
/// functions, because these call others.
const SECURE_SEARCH_PATHS: &str = "
do $$
declare
  name regprocedure;
begin
  for name in
    select p.oid
    from pg_catalog.pg_proc p
    where p.prokind = 'f' and p.proconfig @> array['search_path=\"\"'] and p.proowner in (
      select n.nspowner from pg_catalog.pg_namespace n
      where n.nspname in ('basalt', 'auth', 'storage', 'realtime', 'functions')
    )
  loop
    execute pg_catalog.format('alter function %s set search_path = pg_catalog, pg_temp', name);
  end loop;
end $$";

/// A grant of a service that no longer exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingGrant {
    /// The schema, table or function.
    pub object: String,
    /// What is missing, such as `select to anon`.
    pub grant: String,
    statement: String,
}

/// The grants that the services made on their objects and that the project's SQL has revoked.
///
/// # Errors
/// The query failed.
pub async fn missing_grants(client: &Client) -> Result<Vec<MissingGrant>, tokio_postgres::Error> {
    const MISSING: &str = "select * from basalt.missing_service_grants()";
    let is_row = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
    if !client.simple_query(HAS_GRANTS).await?.iter().any(is_row) {
        return Ok(Vec::new());
    }
    let messages = client.simple_query(MISSING).await?;
    let rows = messages.iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        let text = |index| row.get(index).map(str::to_owned);
        Some(MissingGrant { object: text(0)?, grant: text(1)?, statement: text(2)? })
    });
    Ok(rows.collect())
}

/// Restores [`missing_grants`]; returns them.
///
/// # Errors
/// A statement failed.
pub async fn restore_grants(client: &Client) -> Result<Vec<MissingGrant>, MigrationError> {
    let missing = missing_grants(client).await?;
    for grant in &missing {
        execute_with_retries(client, &grant.statement).await?;
    }
    Ok(missing)
}

/// Records the grants as they are after the services' migrations.
pub(super) async fn record_grants(client: &Client) -> Result<(), MigrationError> {
    execute_with_retries(client, "select basalt.record_service_grants()").await
}

/// The service tables that belong to another role than their schema: each with the statement that gives it back.
///
/// # Errors
/// The query failed.
pub async fn displaced_tables(client: &Client) -> Result<Vec<(String, String)>, tokio_postgres::Error> {
    let is_row = |message: &SimpleQueryMessage| matches!(message, SimpleQueryMessage::Row(_));
    if !client.simple_query(HAS_RECORD).await?.iter().any(is_row) {
        return Ok(Vec::new());
    }
    let messages = client.simple_query(DISPLACED).await?;
    let rows = messages.iter().filter_map(|message| {
        let SimpleQueryMessage::Row(row) = message else { return None };
        Some((row.get(0)?.to_owned(), row.get(1)?.to_owned()))
    });
    Ok(rows.collect())
}

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

/// Gives displaced service tables back to their owners and enables row-level security on those that lack it; returns
/// the names of both. Secures the search path of the services' functions. Records what the services own, for the guards.
pub(super) async fn restore(client: &Client) -> Result<Restored, MigrationError> {
    let displaced = displaced_tables(client).await?;
    for (_, statement) in &displaced {
        execute_with_retries(client, statement).await?;
    }
    execute_with_retries(client, SECURE_SEARCH_PATHS).await?;
    execute_with_retries(client, "select basalt.record_service_objects()").await?;
    let unprotected = unprotected_tables(client).await?;
    for table in &unprotected {
        execute_with_retries(client, &format!("alter table {table} enable row level security")).await?;
    }
    Ok(Restored { displaced: displaced.into_iter().map(|(table, _)| table).collect(), unprotected })
}

/// The tables that [`restore`] changed.
pub(super) struct Restored {
    pub(super) displaced: Vec<String>,
    pub(super) unprotected: Vec<String>,
}
