//! Runs the statements of one file as role `postgres`.
//!
//! A file is one transaction, unless it contains COMMIT or ROLLBACK, or a statement that PostgreSQL refuses inside a transaction (`CREATE INDEX
//! CONCURRENTLY`): then it is several. On the hosted platform `postgres` may do much that PostgreSQL allows superusers only. Therefore the
//! role is a superuser inside each of these transactions (DESIGN section 12): the attribute is taken back before each COMMIT, no other session
//! ever sees it, and a crash rolls it back. A file of several transactions notes its progress in each of them, and continues there after a kill.

use basalt_core::convert::saturating;
use basalt_pg::pg_error::DriverError;
use basalt_pg::system_migrations::line_of;
use tokio_postgres::Client;

use super::{Failure, history};
use crate::error::{ProjectError, StatementError};
use crate::folder::File;
use crate::split::{Statement, split};

/// As whom the files of a project run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Actor {
    /// `postgres`, a superuser for the duration of each transaction.
    Elevated,
    /// The owner of the project's objects, with the rights that it has: an external database without superuser, or `postgres` is one anyway.
    Owner,
}

impl Actor {
    pub(super) async fn read(client: &Client) -> Result<Self, ProjectError> {
        const CAN_ELEVATE: &str = "
            select me.rolsuper and me.rolname <> 'postgres' and not owner.rolsuper
            from pg_catalog.pg_roles me, pg_catalog.pg_roles owner
            where me.rolname = current_user and owner.rolname = 'postgres'";
        let row = client.query_opt(CAN_ELEVATE, &[]).await?;
        let can_elevate = row.map(|row| row.try_get(0)).transpose()?.unwrap_or(false);
        Ok(if can_elevate { Self::Elevated } else { Self::Owner })
    }

    /// Begins a transaction with the search path that Supabase gives the role. The lock on `pg_authid` is needed because files of two
    /// databases of one cluster would otherwise change the role's row concurrently.
    /// `isolation` is a level other than the database's default.
    fn begin(self, isolation: Option<&str>) -> String {
        let rights = match self {
            Self::Elevated => {
                "lock table pg_catalog.pg_authid in share row exclusive mode; alter role postgres superuser;
                 set session authorization postgres; set statement_timeout = 0; set search_path = \"$user\", public, extensions"
            }
            Self::Owner => {
                "select pg_catalog.set_config('role', basalt.project_owner()::text, false);
                 set statement_timeout = 0; set search_path = \"$user\", public, extensions"
            }
        };
        let level = isolation.map(|level| format!(" isolation level {level}")).unwrap_or_default();
        format!("begin{level}; {rights}")
    }

    /// Becomes the connection's own role again, inside the transaction.
    const fn step_down(self) -> &'static str {
        match self {
            Self::Elevated => "reset role; reset session authorization; alter role postgres nosuperuser",
            Self::Owner => "reset role; reset session authorization",
        }
    }

    /// Outside a transaction, without the rights of a superuser.
    const fn act_plainly(self) -> &'static str {
        match self {
            Self::Elevated => "set session authorization postgres",
            Self::Owner => "select pg_catalog.set_config('role', basalt.project_owner()::text, false)",
        }
    }
}

/// What a file did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The statements, for the history.
    pub(super) statements: Vec<String>,
    /// Statements that were left out, with the reason.
    pub(super) left_out: Vec<String>,
}

/// Runs the file. On success the transaction is still open, and the connection has its own role again, so that the caller can record the file and
/// commit. On failure the transaction has been rolled back.
pub(super) async fn run(client: &Client, actor: Actor, file: &File) -> Result<Outcome, Failure> {
    let mut script = Script {
        client,
        actor,
        file,
        outcome: Outcome::default(),
        done: 0,
        is_resumed: false,
        is_partial: false,
        is_untouched: false,
    };
    match script.run().await {
        Ok(()) => Ok(script.outcome),
        Err(error) => {
            let is_partial = script.is_partial;
            // The statement may have run outside a transaction, which does not restore the role.
            let _failed_connection =
                client.batch_execute("rollback; reset role; reset session authorization").await;
            Err(Failure { error, is_partial })
        }
    }
}

struct Script<'a> {
    client: &'a Client,
    actor: Actor,
    file: &'a File,
    outcome: Outcome,
    /// Statements that an earlier run has committed.
    done: usize,
    /// Whether an earlier run did not finish the file.
    is_resumed: bool,
    is_partial: bool,
    /// Whether no statement of the file has run in the current transaction.
    is_untouched: bool,
}

impl Script<'_> {
    async fn run(&mut self) -> Result<(), ProjectError> {
        let file = self.file;
        let statements = split(&file.sql);
        for statement in &statements {
            if let Step::Refused(reason) = Step::from_statement(statement) {
                return Err(ProjectError::Refused { file: file.path.clone(), line: statement.line, reason });
            }
        }
        // Undo session settings of the previous file.
        self.client.batch_execute("reset role; reset session authorization; reset all").await?;
        if statements
            .iter()
            .any(|statement| matches!(Step::from_statement(statement), Step::Commit | Step::Alone))
        {
            let progress = self.client.query_opt(history::PROGRESS, &[&file.path, &file.sha256]).await?;
            if let Some(row) = progress {
                self.done = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0);
                self.is_resumed = true;
                self.is_partial = self.done > 0;
            }
        }
        self.begin(None).await?;
        for (index, statement) in statements.iter().enumerate().skip(self.done) {
            self.step(index, statement).await?;
        }
        // Deferred constraints are checked now, so that an error can be attributed to this file.
        let last = Statement { text: "", line: file.sql.trim_end().lines().count(), is_terminated: true };
        self.execute(statements.len(), &last, "set constraints all immediate").await?;
        self.client.batch_execute(self.actor.step_down()).await?;
        self.outcome.statements = statements.iter().map(|statement| statement.text.to_owned()).collect();
        Ok(())
    }

    async fn begin(&mut self, isolation: Option<&str>) -> Result<(), ProjectError> {
        self.client.batch_execute(&self.actor.begin(isolation)).await?;
        self.is_untouched = true;
        Ok(())
    }

    async fn step(&mut self, index: usize, statement: &Statement<'_>) -> Result<(), ProjectError> {
        let step = Step::from_statement(statement);
        let was_untouched = self.is_untouched;
        self.is_untouched &= matches!(step, Step::NoEffect | Step::LeftOut(_));
        match step {
            // Only the first statement of a transaction can set its level, and our own have run.
            Step::Isolation(level) if was_untouched => {
                self.client.batch_execute("rollback").await?;
                self.begin(Some(level)).await
            }
            Step::Plain | Step::Isolation(_) => self.execute(index + 1, statement, statement.text).await,
            Step::Commit => {
                self.client.batch_execute(self.actor.step_down()).await?;
                self.save_progress(index + 1).await?;
                self.execute(index + 1, statement, statement.text).await?;
                self.is_partial = true;
                self.begin(None).await
            }
            Step::Rollback => {
                self.execute(index + 1, statement, statement.text).await?;
                self.begin(None).await
            }
            Step::Alone => {
                self.client.batch_execute(self.actor.step_down()).await?;
                self.save_progress(index).await?;
                self.client.batch_execute("commit").await?;
                self.client.batch_execute(self.actor.act_plainly()).await?;
                self.is_partial |= index > 0;
                self.execute_alone(index, statement).await?;
                self.is_partial = true;
                self.client.batch_execute("reset role; reset session authorization").await?;
                self.save_progress(index + 1).await?;
                self.begin(None).await
            }
            Step::CreateExtension if self.is_installed(statement).await? => {
                self.leave_out(statement, "the extension is installed already");
                Ok(())
            }
            Step::CreateExtension => self.execute(index + 1, statement, statement.text).await,
            Step::LeftOut(reason) => {
                self.leave_out(statement, reason);
                Ok(())
            }
            Step::NoEffect | Step::Refused(_) => Ok(()),
        }
    }

    fn leave_out(&mut self, statement: &Statement<'_>, reason: &str) {
        let Self { file, outcome, .. } = self;
        outcome.left_out.push(format!("{}, line {}: {reason}", file.path, statement.line));
    }

    /// Whether the extension of a CREATE EXTENSION exists. Every project has some of them from the start, and which ones differs between
    /// the hosted platform and its local stack.
    async fn is_installed(&self, statement: &Statement<'_>) -> Result<bool, ProjectError> {
        const INSTALLED: &str =
            "select exists (select from pg_catalog.pg_extension where extname::text = $1)";
        let Some(name) = extension_name(statement.text) else { return Ok(false) };
        Ok(self.client.query_one(INSTALLED, &[&name]).await?.try_get(0)?)
    }

    async fn save_progress(&self, statements: usize) -> Result<(), ProjectError> {
        let File { path, sha256, .. } = self.file;
        let statements = saturating::<i32>(statements);
        self.client.execute(history::SAVE_PROGRESS, &[path, sha256, &statements]).await?;
        Ok(())
    }

    /// Executes a statement outside a transaction. If an earlier run was killed here, the statement may have done its work already, or left an
    /// invalid index behind.
    async fn execute_alone(&self, index: usize, statement: &Statement<'_>) -> Result<(), ProjectError> {
        const DUPLICATE: &str = "42P07";
        const MISSING: &str = "42704";
        const DROP_INVALID: &str = "
            select pg_catalog.format('drop index %I.%I', n.nspname, c.relname)
            from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
            join pg_catalog.pg_namespace n on n.oid = c.relnamespace
            where not i.indisvalid and pg_catalog.pg_has_role(c.relowner, 'usage')";
        let run = || self.execute(index + 1, statement, statement.text);
        let code = |result: &Result<(), ProjectError>| match result {
            Err(ProjectError::Statement(error)) => error.error.code.clone(),
            _ => String::new(),
        };
        let mut result = run().await;
        if self.is_resumed && index == self.done && code(&result) == DUPLICATE {
            for row in self.client.query(DROP_INVALID, &[]).await? {
                self.client.batch_execute(row.try_get(0)?).await?;
            }
            result = run().await;
        }
        let was_done =
            self.is_resumed && index == self.done && [DUPLICATE, MISSING].contains(&code(&result).as_str());
        if was_done { Ok(()) } else { result }
    }

    async fn execute(
        &self,
        number: usize,
        statement: &Statement<'_>,
        text: &str,
    ) -> Result<(), ProjectError> {
        self.client.batch_execute(text).await.map_err(|error| match DriverError::from(error) {
            DriverError::Postgres(error) => ProjectError::Statement(Box::new(StatementError {
                file: self.file.path.clone(),
                line: statement.line + line_of(statement.text, error.position) - 1,
                statement: number,
                error: *error,
            })),
            DriverError::Connection(text) => ProjectError::Connection(text),
        })
    }
}

/// What a statement does to the file's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It does not change the transaction.
    Plain,
    /// BEGIN or SET TRANSACTION with this isolation level.
    Isolation(&'static str),
    Commit,
    Rollback,
    /// It cannot run inside a transaction.
    Alone,
    /// CREATE EXTENSION without IF NOT EXISTS.
    CreateExtension,
    /// It is not executed and need not be: BEGIN inside a transaction, psql's protection of dumps.
    NoEffect,
    /// It is not executed, for this reason.
    LeftOut(&'static str),
    /// The file cannot run, for this reason.
    Refused(&'static str),
}

impl Step {
    fn from_statement(statement: &Statement<'_>) -> Self {
        if statement.text.starts_with("\\restrict ") || statement.text.starts_with("\\unrestrict ") {
            return Self::NoEffect;
        }
        let words = statement.first_words::<5>();
        let words: [&str; 5] = words.each_ref().map(String::as_str);
        match words {
            ["prepare", "transaction", ..] | ["commit" | "rollback", "prepared", ..] => {
                Self::Refused("prepared transactions are not supported: use COMMIT")
            }
            ["rollback" | "abort", rest @ ..] => {
                // `rollback to savepoint s`, `rollback work to s`
                if rest.iter().take(2).any(|word| *word == "to") { Self::Plain } else { Self::Rollback }
            }
            ["commit" | "end", ..] => Self::Commit,
            ["begin" | "start", ..] => isolation_level(&words).map_or(Self::NoEffect, Self::Isolation),
            ["set", "transaction", ..] => isolation_level(&words).map_or(Self::Plain, Self::Isolation),
            ["copy", ..] if is_client_copy(statement.text) => {
                Self::Refused("COPY from or to the client is not supported: use INSERT")
            }
            ["alter", "system", ..] => {
                Self::LeftOut("ALTER SYSTEM changes the whole server, which belongs to Basalt; left out")
            }
            ["create", "extension", name, ..] if name != "if" => Self::CreateExtension,
            ["alter", "role" | "user" | "database", ..] if preloads_library(statement.text) => {
                Self::LeftOut("the library does not exist here, and no login would be accepted; left out")
            }
            ["vacuum", ..] | ["create" | "drop", "database" | "tablespace", ..] => Self::Alone,
            ["create" | "drop", "index", "concurrently", ..]
            | ["create", "unique", "index", "concurrently", ..] => Self::Alone,
            ["reindex", rest @ ..] if rest.contains(&"concurrently") => Self::Alone,
            _ => Self::Plain,
        }
    }
}

/// The level after ISOLATION LEVEL.
fn isolation_level(words: &[&str]) -> Option<&'static str> {
    let after = words.iter().skip_while(|word| **word != "level").nth(1)?;
    match *after {
        "serializable" => Some("serializable"),
        "repeatable" => Some("repeatable read"),
        // Committed or uncommitted, which are the same in PostgreSQL.
        "read" => Some("read committed"),
        _ => None,
    }
}

/// Whether an ALTER ROLE or ALTER DATABASE sets libraries that are loaded at each login, as dumps of the hosted platform's roles do
/// (`safeupdate`).
fn preloads_library(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let setting = ["session_preload_libraries", "local_preload_libraries"];
    setting
        .iter()
        .any(|name| text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *name))
        && !text.contains(" reset ")
}

/// The name in CREATE EXTENSION, as the catalog has it.
pub(super) fn extension_name(text: &str) -> Option<String> {
    const KEYWORD: &str = "extension";
    let lower = text.to_ascii_lowercase();
    let after = lower.find(KEYWORD)? + KEYWORD.len();
    let condition = ["if", "not", "exists"];
    let mut rest = text.get(after..)?.trim_start();
    for word in condition {
        let Some((first, others)) = rest.split_once(char::is_whitespace) else { break };
        if first.eq_ignore_ascii_case(word) {
            rest = others.trim_start();
        }
    }
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0.to_owned(),
        None => rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_lowercase(),
    };
    (!name.is_empty()).then_some(name)
}

fn is_client_copy(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut words = text.split_whitespace();
    let mut previous = "";
    words.any(|word| {
        let word = word.trim_end_matches(';');
        let is_client = matches!((previous, word), ("from", "stdin") | ("to", "stdout"));
        previous = word;
        is_client
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(sql: &str) -> Step {
        Step::from_statement(split(sql).first().unwrap())
    }

    #[test]
    fn names_of_extensions_are_read() {
        for (sql, name) in [
            ("create extension http", "http"),
            ("CREATE  EXTENSION\n PG_Net with schema x", "pg_net"),
            ("create extension \"uuid-ossp\"", "uuid-ossp"),
            ("create extension if not\texists \"pg_net\" with schema \"extensions\"", "pg_net"),
            ("create extension if not exists vector", "vector"),
        ] {
            assert_eq!(extension_name(sql).as_deref(), Some(name), "{sql}");
        }
        assert_eq!(extension_name("create extension"), None);
    }

    #[test]
    fn statements_are_told_apart_by_their_first_words() {
        for sql in ["begin", "START TRANSACTION", "begin read only"] {
            assert_eq!(step(sql), Step::NoEffect, "{sql}");
        }
        for (sql, level) in [
            ("begin isolation level serializable", "serializable"),
            ("START TRANSACTION ISOLATION LEVEL Repeatable Read, read write", "repeatable read"),
            ("set transaction isolation level read committed", "read committed"),
        ] {
            assert_eq!(step(sql), Step::Isolation(level), "{sql}");
        }
        for sql in [
            "set transaction read write",
            "rollback to s",
            "rollback work to savepoint s",
            "savepoint s",
            "analyze t",
            "refresh materialized view concurrently v",
            "copy t from '/x'",
            "create index concurrently_i on t (a)",
        ] {
            assert_eq!(step(sql), Step::Plain, "{sql}");
        }
        for sql in ["COMMIT", "end", "commit and chain"] {
            assert_eq!(step(sql), Step::Commit, "{sql}");
        }
        for sql in ["rollback", "ABORT work"] {
            assert_eq!(step(sql), Step::Rollback, "{sql}");
        }
        for sql in [
            "create index concurrently i on t (a)",
            "CREATE UNIQUE INDEX CONCURRENTLY i on t (a)",
            "drop index concurrently i",
            "vacuum (analyze) t",
            "reindex (verbose) index concurrently i",
        ] {
            assert_eq!(step(sql), Step::Alone, "{sql}");
        }
        for sql in ["copy t from stdin", "COPY t TO STDOUT", "prepare transaction 'x'", "commit prepared 'x'"]
        {
            assert!(matches!(step(sql), Step::Refused(_)), "{sql}");
        }
        for sql in ["create extension http", "CREATE EXTENSION \"uuid-ossp\" with schema x"] {
            assert_eq!(step(sql), Step::CreateExtension, "{sql}");
        }
        assert_eq!(step("create extension if not exists http"), Step::Plain);
        assert_eq!(step("\\restrict abc\nselect 1;"), Step::NoEffect);
        for sql in [
            "ALTER ROLE authenticator SET session_preload_libraries TO 'safeupdate'",
            "alter role \"authenticator\" in database postgres set \"session_preload_libraries\" = 'supautils, safeupdate'",
        ] {
            assert!(matches!(step(sql), Step::LeftOut(_)), "{sql}");
        }
        assert_eq!(step("alter role authenticator reset session_preload_libraries"), Step::Plain);
        assert_eq!(step("alter role authenticator set statement_timeout = '8s'"), Step::Plain);
        assert!(matches!(step("alter system set work_mem = '1GB'"), Step::LeftOut(_)));
    }
}
