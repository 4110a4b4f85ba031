//! WebAuthn factors (auth.md §3.15). The first challenge of a factor creates its credential, later ones use it.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;
use webauthn_rs::prelude::Passkey;

use super::{NAME_LENGTH, NewFactor, Proof, consult_hook, is_wrong_response, required_address};
use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::factors::{self, Challenge};
use crate::hook_types::HookKind;
use crate::limits::rate_limit::Counter;
use crate::origin::Origin;
use crate::sessions::Session;
use crate::sessions::access_token::Granted;
use crate::state::Auth;
use crate::users::{self, Account, Factor, User};
use crate::webauthn::{Ceremony, RelyingParty};

/// The type of these factors.
pub(crate) const WEBAUTHN: &str = "webauthn";
/// In `amr`.
pub(super) const METHOD: &str = "mfa/webauthn";

impl NewFactor<'_> {
    /// Stores an unverified WebAuthn factor and returns its id.
    pub(crate) async fn enroll_webauthn(
        &self,
        auth: &Auth,
        origin: &Origin,
        caller: &Account,
        session: Option<&Session>,
    ) -> Result<Uuid, AuthError> {
        if !auth.config.mfa_web_authn_enroll_enabled {
            return Err(AuthError::SwitchedOff(Feature::WEBAUTHN_ENROLL));
        }
        if self.friendly_name.chars().count() > NAME_LENGTH {
            return Err(AuthError::validation("friendly_name must not be longer than 255 characters"));
        }
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let enrolled = async {
            let user = users::lock(&tx, caller.user.id).await?.ok_or(AuthError::NoSuchSub)?;
            factors::delete_abandoned(&tx, now).await?;
            let account = users::complete(&tx, user).await?;
            self.check(auth, &tx, &account, session).await?;
            let user = &account.user;
            let id = factors::insert_webauthn(&tx, user.id, self.friendly_name, now).await?;
            let traits = Some(json!({ "factor_id": id }));
            auth.audit_log(&origin.client).record(&tx, user, Action::FactorInProgress, traits, now).await?;
            Ok(id)
        }
        .await;
        database::finish(tx, enrolled).await
    }
}

/// What the browser has to do for a challenge.
pub(crate) struct WebAuthnChallenge {
    pub(crate) challenge: Challenge,
    /// `create` or `request`.
    pub(crate) kind: &'static str,
    /// The value of `publicKey`.
    pub(crate) options: Value,
}

/// Creates a challenge for a WebAuthn factor of the caller. `rp_id` is the relying party that the client names, if it names one.
pub(crate) async fn challenge(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    factor: &Factor,
    rp_id: Option<&str>,
) -> Result<WebAuthnChallenge, AuthError> {
    let party = relying_party(auth, rp_id)?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let challenged = async {
        let user = users::lock(&tx, user.id).await?.ok_or(AuthError::NoSuchSub)?;
        let (kind, Ceremony { options, state }) = match credential(&tx, factor.id).await? {
            Some(passkey) => ("request", party.start_assertion(&passkey)?),
            None => ("create", party.start_registration(&user, existing(&tx, user.id).await?, false)?),
        };
        let challenge = factors::challenge(&tx, &origin.client, factor.id, now).await?;
        factors::set_webauthn_state(&tx, challenge.id, &state).await?;
        let traits = Some(json!({ "factor_id": factor.id, "factor_status": factor.status }));
        auth.audit_log(&origin.client).record(&tx, &user, Action::ChallengeCreated, traits, now).await?;
        Ok(WebAuthnChallenge { challenge, kind, options })
    }
    .await;
    database::finish(tx, challenged).await
}

/// The authenticator's response to a challenge.
pub(crate) struct WebAuthnAnswer<'a> {
    /// The session to raise.
    pub(crate) session: &'a Session,
    pub(crate) factor: &'a Factor,
    pub(crate) challenge_id: Uuid,
    pub(crate) rp_id: Option<&'a str>,
    pub(crate) response: &'a Value,
}

impl WebAuthnAnswer<'_> {
    /// Verifies the response and raises the session to aal2. Each challenge works once.
    pub(crate) async fn verify(
        &self,
        auth: &Auth,
        origin: &Origin,
        user_id: Uuid,
    ) -> Result<Granted, AuthError> {
        let party = relying_party(auth, self.rp_id)?;
        let name = format!("factor {}", self.factor.id);
        let attempt = auth.limits.accounts.attempt(&name, Counter::UnknownNetworks).await?;
        let granted = async {
            if auth.hooks.is_enabled(HookKind::MfaVerificationAttempt) {
                let tx = auth.begin(origin).await?;
                let checked = self.check(auth, origin, party, &tx, user_id, auth.now()).await;
                let checked = database::finish(tx, checked).await.map(|_correct| ());
                consult_hook(auth, origin, user_id, self.factor, checked).await?;
            }
            let now = auth.now();
            let tx = auth.begin(origin).await?;
            let verified = async {
                let checked = self.check(auth, origin, party, &tx, user_id, now).await?;
                let Verified { user, credential, aaguid } = checked;
                factors::set_credential(&tx, self.factor.id, &credential, aaguid, now).await?;
                let proof = Proof {
                    session: self.session,
                    factor: self.factor,
                    challenge_id: Some(self.challenge_id),
                    method: METHOD,
                };
                proof.raise(auth, origin, &tx, &user, now).await
            }
            .await;
            database::finish(tx, verified).await
        }
        .await;
        match &granted {
            Ok(_granted) => attempt.succeeded(),
            Err(error) if is_wrong_response(error) => attempt.failed(),
            Err(_other) => {}
        }
        granted
    }

    /// Locks the user, and verifies challenge and response.
    async fn check(
        &self,
        auth: &Auth,
        origin: &Origin,
        party: &RelyingParty,
        tx: &Tx,
        user_id: Uuid,
        now: Timestamp,
    ) -> Result<Verified, AuthError> {
        let user = users::lock(tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
        let address = required_address(auth, origin);
        factors::check_challenge(tx, address, self.factor.id, self.challenge_id, now).await?;
        let wrong = |error: AuthError| {
            if matches!(error, AuthError::WebAuthnFailed) { AuthError::WrongWebAuthnResponse } else { error }
        };
        let id = self.factor.id;
        let state = factors::webauthn_state(tx, self.challenge_id).await?;
        let state = state.ok_or(AuthError::WrongWebAuthnResponse)?;
        let (passkey, aaguid) = match credential(tx, id).await? {
            Some(mut passkey) => {
                party.finish_assertion(&state, self.response, &mut passkey).map_err(wrong)?;
                (passkey, None)
            }
            None => {
                let (passkey, stored) = party.finish_registration(&state, self.response).map_err(wrong)?;
                (passkey, stored.aaguid)
            }
        };
        Ok(Verified { user, credential: json!(passkey), aaguid })
    }
}

/// A verified response.
struct Verified {
    user: User,
    /// The new or used credential.
    credential: Value,
    /// `Some` for a new credential whose authenticator reports its model.
    aaguid: Option<Uuid>,
}

fn relying_party<'a>(auth: &'a Auth, named: Option<&str>) -> Result<&'a RelyingParty, AuthError> {
    let party = auth.relying_party.as_ref().filter(|_party| auth.config.mfa_web_authn_verify_enabled);
    let party = party.ok_or(AuthError::SwitchedOff(Feature::WEBAUTHN_VERIFY))?;
    match named {
        Some(named) if named != party.id() => {
            Err(AuthError::Validation(format!("webauthn.rpId must be {:?}", party.id()).into()))
        }
        Some(_) | None => Ok(party),
    }
}

/// The credential of a factor; `None` before it is verified, or after an import.
async fn credential(tx: &Tx, factor_id: Uuid) -> Result<Option<Passkey>, AuthError> {
    let stored = factors::credential(tx, factor_id).await?;
    Ok(stored.and_then(|stored| serde_json::from_value(stored).ok()))
}

/// The credential ids of the user's factors.
async fn existing(tx: &Tx, user_id: Uuid) -> Result<Vec<Vec<u8>>, AuthError> {
    let stored = factors::credentials(tx, user_id).await?;
    let passkeys = stored.into_iter().filter_map(|stored| serde_json::from_value::<Passkey>(stored).ok());
    Ok(passkeys.map(|passkey| passkey.cred_id().to_vec()).collect())
}
