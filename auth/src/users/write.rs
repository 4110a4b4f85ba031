//! Changes to `auth.users` and `auth.identities`. Each is a separate statement, so that the project's triggers see the same
//! updates as with upstream.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::create::provider_metadata;
use super::{Account, Identity, Object};
use crate::database::column;
use crate::error::AuthError;

const INSERT_IDENTITY: &str = "\
insert into auth.identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $6, $6)";

/// Adds an identity. For `email` and `phone` the `provider_id` is the user's id.
pub(crate) async fn insert_identity(
    tx: &Tx,
    user_id: Uuid,
    provider: &str,
    provider_id: &str,
    identity_data: &Object,
    now: Timestamp,
) -> Result<(), AuthError> {
    let data = Value::Object(identity_data.clone());
    tx.execute(INSERT_IDENTITY, &[&random::uuid(), &provider_id, &user_id, &data, &provider, &now])
        .await
        .map_err(AuthError::saving)?;
    Ok(())
}

/// Confirms an address; both kinds share the token column.
macro_rules! confirm {
    ($kind:literal) => {
        concat!(
            "update auth.users u set ",
            $kind,
            "_confirmed_at = $2, updated_at = $2, confirmation_token = '', \
             raw_user_meta_data = coalesce(u.raw_user_meta_data, '{}') || '{\"",
            $kind,
            "_verified\": true}' where u.id = $1"
        )
    };
}

/// Confirms the e-mail address. A separate update, as in upstream: projects have triggers on it.
pub(crate) async fn confirm_email(tx: &Tx, id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    tx.execute(confirm!("email"), &[&id, &now]).await.map_err(AuthError::saving)?;
    Ok(())
}

/// Marks the identity's address as verified: by a mailed code, or by an administrator. Autoconfirm confirms an address without
/// this. `false` if no identity has the address.
pub(crate) async fn prove_email(tx: &Tx, id: Uuid, now: Timestamp) -> Result<bool, AuthError> {
    const PROVE: &str = "\
update auth.identities i
set identity_data = i.identity_data || '{\"email_verified\": true}', updated_at = $2
from auth.users u
where u.id = $1 and i.user_id = u.id and lower(i.identity_data ->> 'email') = lower(u.email)";
    Ok(tx.execute(PROVE, &[&id, &now]).await.map_err(AuthError::updating)? > 0)
}

/// Confirms the phone number.
pub(crate) async fn confirm_phone(tx: &Tx, id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    tx.execute(confirm!("phone"), &[&id, &now]).await.map_err(AuthError::saving)?;
    Ok(())
}

/// Sets `invited_at`.
pub(crate) async fn set_invited(tx: &Tx, id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    const INVITED: &str = "update auth.users set invited_at = $2, updated_at = $2 where id = $1";
    tx.execute(INVITED, &[&id, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Sets or clears the password and voids all pending codes, including authorization codes: their holder could undo the
/// change.
pub(crate) async fn set_password(
    tx: &Tx,
    id: Uuid,
    hash: Option<&str>,
    now: Timestamp,
) -> Result<(), AuthError> {
    const SET: &str = "\
update auth.users
set encrypted_password = $2, updated_at = $3, confirmation_token = '', recovery_token = '',
  email_change_token_new = '', email_change_token_current = '', phone_change_token = '', reauthentication_token = ''
where id = $1";
    const FORGET: &str = "\
with flows as (delete from auth.flow_state where user_id = $1)
delete from auth.one_time_tokens where user_id = $1";
    tx.execute(SET, &[&id, &hash, &now]).await.map_err(AuthError::updating)?;
    tx.execute(FORGET, &[&id]).await?;
    Ok(())
}

/// Merges `$2` into a metadata column and removes the keys `$3`.
macro_rules! merge_into {
    ($column:literal) => {
        concat!(
            "update auth.users set ",
            $column,
            " = (coalesce(",
            $column,
            ", '{}') || $2::jsonb) - $3::text[], updated_at = $4 where id = $1"
        )
    };
}

/// The kinds of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metadata {
    /// `user_metadata`, which users can change.
    User,
    /// `app_metadata`, which policies can trust.
    App,
}

/// Merges top-level keys into metadata; `null` removes a key. Done in SQL, so that concurrent changes are not lost.
pub(crate) async fn merge_metadata(
    tx: &Tx,
    id: Uuid,
    metadata: Metadata,
    data: &Object,
    now: Timestamp,
) -> Result<(), AuthError> {
    let sql = match metadata {
        Metadata::User => merge_into!("raw_user_meta_data"),
        Metadata::App => merge_into!("raw_app_meta_data"),
    };
    let removed: Vec<&str> =
        data.iter().filter(|(_, value)| value.is_null()).map(|(name, _)| name.as_str()).collect();
    let kept: Object = data
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    tx.execute(sql, &[&id, &Value::Object(kept), &removed, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Sets the confirmed e-mail address of an anonymous user, which makes the account permanent.
pub(crate) async fn set_email(
    tx: &Tx,
    id: Uuid,
    email: &str,
    identity_data: &Object,
    now: Timestamp,
) -> Result<(), AuthError> {
    const SET: &str = "\
update auth.users
set email = $2, email_confirmed_at = $3, is_anonymous = false, updated_at = $3,
  raw_app_meta_data = coalesce(raw_app_meta_data, '{}') || $4::jsonb,
  raw_user_meta_data = coalesce(raw_user_meta_data, '{}') || $5::jsonb
where id = $1";
    let app_metadata = Value::Object(provider_metadata(&["email"]));
    let user_metadata = Value::Object(identity_data.clone());
    tx.execute(SET, &[&id, &email, &now, &app_metadata, &user_metadata])
        .await
        .map_err(AuthError::updating)?;
    Ok(())
}

/// Sets a confirmed phone number.
pub(crate) async fn set_phone(tx: &Tx, id: Uuid, phone: &str, now: Timestamp) -> Result<(), AuthError> {
    const SET: &str = "\
update auth.users
set phone = $2, phone_confirmed_at = $3, is_anonymous = false, updated_at = $3
where id = $1";
    tx.execute(SET, &[&id, &phone, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Stores a requested address. Voids codes and confirmations of an earlier request.
pub(crate) async fn request_email_change(
    tx: &Tx,
    id: Uuid,
    email: &str,
    now: Timestamp,
) -> Result<(), AuthError> {
    const REQUEST: &str = "\
update auth.users
set email_change = $2, email_change_sent_at = $3, email_change_confirm_status = 0, updated_at = $3,
  email_change_token_new = '', email_change_token_current = ''
where id = $1";
    const FORGET: &str = "\
delete from auth.one_time_tokens
where user_id = $1 and token_type in ('email_change_token_new', 'email_change_token_current')";
    tx.execute(REQUEST, &[&id, &email, &now]).await.map_err(AuthError::updating)?;
    tx.execute(FORGET, &[&id]).await?;
    Ok(())
}

/// Stores a requested number. Voids a code of an earlier request.
pub(crate) async fn request_phone_change(
    tx: &Tx,
    id: Uuid,
    phone: &str,
    now: Timestamp,
) -> Result<(), AuthError> {
    const REQUEST: &str = "update auth.users set phone_change = $2, updated_at = $3 where id = $1";
    tx.execute(REQUEST, &[&id, &phone, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Removes an identity and its phone number, or replaces its address by that of a remaining identity.
///
/// # Errors
/// [`AuthError::IdentityEmailConflict`] if all remaining addresses belong to other users.
pub(crate) async fn unlink(
    tx: &Tx,
    account: &Account,
    identity: &Identity,
    now: Timestamp,
) -> Result<(), AuthError> {
    const DELETE: &str = "delete from auth.identities where id = $1";
    const CLEAR_PHONE: &str =
        "update auth.users set phone = null, phone_confirmed_at = null, updated_at = $2 where id = $1";
    const SET_EMAIL: &str = "update auth.users set email = $2, updated_at = $3 where id = $1";
    const SET_PROVIDERS: &str = "\
update auth.users
set raw_app_meta_data = coalesce(raw_app_meta_data, '{}') || jsonb_build_object('providers', $2::text[])
where id = $1";
    let user = &account.user;
    let left: Vec<&Identity> = account.identities.iter().filter(|other| other.id != identity.id).collect();
    tx.execute(DELETE, &[&identity.id]).await.map_err(AuthError::updating)?;
    let emails = || left.iter().map(|identity| identity.email.as_deref().unwrap_or_default());
    if identity.provider == "phone" {
        tx.execute(CLEAR_PHONE, &[&user.id, &now]).await.map_err(AuthError::updating)?;
    } else if !emails().any(|email| email == user.email && !email.is_empty()) {
        let mut free = None;
        for email in emails() {
            if email.is_empty() || super::find_by_email(tx, email, &user.aud).await?.is_none() {
                free = Some(Some(email).filter(|email| !email.is_empty()));
                break;
            }
        }
        let email = free.ok_or(AuthError::IdentityEmailConflict)?;
        tx.execute(SET_EMAIL, &[&user.id, &email, &now]).await.map_err(AuthError::updating)?;
    }
    let mut providers: Vec<&str> = Vec::new();
    for identity in left {
        if !providers.contains(&identity.provider.as_str()) {
            providers.push(&identity.provider);
        }
    }
    tx.execute(SET_PROVIDERS, &[&user.id, &providers]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// The user and data of an identity at an external provider.
pub(crate) struct KnownIdentity {
    pub(crate) user_id: Uuid,
    pub(crate) data: Object,
}

/// Finds an identity at an external provider.
pub(crate) async fn find_identity(
    tx: &Tx,
    provider: &str,
    subject: &str,
) -> Result<Option<KnownIdentity>, AuthError> {
    const FIND: &str = "\
select i.user_id, i.identity_data from auth.identities i where i.provider = $1 and i.provider_id = $2";
    let row = tx.query_opt(FIND, &[&provider, &subject]).await.map_err(AuthError::querying)?;
    let Some(row) = row else { return Ok(None) };
    let data = match column(&row, "identity_data")? {
        Value::Object(data) => data,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Object::new(),
    };
    Ok(Some(KnownIdentity { user_id: column(&row, "user_id")?, data }))
}

/// Stores what the provider reports at a further sign-in.
pub(crate) async fn update_identity(
    tx: &Tx,
    provider: &str,
    subject: &str,
    data: &Object,
    now: Timestamp,
) -> Result<(), AuthError> {
    const UPDATE: &str = "\
update auth.identities set identity_data = $3, last_sign_in_at = $4, updated_at = $4
where provider = $1 and provider_id = $2";
    let data = Value::Object(data.clone());
    tx.execute(UPDATE, &[&provider, &subject, &data, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Adds a provider to the user's `app_metadata`, and makes an anonymous user permanent.
pub(crate) async fn add_provider(tx: &Tx, id: Uuid, provider: &str, now: Timestamp) -> Result<(), AuthError> {
    const ADD: &str = "\
update auth.users u
set is_anonymous = false, updated_at = $3,
  raw_app_meta_data = jsonb_build_object('provider', $2::text) || coalesce(u.raw_app_meta_data, '{}')
    || jsonb_build_object('providers', (
      select jsonb_agg(distinct i.provider) from auth.identities i where i.user_id = u.id
    ))
where u.id = $1";
    tx.execute(ADD, &[&id, &provider, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Sets the address of a user who has none, unconfirmed.
pub(crate) async fn set_first_email(tx: &Tx, id: Uuid, email: &str, now: Timestamp) -> Result<(), AuthError> {
    const SET: &str = "\
update auth.users set email = $2, updated_at = $3 where id = $1 and coalesce(email, '') = ''";
    tx.execute(SET, &[&id, &email, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Removes everything with which somebody else may have prepared an account whose address was never confirmed: identities,
/// password, phone number, pending codes, sessions, second factors, passkeys and grants to OAuth clients.
pub(crate) async fn clear_unconfirmed(tx: &Tx, id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    const IDENTITIES: &str = "delete from auth.identities where user_id = $1";
    const SESSIONS: &str = "delete from auth.sessions where user_id = $1";
    const FACTORS: &str = "delete from auth.mfa_factors where user_id = $1";
    const PASSKEYS: &str = "delete from auth.webauthn_credentials where user_id = $1";
    const CHALLENGES: &str = "delete from auth.webauthn_challenges where user_id = $1";
    const AUTHORIZATIONS: &str = "delete from auth.oauth_authorizations where user_id = $1";
    const CONSENTS: &str = "delete from auth.oauth_consents where user_id = $1";
    const PHONE: &str = "\
update auth.users
set phone = null, phone_confirmed_at = null, phone_change = '', email_change = '', raw_user_meta_data = '{}', updated_at = $2
where id = $1";
    for statement in [IDENTITIES, SESSIONS, FACTORS, PASSKEYS, CHALLENGES, AUTHORIZATIONS, CONSENTS] {
        tx.execute(statement, &[&id]).await.map_err(AuthError::updating)?;
    }
    tx.execute(PHONE, &[&id, &now]).await.map_err(AuthError::updating)?;
    set_password(tx, id, None, now).await
}
