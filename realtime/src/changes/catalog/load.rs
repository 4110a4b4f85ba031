//! Reads a table's definition: one query each for the table, its columns, and their types with the types within them.

use std::collections::HashMap;
use std::sync::Arc;

use basalt_pg::pool::ServicePool;
use basalt_pg::session::SessionError;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_postgres::{Error, Row};

use super::super::filter;
use super::super::types::{self, SqlType, TypeRow};
use super::{Column, LIMIT, Table, unexpected_row};

/// Name, row security, partitioning, and attribute numbers of the primary key.
const TABLE: &str = "
    select n.nspname::text, c.relname::text, c.relrowsecurity, c.relkind = 'p',
      coalesce((
        select array(select k::int2 from unnest(i.indkey::int2[]) with ordinality as u(k, n) where n <= i.indnkeyatts order by n)
        from pg_catalog.pg_index i where i.indrelid = c.oid and i.indisprimary), '{}')
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.oid = $1";

/// Per column: attribute number, name, type, whether its collation is deterministic and whether it is `C`, whether it is generated.
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

/// The given types and, recursively, those of their elements, bases and attributes.
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

type Types = HashMap<u32, TypeRow>;

/// Reads the table with this object id; `None` if it does not exist.
pub(super) async fn load(pool: &ServicePool, oid: u32) -> Result<Option<Table>, SessionError> {
    let tx = pool.autocommit(Instant::now() + LIMIT).await?;
    let Some(table) = tx.query_opt(TABLE, &[&oid]).await? else {
        tx.commit().await?;
        return Ok(None);
    };
    let columns = tx.query(COLUMNS, &[&oid]).await?;
    let type_oids = columns.iter().map(|row| row.try_get(2)).collect::<Result<Vec<u32>, _>>();
    let type_oids = type_oids.map_err(unexpected_row)?;
    let types = tx.query(TYPES, &[&type_oids]).await?;
    tx.commit().await?;
    read_table(oid, &table, &columns, &types).map_err(unexpected_row)
}

/// Assembles the definition; `None` if a type was dropped between two of the queries.
fn read_table(oid: u32, table: &Row, columns: &[Row], types: &[Row]) -> Result<Option<Table>, Error> {
    let types = types.iter().map(read_type).collect::<Result<Types, _>>()?;
    let read = columns.iter().map(|row| read_column(row, &types)).collect::<Result<Option<Vec<_>>, _>>()?;
    let Some(read) = read else { return Ok(None) };
    let numbers = columns.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i16>, _>>()?;
    let key: Vec<i16> = table.try_get(4)?;
    let position = |number: &i16| numbers.iter().position(|known| known == number);
    Ok(Some(Table {
        oid,
        schema: table.try_get(0)?,
        name: table.try_get(1)?,
        has_policies: table.try_get(2)?,
        is_partitioned: table.try_get(3)?,
        key: key.iter().filter_map(position).collect(),
        columns: read,
        privileges: Mutex::default(),
    }))
}

fn read_type(row: &Row) -> Result<(u32, TypeRow), Error> {
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
    Ok((row.try_get(0)?, read))
}

/// `None` if the column's type is not among `types`.
fn read_column(row: &Row, types: &Types) -> Result<Option<Column>, Error> {
    let type_oid: u32 = row.try_get(2)?;
    let (is_deterministic, is_c) = (row.try_get(4)?, row.try_get(5)?);
    let base = types::base_type(type_oid, types);
    let sql_type = |oid: u32| types.get(&oid).map(|row| Arc::clone(&row.sql));
    let (Some(base_sql_type), Some(base_row)) = (sql_type(base), types.get(&base)) else { return Ok(None) };
    Ok(Some(Column {
        name: row.try_get(1)?,
        type_oid,
        type_name: types.get(&type_oid).map(|row| row.name.clone()).unwrap_or_default(),
        shown_type: row.try_get::<_, String>(3)?.into(),
        sql_type: base_sql_type,
        domain: if base == type_oid { None } else { sql_type(type_oid) },
        json: types::json_for(type_oid, types),
        comparison: filter::comparison_for(type_oid, types, is_deterministic, is_c),
        is_text: base_row.is_text,
        is_generated: row.try_get(6)?,
    }))
}
