//! `basalt db restore`: loads the rows of a dump into a database whose schema the project's migrations have made. Reads what `pg_dump --data-only`
//! and `supabase db dump --data-only` write: COPY blocks or INSERT statements.
//!
//! Everything happens in one transaction. Triggers and foreign keys do not fire, because the rows are consistent already. Rows that exist stay as
//! they are. An object of storage is a row and a file: a restored row only gives owner and times to an object whose file is here already.

use std::collections::BTreeMap;
use std::io::{self, BufRead};

use basalt_pg::pg_error::DriverError;
use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio_postgres::{Client, CopyInSink, Transaction};

use crate::error::{ProjectError, StatementError};
use crate::split::split;

/// Text that is read before the complete statements in it are executed.
const CHUNK: usize = 1 << 20;
/// Maximum size of one statement.
const MAX_STATEMENT: usize = 256 << 20;
/// Size of the messages that carry rows of a COPY block.
const COPY_MESSAGE: usize = 64 << 10;

/// Tables whose rows say what a server has installed.
const INSTALLED: [&str; 6] = [
    "auth.schema_migrations",
    "storage.migrations",
    "realtime.schema_migrations",
    "supabase_migrations.schema_migrations",
    "supabase_migrations.seed_files",
    "supabase_functions.migrations",
];
const OBJECTS: &str = "storage.objects";

/// What was loaded.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// New rows by table. For `storage.objects`: objects that got their owner and times.
    pub rows: BTreeMap<String, u64>,
    /// Tables of the dump that were left out, with the reason.
    pub skipped: BTreeMap<String, &'static str>,
    /// Statements that are neither rows nor sequence values, such as CREATE TABLE.
    pub ignored_statements: u64,
}

/// Loads a dump. `name` is the file's name for messages.
///
/// # Errors
/// PostgreSQL rejects a statement, the dump cannot be read, or the connection breaks; nothing is changed then.
pub async fn restore(
    client: &mut Client,
    name: &str,
    dump: &mut (impl BufRead + Send),
) -> Result<Restored, ProjectError> {
    let transaction = client.transaction().await?;
    transaction
        .batch_execute("set local session_replication_role = replica; set local statement_timeout = 0; set local search_path = ''")
        .await?;
    let mut restore = Restore { transaction: &transaction, name, line: 0, restored: Restored::default() };
    restore.run(dump).await?;
    let restored = restore.restored;
    transaction.commit().await?;
    Ok(restored)
}

struct Restore<'a> {
    transaction: &'a Transaction<'a>,
    name: &'a str,
    /// Lines read.
    line: usize,
    restored: Restored,
}

/// What happens to the rows of a table.
enum Target {
    Table(String),
    /// Rows of `storage.objects`.
    Objects,
    Skipped,
}

impl Restore<'_> {
    async fn run(&mut self, dump: &mut (impl BufRead + Send)) -> Result<(), ProjectError> {
        let mut pending = String::new();
        let mut first_line = 1;
        let mut line = String::new();
        while self.read_line(dump, &mut line)? {
            // psql's own commands, which newer releases of pg_dump write.
            if pending.trim().is_empty() && line.starts_with('\\') {
                continue;
            }
            if pending.trim().is_empty() {
                pending.clear();
                first_line = self.line;
            }
            pending.push_str(&line);
            if is_copy(&line) {
                let rest = self.execute(&pending, first_line, true).await?;
                debug_assert!(rest.is_empty(), "everything was executed");
                pending.clear();
                self.copy(&line, dump).await?;
            } else if pending.len() >= CHUNK && line.trim_end().ends_with(';') {
                pending = self.execute(&pending, first_line, false).await?;
                first_line = (self.line + 1).saturating_sub(pending.lines().count());
                if pending.len() > MAX_STATEMENT {
                    return Err(self.unreadable("a statement is larger than 256 MiB"));
                }
            }
        }
        self.execute(&pending, first_line, true).await?;
        Ok(())
    }

    fn read_line(&mut self, dump: &mut impl BufRead, line: &mut String) -> Result<bool, ProjectError> {
        line.clear();
        let read = dump.read_line(line).map_err(|error| self.unreadable(&error.to_string()))?;
        self.line += 1;
        Ok(read > 0)
    }

    fn unreadable(&self, problem: &str) -> ProjectError {
        ProjectError::Read {
            file: format!("{}, line {}", self.name, self.line),
            source: io::Error::other(problem.to_owned()),
        }
    }

    /// Executes the statements. Returns the last one instead if it may be incomplete.
    async fn execute(
        &mut self,
        sql: &str,
        first_line: usize,
        is_complete: bool,
    ) -> Result<String, ProjectError> {
        for statement in &split(sql) {
            if !is_complete && !statement.is_terminated {
                return Ok(statement.text.to_owned());
            }
            let line = first_line + statement.line - 1;
            let [first, second, third] = statement.first_words();
            match (first.as_str(), second.as_str(), third.as_str()) {
                ("insert", "into", _) => self.insert(statement.text, line).await?,
                ("select", "pg_catalog", "setval") | ("select", "setval", _) => {
                    self.execute_one(statement.text, line).await?;
                }
                ("copy", ..) if is_copy(statement.text) => {}
                // Settings of the dump's session: ours are set already.
                ("set", ..) | ("select", "pg_catalog", "set_config") => {}
                _ => self.restored.ignored_statements += 1,
            }
        }
        Ok(String::new())
    }

    async fn insert(&mut self, text: &str, line: usize) -> Result<(), ProjectError> {
        let Some((table, end)) = target_of(text, "into") else {
            return self.execute_one(text, line).await.map(|_| ());
        };
        let rest = text.get(end..).unwrap_or_default();
        match self.target(&table).await? {
            Target::Skipped => {}
            Target::Table(name) => {
                // The dump may contain a conflict clause; a second one is a syntax error.
                let clause = if text.to_ascii_lowercase().contains("on conflict") {
                    ""
                } else {
                    " on conflict do nothing"
                };
                let rows = self.execute_one(&format!("{text}{clause}"), line).await?;
                *self.restored.rows.entry(name).or_default() += rows;
            }
            Target::Objects => {
                self.begin_objects().await?;
                self.execute_one(&format!("insert into pg_temp.restored_objects{rest}"), line).await?;
                self.end_objects().await?;
            }
        }
        Ok(())
    }

    /// Loads a COPY block through a temporary table, so that existing rows are no error.
    async fn copy(&mut self, command: &str, dump: &mut (impl BufRead + Send)) -> Result<(), ProjectError> {
        let line = self.line;
        let target = match target_of(command, "copy") {
            Some((table, end)) => Some((self.target(&table).await?, end)),
            None => None,
        };
        let Some((target, end)) = target else {
            return Err(self.unreadable("COPY without a table"));
        };
        let columns = command.get(end..).unwrap_or_default();
        let columns = columns.rsplit_once(')').map_or("", |(columns, _)| columns.trim_start()).to_owned();
        let columns = if columns.is_empty() { columns } else { format!("{columns})") };
        let temporary = match &target {
            Target::Skipped => return self.skip_block(dump),
            Target::Table(name) => {
                let create = format!(
                    "create temp table restored_rows on commit drop as select * from {name} with no data"
                );
                self.execute_one(&create, line).await?;
                "restored_rows"
            }
            Target::Objects => {
                self.begin_objects().await?;
                "restored_objects"
            }
        };
        let copy = format!("copy pg_temp.{temporary} {columns} from stdin");
        self.copy_block(&copy, line, dump).await?;
        match target {
            Target::Table(name) => {
                let list = if columns.is_empty() {
                    "*".to_owned()
                } else {
                    columns.trim_matches(['(', ')']).to_owned()
                };
                let insert = format!(
                    "insert into {name} {columns} overriding system value select {list} from pg_temp.restored_rows
                     on conflict do nothing"
                );
                let rows = self.execute_one(&insert, line).await?;
                *self.restored.rows.entry(name).or_default() += rows;
                self.execute_one("drop table pg_temp.restored_rows", line).await?;
            }
            Target::Objects => self.end_objects().await?,
            Target::Skipped => {}
        }
        Ok(())
    }

    async fn copy_block(
        &mut self,
        copy: &str,
        line: usize,
        dump: &mut (impl BufRead + Send),
    ) -> Result<(), ProjectError> {
        let sink: CopyInSink<Bytes> =
            self.transaction.copy_in(copy).await.map_err(|error| self.failure(line, error))?;
        let mut sink = Box::pin(sink);
        let mut message = Vec::with_capacity(COPY_MESSAGE + 4096);
        let mut row = String::new();
        loop {
            if !self.read_line(dump, &mut row)? {
                return Err(self.unreadable("the dump ends inside a COPY block"));
            }
            if row.trim_end() == "\\." {
                break;
            }
            message.extend_from_slice(row.as_bytes());
            if message.len() >= COPY_MESSAGE {
                let full = std::mem::take(&mut message);
                sink.send(Bytes::from(full)).await.map_err(|error| self.failure(line, error))?;
            }
        }
        sink.send(Bytes::from(message)).await.map_err(|error| self.failure(line, error))?;
        sink.close().await.map_err(|error| self.failure(line, error))?;
        Ok(())
    }

    fn skip_block(&mut self, dump: &mut impl BufRead) -> Result<(), ProjectError> {
        let mut row = String::new();
        while self.read_line(dump, &mut row)? {
            if row.trim_end() == "\\." {
                break;
            }
        }
        Ok(())
    }

    async fn target(&mut self, table: &str) -> Result<Target, ProjectError> {
        const NAME: &str = "
            select n.nspname || '.' || c.relname, pg_catalog.format('%I.%I', n.nspname, c.relname)
            from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where c.oid = pg_catalog.to_regclass($1)";
        let skip = |restored: &mut Restored, reason| {
            restored.skipped.insert(table.to_owned(), reason);
            Ok(Target::Skipped)
        };
        let Some(row) = self.transaction.query_opt(NAME, &[&table]).await? else {
            return skip(&mut self.restored, "this database has no such table");
        };
        let (plain, quoted): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        if INSTALLED.contains(&plain.as_str()) {
            return skip(&mut self.restored, "it lists what the other server had installed");
        }
        Ok(if plain == OBJECTS { Target::Objects } else { Target::Table(quoted) })
    }

    async fn begin_objects(&self) -> Result<(), ProjectError> {
        // Without the generated column, which a dump does not contain either.
        const CREATE: &str = "
            create temp table if not exists restored_objects on commit drop as select * from storage.objects with no data;
            truncate pg_temp.restored_objects";
        Ok(self.transaction.batch_execute(CREATE).await?)
    }

    async fn end_objects(&mut self) -> Result<(), ProjectError> {
        const UPDATE: &str = "
            update storage.objects o
            set owner = r.owner, owner_id = r.owner_id, created_at = r.created_at, updated_at = r.updated_at,
              last_accessed_at = r.last_accessed_at, user_metadata = r.user_metadata
            from pg_temp.restored_objects r where r.bucket_id = o.bucket_id and r.name = o.name";
        let rows = self.transaction.execute(UPDATE, &[]).await?;
        *self.restored.rows.entry(OBJECTS.to_owned()).or_default() += rows;
        Ok(())
    }

    async fn execute_one(&self, sql: &str, line: usize) -> Result<u64, ProjectError> {
        let executed = async {
            let mut rows = 0;
            for message in self.transaction.simple_query(sql).await? {
                if let tokio_postgres::SimpleQueryMessage::CommandComplete(count) = message {
                    rows += count;
                }
            }
            Ok::<_, tokio_postgres::Error>(rows)
        };
        executed.await.map_err(|error| self.failure(line, error))
    }

    fn failure(&self, line: usize, error: tokio_postgres::Error) -> ProjectError {
        match DriverError::from(error) {
            DriverError::Postgres(error) => ProjectError::Statement(Box::new(StatementError {
                file: self.name.to_owned(),
                line,
                statement: 1,
                error: *error,
            })),
            DriverError::Connection(text) => ProjectError::Connection(text),
        }
    }
}

/// `COPY public.notes (id, body) FROM stdin;`, as pg_dump writes it on one line.
fn is_copy(line: &str) -> bool {
    let line = line.trim_end().trim_end_matches(';').to_ascii_lowercase();
    line.starts_with("copy ") && line.ends_with(" from stdin")
}

/// The table after the keyword, as written, and the position after it.
fn target_of(statement: &str, keyword: &str) -> Option<(String, usize)> {
    let lower = statement.to_ascii_lowercase();
    let start = lower.find(keyword)? + keyword.len();
    let mut is_quoted = false;
    let mut end = None;
    let name_start = start + statement.get(start..)?.find(|c: char| !c.is_whitespace())?;
    for (at, character) in statement.get(name_start..)?.char_indices() {
        match character {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => {
                end = Some(name_start + at);
                break;
            }
            _ if character.is_whitespace() && !is_quoted => {
                end = Some(name_start + at);
                break;
            }
            _ => {}
        }
    }
    let end = end?;
    Some((statement.get(name_start..end)?.to_owned(), end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_table_of_a_statement() {
        let target = |text, keyword| target_of(text, keyword).map(|(table, _)| table);
        assert_eq!(
            target("INSERT INTO \"auth\".\"users\" (\"id\") VALUES (1)", "into").as_deref(),
            Some("\"auth\".\"users\"")
        );
        assert_eq!(
            target("insert into public.notes(id) values (1)", "into").as_deref(),
            Some("public.notes")
        );
        assert_eq!(
            target("COPY public.\"odd (name\" (a, b) FROM stdin;", "copy").as_deref(),
            Some("public.\"odd (name\"")
        );
        assert_eq!(target("INSERT INTO", "into"), None);
    }

    #[test]
    fn recognises_copy_blocks() {
        assert!(is_copy("COPY public.t (a) FROM stdin;\n") && is_copy("copy t from stdin"));
        assert!(!is_copy("COPY t FROM '/x';") && !is_copy("-- COPY t FROM stdin;"));
    }
}
