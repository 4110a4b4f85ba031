//! What exists in a database and what its login may do, read from the catalogs in two round trips.

use std::collections::HashMap;

use tokio_postgres::Client;

use super::steps::{CLUSTER, DDL_WATCH, DDL_WATCH_MORE, ROLES, ROW_SECURITY_GUARD};
use super::{Limit, MigrationError, SystemMigration};
use basalt_core::convert::saturating;

/// Applied migrations by service and version.
pub(super) type Applied = HashMap<(String, u32), Record>;

/// A row of `basalt.system_migrations`.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) checksum: String,
}

/// The table of applied migrations. Created before the first migration is recorded, so it is not a migration itself.
pub(super) const TABLE: &str = "
create schema if not exists basalt;
comment on schema basalt is 'Private to the Basalt server.';
create table if not exists basalt.system_migrations (
  service text not null,
  version integer not null,
  name text not null,
  checksum text not null,
  applied_at timestamptz not null default now(),
  primary key (service, version)
);
comment on table basalt.system_migrations is
  'What the server has applied of its services'' own schemas. Version 0 is run again when its text changes.'";

pub(super) const RECORD: &str = "
insert into basalt.system_migrations as m (service, version, name, checksum)
values ($1, $2, $3, $4)
on conflict (service, version) do update
  set name = excluded.name, checksum = excluded.checksum, applied_at = now()";

const CONDITION: &str = "
select to_regclass('basalt.system_migrations') is not null as has_table,
  me.rolsuper as is_superuser,
  (select count(*) from pg_catalog.pg_roles where rolname = any ($1)) as role_count,
  -- An elevation of `postgres` that its transaction did not take back (DESIGN section 12). Where `postgres` made the
  -- cluster it is the owner's superuser, and stays one.
  exists (select from pg_catalog.pg_roles p
    where p.rolname = 'postgres' and p.rolsuper and p.oid <> 10 and me.rolname = 'supabase_admin') as is_elevated,
  -- Rights on a database are not copied with a template. NULL: nothing that we could grant.
  (select pg_catalog.has_database_privilege(p.oid, d.oid, 'create')
     from pg_catalog.pg_roles p, pg_catalog.pg_database d
    where p.rolname = 'postgres' and d.datname = pg_catalog.current_database()
      and (me.rolsuper or d.datdba = me.oid)) as owner_may_create,
  coalesce((select rolbypassrls or rolsuper from pg_catalog.pg_roles where rolname = 'service_role'), false)
    as service_role_bypasses,
  coalesce((select rolbypassrls or rolsuper from pg_catalog.pg_roles where rolname = 'postgres'), false)
    as postgres_bypasses,
  coalesce((select rolreplication or rolsuper from pg_catalog.pg_roles where rolname = me.rolname), false)
    as may_replicate,
  exists (select from pg_catalog.pg_event_trigger where evtname = 'pgrst_ddl_watch') as has_ddl_watch,
  exists (select from pg_catalog.pg_event_trigger where evtname = 'basalt_guard_row_security') as has_row_security_guard
from pg_catalog.pg_roles me
where me.rolname = current_user";

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each field is an independent fact from the catalog")]
pub(super) struct State {
    applied: Applied,
    has_table: bool,
    is_superuser: bool,
    has_roles: bool,
    is_elevated: bool,
    lacks_database_rights: bool,
    service_role_bypasses: bool,
    postgres_bypasses: bool,
    may_replicate: bool,
    has_ddl_watch: bool,
    has_row_security_guard: bool,
}

impl State {
    pub(super) async fn read(client: &Client) -> Result<Self, MigrationError> {
        let row = client.query_one(CONDITION, &[&ROLES]).await?;
        let mut state = Self {
            applied: Applied::new(),
            has_table: row.try_get("has_table")?,
            is_superuser: row.try_get("is_superuser")?,
            has_roles: usize::try_from(row.try_get::<_, i64>("role_count")?) == Ok(ROLES.len()),
            is_elevated: row.try_get("is_elevated")?,
            lacks_database_rights: row.try_get::<_, Option<bool>>("owner_may_create")? == Some(false),
            service_role_bypasses: row.try_get("service_role_bypasses")?,
            postgres_bypasses: row.try_get("postgres_bypasses")?,
            may_replicate: row.try_get("may_replicate")?,
            has_ddl_watch: row.try_get("has_ddl_watch")?,
            has_row_security_guard: row.try_get("has_row_security_guard")?,
        };
        if state.has_table {
            let rows = client
                .query("select service, version, name, checksum from basalt.system_migrations", &[])
                .await?;
            for row in rows {
                let version = saturating(row.try_get::<_, i32>("version")?);
                let record = Record { name: row.try_get("name")?, checksum: row.try_get("checksum")? };
                state.applied.insert((row.try_get("service")?, version), record);
            }
        }
        Ok(state)
    }

    #[cfg(test)]
    pub(super) fn with_applied(applied: Applied) -> Self {
        Self { applied, ..Self::default() }
    }

    pub(super) const fn has_table(&self) -> bool {
        self.has_table
    }

    pub(super) const fn is_superuser(&self) -> bool {
        self.is_superuser
    }

    pub(super) fn checksum_of(&self, migration: &SystemMigration) -> Option<&str> {
        let record = self.applied.get(&(migration.service.to_owned(), migration.version));
        record.map(|record| record.checksum.as_str())
    }

    /// Applied migrations that are not in `known`, as `service/0001_name`, sorted. Version 0 is ignored: those
    /// scripts run again whenever they change, and any release can work with what they leave.
    pub(super) fn unknown(&self, known: &[SystemMigration]) -> Vec<String> {
        let is_known = |service: &str, version: u32| {
            known.iter().any(|migration| migration.service == service && migration.version == version)
        };
        let unknown = self
            .applied
            .iter()
            .filter(|((service, version), _)| *version > 0 && !is_known(service, *version));
        let mut names: Vec<String> = unknown
            .map(|((service, version), record)| format!("{service}/{version:04}_{}", record.name))
            .collect();
        names.sort_unstable();
        names
    }

    /// Whether `cluster.sql` has nothing to add.
    pub(super) fn is_cluster_complete(&self) -> bool {
        self.has_roles
            && !self.is_elevated
            && !self.lacks_database_rights
            && self.checksum_of(&CLUSTER) == Some(CLUSTER.checksum().as_str())
    }

    /// Applied migrations whose event triggers are missing: the login that applied them was not a superuser, or the
    /// triggers were dropped. Empty if the login cannot create event triggers.
    pub(super) fn missing_event_triggers(&self) -> Vec<SystemMigration> {
        if !self.is_superuser {
            return Vec::new();
        }
        let mut missing = Vec::new();
        if !self.has_ddl_watch && self.checksum_of(&DDL_WATCH).is_some() {
            missing.extend([DDL_WATCH, DDL_WATCH_MORE]);
        }
        if !self.has_row_security_guard && self.checksum_of(&ROW_SECURITY_GUARD).is_some() {
            missing.push(ROW_SECURITY_GUARD);
        }
        missing
    }

    /// The rights that are missing, with the statements that grant them.
    pub(super) fn limits(&self) -> Vec<Limit> {
        let known = [
            (
                self.service_role_bypasses,
                Limit {
                    what: "service_role cannot bypass row-level security",
                    cost: "the secret key sees only what policies allow",
                    remedy: "alter role service_role bypassrls",
                },
            ),
            (
                self.postgres_bypasses,
                Limit {
                    what: "role postgres cannot bypass row-level security",
                    cost: "it is made a member of supabase_auth_admin, so the project's SQL can change schema auth",
                    remedy: "alter role postgres bypassrls",
                },
            ),
            (
                self.has_ddl_watch,
                Limit {
                    what: "no event trigger reports schema changes",
                    cost: "after your own DDL, run: notify pgrst, 'reload schema'",
                    remedy: "run `basalt migrate` once with a superuser in database.url",
                },
            ),
            (
                self.may_replicate,
                Limit {
                    what: "the login of database.url may not replicate",
                    cost: "realtime cannot follow row changes",
                    remedy: "alter role <login> replication",
                },
            ),
        ];
        known.into_iter().filter(|(is_fine, _)| !is_fine).map(|(_, limit)| limit).collect()
    }
}
