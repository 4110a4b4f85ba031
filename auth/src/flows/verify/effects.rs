//! The effects of a valid code on its account (auth.md §3.10, "Effects"; §3.7 for address changes).

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::codes::one_time::TokenType;
use crate::emails::mailer::Profile;
use crate::error::AuthError;
use crate::flows::notifications::{AccountChange, notify};
use crate::origin::Origin;
use crate::state::Auth;
use crate::users::{self, Object, User};

/// The account, whose row is locked.
pub(super) struct Effects<'a> {
    pub(super) auth: &'a Auth,
    pub(super) origin: &'a Origin,
    pub(super) tx: &'a Tx,
    pub(super) user: &'a User,
    pub(super) now: Timestamp,
}

impl Effects<'_> {
    /// Sign-up and invitation. An invited user without a password gets a random hash, and signs in by mail until they set a
    /// password.
    pub(super) async fn confirm_email(&self) -> Result<(), AuthError> {
        const PASSWORD: &str = "\
update auth.users set encrypted_password = $2, updated_at = $3
where id = $1 and coalesce(encrypted_password, '') = ''";
        if self.user.invited_at.is_some() && self.user.encrypted_password.is_none() {
            self.execute(PASSWORD, &[&self.user.id, &self.auth.hasher.random_hash(), &self.now]).await?;
        }
        self.audit(Action::UserSignedUp, "email").await?;
        if self.user.email_confirmed_at.is_none() {
            users::confirm_email(self.tx, self.user.id, self.now).await?;
        }
        self.prove_email().await
    }

    /// Records that the user owns the address. Accounts created by SQL may have no identity yet.
    async fn prove_email(&self) -> Result<(), AuthError> {
        if users::prove_email(self.tx, self.user.id, self.now).await? {
            return Ok(());
        }
        self.set_identity("email", &self.user.email, "email_verified").await
    }

    /// Password reset and magic link; both prove ownership of the address.
    pub(super) async fn recover(&self) -> Result<(), AuthError> {
        if self.user.email_confirmed_at.is_none() {
            return self.confirm_email().await;
        }
        self.audit(Action::Login, "email").await?;
        self.prove_email().await
    }

    /// Phone sign-up.
    pub(super) async fn confirm_phone(&self) -> Result<(), AuthError> {
        self.audit(Action::UserSignedUp, "phone").await?;
        users::confirm_phone(self.tx, self.user.id, self.now).await?;
        self.become_permanent().await?;
        self.mark_phone().await
    }

    /// One of the codes of an e-mail change. `false` while the other is pending: with two addresses both must confirm, in any
    /// order, even under `mailer_autoconfirm`.
    pub(super) async fn change_email(&self, token_type: TokenType) -> Result<bool, AuthError> {
        const FIRST: &str = "\
update auth.users set email_change_confirm_status = 1, updated_at = $2
where id = $1 and coalesce(email_change_confirm_status, 0) = 0";
        // Voids codes sent to the old address, including authorization codes issued for its links. This change's own flow
        // has no code yet.
        const CHANGE: &str = "\
update auth.users
set email = $2, email_confirmed_at = $3, email_change = '', email_change_confirm_status = 0,
  email_change_token_new = '', email_change_token_current = '', confirmation_token = '', recovery_token = '',
  reauthentication_token = '', is_anonymous = false, updated_at = $3,
  raw_user_meta_data = coalesce(raw_user_meta_data, '{}') || '{\"email_verified\": true}'
where id = $1";
        const FORGET: &str = "\
with flows as (delete from auth.flow_state where user_id = $1 and auth_code_issued_at is not null)
delete from auth.one_time_tokens where user_id = $1 and token_type::text <> 'phone_change_token'";
        let (old, new) = (&self.user.email, &self.user.email_change);
        let needs_both = self.auth.config.mailer_secure_email_change_enabled && !old.is_empty();
        if needs_both && self.execute(FIRST, &[&self.user.id, &self.now]).await? == 1 {
            return Ok(false);
        }
        if !needs_both && token_type == TokenType::EmailChangeCurrent {
            // Issued while both confirmations were required. Now only that of the new address counts.
            return Ok(false);
        }
        self.audit(Action::UserModified, "email").await?;
        self.execute(CHANGE, &[&self.user.id, new, &self.now])
            .await
            .map_err(|error| error.map_taken_address(AuthError::EmailExists))?;
        self.execute(FORGET, &[&self.user.id]).await?;
        self.set_identity("email", new, "email_verified").await?;
        if !old.is_empty() {
            let changed = Profile { email: new, ..self.user.profile() };
            notify(self.tx, self.auth, self.origin, (self.user.id, changed), AccountChange::Email { old })
                .await?;
        }
        Ok(true)
    }

    /// Phone change.
    pub(super) async fn change_phone(&self, new: &str) -> Result<(), AuthError> {
        const CHANGE: &str = "\
update auth.users
set phone = $2, phone_confirmed_at = $3, phone_change = '', phone_change_token = '', is_anonymous = false,
  updated_at = $3
where id = $1";
        self.audit(Action::UserModified, "phone").await?;
        self.execute(CHANGE, &[&self.user.id, &new, &self.now])
            .await
            .map_err(|error| error.map_taken_address(AuthError::PhoneExists))?;
        self.set_identity("phone", new, "phone_verified").await?;
        let changed = Profile { phone: new, ..self.user.profile() };
        notify(
            self.tx,
            self.auth,
            self.origin,
            (self.user.id, changed),
            AccountChange::Phone { old: &self.user.phone },
        )
        .await
    }

    async fn become_permanent(&self) -> Result<(), AuthError> {
        const PERMANENT: &str =
            "update auth.users set is_anonymous = false, updated_at = $2 where id = $1 and is_anonymous";
        self.execute(PERMANENT, &[&self.user.id, &self.now]).await?;
        Ok(())
    }

    /// Marks the number as verified in its identity, whatever the provider.
    async fn mark_phone(&self) -> Result<(), AuthError> {
        const MARK: &str = "\
update auth.identities i
set identity_data = i.identity_data || '{\"phone_verified\": true}', updated_at = $3
where i.user_id = $1 and i.identity_data ->> 'phone' = $2";
        self.execute(MARK, &[&self.user.id, &self.user.phone, &self.now]).await?;
        Ok(())
    }

    /// Sets the address of provider `key`'s identity, which is created if missing.
    async fn set_identity(&self, key: &str, address: &str, verified: &str) -> Result<(), AuthError> {
        const SET: &str = "\
update auth.identities i
set identity_data = i.identity_data || $3::jsonb, updated_at = $4
where i.user_id = $1 and i.provider = $2";
        let mut data = Object::new();
        data.insert(key.to_owned(), address.into());
        data.insert(verified.to_owned(), Value::Bool(true));
        let id = self.user.id;
        let changed = self.execute(SET, &[&id, &key, &Value::Object(data.clone()), &self.now]).await?;
        if changed == 0 {
            data.insert("sub".to_owned(), id.to_string().into());
            for other in ["email_verified", "phone_verified"] {
                data.entry(other).or_insert(Value::Bool(false));
            }
            users::insert_identity(self.tx, id, key, &id.to_string(), &data, self.now).await?;
        }
        Ok(())
    }

    async fn audit(&self, action: Action, provider: &str) -> Result<(), AuthError> {
        let traits = audit::provider(provider);
        self.auth.audit_log(&self.origin.client).record(self.tx, self.user, action, traits, self.now).await
    }

    async fn execute(
        &self,
        sql: &str,
        params: &[&(dyn tokio_postgres::types::ToSql + Sync)],
    ) -> Result<u64, AuthError> {
        self.tx.execute(sql, params).await.map_err(AuthError::updating)
    }
}

/// Recomputes `app_metadata.providers` from the identities; `provider` never changes.
pub(super) async fn recompute_providers(tx: &Tx, user_id: Uuid, now: Timestamp) -> Result<(), AuthError> {
    // An update without changes would still fire the project's triggers.
    const RECOMPUTE: &str = "\
with of_user as (
  select jsonb_agg(p.provider order by p.since, p.provider) as providers
  from (select i.provider, min(i.created_at) as since from auth.identities i where i.user_id = $1 group by i.provider) p
)
update auth.users u
set updated_at = $2, raw_app_meta_data = coalesce(u.raw_app_meta_data, '{}') || jsonb_build_object(
  'provider', coalesce(u.raw_app_meta_data -> 'provider', of_user.providers -> 0), 'providers', of_user.providers)
from of_user
where u.id = $1 and of_user.providers is not null and (u.raw_app_meta_data -> 'providers' is distinct from of_user.providers
  or u.raw_app_meta_data -> 'provider' is null)";
    tx.execute(RECOMPUTE, &[&user_id, &now]).await.map_err(AuthError::updating)?;
    Ok(())
}
