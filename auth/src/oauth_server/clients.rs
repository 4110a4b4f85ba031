//! `auth.oauth_clients`: programs that users can let act for them.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{generate, stored};
use crate::database::{Window, column};
use crate::error::AuthError;

/// Who registered a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registration {
    /// The client itself.
    Dynamic,
    /// An admin.
    Manual,
}

impl Registration {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Dynamic => "dynamic",
            Self::Manual => "manual",
        }
    }
}

/// How a client authenticates at `/oauth/token`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAuth {
    /// Not at all: a public client, which cannot keep a secret.
    None,
    Basic,
    Post,
}

impl ClientAuth {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.as_str() == name)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }
}

/// A client. No `Debug`, so that no log can show the hash.
#[derive(Clone)]
pub(crate) struct OAuthClient {
    pub(crate) id: Uuid,
    pub(crate) registration: Registration,
    pub(crate) auth: ClientAuth,
    pub(crate) name: String,
    /// Like the next field, empty if there is none.
    pub(crate) uri: String,
    pub(crate) logo_uri: String,
    pub(crate) redirect_uris: Vec<String>,
    pub(crate) grant_types: Vec<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    secret_hash: Option<String>,
}

macro_rules! client_columns {
    () => {
        "c.id, c.client_secret_hash, c.registration_type::text as registration_type, c.redirect_uris, c.grant_types, \
         coalesce(c.client_name, '') as client_name, coalesce(c.client_uri, '') as client_uri, \
         coalesce(c.logo_uri, '') as logo_uri, c.created_at, c.updated_at, c.token_endpoint_auth_method"
    };
}
pub(super) use client_columns;

impl OAuthClient {
    /// A confidential client without metadata.
    pub(super) const fn blank(registration: Registration) -> Self {
        Self {
            id: Uuid::nil(),
            registration,
            auth: ClientAuth::Basic,
            name: String::new(),
            uri: String::new(),
            logo_uri: String::new(),
            redirect_uris: Vec::new(),
            grant_types: Vec::new(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            secret_hash: None,
        }
    }

    pub(super) fn from_row(row: &Row) -> Result<Self, AuthError> {
        let list = |name| Ok::<_, AuthError>(split(column(row, name)?));
        let registration: &str = column(row, "registration_type")?;
        let auth: &str = column(row, "token_endpoint_auth_method")?;
        Ok(Self {
            id: column(row, "id")?,
            registration: if registration == "dynamic" {
                Registration::Dynamic
            } else {
                Registration::Manual
            },
            auth: ClientAuth::parse(auth).unwrap_or(ClientAuth::Basic),
            name: column(row, "client_name")?,
            uri: column(row, "client_uri")?,
            logo_uri: column(row, "logo_uri")?,
            redirect_uris: list("redirect_uris")?,
            grant_types: list("grant_types")?,
            created_at: column(row, "created_at")?,
            updated_at: column(row, "updated_at")?,
            secret_hash: column(row, "client_secret_hash")?,
        })
    }

    pub(crate) fn is_public(&self) -> bool {
        self.auth == ClientAuth::None
    }

    pub(crate) const fn client_type(&self) -> &'static str {
        match self.auth {
            ClientAuth::None => "public",
            ClientAuth::Basic | ClientAuth::Post => "confidential",
        }
    }

    pub(crate) fn allows(&self, grant_type: &str) -> bool {
        self.grant_types.iter().any(|allowed| allowed == grant_type)
    }

    /// Whether the client has proven who it is: with its secret, or, if it is public, without any.
    pub(crate) fn is_authenticated_by(&self, secret: Option<&str>) -> bool {
        match (self.is_public(), secret, &self.secret_hash) {
            (true, None, _) => true,
            (false, Some(secret), Some(hash)) => {
                random::constant_time_eq(stored(secret).as_bytes(), hash.as_bytes())
            }
            _ => false,
        }
    }

    /// Gives the client an id and, unless it is public, a secret, which is returned. Stores it.
    pub(crate) async fn insert(&mut self, tx: &Tx, now: Timestamp) -> Result<Option<String>, AuthError> {
        const INSERT: &str = "\
insert into auth.oauth_clients (id, client_secret_hash, registration_type, redirect_uris, grant_types, client_name, client_uri,
  logo_uri, created_at, updated_at, client_type, token_endpoint_auth_method)
values ($1, $2, $3::text::auth.oauth_registration_type, $4, $5, $6, nullif($7, ''), nullif($8, ''), $9, $9,
  $10::text::auth.oauth_client_type, $11)";
        let secret = (!self.is_public()).then(generate);
        self.id = random::uuid();
        self.secret_hash = secret.as_deref().map(stored);
        (self.created_at, self.updated_at) = (now, now);
        tx.execute(
            INSERT,
            &[
                &self.id,
                &self.secret_hash,
                &self.registration.as_str(),
                &self.redirect_uris.join(","),
                &self.grant_types.join(","),
                &self.name,
                &self.uri,
                &self.logo_uri,
                &now,
                &self.client_type(),
                &self.auth.as_str(),
            ],
        )
        .await?;
        Ok(secret)
    }

    /// Stores changed metadata. A client that becomes public loses its secret; one that becomes confidential has none until an
    /// admin generates one.
    pub(crate) async fn update(&mut self, tx: &Tx, now: Timestamp) -> Result<(), AuthError> {
        const UPDATE: &str = "\
update auth.oauth_clients
set redirect_uris = $2, grant_types = $3, client_name = $4, client_uri = nullif($5, ''), logo_uri = nullif($6, ''),
  updated_at = $7, client_type = $8::text::auth.oauth_client_type, token_endpoint_auth_method = $9,
  client_secret_hash = case when $9 = 'none' then null else client_secret_hash end
where id = $1";
        self.updated_at = now;
        tx.execute(
            UPDATE,
            &[
                &self.id,
                &self.redirect_uris.join(","),
                &self.grant_types.join(","),
                &self.name,
                &self.uri,
                &self.logo_uri,
                &now,
                &self.client_type(),
                &self.auth.as_str(),
            ],
        )
        .await?;
        Ok(())
    }

    /// Replaces the secret and returns the new one.
    pub(crate) async fn regenerate_secret(&mut self, tx: &Tx, now: Timestamp) -> Result<String, AuthError> {
        const UPDATE: &str =
            "update auth.oauth_clients set client_secret_hash = $2, updated_at = $3 where id = $1";
        let secret = generate();
        self.updated_at = now;
        tx.execute(UPDATE, &[&self.id, &stored(&secret), &now]).await?;
        Ok(secret)
    }
}

/// A client that is not deleted.
pub(crate) async fn find(tx: &Tx, id: Uuid) -> Result<Option<OAuthClient>, AuthError> {
    const FIND: &str = concat!(
        "select ",
        client_columns!(),
        " from auth.oauth_clients c where c.id = $1 and c.deleted_at is null"
    );
    let row = tx.query_opt(FIND, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(OAuthClient::from_row).transpose()
}

/// As [`find`], and locks the row.
pub(crate) async fn lock(tx: &Tx, id: Uuid) -> Result<Option<OAuthClient>, AuthError> {
    const LOCK: &str = concat!(
        "select ",
        client_columns!(),
        " from auth.oauth_clients c where c.id = $1 and c.deleted_at is null for update"
    );
    let row = tx.query_opt(LOCK, &[&id]).await.map_err(AuthError::querying)?;
    row.as_ref().map(OAuthClient::from_row).transpose()
}

/// A page of the clients, newest first, and the number of all.
pub(crate) async fn list(tx: &Tx, window: Window) -> Result<(Vec<OAuthClient>, i64), AuthError> {
    const COUNT: &str = "select count(*) as clients from auth.oauth_clients c where c.deleted_at is null";
    const LIST: &str = concat!(
        "select ",
        client_columns!(),
        " from auth.oauth_clients c where c.deleted_at is null order by c.created_at desc, c.id limit $1 offset $2"
    );
    let count = tx.query_one(COUNT, &[]).await.map_err(AuthError::querying)?;
    let rows = tx.query(LIST, &[&window.limit, &window.offset]).await.map_err(AuthError::querying)?;
    let clients = rows.iter().map(OAuthClient::from_row).collect::<Result<_, _>>()?;
    Ok((clients, column(&count, "clients")?))
}

/// Deletes a client with its authorizations, consents and sessions. `false` if it does not exist.
pub(crate) async fn delete(tx: &Tx, id: Uuid) -> Result<bool, AuthError> {
    const DELETE: &str = "delete from auth.oauth_clients where id = $1 and deleted_at is null";
    Ok(tx.execute(DELETE, &[&id]).await? > 0)
}

fn split(text: &str) -> Vec<String> {
    text.split(',').filter(|entry| !entry.is_empty()).map(str::to_owned).collect()
}
