//! Second factors (auth.md §3.15): enrolling, challenging, verifying, removing. [`mod@phone`] sends the codes of phone factors,
//! [`mod@webauthn`] has WebAuthn factors, [`mod@recovery_codes`] has recovery codes.

mod phone;
pub(crate) mod recovery_codes;
pub(crate) mod webauthn;

use std::net::IpAddr;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::factors::recovery_codes::RECOVERY_CODE;
use crate::factors::totp::{self, Enrolment};
use crate::factors::{self, Challenge};
use crate::flows::notifications::{AccountChange, notify};
use crate::hook_types::HookKind;
use crate::hooks::Decision;
use crate::limits::rate_limit::Counter;
use crate::origin::Origin;
use crate::sessions::access_token::Granted;
use crate::sessions::{self, Scope, Session};
use crate::sms::Channel;
use crate::state::Auth;
use crate::users::{self, Account, Factor, User, address};
use webauthn::WEBAUTHN;

/// The types of factors with codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CodeType {
    Totp,
    Phone,
}

impl CodeType {
    fn from_factor_type(factor_type: &str) -> Option<Self> {
        match factor_type {
            "totp" => Some(Self::Totp),
            "phone" => Some(Self::Phone),
            _ => None,
        }
    }

    /// The method in `amr`.
    const fn method(self) -> &'static str {
        match self {
            Self::Totp => "totp",
            Self::Phone => "mfa/phone",
        }
    }

    const fn wrong_code(self) -> AuthError {
        match self {
            Self::Totp => AuthError::WrongTotpCode,
            Self::Phone => AuthError::WrongPhoneCode,
        }
    }
}

/// Longest name of a factor, in characters.
const NAME_LENGTH: usize = 255;

/// A validated enrolment.
pub(crate) struct NewFactor<'a> {
    pub(crate) factor_type: &'a str,
    pub(crate) friendly_name: &'a str,
    /// Of a TOTP factor. Empty for the host of `auth.site_url`.
    pub(crate) issuer: &'a str,
    /// Of a phone factor.
    pub(crate) phone: &'a str,
}

/// What the client needs of a new factor.
pub(crate) enum Enrolled {
    Totp(Enrolment),
    /// The number, digits only.
    Phone(String),
}

impl NewFactor<'_> {
    /// Stores an unverified factor. Returns its id and what the client needs.
    pub(crate) async fn enroll(
        &self,
        auth: &Auth,
        origin: &Origin,
        caller: &Account,
        session: Option<&Session>,
    ) -> Result<(Uuid, Enrolled), AuthError> {
        let off = Feature::enroll(self.factor_type)
            .ok_or(AuthError::validation("factor_type needs to be totp, phone, or webauthn"))?;
        let code_type = match CodeType::from_factor_type(self.factor_type) {
            Some(CodeType::Totp) if auth.config.mfa_totp_enroll_enabled => CodeType::Totp,
            Some(CodeType::Phone) if auth.config.mfa_phone_enroll_enabled => CodeType::Phone,
            Some(CodeType::Totp | CodeType::Phone) | None => return Err(AuthError::SwitchedOff(off)),
        };
        if self.friendly_name.chars().count() > NAME_LENGTH {
            return Err(AuthError::validation("friendly_name must not be longer than 255 characters"));
        }
        let phone = match code_type {
            CodeType::Totp => String::new(),
            CodeType::Phone if self.phone.is_empty() => {
                return Err(AuthError::validation("Phone number required to enroll Phone factor"));
            }
            CodeType::Phone => address::phone(self.phone)?,
        };
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let enrolled = async {
            let user = users::lock(&tx, caller.user.id).await?.ok_or(AuthError::NoSuchSub)?;
            factors::delete_abandoned(&tx, now).await?;
            let mut account = users::complete(&tx, user).await?;
            if code_type == CodeType::Phone {
                check_number(&account, &phone)?;
                // Replaced by this one.
                account.factors.retain(|other| other.phone.as_deref() != Some(&phone));
            }
            self.check(auth, &tx, &account, session).await?;
            let user = &account.user;
            let (id, enrolled) = match code_type {
                CodeType::Totp => {
                    let enrolment = Enrolment::new(&self.issuer(auth), account_name(user))?;
                    let secret = &enrolment.secret;
                    let id = factors::insert_totp(&tx, user.id, self.friendly_name, secret, now).await?;
                    (id, Enrolled::Totp(enrolment))
                }
                CodeType::Phone => {
                    let id = factors::insert_phone(&tx, user.id, self.friendly_name, &phone, now).await?;
                    (id, Enrolled::Phone(phone))
                }
            };
            let traits = Some(json!({ "factor_id": id }));
            auth.audit_log(&origin.client).record(&tx, user, Action::FactorInProgress, traits, now).await?;
            Ok((id, enrolled))
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
        let has_name =
            |factor: &Factor| factor.friendly_name.as_deref().unwrap_or_default() == self.friendly_name;
        // Recovery codes usually have no name, which must not prevent another factor without a name.
        let can_conflict =
            |factor: &Factor| !recovery_codes::is_set(factor) || !self.friendly_name.is_empty();
        if account.factors.iter().any(|factor| has_name(factor) && can_conflict(factor)) {
            return Err(AuthError::FactorNameTaken(self.friendly_name.to_owned()));
        }
        let counted = || account.factors.iter().filter(|factor| !recovery_codes::is_set(factor));
        let verified = counted().filter(|factor| factor.is_verified()).count();
        if counted().count() >= auth.config.mfa_max_enrolled_factors
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

/// A number can be a verified factor only once. An unfinished enrolment of it is replaced.
fn check_number(account: &Account, phone: &str) -> Result<(), AuthError> {
    let is_same = |factor: &&Factor| factor.phone.as_deref() == Some(phone) && factor.is_verified();
    match account.factors.iter().find(is_same) {
        Some(_verified) => Err(AuthError::PhoneFactorExists),
        None => Ok(()),
    }
}

/// Creates a challenge for a factor of the caller; a phone factor gets a message.
pub(crate) async fn challenge(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    factor: &Factor,
    channel: Channel,
) -> Result<Challenge, AuthError> {
    match verifiable_type(auth, factor)? {
        CodeType::Phone => return phone::challenge(auth, origin, user, factor, channel).await,
        CodeType::Totp => {}
    }
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let challenged = begin_challenge(auth, origin, &tx, user, factor, now).await;
    database::finish(tx, challenged).await
}

async fn begin_challenge(
    auth: &Auth,
    origin: &Origin,
    tx: &Tx,
    user: &User,
    factor: &Factor,
    now: Timestamp,
) -> Result<Challenge, AuthError> {
    let challenge = factors::challenge(tx, &origin.client, factor.id, now).await?;
    let traits = Some(json!({ "factor_id": factor.id, "factor_status": factor.status }));
    auth.audit_log(&origin.client).record(tx, user, Action::ChallengeCreated, traits, now).await?;
    Ok(challenge)
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
        let code_type = verifiable_type(auth, self.factor)?;
        // Counts wrong codes across addresses and challenges, because six digits can be guessed.
        let name = format!("factor {}", self.factor.id);
        let attempt = auth.limits.accounts.attempt(&name, Counter::UnknownNetworks).await?;
        let granted = async {
            if auth.hooks.is_enabled(HookKind::MfaVerificationAttempt) {
                let tx = auth.begin(origin).await?;
                let checked = self.check(auth, &tx, origin, user_id, code_type, auth.now()).await;
                let checked = database::finish(tx, checked).await.map(|_correct| ());
                consult_hook(auth, origin, user_id, self.factor, checked).await?;
            }
            let now = auth.now();
            let tx = auth.begin(origin).await?;
            let verified = async {
                let (user, step) = self.check(auth, &tx, origin, user_id, code_type, now).await?;
                if let Some(step) = step
                    && !factors::use_step(&tx, self.factor.id, step).await?
                {
                    return Err(AuthError::WrongTotpCode);
                }
                let Self { session, factor, challenge_id, code: _ } = *self;
                let challenge_id = Some(challenge_id);
                let proof = Proof { session, factor, challenge_id, method: code_type.method() };
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

    /// Locks the user and checks challenge and code. Returns the step of a TOTP code.
    async fn check(
        &self,
        auth: &Auth,
        tx: &Tx,
        origin: &Origin,
        user_id: Uuid,
        code_type: CodeType,
        now: Timestamp,
    ) -> Result<(User, Option<i64>), AuthError> {
        let user = users::lock(tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
        let address = required_address(auth, origin);
        factors::check_challenge(tx, address, self.factor.id, self.challenge_id, now).await?;
        match code_type {
            CodeType::Totp => {
                // Read under the lock: the factor may have been removed.
                let secret = factors::secret(tx, self.factor.id).await?.ok_or(AuthError::FactorNotFound)?;
                let step = totp::matching_step(&secret, self.code, now)?.ok_or(code_type.wrong_code())?;
                Ok((user, Some(step)))
            }
            CodeType::Phone => {
                if !factors::is_code_of(tx, self.challenge_id, self.code).await? {
                    return Err(code_type.wrong_code());
                }
                Ok((user, None))
            }
        }
    }
}

/// The address that must answer a challenge; `None` for any.
fn required_address(auth: &Auth, origin: &Origin) -> Option<IpAddr> {
    auth.config.mfa_challenge_same_address.then_some(origin.client.address)
}

/// Whether the response to a challenge was wrong, or rejected by the hook. Such attempts are counted.
const fn is_wrong_response(error: &AuthError) -> bool {
    matches!(
        error,
        AuthError::WrongTotpCode
            | AuthError::WrongPhoneCode
            | AuthError::WrongWebAuthnResponse
            | AuthError::WrongRecoveryCode
            | AuthError::FactorRejected(_)
    )
}

/// Lets the hook decide about an attempt, whose response was `checked`. A rejection ends the user's sessions. The hook runs between
/// transactions: the caller checks the response again afterwards.
async fn consult_hook(
    auth: &Auth,
    origin: &Origin,
    user_id: Uuid,
    factor: &Factor,
    checked: Result<(), AuthError>,
) -> Result<(), AuthError> {
    let is_valid = match checked {
        Ok(()) => true,
        Err(error) if is_wrong_response(&error) => false,
        Err(other) => return Err(other),
    };
    let factor = (factor.id, factor.factor_type.as_str());
    match auth.hooks.mfa_attempt(origin, auth.now(), user_id, factor, is_valid).await? {
        Decision::Continue => Ok(()),
        Decision::Reject { message, .. } => {
            let tx = auth.begin(origin).await?;
            let ended = sessions::end(&tx, user_id, Scope::Global).await;
            database::finish(tx, ended).await?;
            Err(AuthError::FactorRejected(message))
        }
    }
}

/// A proven factor.
struct Proof<'a> {
    /// The session to raise.
    session: &'a Session,
    factor: &'a Factor,
    /// `None` for a recovery code.
    challenge_id: Option<Uuid>,
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
        if let Some(challenge_id) = challenge_id {
            factors::mark_verified(tx, user.id, factor.id, *challenge_id, now).await?;
        }
        let refresh_token = sessions::raise(tx, &origin.client, session.id, factor.id, method, now).await?;
        sessions::end_below_aal2(tx, user.id, session.id).await?;
        let traits = Some(json!({
            "factor_id": factor.id, "challenge_id": challenge_id, "factor_type": factor.factor_type
        }));
        auth.audit_log(&origin.client).record(tx, user, Action::VerificationAttempted, traits, now).await?;
        if !factor.is_verified() {
            notify(
                tx,
                auth,
                origin,
                (user.id, user.profile()),
                AccountChange::FactorEnrolled { factor_type: &factor.factor_type },
            )
            .await?;
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
            is_refresh: false,
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
        remove(auth, origin, &tx, user, factor, now).await?;
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
        remove(auth, origin, &tx, user, factor, now).await?;
        let traits = Some(json!({ "factor_id": factor.id, "user_id": user.id }));
        auth.audit_log(&origin.client).record(&tx, actor, Action::FactorDeleted, traits, now).await
    }
    .await;
    database::finish(tx, removed).await
}

/// Changes a user's factor for an admin, and returns it. `phone` is for phone factors only.
pub(crate) async fn change_for_admin(
    auth: &Auth,
    origin: &Origin,
    actor: &User,
    user: &User,
    factor: &Factor,
    (name, phone): (Option<&str>, Option<&str>),
) -> Result<Factor, AuthError> {
    if name.is_some_and(|name| name.chars().count() > NAME_LENGTH) {
        return Err(AuthError::validation("friendly_name must not be longer than 255 characters"));
    }
    let phone =
        phone.filter(|_phone| CodeType::from_factor_type(&factor.factor_type) == Some(CodeType::Phone));
    let phone = phone.map(address::phone).transpose()?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let changed = async {
        let user = users::lock(&tx, user.id).await?.ok_or(AuthError::UserNotFound)?;
        let account = users::complete(&tx, user).await?;
        let others = || account.factors.iter().filter(|other| other.id != factor.id);
        if let Some(name) = name {
            if others().any(|other| other.friendly_name.as_deref().unwrap_or_default() == name) {
                return Err(AuthError::FactorNameTaken(name.to_owned()));
            }
            factors::rename(&tx, factor.id, name, now).await?;
        }
        if let Some(phone) = &phone {
            if others().any(|other| other.phone.as_deref() == Some(phone)) {
                return Err(AuthError::PhoneFactorExists);
            }
            factors::set_phone(&tx, factor.id, phone, now).await?;
        }
        let traits = Some(json!({ "factor_id": factor.id, "user_id": account.user.id }));
        auth.audit_log(&origin.client).record(&tx, actor, Action::FactorUpdated, traits, now).await?;
        let account = users::complete(&tx, account.user).await?;
        account.factors.into_iter().find(|other| other.id == factor.id).ok_or(AuthError::FactorNotFound)
    }
    .await;
    database::finish(tx, changed).await
}

async fn remove(
    auth: &Auth,
    origin: &Origin,
    tx: &Tx,
    user: &User,
    factor: &Factor,
    now: Timestamp,
) -> Result<(), AuthError> {
    delete(tx, factor.id, &factor.factor_type, now).await?;
    if factor.is_verified() {
        notify(
            tx,
            auth,
            origin,
            (user.id, user.profile()),
            AccountChange::FactorUnenrolled { factor_type: &factor.factor_type },
        )
        .await?;
    }
    // Recovery codes replace other factors: alone, they would require a second factor that runs out.
    if let Some(codes) = factors::recovery_codes::sole_factor(tx, user.id).await? {
        delete(tx, codes, RECOVERY_CODE, now).await?;
        notify(
            tx,
            auth,
            origin,
            (user.id, user.profile()),
            AccountChange::FactorUnenrolled { factor_type: RECOVERY_CODE },
        )
        .await?;
    }
    Ok(())
}

async fn delete(tx: &Tx, id: Uuid, factor_type: &str, now: Timestamp) -> Result<(), AuthError> {
    if let Some(method) = amr_method(factor_type) {
        sessions::lower(tx, id, method, now).await?;
    }
    factors::delete(tx, id).await
}

/// The method in `amr`; `None` for an unknown type, possible only after an import.
fn amr_method(factor_type: &str) -> Option<&'static str> {
    match factor_type {
        WEBAUTHN => Some(webauthn::METHOD),
        RECOVERY_CODE => Some(recovery_codes::METHOD),
        other => CodeType::from_factor_type(other).map(CodeType::method),
    }
}

fn verifiable_type(auth: &Auth, factor: &Factor) -> Result<CodeType, AuthError> {
    match CodeType::from_factor_type(&factor.factor_type) {
        Some(CodeType::Totp) if auth.config.mfa_totp_verify_enabled => Ok(CodeType::Totp),
        Some(CodeType::Phone) if auth.config.mfa_phone_verify_enabled => Ok(CodeType::Phone),
        Some(CodeType::Totp | CodeType::Phone) | None => {
            Err(AuthError::SwitchedOff(Feature::verify(&factor.factor_type)))
        }
    }
}
