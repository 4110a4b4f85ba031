//! A new account with an address: the row of the user and that of its identity, in one transaction with whatever made
//! it necessary. The project's triggers take part, so the row is read back.

use basalt_core::pool::Tx;
use basalt_core::random;
use jiff::Timestamp;
use uuid::Uuid;

use crate::Auth;
use crate::error::AuthError;
use crate::users::sign_up::{Contact, read_back};
use crate::users::{self, NewUser, Object, User};

/// An account to be made.
pub(crate) struct Registration<'a> {
    id: Uuid,
    contact: &'a Contact,
    audience: &'a str,
    encrypted_password: Option<String>,
    user_metadata: Object,
    identity_data: Object,
}

impl<'a> Registration<'a> {
    /// By its owner: the metadata repeats what the identity says (auth.md §3.3).
    pub(crate) fn by_owner(
        contact: &'a Contact,
        audience: &'a str,
        encrypted_password: String,
        data: &Object,
    ) -> Self {
        let id = random::uuid();
        let identity_data = users::sign_up_data(id, contact.email(), contact.phone(), data);
        Self {
            id,
            contact,
            audience,
            encrypted_password: Some(encrypted_password),
            user_metadata: identity_data.clone(),
            identity_data,
        }
    }

    /// By an admin: the metadata is what the admin wrote.
    pub(crate) fn by_admin(
        contact: &'a Contact,
        audience: &'a str,
        encrypted_password: Option<String>,
        data: &Object,
    ) -> Self {
        let id = random::uuid();
        let identity_data = users::sign_up_data(id, contact.email(), contact.phone(), &Object::new());
        Self { id, contact, audience, encrypted_password, user_metadata: data.clone(), identity_data }
    }

    /// Inserts user and identity and reads the row back.
    ///
    /// # Errors
    /// The address is another's ([`AuthError::is_taken_address`]), a trigger refuses, or the database's.
    pub(crate) async fn insert(self, auth: &Auth, tx: &Tx, now: Timestamp) -> Result<User, AuthError> {
        let provider = self.contact.provider();
        let new = NewUser {
            id: self.id,
            aud: self.audience.to_owned(),
            role: auth.config.default_role().to_owned(),
            email: self.contact.email().map(str::to_owned),
            phone: self.contact.phone().map(str::to_owned),
            encrypted_password: self.encrypted_password,
            app_metadata: users::provider_metadata(provider),
            user_metadata: self.user_metadata,
            is_anonymous: false,
        };
        users::insert(tx, &new, now).await?;
        users::insert_identity(tx, self.id, provider, &self.id.to_string(), &self.identity_data, now).await?;
        read_back(tx, self.id).await
    }
}
