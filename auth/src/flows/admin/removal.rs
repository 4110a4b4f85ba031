//! Hard and soft deletion of accounts (auth.md §3.13).

use aws_lc_rs::digest::{SHA256, digest};
use basalt_pg::pool::Tx;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use uuid::Uuid;

use super::traits_of;
use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::origin::Origin;
use crate::state::Auth;
use crate::users::User;

/// Deletes an account's row, or only the personal data in it (`is_soft`).
pub(crate) async fn delete(
    auth: &Auth,
    origin: &Origin,
    actor: &User,
    user: &User,
    is_soft: bool,
) -> Result<(), AuthError> {
    const HARD: &str = "delete from auth.users where id = $1";
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let deleted = async {
        let traits = Some(traits_of(user));
        auth.audit_log(&origin.client).record(&tx, actor, Action::UserDeleted, traits, now).await?;
        if is_soft {
            if user.deleted_at.is_none() {
                obscure(&tx, user, now).await?;
            }
        } else {
            tx.execute(HARD, &[&user.id]).await.map_err(AuthError::deleting)?;
        }
        Ok(())
    }
    .await;
    database::finish(tx, deleted).await
}

/// Soft deletion: removes personal data, so that the address can register again.
async fn obscure(tx: &Tx, user: &User, now: Timestamp) -> Result<(), AuthError> {
    const USER: &str = "\
update auth.users
set email = $2, phone = $3, encrypted_password = null, email_change = '', phone_change = '', confirmation_token = '',
  recovery_token = '', email_change_token_new = '', email_change_token_current = '', phone_change_token = '',
  reauthentication_token = '', raw_user_meta_data = '{}', raw_app_meta_data = '{}', deleted_at = $4, updated_at = $4
where id = $1";
    const IDENTITIES: &str = "select id, provider_id from auth.identities where user_id = $1";
    const IDENTITY: &str = "\
update auth.identities
set provider_id = $2, identity_data = '{}', updated_at = $3
where id = $1";
    const REST: [&str; 8] = [
        "delete from auth.mfa_factors where user_id = $1",
        "delete from auth.webauthn_credentials where user_id = $1",
        "delete from auth.webauthn_challenges where user_id = $1",
        "delete from auth.oauth_authorizations where user_id = $1",
        "delete from auth.oauth_consents where user_id = $1",
        "delete from auth.one_time_tokens where user_id = $1",
        "delete from auth.flow_state where user_id = $1",
        "delete from auth.sessions where user_id = $1",
    ];
    let hidden = |value: &str| (!value.is_empty()).then(|| obscured(user.id, value));
    let phone = hidden(&user.phone).map(|phone| phone.chars().take(15).collect::<String>());
    tx.execute(USER, &[&user.id, &hidden(&user.email), &phone, &now]).await.map_err(AuthError::deleting)?;
    for row in tx.query(IDENTITIES, &[&user.id]).await? {
        let id: Uuid = database::column(&row, "id")?;
        let provider_id: String = database::column(&row, "provider_id")?;
        tx.execute(IDENTITY, &[&id, &obscured(user.id, &provider_id), &now])
            .await
            .map_err(AuthError::deleting)?;
    }
    for statement in REST {
        tx.execute(statement, &[&user.id]).await.map_err(AuthError::deleting)?;
    }
    Ok(())
}

fn obscured(id: Uuid, value: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, format!("{id}{value}").as_bytes()))
}
