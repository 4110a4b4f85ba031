//! Passkeys (auth.md §3.22): registration, sign-in without a user name, removal.
//!
//! A challenge is taken in a transaction of its own: it is used up whatever the response, so that responses cannot be tried.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::database;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::flows::factors::is_aal2;
use crate::flows::verify;
use crate::origin::Origin;
use crate::sessions::Session;
use crate::sessions::access_token::Granted;
use crate::state::Auth;
use crate::users::{self, User};
use crate::webauthn::challenges::{self, Challenge, Kind};
use crate::webauthn::passkeys::{self, PasskeyEntry};
use crate::webauthn::{Ceremony, RelyingParty};

/// `amr` of a sign-in with a passkey.
const METHOD: &str = "passkey";

/// A challenge and the options for the browser.
pub(crate) struct Begun {
    pub(crate) challenge: Challenge,
    /// The value of `publicKey`.
    pub(crate) options: Value,
}

/// The relying party.
///
/// # Errors
/// Passkeys are off.
pub(crate) fn relying_party(auth: &Auth) -> Result<&RelyingParty, AuthError> {
    let party = auth.relying_party.as_ref().filter(|_party| auth.config.passkey_enabled);
    party.ok_or(AuthError::SwitchedOff(Feature::PASSKEYS))
}

/// Begins a registration. Users with a second factor must have used it: a passkey outlives the session.
pub(crate) async fn start_registration(
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    session: Option<&Session>,
) -> Result<Begun, AuthError> {
    let party = relying_party(auth)?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let begun = async {
        let user = users::lock(&tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
        let account = users::complete(&tx, user).await?;
        if account.has_verified_factor() && !is_aal2(&tx, session).await? {
            return Err(AuthError::EnrollNeedsAal2);
        }
        let existing = passkeys::credential_ids(&tx, user_id).await?;
        if existing.len() >= auth.config.passkey_max_passkeys_per_user {
            return Err(AuthError::TooManyPasskeys);
        }
        let Ceremony { options, state } = party.start_registration(&account.user, existing, true)?;
        let lifetime = auth.config.webauthn_challenge_expiry_duration;
        let challenge =
            challenges::insert(&tx, Kind::Registration, Some(user_id), &state, lifetime, now).await?;
        Ok(Begun { challenge, options })
    }
    .await;
    database::finish(tx, begun).await
}

/// Stores the passkey of a verified response.
pub(crate) async fn finish_registration(
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    challenge_id: Uuid,
    response: &Value,
) -> Result<PasskeyEntry, AuthError> {
    let party = relying_party(auth)?;
    let state = take(auth, origin, Kind::Registration, challenge_id, Some(user_id)).await?;
    let (_passkey, credential) = party.finish_registration(&state, response)?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let registered = async {
        let user = users::lock(&tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
        // Counted under the lock: registrations may have been concurrent.
        if passkeys::list(&tx, user_id).await?.len() >= auth.config.passkey_max_passkeys_per_user {
            return Err(AuthError::TooManyPasskeys);
        }
        let passkey = passkeys::insert(&tx, user_id, &credential, now).await?;
        let traits = Some(json!({ "passkey_id": passkey.id }));
        auth.audit_log(&origin.client).record(&tx, &user, Action::PasskeyCreated, traits, now).await?;
        Ok(passkey)
    }
    .await;
    database::finish(tx, registered).await
}

/// Begins a sign-in.
pub(crate) async fn start_sign_in(auth: &Auth, origin: &Origin) -> Result<Begun, AuthError> {
    let Ceremony { options, state } = relying_party(auth)?.start_sign_in()?;
    let lifetime = auth.config.webauthn_challenge_expiry_duration;
    let tx = auth.autocommit(origin).await?;
    let challenge = challenges::insert(&tx, Kind::Authentication, None, &state, lifetime, auth.now()).await;
    Ok(Begun { challenge: database::finish(tx, challenge).await?, options })
}

/// Signs in with a verified response.
pub(crate) async fn finish_sign_in(
    auth: &Auth,
    origin: &Origin,
    challenge_id: Uuid,
    response: &Value,
) -> Result<Granted, AuthError> {
    let party = relying_party(auth)?;
    let (user_id, credential_id) = party.identify(response)?;
    let state = take(auth, origin, Kind::Authentication, challenge_id, None).await?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let granted = async {
        let user = users::lock(&tx, user_id).await?.ok_or(AuthError::WebAuthnCredentialNotFound)?;
        let found = passkeys::lock(&tx, user_id, &credential_id).await?;
        let (id, credential) = found.ok_or(AuthError::WebAuthnCredentialNotFound)?;
        let used = party.finish_sign_in(&state, response, &credential)?;
        if user.is_banned(now) {
            return Err(AuthError::SignInBanned);
        }
        passkeys::record_use(&tx, id, &used, now).await?;
        auth.audit_log(&origin.client)
            .record(&tx, &user, Action::Login, audit::provider(METHOD), now)
            .await?;
        verify::sign_in(&tx, &origin.client, user_id, METHOD, now).await
    }
    .await;
    database::finish(tx, granted).await
}

async fn take(
    auth: &Auth,
    origin: &Origin,
    kind: Kind,
    challenge_id: Uuid,
    user_id: Option<Uuid>,
) -> Result<Value, AuthError> {
    let tx = auth.autocommit(origin).await?;
    let taken = challenges::take(&tx, kind, challenge_id, user_id, auth.now()).await;
    match taken {
        // The deletion stays, although the request fails.
        Err(AuthError::WebAuthnChallengeExpired) => {
            database::finish(tx, Ok(())).await?;
            Err(AuthError::WebAuthnChallengeExpired)
        }
        taken => database::finish(tx, taken).await,
    }
}

/// Renames a passkey.
pub(crate) async fn rename(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    id: Uuid,
    name: &str,
) -> Result<PasskeyEntry, AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let renamed = async {
        let passkey = passkeys::rename(&tx, user.id, id, name, now).await?;
        let passkey = passkey.ok_or(AuthError::WebAuthnCredentialNotFound)?;
        let traits = Some(json!({ "passkey_id": id }));
        auth.audit_log(&origin.client).record(&tx, user, Action::PasskeyUpdated, traits, now).await?;
        Ok(passkey)
    }
    .await;
    database::finish(tx, renamed).await
}

/// Deletes a passkey of a user; `actor` is the user or an admin.
pub(crate) async fn delete(
    auth: &Auth,
    origin: &Origin,
    actor: &User,
    user_id: Uuid,
    id: Uuid,
) -> Result<(), AuthError> {
    let tx = auth.begin(origin).await?;
    let deleted = async {
        if !passkeys::delete(&tx, user_id, id).await? {
            return Err(AuthError::WebAuthnCredentialNotFound);
        }
        let traits = Some(json!({ "user_id": user_id, "passkey_id": id }));
        auth.audit_log(&origin.client).record(&tx, actor, Action::PasskeyDeleted, traits, auth.now()).await
    }
    .await;
    database::finish(tx, deleted).await
}
