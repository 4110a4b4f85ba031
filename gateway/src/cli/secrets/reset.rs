//! `basalt secrets reset`: new secrets for an embedded database whose secrets are lost. Does nothing if the current secrets match.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use basalt_postgres::{Embedded, EmbeddedError};
use tokio_postgres::Client;

use crate::banner::Console;
use crate::config::Config;
use crate::database_setup::{self, SetupError};
use crate::secrets::Secrets;

/// Deleted entries that were encrypted with the lost master key.
#[derive(Debug, Default)]
struct Unreadable {
    /// Names of function secrets.
    secrets: Vec<String>,
    signing_keys: u64,
    mails: u64,
}

/// Runs `basalt secrets reset`.
pub(super) async fn run(config: &Config) -> anyhow::Result<()> {
    if !config.is_embedded() {
        anyhow::bail!(
            "`basalt secrets reset` requires the embedded PostgreSQL. With database.url, copy the other servers' secrets to this server; if \
             they were changed on purpose, run: update basalt.instance set fingerprint = null"
        );
    }
    let (state_dir, data_dir) = (&config.server.state_dir, &config.database.data_dir);
    if !Embedded::has_cluster(state_dir, data_dir) {
        anyhow::bail!("there is no database in {} yet: the first start creates it", data_dir.display());
    }
    let secrets = Secrets::load_or_generate(config)?;
    let console = Console::new(false);
    let progress = |line: &str| console.progress(line);
    let prepared = Box::pin(database_setup::prepare_for_reset(config, &secrets, progress)).await;
    let (databases, mut client, is_password_reset) = match prepared {
        Ok((databases, client)) => (databases, client, false),
        Err(SetupError::Embedded(EmbeddedError::OtherPassword { .. })) => {
            let embedded = database_setup::embedded_config(config, &secrets);
            Embedded::reset_password(embedded, progress).await?;
            let prepared = Box::pin(database_setup::prepare_for_reset(config, &secrets, progress)).await;
            let (databases, client) = prepared?;
            (databases, client, true)
        }
        Err(error) => return Err(error.into()),
    };
    let claimed = claim(&mut client, &secrets, is_password_reset).await;
    drop(client);
    if let Some(embedded) = &databases.embedded {
        embedded.stop().await;
    }
    io::stdout().write_all(report(claimed?).as_bytes())?;
    Ok(())
}

/// Deletes unreadable entries and stores the new fingerprint, in one transaction. `None` if the current secrets match.
async fn claim(
    client: &mut Client,
    secrets: &Secrets,
    is_password_reset: bool,
) -> anyhow::Result<Option<Unreadable>> {
    const SECRETS: &str = "delete from functions.runtime_secrets returning name";
    // Keep revoked rows: they prevent a configured key from being accepted again.
    const SIGNING_KEYS: &str = "delete from basalt.signing_keys where status <> 'revoked'";
    const MAILS: &str = "delete from basalt.mail_outbox where state <> 'sent'";
    let tx = client.transaction().await?;
    let differences = secrets.differences_in(&tx).await?;
    let is_master_key_lost = is_password_reset || differences.iter().any(|name| name == "master key");
    if differences.is_empty() && !is_master_key_lost {
        return Ok(None);
    }
    let mut unreadable = Unreadable::default();
    if is_master_key_lost {
        let rows = tx.query(SECRETS, &[]).await?;
        unreadable.secrets = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        unreadable.secrets.sort();
        unreadable.signing_keys = tx.execute(SIGNING_KEYS, &[]).await?;
        unreadable.mails = tx.execute(MAILS, &[]).await?;
    }
    secrets.claim(&tx).await?;
    tx.commit().await?;
    Ok(Some(unreadable))
}

fn report(claimed: Option<Unreadable>) -> String {
    let Some(Unreadable { secrets, signing_keys, mails }) = claimed else {
        return "the secrets match the database; nothing was changed\n".to_owned();
    };
    let mut text = "the database has new secrets. No longer valid:\n\
                    - the API keys that the project started with: `basalt keys` prints the new ones\n\
                    - access tokens and signed URLs; apps renew their sessions once they have the new key\n"
        .to_owned();
    // Writing to a string cannot fail.
    if !secrets.is_empty() {
        let _written = writeln!(text, "- function secrets; set them again: {}", secrets.join(", "));
    }
    if signing_keys > 0 {
        let _written = writeln!(text, "- signing keys created with `basalt keys`: {signing_keys}");
    }
    if mails > 0 {
        let _written = writeln!(text, "- stored mails that were not sent: {mails}");
    }
    text.push_str(
        "Unchanged: accounts, sessions, rows, objects, and API keys created with `basalt keys`, which can no longer be shown.\n",
    );
    text
}
