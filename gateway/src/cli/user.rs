//! `basalt user create`: how the first administrator comes to be, with or without a server running.

use std::io::{self, Write};

use basalt_core::clock::Clock;
use basalt_core::pool::{PoolConfig, ServicePool};
use basalt_core::random;
use clap::Args;

use crate::banner::Console;
use crate::config::Config;
use crate::database_setup::{self, Options, Seed};
use crate::secrets::Secrets;

/// What to create.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// E-mail address of the account.
    email: String,
    /// Its password; one is made up and printed when this is left out.
    #[arg(long)]
    password: Option<String>,
    /// Makes it an administrator of the site.
    #[arg(long)]
    admin: bool,
}

/// Creates the account in the running server's database, or starts PostgreSQL for the moment.
pub(super) async fn create(config: &Config, create: &Create) -> anyhow::Result<()> {
    let secrets = Secrets::load(config)?;
    let console = Console::new(false);
    let (databases, admin) = match database_setup::running(config, &secrets) {
        Some(admin) => (None, admin),
        None => {
            let options = Options { seed: Seed::No };
            let prepared =
                database_setup::prepare(config, &secrets, &options, |line| console.progress(line)).await?;
            let admin = prepared.admin.clone();
            (Some(prepared), admin)
        }
    };
    let generated = create.password.is_none();
    let password = create.password.clone().unwrap_or_else(|| random::token(20));
    let pool = ServicePool::new(admin, PoolConfig::new("cli", 1));
    let account =
        basalt_auth::NewAccount { email: &create.email, password: &password, is_admin: create.admin };
    let created = basalt_auth::create_user(&config.auth, &pool, &Clock::system(), &account).await;
    pool.close();
    if let Some(embedded) = databases.and_then(|databases| databases.embedded) {
        embedded.stop().await;
    }
    created?;
    let mut out = io::stdout();
    writeln!(out, "created {}{}", create.email, if create.admin { ", an administrator" } else { "" })?;
    if generated {
        writeln!(out, "password: {password}")?;
    }
    Ok(())
}
