//! `basalt user create`.

use std::net::{IpAddr, Ipv4Addr};

use basalt_core::clock::Clock;
use basalt_pg::pool::{ServicePool, Tx};
use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::LIMIT;
use crate::audit::{self, Action, AuditLog};
use crate::config::AuthConfig;
use crate::database;
use crate::error::AuthError;
use crate::passwords::hasher::Hasher;
use crate::passwords::policy::{self, PasswordPolicy};
use crate::users::address;
use crate::users::create::{NewUser, create};
use crate::users::{self, read_back};

/// An account to create.
#[derive(Clone, Copy)]
pub struct NewAccount<'a> {
    /// E-mail address, confirmed immediately.
    pub email: &'a str,
    /// Password; must satisfy the policy.
    pub password: &'a str,
    /// Whether to add the user to `public.user_roles` as admin.
    pub is_admin: bool,
}

/// Creates a confirmed account with its identity in one transaction. `pool` uses the login of `database.url`: the user is
/// inserted as `supabase_auth_admin`, the admin's row as that login.
///
/// # Errors
/// The address or password is invalid, the address is taken, `public.user_roles` does not exist, or the database failed.
pub async fn create_user(
    config: &AuthConfig,
    pool: &ServicePool,
    clock: &Clock,
    account: &NewAccount<'_>,
) -> Result<Uuid, AuthError> {
    let email = address::email(account.email)?;
    policy::check_length(account.password)?;
    let policy = PasswordPolicy::new(config.password_min_length, &config.password_required_characters);
    if let Some(weakness) = policy.weakness(account.password) {
        return Err(AuthError::WeakPassword(weakness));
    }
    let hash = Hasher::new(config.hasher_settings(), &TaskTracker::new())?.hash(account.password).await?;
    let now = database::in_microseconds(clock.now());
    let tx = pool.begin(Instant::now() + LIMIT).await?;
    let created = insert(config, &tx, email, hash, account.is_admin, now).await;
    database::finish(tx, created).await
}

async fn insert(
    config: &AuthConfig,
    tx: &Tx,
    email: String,
    hash: String,
    is_admin: bool,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    tx.execute("set local role supabase_auth_admin", &[]).await?;
    let new = NewUser {
        email: Some(&email),
        password_hash: Some(hash),
        is_sign_up: true,
        ..NewUser::new(&config.jwt.aud, config.default_role())
    };
    let created = create(tx, new, now).await;
    let id = created.map_err(|error| error.map_taken_address(AuthError::UserAlreadyExists))?;
    users::confirm_email(tx, id, now).await?;
    users::prove_email(tx, id, now).await?;
    let user = read_back(tx, id).await?;
    let traits = audit::provider("email");
    let audit_log = AuditLog::new(config, IpAddr::V4(Ipv4Addr::LOCALHOST));
    audit_log.record(tx, &user, Action::UserSignedUp, traits, now).await?;
    tx.execute("set local role none", &[]).await?;
    if is_admin {
        make_admin(tx, id).await?;
    }
    Ok(id)
}

/// The app's own table of administrators.
async fn make_admin(tx: &Tx, id: Uuid) -> Result<(), AuthError> {
    const HAS_TABLE: &str = "
        select pg_catalog.count(*) = 2 as is_there from pg_catalog.pg_attribute
        where attrelid = pg_catalog.to_regclass('public.user_roles') and attname in ('user_id', 'role')";
    let table = tx.query_one(HAS_TABLE, &[]).await?;
    if !database::column::<bool>(&table, "is_there")? {
        return Err(AuthError::NoUserRoles);
    }
    tx.execute("insert into public.user_roles (user_id, role) values ($1, 'admin')", &[&id]).await?;
    Ok(())
}
