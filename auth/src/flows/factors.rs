//! Second factors (auth.md §3.15): enrolling, challenging, verifying, removing. [`mod@webauthn`] has WebAuthn factors; phones are
//! not implemented.

pub(crate) mod webauthn;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::emails::notifications;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::factors::totp::{self, Enrolment};
use crate::factors::{self, Challenge};
use crate::limits::rate_limit::Counter;
use crate::origin::Origin;
use crate::sessions::access_token::Granted;
use crate::sessions::{self, Session};
use crate::state::Auth;
use crate::users::{self, Account, Factor, User};
use webauthn::WEBAUTHN;

const TOTP: &str = "totp";
/// Longest name of a factor, in characters.
const NAME_LENGTH: usize = 255;

/// A validated enrolment.
pub(crate) struct NewFactor<'a> {
    pub(crate) factor_type: &'a str,
    pub(crate) friendly_name: &'a str,
    /// Empty for the host of `auth.site_url`.
    pub(crate) issuer: &'a str,
}

impl NewFactor<'_> {
    /// Stores an unverified factor. Returns its id and what the authenticator app needs.
    pub(crate) async fn enroll(
        &self,
        auth: &Auth,
        origin: &Origin,
        caller: &Account,
        session: Option<&Session>,
    ) -> Result<(Uuid, Enrolment), AuthError> {
        let off = Feature::enroll(self.factor_type)
            .ok_or(AuthError::validation("factor_type needs to be totp, phone, or webauthn"))?;
        if self.factor_type != TOTP || !auth.config.mfa_totp_enroll_enabled {
            return Err(AuthError::SwitchedOff(off));
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
            let enrolment = Enrolment::new(&self.issuer(auth), account_name(&account.user))?;
            let id = factors::insert_totp(&tx, account.user.id, self.friendly_name, &enrolment.secret, now)
                .await?;
            let traits = Some(json!({ "factor_id": id }));
            auth.audit_log(&origin.client)
                .record(&tx, &account.user, Action::FactorInProgress, traits, now)
                .await?;
            Ok((id, enrolment))
        }
        .await;
        database::finish(tx, enrolled).await
    }

    async fn check(
        &self,
        auth: &Auth,
        tx: &Tx,
        account: &Account,
        session: Option<&Session>,
    ) -> Result<(), AuthError> {
        let name =
            |factor: &Factor| factor.friendly_name.as_deref().unwrap_or_default() == self.friendly_name;
        if account.factors.iter().any(name) {
            return Err(AuthError::FactorNameTaken(self.friendly_name.to_owned()));
        }
        let verified = account.factors.iter().filter(|factor| factor.is_verified()).count();
        if account.factors.len() >= auth.config.mfa_max_enrolled_factors
            || verified >= auth.config.mfa_max_verified_factors
        {
            return Err(AuthError::TooManyFactors);
        }
        if verified > 0 && !is_aal2(tx, session).await? {
            return Err(AuthError::EnrollNeedsAal2);
        }
        Ok(())
    }

    fn issuer(&self, auth: &Auth) -> String {
        if !self.issuer.is_empty() {
            return self.issuer.to_owned();
        }
        let site = Url::parse(&auth.config.site_url).ok();
        site.as_ref().and_then(Url::host_str).unwrap_or("localhost").to_owned()
    }
}

/// What the authenticator app shows below the issuer.
fn account_name(user: &User) -> &str {
    [user.email.as_str(), user.phone.as_str()].into_iter().find(|name| !name.is_empty()).unwrap_or("account")
}

/// Whether the session was authenticated with a second factor.
pub(crate) async fn is_aal2(tx: &Tx, session: Option<&Session>) -> Result<bool, AuthError> {
    match session {
        Some(session) => Ok(sessions::aal(&sessions::amr(tx, session.id).await?) == "aal2"),
        None => Ok(false),
    }
}

/// Creates a challenge for a factor of the caller.
pub(crate) async fn challenge(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    factor: &Factor,
) -> Result<Challenge, AuthError> {
    check_verifiable(auth, factor)?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let challenged = async {
        let challenge = factors::challenge(&tx, &origin.client, factor.id, now).await?;
        let traits = Some(json!({ "factor_id": factor.id, "factor_status": factor.status }));
        auth.audit_log(&origin.client).record(&tx, user, Action::ChallengeCreated, traits, now).await?;
        Ok(challenge)
    }
    .await;
    database::finish(tx, challenged).await
}

/// A code for a challenge.
pub(crate) struct Answer<'a> {
    /// The session to raise.
    pub(crate) session: &'a Session,
    pub(crate) factor: &'a Factor,
    pub(crate) challenge_id: Uuid,
    pub(crate) code: &'a str,
}

impl Answer<'_> {
    /// Verifies the code and raises the session to aal2. Each code and each challenge works once.
    pub(crate) async fn verify(
        &self,
        auth: &Auth,
        origin: &Origin,
        user_id: Uuid,
    ) -> Result<Granted, AuthError> {
        let factor = self.factor;
        check_verifiable(auth, factor)?;
        // Counts wrong codes across addresses and challenges, because six digits can be guessed.
        let name = format!("factor {}", factor.id);
        let attempt = auth.limits.accounts.attempt(&name, Counter::UnknownNetworks).await?;
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let verified = async {
            let user = users::lock(&tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
            factors::check_challenge(&tx, &origin.client, factor.id, self.challenge_id, now).await?;
            // Read under the lock: the factor may have been removed.
            let secret = factors::secret(&tx, factor.id).await?.ok_or(AuthError::FactorNotFound)?;
            let step = totp::matching_step(&secret, self.code, now)?.ok_or(AuthError::WrongTotpCode)?;
            if !factors::use_step(&tx, factor.id, step).await? {
                return Err(AuthError::WrongTotpCode);
            }
            let Self { session, factor, challenge_id, code: _ } = *self;
            let proof = Proof { session, factor, challenge_id, method: TOTP };
            proof.raise(auth, origin, &tx, &user, now).await
        }
        .await;
        let granted = database::finish(tx, verified).await;
        match &granted {
            Ok(_granted) => attempt.succeeded(),
            Err(AuthError::WrongTotpCode) => attempt.failed(),
            Err(_other) => {}
        }
        granted
    }
}

/// A proven factor.
struct Proof<'a> {
    /// The session to raise.
    session: &'a Session,
    factor: &'a Factor,
    challenge_id: Uuid,
    /// In `amr`.
    method: &'a str,
}

impl Proof<'_> {
    /// Writes the effects of a correct response.
    async fn raise(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        user: &User,
        now: Timestamp,
    ) -> Result<Granted, AuthError> {
        let Self { session, factor, challenge_id, method } = self;
        factors::mark_verified(tx, user.id, factor.id, *challenge_id, now).await?;
        let refresh_token = sessions::raise(tx, &origin.client, session.id, factor.id, method, now).await?;
        sessions::end_below_aal2(tx, user.id, session.id).await?;
        let traits = Some(json!({
            "factor_id": factor.id, "challenge_id": challenge_id, "factor_type": factor.factor_type
        }));
        auth.audit_log(&origin.client).record(tx, user, Action::VerificationAttempted, traits, now).await?;
        if !factor.is_verified() {
            notifications::factor_enrolled(tx, &auth.mailer, user.profile(), &factor.factor_type).await?;
        }
        let account = users::account(tx, user.id).await?.ok_or(AuthError::NoSuchSub)?;
        let amr = sessions::amr(tx, session.id).await?;
        Ok(Granted {
            account,
            session_id: session.id,
            amr,
            refresh_token,
            now,
            weak_password: None,
            provider_tokens: None,
            client: None,
        })
    }
}

/// Removes a factor of the caller. A verified one requires an aal2 session.
pub(crate) async fn unenroll(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    session: Option<&Session>,
    factor: &Factor,
) -> Result<(), AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let removed = async {
        users::lock(&tx, user.id).await?.ok_or(AuthError::NoSuchSub)?;
        if factor.is_verified() && !is_aal2(&tx, session).await? {
            return Err(AuthError::FactorNeedsAal2);
        }
        remove(auth, &tx, user, factor, now).await?;
        let traits = Some(json!({ "factor_id": factor.id, "factor_status": factor.status }));
        auth.audit_log(&origin.client).record(&tx, user, Action::FactorUnenrolled, traits, now).await
    }
    .await;
    database::finish(tx, removed).await
}

/// Removes a user's factor for an admin.
pub(crate) async fn delete_for_admin(
    auth: &Auth,
    origin: &Origin,
    actor: &User,
    user: &User,
    factor: &Factor,
) -> Result<(), AuthError> {
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let removed = async {
        users::lock(&tx, user.id).await?.ok_or(AuthError::UserNotFound)?;
        remove(auth, &tx, user, factor, now).await?;
        let traits = Some(json!({ "factor_id": factor.id, "user_id": user.id }));
        auth.audit_log(&origin.client).record(&tx, actor, Action::FactorDeleted, traits, now).await
    }
    .await;
    database::finish(tx, removed).await
}

/// Renames a user's factor for an admin, and returns it.
pub(crate) async fn rename_for_admin(
    auth: &Auth,
    origin: &Origin,
    actor: &User,
    user: &User,
    factor: &Factor,
    name: &str,
) -> Result<Factor, AuthError> {
    if name.chars().count() > NAME_LENGTH {
        return Err(AuthError::validation("friendly_name must not be longer than 255 characters"));
    }
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let renamed = async {
        let user = users::lock(&tx, user.id).await?.ok_or(AuthError::UserNotFound)?;
        let account = users::complete(&tx, user).await?;
        let is_name = |other: &&Factor| other.friendly_name.as_deref().unwrap_or_default() == name;
        if account.factors.iter().filter(|other| other.id != factor.id).any(|other| is_name(&other)) {
            return Err(AuthError::FactorNameTaken(name.to_owned()));
        }
        factors::rename(&tx, factor.id, name, now).await?;
        let traits = Some(json!({ "factor_id": factor.id, "user_id": account.user.id }));
        auth.audit_log(&origin.client).record(&tx, actor, Action::FactorUpdated, traits, now).await?;
        let account = users::complete(&tx, account.user).await?;
        account.factors.into_iter().find(|other| other.id == factor.id).ok_or(AuthError::FactorNotFound)
    }
    .await;
    database::finish(tx, renamed).await
}

async fn remove(auth: &Auth, tx: &Tx, user: &User, factor: &Factor, now: Timestamp) -> Result<(), AuthError> {
    let method = if factor.factor_type == WEBAUTHN { webauthn::METHOD } else { TOTP };
    sessions::lower(tx, factor.id, method, now).await?;
    factors::delete(tx, factor.id).await?;
    if factor.is_verified() {
        notifications::factor_unenrolled(tx, &auth.mailer, user.profile(), &factor.factor_type).await?;
    }
    Ok(())
}

fn check_verifiable(auth: &Auth, factor: &Factor) -> Result<(), AuthError> {
    if factor.factor_type == TOTP && auth.config.mfa_totp_verify_enabled {
        Ok(())
    } else {
        Err(AuthError::SwitchedOff(Feature::verify(&factor.factor_type)))
    }
}
