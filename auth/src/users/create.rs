//! Creates accounts: the only code that inserts into `auth.users`. Sign-up, magic links, invitations, admins, the command line and
//! anonymous sign-ins differ in their [`NewUser`].

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::AuthError;
use crate::users::{self, Account, Object, User};

/// An account to create. It is anonymous without e-mail address and phone number.
pub(crate) struct NewUser<'a> {
    pub(crate) id: Uuid,
    pub(crate) audience: &'a str,
    pub(crate) role: &'a str,
    /// Normalised, like `phone`. Each of them gets an identity.
    pub(crate) email: Option<&'a str>,
    pub(crate) phone: Option<&'a str>,
    pub(crate) password_hash: Option<String>,
    /// Merged into `provider` and `providers`; `null` removes a key.
    pub(crate) app_metadata: Object,
    pub(crate) user_metadata: Object,
    /// Instead of an e-mail or phone identity: that of an external provider.
    pub(crate) external: Option<NewIdentity<'a>>,
    /// For a sign-up, identity and user metadata both contain the user's data and the state of the address (auth.md §3.3).
    /// Otherwise the user metadata is unchanged, and the identity contains only the address.
    pub(crate) is_sign_up: bool,
}

/// An identity at an external provider.
pub(crate) struct NewIdentity<'a> {
    pub(crate) provider: &'a str,
    /// The provider's id of the user.
    pub(crate) subject: &'a str,
    pub(crate) data: &'a Object,
}

impl<'a> NewUser<'a> {
    /// A blank account with a random id.
    pub(crate) fn new(audience: &'a str, role: &'a str) -> Self {
        Self {
            id: random::uuid(),
            audience,
            role,
            email: None,
            phone: None,
            password_hash: None,
            app_metadata: Object::new(),
            user_metadata: Object::new(),
            external: None,
            is_sign_up: false,
        }
    }

    /// The account as a hook sees it before it is created.
    pub(crate) fn preview(&self, now: Timestamp) -> Account {
        let mut user = User {
            aud: self.audience.to_owned(),
            role: self.role.to_owned(),
            email: self.email.unwrap_or_default().to_owned(),
            phone: self.phone.unwrap_or_default().to_owned(),
            user_metadata: self.user_metadata.clone(),
            is_anonymous: self.is_anonymous(),
            ..User::blank(self.id, now)
        };
        let providers: Vec<&str> = match &self.external {
            Some(external) => vec![external.provider],
            None => [("email", self.email), ("phone", self.phone)]
                .into_iter()
                .filter_map(|(provider, address)| address.map(|_address| provider))
                .collect(),
        };
        user.app_metadata = provider_metadata(&providers);
        user.app_metadata.extend(self.app_metadata.clone());
        Account { user, identities: Vec::new(), factors: Vec::new() }
    }

    const fn is_anonymous(&self) -> bool {
        self.email.is_none() && self.phone.is_none() && self.external.is_none()
    }
}

// Unused token columns are '' as in upstream: other readers of this table do not expect NULL.
const INSERT: &str = "\
insert into auth.users (instance_id, id, aud, role, email, phone, encrypted_password, raw_app_meta_data,
  raw_user_meta_data, is_anonymous, created_at, updated_at, confirmation_token,
  recovery_token, email_change_token_new, email_change)
values ('00000000-0000-0000-0000-000000000000', $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, '', '', '', '')";

/// Inserts the user and the identities. The project's triggers may change the row, so callers read it again
/// ([`users::read_back`]) before they return it.
///
/// # Errors
/// Another account has the address ([`AuthError::taken_address`]), a trigger raises an error, or the database fails.
pub(crate) async fn create(tx: &Tx, new: NewUser<'_>, now: Timestamp) -> Result<Uuid, AuthError> {
    let is_anonymous = new.is_anonymous();
    let NewUser { id, audience, role, email, phone, password_hash, user_metadata, is_sign_up, .. } = new;
    let sent = if is_sign_up { user_metadata.clone() } else { Object::new() };
    let mut identities = Vec::new();
    if let Some(external) = &new.external {
        identities.push((external.provider, external.subject.to_owned(), external.data.clone()));
    } else {
        if email.is_some() {
            identities.push(("email", id.to_string(), identity_data(id, email, None, &sent)));
        }
        if phone.is_some() {
            identities.push(("phone", id.to_string(), identity_data(id, None, phone, &sent)));
        }
    }
    let providers: Vec<&str> = identities.iter().map(|(provider, ..)| *provider).collect();
    let mut app_metadata = provider_metadata(&providers);
    for (name, value) in new.app_metadata {
        if value.is_null() {
            app_metadata.remove(&name);
        } else {
            app_metadata.insert(name, value);
        }
    }
    let user_metadata = match identities.first() {
        Some((_, _, data)) if is_sign_up => data.clone(),
        _ => user_metadata,
    };
    let (app_metadata, user_metadata) = (Value::Object(app_metadata), Value::Object(user_metadata));
    tx.execute(
        INSERT,
        &[
            &id,
            &audience,
            &role,
            &email,
            &phone,
            &password_hash,
            &app_metadata,
            &user_metadata,
            &is_anonymous,
            &now,
        ],
    )
    .await
    .map_err(AuthError::saving)?;
    for (provider, provider_id, data) in identities {
        users::insert_identity(tx, id, provider, &provider_id, &data, now).await?;
    }
    Ok(id)
}

/// The data of an e-mail or phone identity. Our keys override the client's (auth.md §3.3).
fn identity_data(id: Uuid, email: Option<&str>, phone: Option<&str>, sent: &Object) -> Object {
    let mut data = sent.clone();
    data.insert("sub".to_owned(), id.to_string().into());
    if let Some(email) = email {
        data.insert("email".to_owned(), email.into());
    }
    if let Some(phone) = phone {
        data.insert("phone".to_owned(), phone.into());
    }
    data.insert("email_verified".to_owned(), false.into());
    data.insert("phone_verified".to_owned(), false.into());
    data
}

/// `{"provider": <first>, "providers": [<all>]}`; empty without providers.
pub(crate) fn provider_metadata(providers: &[&str]) -> Object {
    let mut metadata = Object::new();
    if let Some(first) = providers.first() {
        metadata.insert("provider".to_owned(), (*first).into());
        metadata.insert("providers".to_owned(), json!(providers));
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_cannot_override_identity_keys() {
        let Value::Object(sent) =
            json!({"sub": "x", "email": "y", "email_verified": true, "organization_name": "Acme"})
        else {
            unreachable!()
        };
        let id = Uuid::nil();
        assert_eq!(
            Value::Object(identity_data(id, Some("a@b.org"), None, &sent)),
            json!({
                "sub": id.to_string(),
                "email": "a@b.org",
                "email_verified": false,
                "organization_name": "Acme",
                "phone_verified": false
            })
        );
    }
}
