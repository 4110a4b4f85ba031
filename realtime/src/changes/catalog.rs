//! Cache of catalog data: keys, columns, column privileges of roles, published tables.
//!
//! An entry is invalidated by a Relation message of the stream, which precedes the first change made under a new definition; by
//! a notification of the event trigger, if the login was able to create it; or by its age. Policies are not cached: PostgreSQL
//! applies them when rows are evaluated.

mod load;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_pg::json::JsonEncoding;
use basalt_pg::listen::Event;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::CHANNEL;
use super::filter::Comparison;
use super::types::SqlType;

/// Limits staleness for changes without a notification, such as role memberships, or all changes if the login is not a superuser.
const MAX_AGE: Duration = Duration::from_secs(10);
/// Time limit of one catalog query.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// A table and its columns.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) oid: u32,
    pub(super) schema: String,
    pub(super) name: String,
    /// Whether row security is enabled.
    pub(super) has_policies: bool,
    pub(super) is_partitioned: bool,
    pub(super) columns: Vec<Column>,
    /// Primary key columns in key order, as indexes of `columns`.
    pub(super) key: Vec<usize>,
    /// By role.
    privileges: Mutex<HashMap<Arc<str>, Arc<Privileges>>>,
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) type_oid: u32,
    /// `pg_type.typname`.
    pub(super) type_name: String,
    /// The type's name in error messages.
    pub(super) shown_type: Arc<str>,
    /// The base type, in SQL.
    pub(super) sql_type: Arc<SqlType>,
    /// The domain, in SQL, if the column's type is one.
    pub(super) domain: Option<Arc<SqlType>>,
    pub(super) json: JsonEncoding,
    pub(super) comparison: Comparison,
    /// Whether `like` and `~` accept the type.
    pub(super) is_text: bool,
    /// Whether the column is generated and stored.
    pub(super) is_generated: bool,
}

/// Columns of a table that a role may read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Privileges {
    pub(super) columns: Vec<bool>,
}

impl Table {
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Cached entries with the time they were read.
#[derive(Default)]
struct Cache {
    tables: HashMap<u32, (Instant, Arc<Table>)>,
    published: Option<(Instant, Arc<Published>)>,
    permission_tables: Option<(Instant, Arc<HashSet<u32>>)>,
    /// Existing roles.
    roles: HashMap<String, Instant>,
    /// Counts invalidations: the result of a query started before one is not cached after it.
    generation: u64,
}

impl Cache {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        let (read, table) = self.tables.get(&oid)?;
        (read.elapsed() < MAX_AGE).then(|| Arc::clone(table))
    }

    fn published(&self) -> Option<Arc<Published>> {
        let (read, published) = self.published.as_ref()?;
        (read.elapsed() < MAX_AGE).then(|| Arc::clone(published))
    }

    fn permission_tables(&self) -> Option<Arc<HashSet<u32>>> {
        let (read, tables) = self.permission_tables.as_ref()?;
        (read.elapsed() < MAX_AGE).then(|| Arc::clone(tables))
    }

    fn has_role(&self, role: &str) -> bool {
        self.roles.get(role).is_some_and(|read| read.elapsed() < MAX_AGE)
    }
}

/// Follows what the policies of `realtime.messages` refer to: recorded dependencies, policies and rules of the
/// tables among them, partitions, and names in the text of functions.
const PERMISSION_TABLES: &str = r"
    with recursive
    named (class, oid, pattern) as (
      select 'pg_catalog.pg_class'::pg_catalog.regclass::pg_catalog.oid, c.oid, c.relname
      from pg_catalog.pg_class c where c.oid > 16383 and c.relkind in ('r', 'p', 'v', 'm', 'f')
      union all
      select 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid, f.oid, f.proname
      from pg_catalog.pg_proc f join pg_catalog.pg_language l on l.oid = f.prolang
      where f.oid > 16383 and l.lanname not in ('internal', 'c')
    ),
    reads (class, oid) as (
      select 'pg_catalog.pg_policy'::pg_catalog.regclass::pg_catalog.oid, p.oid
      from pg_catalog.pg_policy p where p.polrelid = pg_catalog.to_regclass('realtime.messages')
      union
      select n.class, n.oid
      from reads r cross join lateral (
        select d.refclassid, d.refobjid
        from pg_catalog.pg_depend d
        where d.classid = r.class and d.objid = r.oid and d.refobjid > 16383
          and r.class in ('pg_catalog.pg_policy'::pg_catalog.regclass, 'pg_catalog.pg_proc'::pg_catalog.regclass,
            'pg_catalog.pg_rewrite'::pg_catalog.regclass)
          and d.refclassid in ('pg_catalog.pg_class'::pg_catalog.regclass, 'pg_catalog.pg_proc'::pg_catalog.regclass)
        union all
        select 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid
        from pg_catalog.pg_policy p
        where r.class = 'pg_catalog.pg_class'::pg_catalog.regclass and p.polrelid = r.oid
        union all
        select 'pg_catalog.pg_rewrite'::pg_catalog.regclass, w.oid
        from pg_catalog.pg_rewrite w
        where r.class = 'pg_catalog.pg_class'::pg_catalog.regclass and w.ev_class = r.oid
        union all
        select 'pg_catalog.pg_class'::pg_catalog.regclass, i.inhrelid
        from pg_catalog.pg_inherits i
        where r.class = 'pg_catalog.pg_class'::pg_catalog.regclass and i.inhparent = r.oid
        union all
        select m.class, m.oid
        from pg_catalog.pg_proc f join named m on f.prosrc
          ~* ('\m' || pg_catalog.regexp_replace(m.pattern, '([^[:alnum:]_])', '\\\1', 'g') || '\M')
        where r.class = 'pg_catalog.pg_proc'::pg_catalog.regclass and f.oid = r.oid
      ) as n (class, oid)
    )
    select c.oid
    from reads r
    join pg_catalog.pg_class c on c.oid = r.oid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    join pg_catalog.pg_publication_tables t on t.schemaname = n.nspname and t.tablename = c.relname
    where r.class = 'pg_catalog.pg_class'::pg_catalog.regclass and t.pubname = 'supabase_realtime'";

/// Object ids of the published tables, by schema and name.
pub(super) type Published = HashMap<(String, String), u32>;

pub(super) struct Catalog {
    pool: ServicePool,
    /// Held briefly, never across an await.
    cache: Mutex<Cache>,
    /// Serializes queries: thousands of simultaneous joins, as after a restart, need the same entries.
    loading: tokio::sync::Mutex<()>,
}

impl Catalog {
    pub(super) fn new(pool: ServicePool) -> Self {
        Self { pool, cache: Mutex::default(), loading: tokio::sync::Mutex::default() }
    }

    pub(super) const fn pool(&self) -> &ServicePool {
        &self.pool
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock()
    }

    /// Invalidates everything.
    pub(super) fn invalidate(&self) {
        let mut cache = self.cache();
        let generation = cache.generation + 1;
        *cache = Cache { generation, ..Cache::default() };
    }

    /// Invalidates one table.
    pub(super) fn invalidate_table(&self, oid: u32) {
        let mut cache = self.cache();
        cache.generation += 1;
        cache.tables.remove(&oid);
    }

    /// Invalidates everything when the database reports a change, until the sender is dropped.
    pub(super) async fn invalidate_on_events(&self, mut events: broadcast::Receiver<Event>) {
        loop {
            match events.recv().await {
                Ok(Event::Notify { channel, payload: _ }) if channel != CHANNEL => {}
                Ok(Event::Notify { .. } | Event::Reconnected) | Err(RecvError::Lagged(_)) => {
                    self.invalidate()
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// A table by its object id; `None` if it does not exist any more.
    pub(super) async fn table(&self, oid: u32) -> Result<Option<Arc<Table>>, SessionError> {
        if let Some(table) = self.cache().table(oid) {
            return Ok(Some(table));
        }
        let _guard = self.loading.lock().await;
        let generation = {
            let cache = self.cache();
            if let Some(table) = cache.table(oid) {
                return Ok(Some(table));
            }
            cache.generation
        };
        let Some(table) = load::load(&self.pool, oid).await?.map(Arc::new) else { return Ok(None) };
        let mut cache = self.cache();
        if cache.generation == generation {
            cache.tables.insert(oid, (Instant::now(), Arc::clone(&table)));
        }
        Ok(Some(table))
    }

    pub(super) async fn published(&self) -> Result<Arc<Published>, SessionError> {
        const QUERY: &str = "
            select t.schemaname::text, t.tablename::text, c.oid
            from pg_catalog.pg_publication_tables t
            join pg_catalog.pg_namespace n on n.nspname = t.schemaname
            join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
            where t.pubname = 'supabase_realtime'";
        if let Some(published) = self.cache().published() {
            return Ok(published);
        }
        let _guard = self.loading.lock().await;
        let generation = {
            let cache = self.cache();
            if let Some(published) = cache.published() {
                return Ok(published);
            }
            cache.generation
        };
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(QUERY, &[]).await?;
        tx.commit().await?;
        let published = rows.iter().map(|row| Ok(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?)));
        let published = Arc::new(published.collect::<Result<Published, _>>().map_err(unexpected_row)?);
        let mut cache = self.cache();
        if cache.generation == generation {
            cache.published = Some((Instant::now(), Arc::clone(&published)));
        }
        Ok(published)
    }

    /// Published tables that the policies of `realtime.messages` read, directly or through other policies, views
    /// and functions. The text of a function may also name tables that it does not read; one that assembles
    /// their names is missed.
    pub(super) async fn permission_tables(&self) -> Result<Arc<HashSet<u32>>, SessionError> {
        if let Some(tables) = self.cache().permission_tables() {
            return Ok(tables);
        }
        let generation = self.cache().generation;
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(PERMISSION_TABLES, &[]).await?;
        tx.commit().await?;
        let tables = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>();
        let tables = Arc::new(tables.map_err(unexpected_row)?);
        let mut cache = self.cache();
        if cache.generation == generation {
            cache.permission_tables = Some((Instant::now(), Arc::clone(&tables)));
        }
        Ok(tables)
    }

    /// The published tables, read again unless that was just done.
    pub(super) async fn published_now(&self) -> Result<Arc<Published>, SessionError> {
        const RECENT: Duration = Duration::from_millis(200);
        {
            let mut cache = self.cache();
            if cache.published.as_ref().is_some_and(|(read, _)| read.elapsed() > RECENT) {
                cache.published = None;
            }
        }
        self.published().await
    }

    /// Whether the role exists. Only a positive result is cached.
    pub(super) async fn has_role(&self, role: &str) -> Result<bool, SessionError> {
        const QUERY: &str = "select exists (select from pg_catalog.pg_roles where rolname = $1)";
        if self.cache().has_role(role) {
            return Ok(true);
        }
        let _guard = self.loading.lock().await;
        if self.cache().has_role(role) {
            return Ok(true);
        }
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let exists = tx.query_one(QUERY, &[&role]).await?.try_get(0).map_err(unexpected_row)?;
        tx.commit().await?;
        if exists {
            self.cache().roles.insert(role.to_owned(), Instant::now());
        }
        Ok(exists)
    }

    /// The columns `role` may read in `table`; none if the role does not exist.
    pub(super) async fn privileges(
        &self,
        table: &Table,
        role: &Arc<str>,
    ) -> Result<Arc<Privileges>, SessionError> {
        const QUERY: &str = "
            select pg_catalog.has_column_privilege(r.oid, $2::oid, a.attnum, 'select')
            from pg_catalog.pg_roles r, pg_catalog.pg_attribute a
            where r.rolname = $1 and a.attrelid = $2 and a.attnum > 0 and not a.attisdropped
            order by a.attnum";
        if let Some(privileges) = table.privileges().get(role) {
            return Ok(Arc::clone(privileges));
        }
        let _guard = self.loading.lock().await;
        if let Some(privileges) = table.privileges().get(role) {
            return Ok(Arc::clone(privileges));
        }
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(QUERY, &[&&**role, &table.oid]).await?;
        tx.commit().await?;
        let columns = rows.iter().map(|row| row.try_get::<_, Option<bool>>(0));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unexpected_row)?;
        let mut columns: Vec<bool> = columns.into_iter().map(Option::unwrap_or_default).collect();
        columns.resize(table.columns.len(), false);
        let privileges = Arc::new(Privileges { columns });
        table.privileges().insert(Arc::clone(role), Arc::clone(&privileges));
        Ok(privileges)
    }
}

impl Table {
    fn privileges(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Privileges>>> {
        self.privileges.lock()
    }

    /// Indexes of the key columns.
    pub(super) fn key_positions(&self) -> HashSet<usize> {
        self.key.iter().copied().collect()
    }
}

/// A catalog row did not have the expected columns.
#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn unexpected_row(error: tokio_postgres::Error) -> SessionError {
    SessionError::Unavailable(format!("unexpected catalog row: {error}"))
}
