//! SIGUSR1 and SIGUSR2 as PostgREST has them: the first reloads the schema cache, the second the configuration (file
//! and database). A configuration with faults is reported and the old one stays in force.
//!
//! What the second does not change, because it was used up at the start: addresses and ports, the database's login, the
//! pools. The variables are those the process was started with.

use std::io;
use std::sync::Arc;

use basalt_core::keys::{KeyError, Keys};
use basalt_rest::RestHandle;
use basalt_rest::config::RestConfig;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::{CommandLine, Config, ConfigErrors, Only};
use crate::secrets::{Secrets, SecretsError};

/// Both signals. From when it is made they no longer end the process.
pub(crate) struct Signals {
    schema: Signal,
    config: Signal,
}

/// Why the old configuration stays.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl Signals {
    /// Listens for them.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            schema: signal(SignalKind::user_defined1())?,
            config: signal(SignalKind::user_defined2())?,
        })
    }

    /// Does as they say, for ever. `keys` are those in force.
    pub(crate) async fn follow(mut self, rest: RestHandle, command_line: CommandLine, keys: Arc<Keys>) {
        loop {
            let reads_config = tokio::select! {
                heard = self.schema.recv() => heard.map(|()| false),
                heard = self.config.recv() => heard.map(|()| true),
            };
            match reads_config {
                None => return,
                Some(false) => rest.ask_reload(),
                Some(true) => match reread(&command_line, &keys) {
                    Ok((config, keys)) => {
                        tracing::info!("configuration read again");
                        rest.reconfigure(config, keys);
                    }
                    Err(problem) => tracing::error!("the configuration stays as it was: {problem}"),
                },
            }
        }
    }
}

/// The configuration as it is now, and its keys. Beside other services the keys stay: those sign with them.
fn reread(command_line: &CommandLine, keys: &Arc<Keys>) -> Result<(RestConfig, Arc<Keys>), Unusable> {
    let config = Config::load(command_line)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let keys = match config.only {
        Some(Only::Rest) => Arc::new(Keys::new(Secrets::load(&config)?.key_material())?),
        Some(Only::Auth | Only::Storage | Only::Realtime | Only::Functions) | None => Arc::clone(keys),
    };
    Ok((config.rest, keys))
}
