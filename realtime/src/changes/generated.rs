//! Stored generated columns, which PostgreSQL replicates only from 18 on (realtime.md 5). Before that they are read from the row,
//! and used only if the row is still as the change left it: otherwise the value would belong to another change.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use basalt_pg::sql::Sql;
use bytes::Bytes;
use tokio::time::Instant;

use super::catalog::{LIMIT, Table};
use super::decoder::{Old, Relation, RelationColumn, RowChange, Tuple, Value};
use super::payload::Change;
use super::plan::row_key;
use super::stream::SESSION_SETTINGS;
use super::visibility::{key_equals, keys_from};

/// Adds missing generated columns to batches of one table, and remembers when there are none.
#[derive(Default)]
pub(super) struct Completion {
    /// A definition known to have all columns.
    complete: Mutex<Option<Arc<Relation>>>,
}

impl Completion {
    /// Adds the generated columns that PostgreSQL did not stream to the changes. Returns the extended definition, or `None` if
    /// nothing was missing.
    ///
    /// # Errors
    /// PostgreSQL did not respond.
    pub(super) async fn complete(
        &self,
        pool: &ServicePool,
        table: &Table,
        relation: &Arc<Relation>,
        changes: &mut [Change],
    ) -> Result<Option<Arc<Relation>>, SessionError> {
        if self.known_complete().as_ref().is_some_and(|complete| Arc::ptr_eq(complete, relation)) {
            return Ok(None);
        }
        let missing = missing(table, relation);
        if missing.is_empty() {
            *self.known_complete() = Some(Arc::clone(relation));
            return Ok(None);
        }
        add(pool, table, relation, &missing, changes).await.map(Some)
    }

    fn known_complete(&self) -> MutexGuard<'_, Option<Arc<Relation>>> {
        self.complete.lock()
    }
}

/// Positions of the generated columns that the stream omits. None if it omits others as well: then the publication has a column
/// list, and these columns are not in it.
fn missing(table: &Table, relation: &Relation) -> Vec<usize> {
    let is_streamed = |name: &str| relation.columns.iter().any(|column| column.name == name);
    let unstreamed = table.columns.iter().enumerate().filter(|(_, column)| !is_streamed(&column.name));
    let (generated, others): (Vec<_>, Vec<_>) = unstreamed.partition(|(_, column)| column.is_generated);
    if !others.is_empty() || table.key.is_empty() {
        return Vec::new();
    }
    generated.into_iter().map(|(position, _)| position).collect()
}

/// Adds these columns to the changes, whose transactions must be visible. Returns the extended definition.
async fn add(
    pool: &ServicePool,
    table: &Table,
    relation: &Relation,
    positions: &[usize],
    changes: &mut [Change],
) -> Result<Arc<Relation>, SessionError> {
    let keyed: Vec<(usize, Vec<String>)> = changes
        .iter()
        .enumerate()
        .filter(|(_, change)| !matches!(change.row, RowChange::Delete { .. }))
        .filter_map(|(number, change)| Some((number, row_key(table, relation, change)?)))
        .collect();
    let rows = match read(pool, table, relation, positions, &keyed).await {
        Ok(rows) => rows,
        // The login may not read the table: omit the columns.
        Err(SessionError::Postgres(error)) if !error.is_fatal && !error.is_unavailable() => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut generated: Vec<Option<Tuple>> = vec![None; changes.len()];
    for (number, mut values) in rows {
        let added = values.split_off(relation.columns.len());
        if let (Some(change), Some(slot)) = (changes.get(number), generated.get_mut(number))
            && is_same(change.row(), &values)
        {
            *slot = Some(added);
        }
    }
    let unknown = vec![Value::Unchanged; positions.len()];
    for (change, generated) in changes.iter_mut().zip(generated) {
        let (old, new) = match &mut change.row {
            RowChange::Insert { new } => (None, Some(new)),
            RowChange::Update { old, new } => (old.as_mut(), Some(new)),
            RowChange::Delete { old } => (Some(old), None),
        };
        if let Some(Old::Key(tuple) | Old::Full(tuple)) = old {
            tuple.extend_from_slice(&unknown);
        }
        if let Some(new) = new {
            new.extend(generated.unwrap_or_else(|| unknown.clone()));
        }
    }
    let mut extended = relation.clone();
    let columns = positions.iter().filter_map(|position| table.columns.get(*position));
    extended.columns.extend(columns.map(|column| RelationColumn {
        name: column.name.clone(),
        type_oid: column.type_oid,
        is_key: false,
    }));
    Ok(Arc::new(extended))
}

/// Whether a row read now equals the row of the change, ignoring values that were not streamed.
fn is_same(streamed: &[Value], read: &[Value]) -> bool {
    streamed.iter().zip(read).all(|(streamed, read)| *streamed == Value::Unchanged || streamed == read)
}

/// Reads the current rows with these keys: the streamed columns, then those at `positions`.
async fn read(
    pool: &ServicePool,
    table: &Table,
    relation: &Relation,
    positions: &[usize],
    keyed: &[(usize, Vec<String>)],
) -> Result<Vec<(usize, Tuple)>, SessionError> {
    if keyed.is_empty() {
        return Ok(Vec::new());
    }
    let width = table.key.len();
    let keys: Vec<Vec<Option<&str>>> = (0..width)
        .map(|column| keyed.iter().map(|(_, key)| key.get(column).map(String::as_str)).collect())
        .collect();
    let tx = pool.begin(Instant::now() + LIMIT).await?;
    let read = async {
        for (name, value) in SESSION_SETTINGS {
            tx.execute("select pg_catalog.set_config($1, $2, true)", &[&name, &value]).await?;
        }
        let params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> =
            keys.iter().map(|keys| keys as &(dyn tokio_postgres::types::ToSql + Sync)).collect();
        tx.query(&text(table, relation, positions), &params).await
    };
    let rows = read.await;
    let rows = tx.finish(rows).await?;
    let read = |row: &tokio_postgres::Row| {
        let number = usize::try_from(row.try_get::<_, i64>(0).ok()?).ok()?.checked_sub(1)?;
        let value = |column: usize| {
            let text: Option<String> = row.try_get(column + 1).ok()?;
            Some(text.map_or(Value::Null, |text| Value::Text(Bytes::from(text))))
        };
        let values: Option<Tuple> = (0..relation.columns.len() + positions.len()).map(value).collect();
        Some((keyed.get(number)?.0, values?))
    };
    Ok(rows.iter().filter_map(read).collect())
}

/// Selects values as their types print them, which a cast to text does not always do.
fn text(table: &Table, relation: &Relation, positions: &[usize]) -> String {
    let added =
        positions.iter().filter_map(|position| table.columns.get(*position)).map(|column| &column.name);
    let names = relation.columns.iter().map(|column| &column.name).chain(added);
    let mut sql = Sql::text("select k.n");
    for name in names {
        sql.push(Sql::text(", case when pg_catalog.num_nulls(t."));
        sql.push(Sql::ident(name));
        sql.push(Sql::text(") = 0 then pg_catalog.format('%s', t."));
        sql.push(Sql::ident(name));
        sql.push(Sql::text(") end"));
    }
    sql.push(Sql::text(" from "));
    sql.push(keys_from(table));
    sql.push(Sql::text(if table.is_partitioned { " join " } else { " join only " }));
    sql.push(Sql::qualified(&table.schema, &table.name));
    sql.push(Sql::text(" as t on "));
    sql.push(key_equals(table));
    sql.render().0
}
