//! `basalt user …`: manages accounts, with or without a running server. Results go to standard output, messages to standard
//! error.

use std::io::{self, Write};
use std::sync::Arc;

use basalt_auth::{AccountSummary, AuthError, ListAccounts, NewAccount, Operator};
use basalt_core::clock::Clock;
use basalt_core::convert::saturating;
use basalt_core::keys::Keys;
use basalt_core::random;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::command_database::CommandDatabase;
use super::terminal::{confirm, read_password, table, time};
use crate::config::Config;
use crate::mail;

/// The subcommands of `basalt user`.
#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Lists accounts, newest first.
    List(List),
    /// Creates a confirmed account.
    Create(Create),
    /// Deletes an account with its sessions and identities.
    Delete(Delete),
    /// Prints a link that lets the user choose a password; with --password, sets one.
    ResetPassword(ResetPassword),
    /// Signs an account out everywhere. Access tokens stay valid until they expire.
    RevokeSessions(RevokeSessions),
}

#[derive(Debug, Args)]
pub(super) struct List {
    /// Part of an address, phone number or full name.
    search: Option<String>,
    /// Maximum number of accounts to print.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
    /// Number of accounts to skip.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
    offset: i64,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The account to create.
#[derive(Debug, Args)]
pub(super) struct Create {
    /// E-mail address of the account.
    email: String,
    /// Its password; other users of this machine can see it while the command runs. Without this and --password-stdin, a password is
    /// generated and printed.
    #[arg(long, conflicts_with = "password_stdin")]
    password: Option<String>,
    /// Prompts for the password, or reads the first line of standard input.
    #[arg(long)]
    password_stdin: bool,
    /// Makes it an administrator of the site.
    #[arg(long)]
    admin: bool,
}

#[derive(Debug, Args)]
pub(super) struct Delete {
    /// Id or e-mail address.
    user: String,
    /// Does not ask for confirmation.
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct ResetPassword {
    /// Id or e-mail address.
    user: String,
    /// Sets a password, prompted for or read from the first line of standard input. Ends every session.
    #[arg(long)]
    password: bool,
}

#[derive(Debug, Args)]
pub(super) struct RevokeSessions {
    /// Id or e-mail address.
    user: String,
}

/// Runs `basalt user`.
pub(super) async fn run(config: &Config, command: &UserCommand) -> anyhow::Result<()> {
    // Ask for the password before starting PostgreSQL.
    let needs_password = match command {
        UserCommand::ResetPassword(reset) => reset.password,
        UserCommand::Create(create) => create.password_stdin,
        UserCommand::List(_) | UserCommand::Delete(_) | UserCommand::RevokeSessions(_) => false,
    };
    let password = needs_password.then(read_password).transpose()?;
    let mut database = CommandDatabase::open(config).await?;
    let done = match command {
        UserCommand::List(list) => Box::pin(self::list(config, &mut database, list)).await,
        UserCommand::Create(create) => Box::pin(self::create(config, &mut database, create, password)).await,
        UserCommand::Delete(delete) => Box::pin(self::delete(config, &mut database, delete)).await,
        UserCommand::ResetPassword(reset) => {
            Box::pin(reset_password(config, &mut database, reset, password)).await
        }
        UserCommand::RevokeSessions(revoke) => Box::pin(revoke_sessions(config, &mut database, revoke)).await,
    };
    database.close().await;
    done
}

fn operator(config: &Config, database: &mut CommandDatabase) -> anyhow::Result<Operator> {
    let keys = Arc::new(Keys::new(database.material())?);
    let outbox = mail::outbox(config, &database.secrets);
    let pool = database.auth_pool();
    Ok(Operator::new(config.auth.clone(), pool, keys, Clock::system(), outbox)?)
}

async fn list(config: &Config, database: &mut CommandDatabase, list: &List) -> anyhow::Result<()> {
    let wanted = ListAccounts { search: list.search.as_deref(), limit: list.limit, offset: list.offset };
    let (accounts, total) = operator(config, database)?.list(&wanted).await?;
    let mut out = io::stdout();
    if list.json {
        let users: Vec<Value> = accounts.iter().map(as_json).collect();
        writeln!(out, "{:#}", json!({ "users": users, "total": total }))?;
        return Ok(());
    }
    let rows: Vec<Vec<String>> = accounts
        .iter()
        .map(|account| {
            vec![
                account.id.to_string(),
                name_of(account),
                state_of(account).to_owned(),
                time(account.created_at),
                time(account.last_sign_in_at),
                account.sessions.to_string(),
            ]
        })
        .collect();
    let header = ["ID", "ACCOUNT", "STATE", "CREATED", "LAST SIGN-IN", "SESSIONS"];
    out.write_all(table(&header, &rows).as_bytes())?;
    let shown = saturating::<i64>(accounts.len());
    if shown < total {
        writeln!(io::stderr(), "{shown} of {total} accounts; more with --limit and --offset")?;
    }
    Ok(())
}

fn as_json(account: &AccountSummary) -> Value {
    json!({
        "id": account.id,
        "email": account.email,
        "phone": account.phone,
        "state": state_of(account),
        "created_at": account.created_at,
        "confirmed_at": account.confirmed_at,
        "last_sign_in_at": account.last_sign_in_at,
        "banned_until": account.banned_until,
        "is_anonymous": account.is_anonymous,
        "sessions": account.sessions,
    })
}

fn name_of(account: &AccountSummary) -> String {
    [&account.email, &account.phone]
        .into_iter()
        .find(|name| !name.is_empty())
        .map_or_else(|| account.id.to_string(), Clone::clone)
}

fn state_of(account: &AccountSummary) -> &'static str {
    if account.banned_until.is_some_and(|until| until > jiff::Timestamp::now()) {
        "banned"
    } else if account.is_anonymous {
        "anonymous"
    } else if account.confirmed_at.is_some() {
        "confirmed"
    } else {
        "unconfirmed"
    }
}

async fn create(
    config: &Config,
    database: &mut CommandDatabase,
    create: &Create,
    given: Option<String>,
) -> anyhow::Result<()> {
    let given = given.or_else(|| create.password.clone());
    let is_generated = given.is_none();
    let password = given.unwrap_or_else(|| random::token(20));
    let account = NewAccount { email: &create.email, password: &password, is_admin: create.admin };
    let pool = database.system_pool();
    let mut out = io::stdout();
    match basalt_auth::create_user(&config.auth, &pool, &Clock::system(), &account).await {
        Ok(_) => {
            writeln!(
                out,
                "created {}{}",
                create.email,
                if create.admin { ", an administrator" } else { "" }
            )?;
        }
        Err(AuthError::NoUserRoles) => {
            let account = NewAccount { email: &create.email, password: &password, is_admin: false };
            basalt_auth::create_user(&config.auth, &pool, &Clock::system(), &account).await?;
            writeln!(out, "created {}", create.email)?;
            writeln!(
                io::stderr(),
                "It is not an administrator: --admin adds a row to the table public.user_roles (user_id, role), which this \
                 project does not have. Give it rights in the project's own tables."
            )?;
        }
        Err(error) => return Err(error.into()),
    }
    if is_generated {
        writeln!(out, "password: {password}")?;
    }
    Ok(())
}

async fn delete(config: &Config, database: &mut CommandDatabase, delete: &Delete) -> anyhow::Result<()> {
    let operator = operator(config, database)?;
    let account = operator.find(&delete.user).await.map_err(|error| explained(&delete.user, &error))?;
    confirm(&format!("Delete {} and all data of the account?", name_of(&account)), delete.yes)?;
    operator.delete(&account.id.to_string()).await.map_err(|error| explained(&delete.user, &error))?;
    writeln!(io::stdout(), "deleted {}", name_of(&account))?;
    Ok(())
}

async fn reset_password(
    config: &Config,
    database: &mut CommandDatabase,
    reset: &ResetPassword,
    password: Option<String>,
) -> anyhow::Result<()> {
    let operator = operator(config, database)?;
    let wrong = |error: basalt_auth::AuthError| explained(&reset.user, &error);
    match password {
        Some(password) => {
            let account = operator.set_password(&reset.user, &password).await.map_err(wrong)?;
            writeln!(io::stdout(), "set the password of {} and ended all its sessions", name_of(&account))?;
        }
        None => {
            let link = operator.recovery_link(&reset.user).await.map_err(wrong)?;
            let hours = config.auth.mailer_otp_exp / 3600;
            writeln!(io::stdout(), "{link}")?;
            writeln!(
                io::stderr(),
                "The link signs in whoever opens it and lets them choose a password. It works once, within {hours} hours. To set a password directly, use --password."
            )?;
        }
    }
    Ok(())
}

async fn revoke_sessions(
    config: &Config,
    database: &mut CommandDatabase,
    revoke: &RevokeSessions,
) -> anyhow::Result<()> {
    let operator = operator(config, database)?;
    let ended = operator.end_sessions(&revoke.user).await;
    let (account, ended) = ended.map_err(|error| explained(&revoke.user, &error))?;
    let sessions = if ended == 1 { "session" } else { "sessions" };
    writeln!(io::stdout(), "ended {ended} {sessions} of {}", name_of(&account))?;
    if ended > 0 {
        let minutes = config.auth.jwt.exp.div_ceil(60);
        writeln!(io::stderr(), "Issued access tokens stay valid for at most {minutes} minutes.")?;
    }
    Ok(())
}

/// The error as a message for the command line.
fn explained(user: &str, error: &basalt_auth::AuthError) -> anyhow::Error {
    match error.code() {
        "user_not_found" => {
            anyhow::anyhow!("account {user} does not exist: `basalt user list` shows the accounts")
        }
        _ => match std::error::Error::source(error) {
            Some(cause) => anyhow::anyhow!("{error}: {cause}"),
            None => anyhow::anyhow!("{error}"),
        },
    }
}
