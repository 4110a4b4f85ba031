//! Logical dumps, made and loaded by PostgreSQL's client programs: backups of an external PostgreSQL, and moves to another major version.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytes::{Bytes, BytesMut};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

use crate::error::BackupError;
use crate::manifest::{DatabaseKind, DatabasePart, Manifest, Sha256, StoredFile};
use crate::target::Target;

const FILE: &str = "database.dump";
const ROLES: &str = "roles.sql";
const CHUNK_BYTES: usize = 256 << 10;
/// Most of the program's messages that an error quotes.
const MESSAGE_BYTES: u64 = 4096;
/// Longest script of roles, or of database settings.
const MAX_SCRIPT_BYTES: usize = 16 << 20;

/// Connection parameters for a client program.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The database's URL without its password.
    pub url: String,
    /// The password, passed in the environment: other users can read command lines.
    pub password: Option<SecretString>,
}

impl Connection {
    /// A command that connects to this database, with piped output.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["--no-password", "--dbname", &self.url]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password.expose_secret());
        }
        command
    }
}

/// How to dump the database. The programs are at least as new as the server.
#[derive(Clone, Debug)]
pub struct Dump {
    /// `pg_dump`.
    pub pg_dump: PathBuf,
    /// `pg_dumpall`, for the roles, which do not belong to one database.
    pub pg_dumpall: PathBuf,
    /// The database.
    pub database: Connection,
}

impl Dump {
    /// `client` is connected to the database.
    pub(crate) async fn copy(
        &self,
        target: &Target,
        set: &str,
        client: &Client,
    ) -> Result<DatabasePart, BackupError> {
        let roles = self.roles(target, set, client).await?;
        let mut command = self.database.command(&self.pg_dump);
        command.arg("--format=custom");
        let mut running = Running::start(&self.pg_dump, command)?;
        let mut upload = target.upload(&format!("sets/{set}/{FILE}")).await?;
        while let Some(chunk) = running.read().await? {
            upload.write(chunk).await?;
        }
        if let Err(error) = running.finish().await {
            upload.abort().await;
            return Err(error);
        }
        let (size, sha256) = upload.finish().await?;
        Ok(DatabasePart {
            kind: DatabaseKind::Dump,
            file: StoredFile { name: FILE.to_owned(), size, sha256 },
            roles: Some(roles),
            system_identifier: String::new(),
            start_lsn: String::new(),
            end_lsn: String::new(),
            timeline: 0,
            chain: None,
        })
    }

    /// Stores the roles. Their passwords are left out: managed services do not show them, and the target is not encrypted.
    async fn roles(&self, target: &Target, set: &str, client: &Client) -> Result<StoredFile, BackupError> {
        const FIRST_SUPERUSER: &str =
            "select pg_catalog.quote_ident(rolname) from pg_catalog.pg_roles where oid = 10";
        let superuser: String = client.query_one(FIRST_SUPERUSER, &[]).await?.try_get(0)?;
        let mut command = self.database.command(&self.pg_dumpall);
        command.args(["--roles-only", "--no-role-passwords"]);
        let mut running = Running::start(&self.pg_dumpall, command)?;
        let Some(script) = running.read_script().await? else {
            return Err(BackupError::Failed("the definitions of the roles exceed 16 MiB".to_owned()));
        };
        running.finish().await?;
        let script = Bytes::from(without_grantor(&String::from_utf8_lossy(&script), &superuser));
        let file =
            StoredFile { name: ROLES.to_owned(), size: script.len() as u64, sha256: Sha256::hex(&script) };
        target.put(&format!("sets/{set}/{ROLES}"), script).await?;
        Ok(file)
    }
}

/// A running client program.
struct Running {
    name: String,
    program: PathBuf,
    child: tokio::process::Child,
    stdout: Option<tokio::process::ChildStdout>,
    messages: JoinHandle<String>,
}

impl Running {
    fn start(program: &Path, mut command: Command) -> Result<Self, BackupError> {
        let mut child = command.spawn().map_err(|source| BackupError::file("run", program, source))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let messages = tokio::spawn(read_messages(stderr));
        Ok(Self { name, program: program.to_path_buf(), child, stdout, messages })
    }

    /// The next part of the output; `None` at its end.
    async fn read(&mut self) -> Result<Option<Bytes>, BackupError> {
        let Some(stdout) = &mut self.stdout else { return Ok(None) };
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        let read = stdout.read_buf(&mut chunk).await;
        let read = read.map_err(|source| BackupError::file("read the output of", &self.program, source))?;
        Ok((read > 0).then(|| chunk.freeze()))
    }

    /// The whole output; `None` if it is longer than [`MAX_SCRIPT_BYTES`].
    async fn read_script(&mut self) -> Result<Option<Bytes>, BackupError> {
        let mut script = BytesMut::new();
        while let Some(chunk) = self.read().await? {
            script.extend_from_slice(&chunk);
            if script.len() > MAX_SCRIPT_BYTES {
                return Ok(None);
            }
        }
        Ok(Some(script.freeze()))
    }

    /// Waits for the program's end; an error quotes its messages.
    async fn finish(mut self) -> Result<(), BackupError> {
        let status = self.child.wait().await;
        let status = status.map_err(|source| BackupError::file("run", &self.program, source))?;
        if status.success() {
            return Ok(());
        }
        Err(BackupError::Failed(format!("{} failed ({status}): {}", self.name, self.messages.await?)))
    }
}

async fn read_messages(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(mut stderr) = stderr {
        let _read = (&mut stderr).take(MESSAGE_BYTES).read_to_end(&mut text).await;
        // The program blocks unless the rest is read.
        let _rest = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// How to load a dump into the empty database of a new cluster.
#[derive(Clone, Debug)]
pub struct Load {
    /// `pg_restore`, at least as new as the `pg_dump` that made the dump.
    pub pg_restore: PathBuf,
    /// The database, with a login of the cluster's first superuser.
    pub database: Connection,
    /// A folder for the dump while it is being read.
    pub scratch: PathBuf,
}

impl Load {
    /// Creates the roles, then everything in the dump. `client` is connected with the same login.
    ///
    /// # Errors
    /// The backup is damaged or not a dump, or a statement failed.
    pub async fn run(
        &self,
        target: &Target,
        manifest: &Manifest,
        client: &Client,
    ) -> Result<(), BackupError> {
        if let Some(roles) = &manifest.database.roles {
            let script = target.get_file(&manifest.id, roles).await?;
            create_roles(client, &String::from_utf8_lossy(&script)).await?;
        }
        let file = self.scratch.join(FILE);
        target.fetch(&manifest.id, &manifest.database.file, &file).await?;
        let loaded = self.load(client, &file).await;
        let removed = tokio::fs::remove_file(&file).await;
        loaded?;
        removed.map_err(|source| BackupError::file("remove", &file, source))
    }

    async fn load(&self, client: &Client, file: &Path) -> Result<(), BackupError> {
        let mut command = self.database.command(&self.pg_restore);
        // A new cluster has no tablespaces.
        command.args(["--exit-on-error", "--no-tablespaces"]).arg(file);
        let mut running = Running::start(&self.pg_restore, command)?;
        while running.read().await?.is_some() {}
        running.finish().await?;
        client.batch_execute(&self.database_settings(file).await?).await?;
        // A dump contains no statistics, without which the planner chooses slow plans.
        Ok(client.batch_execute("analyze").await?)
    }

    /// Statements that apply the settings of the dumped database to the current one. `pg_restore` applies them only to a database that it
    /// creates.
    async fn database_settings(&self, file: &Path) -> Result<String, BackupError> {
        let mut list = Command::new(&self.pg_restore);
        list.args(["--list", "--create"]).arg(file);
        let contents = self.output(list).await?;
        let contents = String::from_utf8_lossy(&contents);
        let settings: Vec<&str> =
            contents.lines().filter(|line| line.contains(" DATABASE PROPERTIES ")).collect();
        if settings.is_empty() {
            return Ok(String::new());
        }
        let selection = file.with_extension("list");
        tokio::fs::write(&selection, settings.join("\n"))
            .await
            .map_err(|source| BackupError::file("write", &selection, source))?;
        let mut print = Command::new(&self.pg_restore);
        print.args(["--create", "--file=-", "--use-list"]).arg(&selection).arg(file);
        let script = self.output(print).await?;
        tokio::fs::remove_file(&selection)
            .await
            .map_err(|source| BackupError::file("remove", &selection, source))?;
        Ok(database_settings(&String::from_utf8_lossy(&script)))
    }

    /// The output of `pg_restore` about a file.
    async fn output(&self, mut command: Command) -> Result<Bytes, BackupError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut running = Running::start(&self.pg_restore, command)?;
        let Some(output) = running.read_script().await? else {
            return Err(BackupError::Failed("the dump's table of contents exceeds 16 MiB".to_owned()));
        };
        running.finish().await?;
        Ok(output)
    }
}

/// Runs the script of `pg_dumpall` in one transaction.
async fn create_roles(client: &Client, script: &str) -> Result<(), BackupError> {
    const ROLES: &str = "
        select 'CREATE ROLE ' || pg_catalog.quote_ident(rolname) || ';' from pg_catalog.pg_roles
        union all
        select 'ALTER ROLE ' || pg_catalog.quote_ident(current_user) || ' WITH '";
    let mut skipped = Vec::new();
    for row in client.query(ROLES, &[]).await? {
        skipped.push(row.try_get::<_, String>(0)?);
    }
    Ok(client.batch_execute(&without_lines(script, &skipped)).await?)
}

/// A script without psql's commands and without the lines that start with one of `skipped`.
fn without_lines(script: &str, skipped: &[String]) -> String {
    let is_command = |line: &str| line.starts_with("\\restrict ") || line.starts_with("\\unrestrict ");
    let lines = script.split_inclusive('\n');
    lines.filter(|line| !is_command(line) && !skipped.iter().any(|start| line.starts_with(start))).collect()
}

/// Removes the grantor from memberships that the cluster's first superuser granted. PostgreSQL accepts no other superuser as a grantor, and
/// in a new cluster this role can have another name.
fn without_grantor(script: &str, quoted_superuser: &str) -> String {
    let grantor = format!(" GRANTED BY {quoted_superuser};");
    let membership = |line: &str| {
        let granted = line.strip_suffix(&grantor).filter(|line| line.starts_with("GRANT "));
        granted.map_or_else(|| line.to_owned(), |granted| format!("{granted};"))
    };
    script.lines().map(|line| membership(line) + "\n").collect()
}

/// The statements of a script that change settings of its database (`ALTER DATABASE shop SET …`, `ALTER ROLE anon IN DATABASE shop SET …`),
/// for the current database, which is `postgres`.
fn database_settings(script: &str) -> String {
    let mut statements = String::new();
    let mut lines = script.split_inclusive('\n');
    while let Some(line) = lines.next() {
        let Some((role, setting)) = database_setting(line) else { continue };
        match role {
            Some(role) => {
                statements.push_str(&format!("alter role {role} in database postgres set {setting}"))
            }
            None => statements.push_str(&format!("alter database postgres set {setting}")),
        }
        // The rest of a value with line breaks.
        let mut quotes = setting.matches('\'').count();
        while !quotes.is_multiple_of(2)
            && let Some(line) = lines.next()
        {
            statements.push_str(line);
            quotes += line.matches('\'').count();
        }
    }
    statements
}

/// The role, if any, and the setting of a statement's first line.
fn database_setting(line: &str) -> Option<(Option<&str>, &str)> {
    let (role, rest) = match line.strip_prefix("ALTER DATABASE ") {
        Some(rest) => (None, rest),
        None => {
            let (role, rest) = line.strip_prefix("ALTER ROLE ")?.split_once(" IN DATABASE ")?;
            (Some(role), rest)
        }
    };
    let (_database, setting) = rest.split_once(" SET ")?;
    Some((role, setting))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_roles_and_psql_commands_are_skipped() {
        let script = "\\restrict x\nCREATE ROLE anon;\nCREATE ROLE anonymous;\nALTER ROLE anon WITH NOLOGIN;\nALTER ROLE admin WITH NOSUPERUSER;\n\
                      COMMENT ON ROLE anon IS 'two\nlines';\n\\unrestrict x\n";
        let skipped = ["CREATE ROLE anon;".to_owned(), "ALTER ROLE admin WITH ".to_owned()];
        assert_eq!(
            without_lines(script, &skipped),
            "CREATE ROLE anonymous;\nALTER ROLE anon WITH NOLOGIN;\nCOMMENT ON ROLE anon IS 'two\nlines';\n"
        );
    }

    #[test]
    fn first_superuser_is_not_named_as_grantor() {
        let script = "GRANT anon TO web WITH INHERIT FALSE GRANTED BY \"the owner\";\nGRANT web TO shop GRANTED BY anon;\n";
        assert_eq!(
            without_grantor(script, "\"the owner\""),
            "GRANT anon TO web WITH INHERIT FALSE;\nGRANT web TO shop GRANTED BY anon;\n"
        );
    }

    #[test]
    fn settings_of_the_dumped_database_apply_to_the_new_one() {
        let script = "ALTER DATABASE shop OWNER TO ada;\nALTER DATABASE shop SET \"app.url\" TO 'a SET b';\n\
                      ALTER DATABASE shop SET \"app.text\" TO 'it''s\ntwo lines';\nALTER ROLE anon IN DATABASE shop SET statement_timeout TO '1s';\n";
        assert_eq!(
            database_settings(script),
            "alter database postgres set \"app.url\" TO 'a SET b';\nalter database postgres set \"app.text\" TO 'it''s\ntwo lines';\n\
             alter role anon in database postgres set statement_timeout TO '1s';\n"
        );
    }
}
