//! SIGUSR1 and SIGUSR2, as in PostgREST: SIGUSR1 reloads the schema cache, SIGUSR2 the configuration (file and database) and the
//! certificate. A faulty configuration is logged, and the old one stays in use. Under a service manager, SIGHUP does the same as
//! SIGUSR2 (`systemctl reload`); elsewhere it means that the terminal was closed, and ends the server.
//!
//! SIGUSR2 does not change addresses, ports, the database's login and the pools, nor the environment variables of the
//! process.

use std::io;
use std::sync::Arc;

use basalt_core::keys::{KeyError, Keys};
use basalt_rest::RestHandle;
use basalt_rest::config::RestConfig;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use crate::config::{CommandLine, Config, ConfigErrors, Only};
use crate::secrets::{Secrets, SecretsError};
use crate::service_manager;

/// Receives both signals; once created, they no longer end the process.
pub(crate) struct Signals {
    schema: Signal,
    config: Signal,
    hangup: Option<Signal>,
}

/// What a reload applies to.
pub(crate) struct Reloads {
    /// The REST service, if it runs.
    pub(crate) rest: Option<RestHandle>,
    /// Notifies what watches files.
    pub(crate) files: Arc<Notify>,
}

/// Why a reload failed.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error(transparent)]
    Secrets(#[from] SecretsError),
    #[error(transparent)]
    Keys(#[from] KeyError),
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system rejects a handler.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            schema: signal(SignalKind::user_defined1())?,
            config: signal(SignalKind::user_defined2())?,
            hangup: service_manager::is_present().then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Handles the signals until the server stops. `keys` are the current keys.
    pub(crate) async fn follow(self, reloads: Reloads, command_line: CommandLine, keys: Arc<Keys>) {
        let Self { mut schema, mut config, mut hangup } = self;
        loop {
            let hung_up = async {
                match &mut hangup {
                    Some(signal) => signal.recv().await,
                    None => std::future::pending().await,
                }
            };
            let reload_config = tokio::select! {
                signal = schema.recv() => signal.map(|()| false),
                signal = config.recv() => signal.map(|()| true),
                signal = hung_up => signal.map(|()| true),
            };
            match reload_config {
                None => return,
                Some(false) => {
                    if let Some(rest) = &reloads.rest {
                        rest.request_reload();
                    }
                }
                Some(true) => {
                    reloads.files.notify_one();
                    match reload(&command_line, &keys) {
                        Ok((config, keys)) => {
                            tracing::info!("configuration reloaded");
                            if let Some(rest) = &reloads.rest {
                                rest.reconfigure(config, keys);
                            }
                        }
                        Err(problem) => {
                            tracing::error!(
                                "cannot reload the configuration; keeping the current one: {problem}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Loads the configuration and its keys. If other services run, the keys stay unchanged, because those services sign with them.
fn reload(command_line: &CommandLine, keys: &Arc<Keys>) -> Result<(RestConfig, Arc<Keys>), ReloadError> {
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
