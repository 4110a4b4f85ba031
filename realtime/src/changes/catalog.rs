//! What the database says about tables: keys, columns, rights of roles, what is published.
//!
//! Kept until something tells that it may have changed: a Relation message of the stream, which comes before the first change
//! that was made under a new definition; a notification of an event trigger, where the login could make one; time.
//! Policies are not kept at all: PostgreSQL applies them when rows are judged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use basalt_pg::listen::Event;
use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use super::CHANNEL;
use super::filter::Comparison;
use super::types::{self, Json, SqlType, TypeRow};

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
    /// Its rows are in partitions.
    pub(super) is_partitioned: bool,
    pub(super) columns: Vec<Column>,
    /// Primary key columns in key order, as indexes of `columns`.
    pub(super) key: Vec<usize>,
    /// Of columns, by role.
    rights: Mutex<HashMap<Arc<str>, Arc<Rights>>>,
}

/// A column.
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
    pub(super) json: Json,
    pub(super) comparison: Comparison,
    /// Whether `like` and `~` accept the type.
    pub(super) is_text: bool,
    /// Whether the column is generated and stored.
    pub(super) is_generated: bool,
}

/// Columns of a table that a role may read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) columns: Vec<bool>,
}

impl Table {
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Cached entries with the time they were read.
#[derive(Default)]
struct Known {
    tables: HashMap<u32, (Instant, Arc<Table>)>,
    published: Option<(Instant, Arc<Published>)>,
    /// Existing roles.
    roles: HashMap<String, Instant>,
    /// Counts invalidations: the result of a query started before one is not cached after it.
    generation: u64,
}

impl Known {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        let (read, table) = self.tables.get(&oid)?;
        (read.elapsed() < MAX_AGE).then(|| Arc::clone(table))
    }

    fn published(&self) -> Option<Arc<Published>> {
        let (read, published) = self.published.as_ref()?;
        (read.elapsed() < MAX_AGE).then(|| Arc::clone(published))
    }

    fn has_role(&self, role: &str) -> bool {
        self.roles.get(role).is_some_and(|read| read.elapsed() < MAX_AGE)
    }
}

/// Object ids of the published tables, by schema and name.
pub(super) type Published = HashMap<(String, String), u32>;

pub(super) struct Catalog {
    pool: ServicePool,
    /// Held to look up and to put in, never across an await.
    known: Mutex<Known>,
    /// One look at a time: thousands of joins at once, as after a start, want the same.
    looking: tokio::sync::Mutex<()>,
}

impl Catalog {
    pub(super) fn new(pool: ServicePool) -> Self {
        Self { pool, known: Mutex::default(), looking: tokio::sync::Mutex::default() }
    }

    pub(super) const fn pool(&self) -> &ServicePool {
        &self.pool
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Invalidates everything.
    pub(super) fn invalidate(&self) {
        let mut known = self.known();
        let generation = known.generation + 1;
        *known = Known { generation, ..Known::default() };
    }

    /// Invalidates one table.
    pub(super) fn invalidate_table(&self, oid: u32) {
        let mut known = self.known();
        known.generation += 1;
        known.tables.remove(&oid);
    }

    /// Invalidates when the database says so, until the sender is gone.
    pub(super) async fn keep(&self, mut events: broadcast::Receiver<Event>) {
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
        if let Some(table) = self.known().table(oid) {
            return Ok(Some(table));
        }
        let _alone = self.looking.lock().await;
        let generation = {
            let known = self.known();
            if let Some(table) = known.table(oid) {
                return Ok(Some(table));
            }
            known.generation
        };
        let Some(table) = self.load(oid).await?.map(Arc::new) else { return Ok(None) };
        let mut known = self.known();
        if known.generation == generation {
            known.tables.insert(oid, (Instant::now(), Arc::clone(&table)));
        }
        Ok(Some(table))
    }

    /// Published tables.
    pub(super) async fn published(&self) -> Result<Arc<Published>, SessionError> {
        const LOOK: &str = "
            select t.schemaname::text, t.tablename::text, c.oid
            from pg_catalog.pg_publication_tables t
            join pg_catalog.pg_namespace n on n.nspname = t.schemaname
            join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
            where t.pubname = 'supabase_realtime'";
        if let Some(published) = self.known().published() {
            return Ok(published);
        }
        let _alone = self.looking.lock().await;
        let generation = {
            let known = self.known();
            if let Some(published) = known.published() {
                return Ok(published);
            }
            known.generation
        };
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(LOOK, &[]).await?;
        tx.commit().await?;
        let published = rows.iter().map(|row| Ok(((row.try_get(0)?, row.try_get(1)?), row.try_get(2)?)));
        let published = Arc::new(published.collect::<Result<Published, _>>().map_err(unreadable)?);
        let mut known = self.known();
        if known.generation == generation {
            known.published = Some((Instant::now(), Arc::clone(&published)));
        }
        Ok(published)
    }

    /// The published tables, read again unless that was just done.
    pub(super) async fn published_now(&self) -> Result<Arc<Published>, SessionError> {
        const RECENT: Duration = Duration::from_millis(200);
        {
            let mut known = self.known();
            if known.published.as_ref().is_some_and(|(read, _)| read.elapsed() > RECENT) {
                known.published = None;
            }
        }
        self.published().await
    }

    /// Whether the role exists. Only a positive result is cached.
    pub(super) async fn has_role(&self, role: &str) -> Result<bool, SessionError> {
        const LOOK: &str = "select exists (select from pg_catalog.pg_roles where rolname = $1)";
        if self.known().has_role(role) {
            return Ok(true);
        }
        let _alone = self.looking.lock().await;
        if self.known().has_role(role) {
            return Ok(true);
        }
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let exists = tx.query_one(LOOK, &[&role]).await?.try_get(0).map_err(unreadable)?;
        tx.commit().await?;
        if exists {
            self.known().roles.insert(role.to_owned(), Instant::now());
        }
        Ok(exists)
    }

    /// What `role` may read of `table`: nothing, if there is no such role.
    pub(super) async fn rights(&self, table: &Table, role: &Arc<str>) -> Result<Arc<Rights>, SessionError> {
        const LOOK: &str = "
            select pg_catalog.has_column_privilege(r.oid, $2::oid, a.attnum, 'select')
            from pg_catalog.pg_roles r, pg_catalog.pg_attribute a
            where r.rolname = $1 and a.attrelid = $2 and a.attnum > 0 and not a.attisdropped
            order by a.attnum";
        if let Some(rights) = table.rights().get(role) {
            return Ok(Arc::clone(rights));
        }
        let _alone = self.looking.lock().await;
        if let Some(rights) = table.rights().get(role) {
            return Ok(Arc::clone(rights));
        }
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let rows = tx.query(LOOK, &[&&**role, &table.oid]).await?;
        tx.commit().await?;
        let columns = rows.iter().map(|row| row.try_get::<_, Option<bool>>(0));
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        let mut columns: Vec<bool> = columns.into_iter().map(Option::unwrap_or_default).collect();
        columns.resize(table.columns.len(), false);
        let rights = Arc::new(Rights { columns });
        table.rights().insert(Arc::clone(role), Arc::clone(&rights));
        Ok(rights)
    }

    async fn load(&self, oid: u32) -> Result<Option<Table>, SessionError> {
        const TABLE: &str = "
            select n.nspname::text, c.relname::text, c.relrowsecurity, c.relkind = 'p',
              coalesce((
                select array(select k::int2 from unnest(i.indkey::int2[]) with ordinality as u(k, n) where n <= i.indnkeyatts order by n)
                from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary), '{}')
            from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where c.oid = $1";
        const COLUMNS: &str = "
            select a.attnum, a.attname::text, a.atttypid, pg_catalog.format_type(a.atttypid, null),
              coalesce(l.collisdeterministic, true),
              coalesce(l.collcollate = any ('{C,POSIX}') or a.attcollation = 100 and (
                select datcollate = any ('{C,POSIX}') and datlocprovider = 'c'
                from pg_catalog.pg_database where datname = current_database()), false),
              a.attgenerated = 's'
            from pg_catalog.pg_attribute a
            left join pg_catalog.pg_collation l on l.oid = a.attcollation
            where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
            order by a.attnum";
        const TYPES: &str = "
            with recursive wanted as (
              select unnest($1::oid[]) as oid
              union
              select part.oid
              from wanted join pg_catalog.pg_type y on y.oid = wanted.oid
              cross join lateral (
                select y.typelem as oid where y.typelem <> 0 and y.typcategory = 'A'
                union all select y.typbasetype where y.typbasetype <> 0
                union all
                select a.atttypid from pg_catalog.pg_attribute a
                where y.typtype = 'c' and a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped
              ) part
            )
            select y.oid, y.typname::text, y.typtype, y.typdelim,
              case when y.typcategory = 'A' and y.typsubscript = 'pg_catalog.array_subscript_handler'::regproc
                and y.oid not in (22, 30) then y.typelem end,
              nullif(y.typbasetype, 0),
              array(select a.attname::text from pg_catalog.pg_attribute a
                where y.typtype = 'c' and a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum),
              array(select a.atttypid from pg_catalog.pg_attribute a
                where y.typtype = 'c' and a.attrelid = y.typrelid and a.attnum > 0 and not a.attisdropped order by a.attnum),
              pg_catalog.format('%I.%I', n.nspname, y.typname),
              (select pg_catalog.format('%I.%I', an.nspname, ay.typname)
               from pg_catalog.pg_type ay join pg_catalog.pg_namespace an on an.oid = ay.typnamespace
               where ay.oid = y.typarray),
              coalesce((
                select pg_catalog.quote_ident(m.nspname)
                from pg_catalog.pg_operator o join pg_catalog.pg_namespace m on m.oid = o.oprnamespace
                where o.oprname = '=' and o.oprleft = y.oid and o.oprright = y.oid
                order by m.nspname <> 'pg_catalog', m.nspname limit 1), 'pg_catalog'),
              y.typcategory = 'S' or exists (
                select from pg_catalog.pg_operator o where o.oprname = '~~' and o.oprleft = y.oid)
            from wanted
            join pg_catalog.pg_type y on y.oid = wanted.oid
            join pg_catalog.pg_namespace n on n.oid = y.typnamespace";
        let tx = self.pool.autocommit(Instant::now() + LIMIT).await?;
        let Some(table) = tx.query_opt(TABLE, &[&oid]).await? else {
            tx.commit().await?;
            return Ok(None);
        };
        let columns = tx.query(COLUMNS, &[&oid]).await?;
        let type_oids = columns.iter().map(|row| row.try_get(2)).collect::<Result<Vec<u32>, _>>();
        let type_oids = type_oids.map_err(unreadable)?;
        let types = tx.query(TYPES, &[&type_oids]).await?;
        tx.commit().await?;
        let read = || -> Result<Option<Table>, tokio_postgres::Error> {
            let mut known_types = HashMap::new();
            for row in &types {
                let names: Vec<String> = row.try_get(6)?;
                let attribute_types: Vec<u32> = row.try_get(7)?;
                let byte = |column: usize| row.try_get::<_, i8>(column).map(i8::cast_unsigned);
                let read = TypeRow {
                    name: row.try_get(1)?,
                    kind: byte(2)?,
                    delimiter: byte(3)?,
                    element: row.try_get(4)?,
                    base: row.try_get(5)?,
                    attributes: names.into_iter().zip(attribute_types).collect(),
                    sql: Arc::new(SqlType {
                        name: row.try_get::<_, String>(8)?.into(),
                        array: row.try_get::<_, Option<String>>(9)?.map(Into::into),
                        operators: row.try_get::<_, String>(10)?.into(),
                    }),
                    is_text: row.try_get(11)?,
                };
                known_types.insert(row.try_get::<_, u32>(0)?, read);
            }
            let mut numbers: Vec<i16> = Vec::new();
            let mut read_columns = Vec::new();
            for row in &columns {
                numbers.push(row.try_get(0)?);
                let type_oid: u32 = row.try_get(2)?;
                let (is_deterministic, is_c) = (row.try_get(4)?, row.try_get(5)?);
                let base = types::base_of(type_oid, &known_types);
                let sql_of = |oid: u32| known_types.get(&oid).map(|row| Arc::clone(&row.sql));
                // Dropped between two of the statements.
                let (Some(sql_type), Some(base_row)) = (sql_of(base), known_types.get(&base)) else {
                    return Ok(None);
                };
                read_columns.push(Column {
                    name: row.try_get(1)?,
                    type_oid,
                    type_name: known_types.get(&type_oid).map(|row| row.name.clone()).unwrap_or_default(),
                    shown_type: row.try_get::<_, String>(3)?.into(),
                    sql_type,
                    domain: if base == type_oid { None } else { sql_of(type_oid) },
                    json: types::json_of(type_oid, &known_types),
                    comparison: types::comparison_of(type_oid, &known_types, is_deterministic, is_c),
                    is_text: base_row.is_text,
                    is_generated: row.try_get(6)?,
                });
            }
            let key: Vec<i16> = table.try_get(4)?;
            let place = |number: &i16| numbers.iter().position(|known| known == number);
            Ok(Some(Table {
                oid,
                schema: table.try_get(0)?,
                name: table.try_get(1)?,
                has_policies: table.try_get(2)?,
                is_partitioned: table.try_get(3)?,
                key: key.iter().filter_map(place).collect(),
                columns: read_columns,
                rights: Mutex::default(),
            }))
        };
        read().map_err(unreadable)
    }
}

impl Table {
    fn rights(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Rights>>> {
        self.rights.lock()
    }

    /// Places of the key's columns.
    pub(super) fn key_places(&self) -> HashSet<usize> {
        self.key.iter().copied().collect()
    }
}

/// A column of another type than the statement has.
#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn unreadable(error: tokio_postgres::Error) -> SessionError {
    SessionError::Unavailable(format!("the catalog cannot be read: {error}"))
}
