//! The dump of an external PostgreSQL, by its `pg_dump`.

use std::path::PathBuf;
use std::process::Stdio;

use bytes::BytesMut;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use crate::error::BackupError;
use crate::manifest::{DatabaseKind, DatabasePart, StoredFile};
use crate::target::Target;

const FILE: &str = "database.dump";
const CHUNK_BYTES: usize = 256 << 10;
/// Most of the program's messages that an error quotes.
const MESSAGE_BYTES: u64 = 4096;

/// How to dump the database.
#[derive(Clone, Debug)]
pub struct Dump {
    /// `pg_dump`, at least as new as the server.
    pub program: PathBuf,
    /// The database's URL without its password.
    pub url: String,
    /// The password, passed in the environment: other users can read command lines.
    pub password: Option<SecretString>,
}

impl Dump {
    pub(crate) async fn copy(&self, target: &Target, set: &str) -> Result<DatabasePart, BackupError> {
        let failed = |source| BackupError::file("run", &self.program, source);
        let mut command = Command::new(&self.program);
        command.args(["--format=custom", "--no-password", "--dbname", &self.url]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(password) = &self.password {
            command.env("PGPASSWORD", password.expose_secret());
        }
        let mut child = command.spawn().map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let messages = tokio::spawn(async move {
            let mut text = Vec::new();
            if let Some(mut stderr) = stderr {
                let _read = (&mut stderr).take(MESSAGE_BYTES).read_to_end(&mut text).await;
                // The program blocks if nobody reads the rest.
                let _rest = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            }
            String::from_utf8_lossy(&text).trim().to_owned()
        });
        let mut upload = target.upload(&format!("sets/{set}/{FILE}")).await?;
        if let Some(mut stdout) = stdout {
            loop {
                let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
                if stdout.read_buf(&mut chunk).await.map_err(failed)? == 0 {
                    break;
                }
                upload.write(chunk.freeze()).await?;
            }
        }
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            upload.abort().await;
            return Err(BackupError::Failed(format!("pg_dump failed ({status}): {}", messages.await?)));
        }
        let (size, sha256) = upload.finish().await?;
        Ok(DatabasePart {
            kind: DatabaseKind::Dump,
            file: StoredFile { name: FILE.to_owned(), size, sha256 },
            system_identifier: String::new(),
            start_lsn: String::new(),
            end_lsn: String::new(),
            timeline: 0,
            chain: None,
        })
    }
}
