//! WebAuthn (auth.md §3.15, §3.22): the ceremonies behind second factors and passkeys, and the rows of passkeys
//! ([`mod@passkeys`]) and their challenges ([`mod@challenges`]).
//!
//! `webauthn-rs` verifies (decision 0150). Its state of a ceremony is stored with the challenge and never leaves the server. Relying
//! party and origins are those of the settings, whatever a client names.

pub(crate) mod challenges;
pub(crate) mod passkeys;

use serde::de::DeserializeOwned;
use serde_cbor_2::Value as Cbor;
use serde_json::{Value, json};
use uuid::Uuid;
use webauthn_rs::prelude::{
    AuthenticationResult, Credential, DiscoverableAuthentication, Passkey, PasskeyAuthentication,
    PasskeyRegistration, PublicKeyCredential, RegisterPublicKeyCredential, Webauthn, WebauthnBuilder,
    WebauthnError,
};
use webauthn_rs_core::internals::AuthenticatorData;
use webauthn_rs_core::proto::{
    AttestationFormat, COSEKey, ParsedAttestation, RegisteredExtensions, Registration, UserVerificationPolicy,
};

use crate::config::relying_party::RelyingPartySettings;
use crate::error::AuthError;
use crate::users::User;

/// This server, as authenticators know it.
pub(crate) struct RelyingParty {
    webauthn: Webauthn,
    id: String,
}

/// What the browser gets, and what the server keeps until the response.
pub(crate) struct Ceremony {
    /// The value of `publicKey`.
    pub(crate) options: Value,
    pub(crate) state: Value,
}

/// A credential in the columns of `auth.webauthn_credentials`.
pub(crate) struct StoredCredential {
    pub(crate) id: Vec<u8>,
    /// A COSE key.
    pub(crate) public_key: Vec<u8>,
    pub(crate) aaguid: Option<Uuid>,
    pub(crate) attestation_type: String,
    pub(crate) sign_count: i64,
    pub(crate) transports: Value,
    pub(crate) is_backup_eligible: bool,
    pub(crate) is_backed_up: bool,
}

/// What a verified assertion changes of its credential.
pub(crate) struct Use {
    pub(crate) sign_count: i64,
    pub(crate) is_backed_up: bool,
}

impl RelyingParty {
    /// # Errors
    /// The library rejects the settings.
    pub(crate) fn new(settings: &RelyingPartySettings) -> Result<Self, AuthError> {
        let RelyingPartySettings { id, name, origins } = settings;
        let unusable = |error: WebauthnError| AuthError::Internal(format!("WebAuthn relying party: {error}"));
        let (first, others) = origins.split_first().ok_or_else(|| unusable(WebauthnError::Configuration))?;
        let builder = WebauthnBuilder::new(id, first).map_err(unusable)?;
        let builder = others.iter().fold(builder, WebauthnBuilder::append_allowed_origin);
        // Development servers change their port.
        let builder = builder.rp_name(name).allow_any_port(id == "localhost");
        Ok(Self { webauthn: builder.build().map_err(unusable)?, id: id.clone() })
    }

    /// The relying party's id: a domain.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Begins a registration. An authenticator that has one of the `existing` credentials refuses.
    pub(crate) fn start_registration(
        &self,
        user: &User,
        existing: Vec<Vec<u8>>,
        is_discoverable: bool,
    ) -> Result<Ceremony, AuthError> {
        let id = user.id.to_string();
        let name = [user.email.as_str(), user.phone.as_str()].into_iter().find(|name| !name.is_empty());
        let name = name.unwrap_or(&id);
        let metadata = |key: &str| user.user_metadata.get(key).and_then(Value::as_str);
        let display = metadata("full_name").or_else(|| metadata("name")).filter(|text| !text.is_empty());
        let (options, state) = self
            .webauthn
            .start_passkey_registration(user.id, name, display.unwrap_or(name), Some(existing))
            .map_err(|error| AuthError::Internal(format!("WebAuthn registration: {error}")))?;
        let mut options = public_key(&options)?;
        let selection = options.get_mut("authenticatorSelection").and_then(Value::as_object_mut);
        // Without a discoverable credential, a sign-in needs a user name.
        if let Some(selection) = selection.filter(|_selection| is_discoverable) {
            selection.insert("residentKey".to_owned(), "required".into());
            selection.insert("requireResidentKey".to_owned(), true.into());
        }
        Ok(Ceremony { options, state: stored(&state)? })
    }

    /// Verifies the authenticator's response to a registration.
    pub(crate) fn finish_registration(
        &self,
        state: &Value,
        response: &Value,
    ) -> Result<(Passkey, StoredCredential), AuthError> {
        let state: PasskeyRegistration = restored(state)?;
        let response: RegisterPublicKeyCredential = parsed(response)?;
        let passkey = self.webauthn.finish_passkey_registration(&response, &state).map_err(refused)?;
        let stored = StoredCredential::new(&passkey, &response.response.attestation_object)?;
        Ok((passkey, stored))
    }

    /// Begins a sign-in without a user name.
    pub(crate) fn start_sign_in(&self) -> Result<Ceremony, AuthError> {
        let (options, state) = self
            .webauthn
            .start_discoverable_authentication()
            .map_err(|error| AuthError::Internal(format!("WebAuthn sign-in: {error}")))?;
        Ok(Ceremony { options: public_key(&options)?, state: stored(&state)? })
    }

    /// The user and the credential that a response names; neither is verified.
    pub(crate) fn identify(&self, response: &Value) -> Result<(Uuid, Vec<u8>), AuthError> {
        let response: PublicKeyCredential = parsed(response)?;
        let (user_id, credential_id) =
            self.webauthn.identify_discoverable_authentication(&response).map_err(refused)?;
        Ok((user_id, credential_id.to_vec()))
    }

    /// Verifies the response to a sign-in with its credential.
    pub(crate) fn finish_sign_in(
        &self,
        state: &Value,
        response: &Value,
        credential: &StoredCredential,
    ) -> Result<Use, AuthError> {
        let state: DiscoverableAuthentication = restored(state)?;
        let response: PublicKeyCredential = parsed(response)?;
        let credential = credential.restore()?;
        let result = self.webauthn.finish_discoverable_authentication_v2(&response, state, &credential);
        Ok(Use::new(&result.map_err(refused)?))
    }

    /// Begins an assertion of a second factor.
    pub(crate) fn start_assertion(&self, passkey: &Passkey) -> Result<Ceremony, AuthError> {
        let (options, state) = self
            .webauthn
            .start_passkey_authentication(std::slice::from_ref(passkey))
            .map_err(|error| AuthError::Internal(format!("WebAuthn assertion: {error}")))?;
        Ok(Ceremony { options: public_key(&options)?, state: stored(&state)? })
    }

    /// Verifies the assertion of a second factor, and updates its credential.
    pub(crate) fn finish_assertion(
        &self,
        state: &Value,
        response: &Value,
        passkey: &mut Passkey,
    ) -> Result<(), AuthError> {
        let state: PasskeyAuthentication = restored(state)?;
        let response: PublicKeyCredential = parsed(response)?;
        let result = self.webauthn.finish_passkey_authentication(&response, &state).map_err(refused)?;
        // The challenge holds the counter of its beginning; the credential may have been used since.
        let newest = Credential::from(passkey.clone()).counter;
        if result.counter() > 0 && result.counter() <= newest {
            return Err(refused(WebauthnError::CredentialPossibleCompromise));
        }
        passkey.update_credential(&result);
        Ok(())
    }
}

impl Use {
    fn new(result: &AuthenticationResult) -> Self {
        Self { sign_count: result.counter().into(), is_backed_up: result.backup_state() }
    }
}

impl StoredCredential {
    /// `attestation_object` is what the authenticator sent; it has been verified.
    fn new(passkey: &Passkey, attestation_object: &[u8]) -> Result<Self, AuthError> {
        let unreadable =
            |error: &dyn std::fmt::Display| AuthError::Internal(format!("WebAuthn credential: {error}"));
        let object: Cbor =
            serde_cbor_2::from_slice(attestation_object).map_err(|error| unreadable(&error))?;
        let Cbor::Map(object) = object else { return Err(unreadable(&"the attestation is not a map")) };
        let Some(Cbor::Bytes(data)) = object.get(&Cbor::Text("authData".to_owned())) else {
            return Err(unreadable(&"no authenticator data"));
        };
        let data = AuthenticatorData::<Registration>::try_from(data.as_slice());
        let attested = data.map_err(|error| unreadable(&error))?.acd;
        let attested = attested.ok_or_else(|| unreadable(&"no attested credential"))?;
        let public_key = serde_cbor_2::to_vec(&attested.credential_pk).map_err(|error| unreadable(&error))?;
        let credential = Credential::from(passkey.clone());
        let aaguid = Uuid::from_bytes(attested.aaguid);
        Ok(Self {
            id: passkey.cred_id().to_vec(),
            public_key,
            aaguid: Some(aaguid).filter(|id| !id.is_nil()),
            attestation_type: json!(credential.attestation_format).as_str().unwrap_or_default().to_owned(),
            sign_count: credential.counter.into(),
            transports: json!(credential.transports.unwrap_or_default()),
            is_backup_eligible: credential.backup_eligible,
            is_backed_up: credential.backup_state,
        })
    }

    /// The credential as the library takes it. Passkeys always verify their user.
    fn restore(&self) -> Result<Credential, AuthError> {
        let unreadable =
            |error: &dyn std::fmt::Display| AuthError::Internal(format!("stored passkey: {error}"));
        let key: Cbor = serde_cbor_2::from_slice(&self.public_key).map_err(|error| unreadable(&error))?;
        Ok(Credential {
            cred_id: self.id.clone(),
            cred: COSEKey::try_from(&key).map_err(|error| unreadable(&error))?,
            counter: u32::try_from(self.sign_count).unwrap_or(u32::MAX),
            transports: None,
            user_verified: true,
            backup_eligible: self.is_backup_eligible,
            backup_state: self.is_backed_up,
            registration_policy: UserVerificationPolicy::Required,
            extensions: RegisteredExtensions::none(),
            attestation: ParsedAttestation::default(),
            attestation_format: AttestationFormat::None,
        })
    }
}

/// The member `publicKey` of options.
fn public_key(options: &impl serde::Serialize) -> Result<Value, AuthError> {
    let mut options = stored(options)?;
    Ok(options.get_mut("publicKey").map(Value::take).unwrap_or_default())
}

fn stored(value: &impl serde::Serialize) -> Result<Value, AuthError> {
    serde_json::to_value(value).map_err(|error| AuthError::Internal(format!("WebAuthn state: {error}")))
}

fn restored<T: DeserializeOwned>(value: &Value) -> Result<T, AuthError> {
    T::deserialize(value).map_err(|error| AuthError::Internal(format!("WebAuthn state: {error}")))
}

fn parsed<T: DeserializeOwned>(response: &Value) -> Result<T, AuthError> {
    T::deserialize(response).map_err(|error| {
        tracing::debug!("the response of the authenticator has another form: {error}");
        AuthError::WebAuthnFailed
    })
}

#[expect(clippy::needless_pass_by_value, reason = "passed to map_err")]
fn refused(error: WebauthnError) -> AuthError {
    tracing::debug!("the response of the authenticator was rejected: {error}");
    AuthError::WebAuthnFailed
}
