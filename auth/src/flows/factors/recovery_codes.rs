//! Recovery codes (auth.md §3.15, decision 0180): ten codes, each of which replaces a lost factor once. They are shown when they
//! are generated and stored as hashes.

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::{NAME_LENGTH, Proof, consult_hook, is_aal2, is_wrong_response};
use crate::audit::Action;
use crate::database;
use crate::error::AuthError;
use crate::error::feature::Feature;
use crate::factors::recovery_codes::{self as rows, RECOVERY_CODE};
use crate::flows::notifications::{AccountChange, notify};
use crate::hook_types::HookKind;
use crate::limits::rate_limit::Counter;
use crate::origin::Origin;
use crate::sessions::Session;
use crate::sessions::access_token::Granted;
use crate::state::Auth;
use crate::users::{self, Account, Factor};

/// In `amr`.
pub(super) const METHOD: &str = "mfa/recovery_code";

/// A user's codes, without the codes themselves.
pub(crate) struct CodeSet {
    pub(crate) factor_id: Uuid,
    pub(crate) total: i64,
    pub(crate) remaining: i64,
}

/// Codes to show once.
pub(crate) struct NewCodes {
    pub(crate) factor_id: Uuid,
    pub(crate) friendly_name: String,
    pub(crate) codes: Vec<String>,
}

/// Returns how many codes the caller has left.
pub(crate) async fn status(auth: &Auth, origin: &Origin, caller: &Account) -> Result<CodeSet, AuthError> {
    let factor_id = factor(caller).ok_or(AuthError::FactorNotFound)?.id;
    let tx = auth.autocommit(origin).await?;
    let counted = rows::count(&tx, factor_id).await;
    let (total, remaining) = database::finish(tx, counted).await?;
    Ok(CodeSet { factor_id, total, remaining })
}

/// Generates the caller's first codes. They must have another verified factor, and have used it in this session.
pub(crate) async fn generate(
    auth: &Auth,
    origin: &Origin,
    caller: &Account,
    session: Option<&Session>,
    friendly_name: &str,
) -> Result<NewCodes, AuthError> {
    check_enabled(auth)?;
    if friendly_name.chars().count() > NAME_LENGTH {
        return Err(AuthError::validation("friendly_name must not be longer than 255 characters"));
    }
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let generated = async {
        let user = users::lock(&tx, caller.user.id).await?.ok_or(AuthError::NoSuchSub)?;
        let account = users::complete(&tx, user).await?;
        if !account.factors.iter().any(|factor| factor.is_verified() && !is_set(factor)) {
            return Err(AuthError::RecoveryCodesAlone);
        }
        if !is_aal2(&tx, session).await? {
            return Err(AuthError::EnrollNeedsAal2);
        }
        if factor(&account).is_some() {
            return Err(AuthError::RecoveryCodesExist);
        }
        let has_name = |factor: &Factor| factor.friendly_name.as_deref() == Some(friendly_name);
        if !friendly_name.is_empty() && account.factors.iter().any(has_name) {
            return Err(AuthError::FactorNameTaken(friendly_name.to_owned()));
        }
        let factor_id = rows::insert_factor(&tx, account.user.id, friendly_name, now).await?;
        let codes = replace(auth, origin, &tx, &account, factor_id, now).await?;
        notify(
            &tx,
            auth,
            origin,
            (account.user.id, account.user.profile()),
            AccountChange::FactorEnrolled { factor_type: RECOVERY_CODE },
        )
        .await?;
        Ok(NewCodes { factor_id, friendly_name: friendly_name.to_owned(), codes })
    }
    .await;
    database::finish(tx, generated).await
}

/// Replaces the caller's codes, and ends a lock after wrong codes.
pub(crate) async fn regenerate(
    auth: &Auth,
    origin: &Origin,
    caller: &Account,
    session: Option<&Session>,
) -> Result<NewCodes, AuthError> {
    check_enabled(auth)?;
    let now = auth.now();
    let tx = auth.begin(origin).await?;
    let replaced = async {
        let user = users::lock(&tx, caller.user.id).await?.ok_or(AuthError::NoSuchSub)?;
        let account = users::complete(&tx, user).await?;
        let factor = factor(&account).ok_or(AuthError::FactorNotFound)?;
        if !is_aal2(&tx, session).await? {
            return Err(AuthError::EnrollNeedsAal2);
        }
        let codes = replace(auth, origin, &tx, &account, factor.id, now).await?;
        let friendly_name = factor.friendly_name.clone().unwrap_or_default();
        Ok(NewCodes { factor_id: factor.id, friendly_name, codes })
    }
    .await;
    let replaced = database::finish(tx, replaced).await?;
    auth.limits.accounts.reset(&counter_name(caller.user.id), Counter::UnknownNetworks);
    Ok(replaced)
}

/// Removes the caller's codes and returns the id of their factor.
pub(crate) async fn unenroll(
    auth: &Auth,
    origin: &Origin,
    caller: &Account,
    session: Option<&Session>,
) -> Result<Uuid, AuthError> {
    let factor = factor(caller).ok_or(AuthError::FactorNotFound)?;
    super::unenroll(auth, origin, &caller.user, session, factor).await?;
    Ok(factor.id)
}

/// Uses a code and raises the session to aal2.
pub(crate) async fn verify(
    auth: &Auth,
    origin: &Origin,
    caller: &Account,
    session: &Session,
    code: &str,
) -> Result<Granted, AuthError> {
    if !auth.config.mfa_recovery_codes_verify_enabled {
        return Err(AuthError::SwitchedOff(Feature::VERIFY_CODES));
    }
    let user_id = caller.user.id;
    let attempt = auth.limits.accounts.attempt(&counter_name(user_id), Counter::UnknownNetworks).await;
    let attempt = attempt.map_err(|error| {
        if let AuthError::RateLimited { retry_after } = error {
            AuthError::RecoveryCodesLocked { retry_after }
        } else {
            error
        }
    })?;
    let granted = async {
        let factor = factor(caller).ok_or(AuthError::WrongRecoveryCode)?;
        if auth.hooks.is_enabled(HookKind::MfaVerificationAttempt) {
            let tx = auth.autocommit(origin).await?;
            let found = rows::is_unused(&tx, factor.id, code).await;
            let is_unused = database::finish(tx, found).await?;
            let checked = if is_unused { Ok(()) } else { Err(AuthError::WrongRecoveryCode) };
            consult_hook(auth, origin, user_id, factor, checked).await?;
        }
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let verified = async {
            let user = users::lock(&tx, user_id).await?.ok_or(AuthError::NoSuchSub)?;
            if !rows::use_code(&tx, factor.id, code, now).await? {
                return Err(AuthError::WrongRecoveryCode);
            }
            let proof = Proof { session, factor, challenge_id: None, method: METHOD };
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

/// The name under which wrong codes are counted.
fn counter_name(user_id: Uuid) -> String {
    format!("recovery codes {user_id}")
}

fn check_enabled(auth: &Auth) -> Result<(), AuthError> {
    if auth.config.mfa_recovery_codes_enroll_enabled {
        Ok(())
    } else {
        Err(AuthError::SwitchedOff(Feature::ENROLL_CODES))
    }
}

pub(super) fn is_set(factor: &Factor) -> bool {
    factor.factor_type == RECOVERY_CODE
}

fn factor(account: &Account) -> Option<&Factor> {
    account.factors.iter().find(|factor| is_set(factor))
}

async fn replace(
    auth: &Auth,
    origin: &Origin,
    tx: &Tx,
    account: &Account,
    factor_id: Uuid,
    now: Timestamp,
) -> Result<Vec<String>, AuthError> {
    let codes = rows::generate();
    rows::replace(tx, factor_id, &codes, now).await?;
    let traits = Some(json!({ "factor_id": factor_id }));
    let action = Action::RecoveryCodesGenerated;
    auth.audit_log(&origin.client).record(tx, &account.user, action, traits, now).await?;
    Ok(codes)
}
