//! `supabase_migrations`: the lists of applied migrations and seeds, which Supabase's CLI reads and writes too.

use tokio_postgres::Client;

use crate::error::ProjectError;

/// Creates the lists; an older CLI may have made them with fewer columns.
pub(crate) const CREATE: &str = "
create schema if not exists supabase_migrations;
create table if not exists supabase_migrations.schema_migrations (version text primary key);
alter table supabase_migrations.schema_migrations
  add column if not exists statements text[], add column if not exists name text;
create table if not exists supabase_migrations.seed_files (path text primary key, hash text not null);
create table if not exists supabase_migrations.unfinished_files (
  path text primary key,
  sha256 text not null,
  statements integer not null
)";

/// Notes how many statements of a file are committed; only files of several transactions need it.
pub(super) const SAVE_PROGRESS: &str = "
insert into supabase_migrations.unfinished_files as f (path, sha256, statements) values ($1, $2, $3)
on conflict (path) do update set sha256 = excluded.sha256, statements = excluded.statements";

pub(super) const PROGRESS: &str = "
select statements from supabase_migrations.unfinished_files where path = $1 and sha256 = $2";

pub(super) const FORGET_PROGRESS: &str = "
delete from supabase_migrations.unfinished_files where path = $1";

pub(super) const INSERT: &str = "
insert into supabase_migrations.schema_migrations (version, name, statements) values ($1, $2, $3)";

/// The versions in the database's history with their names, in order; none if the database has no history.
///
/// # Errors
/// The connection breaks.
pub async fn versions(client: &Client) -> Result<Vec<(String, Option<String>)>, ProjectError> {
    const EXISTS: &str = "select pg_catalog.to_regclass('supabase_migrations.schema_migrations') is not null";
    // The column `name` may be missing in a table of an older CLI.
    const VERSIONS: &str = "
        select m.version, pg_catalog.to_jsonb(m) ->> 'name'
        from supabase_migrations.schema_migrations m order by m.version collate \"C\"";
    if !client.query_one(EXISTS, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let rows = client.query(VERSIONS, &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// The hashes of the seeds that have run, by path.
pub(super) async fn seeds(client: &Client) -> Result<Vec<(String, String)>, ProjectError> {
    const EXISTS: &str = "select pg_catalog.to_regclass('supabase_migrations.seed_files') is not null";
    if !client.query_one(EXISTS, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(Vec::new());
    }
    let rows = client.query("select path, hash from supabase_migrations.seed_files", &[]).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}
