//! Admins create and change accounts (auth.md §3.13); [`mod@removal`] deletes them. No mail is sent, and `disable_signup` does
//! not apply.

mod body;
mod removal;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::error::{AuthError, TakenAddress};
use crate::fields::filled;
use crate::origin::Origin;
use crate::sessions::{self, Scope};
use crate::state::Auth;
use crate::users::create::{NewUser, create};
use crate::users::{self, Account, Metadata, User, read_back};
pub(crate) use body::AdminUserBody;
use body::{Ban, CheckedFields, Secret};
pub(crate) use removal::delete;

impl AdminUserBody {
    /// Creates an account. Checks in upstream's order: addresses, password, id, ban.
    pub(crate) async fn create(
        &self,
        auth: &Auth,
        origin: &Origin,
        actor: &User,
    ) -> Result<Account, AuthError> {
        let now = auth.now();
        if filled(&self.email).or(filled(&self.phone)).is_none() {
            return Err(AuthError::validation("Cannot create a user without either an email or phone"));
        }
        let audience = filled(&self.aud).or(origin.audience.as_deref()).unwrap_or(&auth.config.jwt.aud);
        let email = self.email()?;
        let tx = auth.autocommit(origin).await?;
        let phone = async {
            check_email_free(&tx, email.as_deref(), audience, None).await?;
            let phone = self.phone()?;
            check_phone_free(&tx, phone.as_deref(), audience, None, AuthError::PhoneRegistered).await?;
            Ok(phone)
        }
        .await;
        let phone = database::finish(tx, phone).await?;
        let secret = self.secret()?;
        let id = self.id()?;
        let wanted = CheckedFields { email, phone, ban: self.ban(now)?, now };
        let hash = match secret {
            Some(Secret::Hash(hash)) => {
                auth.hasher.measure(hash).await;
                hash.to_owned()
            }
            Some(Secret::Password(password)) if !password.is_empty() => auth.hasher.hash(password).await?,
            // Matches no password: the user has to recover the account.
            Some(Secret::Password(_)) | None => auth.hasher.random_hash(),
        };
        let tx = auth.begin(origin).await?;
        let created = async {
            let user = self.insert(auth, &tx, id, audience, hash, &wanted).await?;
            let traits = Some(traits_of(&user));
            auth.audit_log(&origin.client).record(&tx, actor, Action::UserSignedUp, traits, now).await?;
            users::complete(&tx, user).await
        }
        .await;
        let created = database::finish(tx, created).await?;
        auth.notify_user_created(origin, created.user.id).await?;
        Ok(created)
    }

    async fn insert(
        &self,
        auth: &Auth,
        tx: &Tx,
        id: Uuid,
        audience: &str,
        hash: String,
        wanted: &CheckedFields,
    ) -> Result<User, AuthError> {
        let now = wanted.now;
        let mut user_metadata = self.user_metadata.clone().unwrap_or_default();
        user_metadata.retain(|_name, value| !value.is_null());
        let new = NewUser {
            id,
            email: wanted.email.as_deref(),
            phone: wanted.phone.as_deref(),
            password_hash: Some(hash),
            app_metadata: self.app_metadata.clone().unwrap_or_default(),
            user_metadata,
            ..NewUser::new(audience, filled(&self.role).unwrap_or(auth.config.default_role()))
        };
        let taken = |error: AuthError| match error.taken_address() {
            Some(TakenAddress::Email) => AuthError::EmailExists,
            Some(TakenAddress::Phone) => AuthError::PhoneRegistered,
            None => error.creating(),
        };
        create(tx, new, now).await.map_err(taken)?;
        self.confirm(tx, id, now).await?;
        if let Some(ban) = wanted.ban {
            set_ban(tx, id, ban, now).await?;
        }
        read_back(tx, id).await
    }

    async fn confirm(&self, tx: &Tx, id: Uuid, now: Timestamp) -> Result<(), AuthError> {
        if self.email_confirm == Some(true) {
            users::confirm_email(tx, id, now).await?;
            users::prove_email(tx, id, now).await?;
        }
        if self.phone_confirm == Some(true) {
            users::confirm_phone(tx, id, now).await?;
        }
        Ok(())
    }

    /// Changes an account. Addresses change without confirmation; a new password ends all sessions.
    pub(crate) async fn change(
        &self,
        auth: &Auth,
        origin: &Origin,
        actor: &User,
        user: &User,
    ) -> Result<Account, AuthError> {
        let now = auth.now();
        let wanted = CheckedFields { email: self.email()?, phone: self.phone()?, ban: self.ban(now)?, now };
        let hash = match self.secret()? {
            Some(Secret::Hash(hash)) => {
                auth.hasher.measure(hash).await;
                Some(hash.to_owned())
            }
            Some(Secret::Password(password)) => {
                auth.password_rules.check(password).await?;
                Some(auth.hasher.hash(password).await?)
            }
            None => None,
        };
        let tx = auth.begin(origin).await?;
        let changed = async {
            check_email_free(&tx, wanted.email.as_deref(), &user.aud, Some(user.id)).await?;
            let phone = wanted.phone.as_deref();
            check_phone_free(&tx, phone, &user.aud, Some(user.id), AuthError::PhoneExists).await?;
            self.write(&tx, user, &wanted, hash.as_deref(), now).await?;
            let traits = Some(traits_of(user));
            auth.audit_log(&origin.client).record(&tx, actor, Action::UserModified, traits, now).await?;
            users::account(&tx, user.id).await?.ok_or(AuthError::UserNotFound)
        }
        .await;
        database::finish(tx, changed).await
    }

    async fn write(
        &self,
        tx: &Tx,
        user: &User,
        wanted: &CheckedFields,
        hash: Option<&str>,
        now: Timestamp,
    ) -> Result<(), AuthError> {
        let id = user.id;
        if let Some(email) = wanted.email.as_deref().filter(|email| *email != user.email) {
            let data =
                json!({ "sub": id, "email": email, "email_verified": self.email_confirm == Some(true) });
            change_address(tx, id, "email", email, data, now).await?;
        }
        if let Some(phone) = wanted.phone.as_deref().filter(|phone| *phone != user.phone) {
            let data =
                json!({ "sub": id, "phone": phone, "phone_verified": self.phone_confirm == Some(true) });
            change_address(tx, id, "phone", phone, data, now).await?;
        }
        self.confirm(tx, id, now).await?;
        if let Some(hash) = hash {
            users::set_password(tx, id, Some(hash), now).await?;
            sessions::end(tx, id, Scope::Global).await?;
        }
        if let Some(role) = filled(&self.role) {
            const ROLE: &str = "update auth.users set role = $2, updated_at = $3 where id = $1";
            tx.execute(ROLE, &[&id, &role, &now]).await.map_err(AuthError::updating)?;
        }
        if let Some(data) = &self.user_metadata {
            users::merge_metadata(tx, id, Metadata::User, data, now).await?;
        }
        if let Some(data) = &self.app_metadata {
            users::merge_metadata(tx, id, Metadata::App, data, now).await?;
        }
        match wanted.ban {
            Some(ban) => set_ban(tx, id, ban, now).await,
            None => Ok(()),
        }
    }
}

fn traits_of(user: &User) -> Value {
    json!({ "user_id": user.id, "user_email": user.email, "user_phone": user.phone })
}

async fn check_email_free(
    tx: &Tx,
    email: Option<&str>,
    audience: &str,
    own_id: Option<Uuid>,
) -> Result<(), AuthError> {
    let Some(email) = email else { return Ok(()) };
    let found = users::find_by_email(tx, email, audience).await?;
    if is_other(found.as_ref(), own_id) { Err(AuthError::EmailExists) } else { Ok(()) }
}

async fn check_phone_free(
    tx: &Tx,
    phone: Option<&str>,
    audience: &str,
    own_id: Option<Uuid>,
    taken: AuthError,
) -> Result<(), AuthError> {
    let Some(phone) = phone else { return Ok(()) };
    let found = users::find_by_phone(tx, phone, audience).await?;
    if is_other(found.as_ref(), own_id) { Err(taken) } else { Ok(()) }
}

fn is_other(found: Option<&User>, own_id: Option<Uuid>) -> bool {
    found.is_some_and(|found| Some(found.id) != own_id)
}

async fn set_ban(tx: &Tx, id: Uuid, ban: Ban, now: Timestamp) -> Result<(), AuthError> {
    const BAN: &str = "update auth.users set banned_until = $2, updated_at = $3 where id = $1";
    tx.execute(BAN, &[&id, &ban.until(), &now]).await.map_err(AuthError::updating)?;
    Ok(())
}

/// Sets an address and updates or creates its identity.
async fn change_address(
    tx: &Tx,
    id: Uuid,
    provider: &str,
    value: &str,
    data: Value,
    now: Timestamp,
) -> Result<(), AuthError> {
    const EMAIL: &str =
        "update auth.users set email = $2, is_anonymous = false, updated_at = $3 where id = $1";
    const PHONE: &str =
        "update auth.users set phone = $2, is_anonymous = false, updated_at = $3 where id = $1";
    const IDENTITY: &str = "\
insert into auth.identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
values (gen_random_uuid(), $1::text, $2, $3, $4, $5, $5, $5)
on conflict (provider_id, provider)
do update set identity_data = auth.identities.identity_data || excluded.identity_data, updated_at = $5";
    let (statement, taken) =
        if provider == "email" { (EMAIL, AuthError::EmailExists) } else { (PHONE, AuthError::PhoneExists) };
    let changed = tx.execute(statement, &[&id, &value, &now]).await.map_err(AuthError::updating);
    changed.map_err(|error| error.map_taken_address(taken))?;
    tx.execute(IDENTITY, &[&id.to_string(), &id, &data, &provider, &now])
        .await
        .map_err(AuthError::updating)?;
    Ok(())
}
