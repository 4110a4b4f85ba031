//! `GET /user` and `PUT /user`: the caller's own account (auth.md §3.7).
//!
//! A change is checked in the contract's order against the account as read at the start. Passwords are hashed between two
//! transactions, so that no connection waits for argon2.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_pg::pool::Tx;
use serde::Deserialize;
use serde_json::Value;

use crate::audit::Action;
use crate::codes::challenge::{Challenge, ChallengeFields};
use crate::codes::one_time::{self, CodeSettings};
use crate::database;
use crate::emails::mailer::Profile;
use crate::error::AuthError;
use crate::fields::{filled, text};
use crate::flows::code_emails::CodeEmails;
use crate::flows::code_sms::{CodeSms, check_sendable};
use crate::flows::notifications::{AccountChange, notify};
use crate::http::bearer::{Bearer, Caller};
use crate::http::request::{RequestContext, read_json};
use crate::http::routes::signup::channel;
use crate::http::wire::UserBody;
use crate::limits::rate_limit::Counter;
use crate::passwords::hasher::{HashError, Verdict};
use crate::sessions::{self, Amr, Scope};
use crate::sms::{Channel, SmsKind};
use crate::state::Auth;
use crate::users::address;
use crate::users::{self, Account, Metadata, Object, User};

/// Age of a session from which a new password requires a nonce (`security.update_password_require_…`).
const REAUTHENTICATE_AFTER_SECONDS: i64 = 24 * 3600;

#[derive(Deserialize)]
struct UserChange {
    email: Option<String>,
    phone: Option<String>,
    password: Option<String>,
    current_password: Option<String>,
    nonce: Option<String>,
    data: Option<Object>,
    app_metadata: Option<Object>,
    channel: Option<String>,
    #[serde(flatten)]
    challenge: ChallengeFields,
}

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.begin(&request.origin).await?;
    let caller = bearer.caller_or_client(&auth, &tx).await;
    let caller = database::finish(tx, caller).await?;
    if !bearer.is_for(&auth, bearer.audience(&auth, &request)) {
        return Err(AuthError::validation("Token audience doesn't match request audience"));
    }
    Ok(Json(UserBody::from(&caller.account)).into_response())
}

pub(crate) async fn put(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let (caller, amr) = load(&auth, &request, &bearer).await?;
    auth.limits.user.check(request.address())?;
    let change: UserChange = read_json(body).await?;
    let mut change = change.checked(&auth, &bearer, &caller.account).await?;
    check_account(&auth, &request, &change, &caller.account, &amr).await?;
    // Wrong passwords count against the account: a stolen session must not allow guessing.
    let attempt = match change.password {
        Some(_) => {
            let id = caller.account.user.id.to_string();
            Some(auth.limits.accounts.attempt(&id, Counter::UnknownNetworks).await?)
        }
        None => None,
    };
    let written = Box::pin(write(&auth, &request, &caller, &mut change, &amr)).await;
    if let Some(attempt) = attempt {
        // Any failure counts: otherwise a change that fails for another reason would be a free guess.
        if written.is_ok() { attempt.succeeded() } else { attempt.failed() }
    }
    Ok(Json(UserBody::from(&written?)).into_response())
}

async fn write(
    auth: &Auth,
    request: &RequestContext,
    caller: &Caller,
    change: &mut Change,
    amr: &[Amr],
) -> Result<Account, AuthError> {
    let password = new_password(auth, request, change, caller, amr).await?;
    let mut codes = Codes {
        emails: CodeEmails::new(auth, &request.origin, change.challenge.take()),
        sms: CodeSms::new(auth, &request.origin, change.channel),
    };
    let tx = auth.begin(&request.origin).await?;
    let account = apply(auth, request, &tx, caller, change, password, &mut codes).await;
    let account = database::finish(tx, account).await?;
    codes.emails.deliver().await?;
    codes.sms.deliver().await?;
    Ok(account)
}

/// The messages that confirm new addresses.
struct Codes<'a> {
    emails: CodeEmails<'a>,
    sms: CodeSms<'a>,
}

async fn load(
    auth: &Auth,
    request: &RequestContext,
    bearer: &Bearer,
) -> Result<(Caller, Vec<Amr>), AuthError> {
    let tx = auth.begin(&request.origin).await?;
    let loaded = async {
        let caller = bearer.caller(auth, &tx).await?;
        let amr = match &caller.session {
            Some(session) => sessions::amr(&tx, session.id).await?,
            None => Vec::new(),
        };
        Ok((caller, amr))
    }
    .await;
    database::finish(tx, loaded).await
}

/// A validated change. Addresses are normalised, and omitted if unchanged.
struct Change {
    email: Option<String>,
    phone: Option<String>,
    /// `Some("")` clears the password.
    password: Option<String>,
    current_password: Option<String>,
    nonce: Option<String>,
    data: Option<Object>,
    app_metadata: Option<Object>,
    challenge: Option<Challenge>,
    channel: Channel,
}

impl UserChange {
    /// The checks that need no database, in the contract's order.
    async fn checked(self, auth: &Auth, bearer: &Bearer, account: &Account) -> Result<Change, AuthError> {
        let user = &account.user;
        let email = filled(&self.email).map(address::email).transpose()?;
        let phone = filled(&self.phone).map(address::phone).transpose()?;
        let channel = if phone.is_some() { channel(auth, text(&self.channel))? } else { Channel::Sms };
        let challenge = self.challenge.read()?;
        if let Some(password) = filled(&self.password) {
            auth.password_rules.check(password).await?;
        }
        if self.app_metadata.is_some() && !bearer.is_admin(auth) {
            return Err(AuthError::AppMetadataNeedsAdmin);
        }
        Ok(Change {
            email: email.filter(|email| *email != user.email),
            phone: phone.filter(|phone| *phone != user.phone),
            password: self.password,
            current_password: self.current_password,
            nonce: self.nonce,
            data: self.data,
            app_metadata: self.app_metadata,
            challenge,
            channel,
        })
    }
}

/// Checks against the database: rows 3 to 7 of the contract's table.
async fn check_account(
    auth: &Auth,
    request: &RequestContext,
    change: &Change,
    account: &Account,
    amr: &[Amr],
) -> Result<(), AuthError> {
    let user = &account.user;
    let changes_login = change.email.is_some() || change.phone.is_some() || change.password.is_some();
    if !changes_login {
        return Ok(());
    }
    if account.has_verified_factor() && sessions::aal(amr) == "aal1" {
        return Err(AuthError::InsufficientAal);
    }
    let sets_address = change.email.is_some() || change.phone.is_some();
    if user.is_anonymous && change.password.is_some() && !sets_address {
        return Err(AuthError::AnonymousPassword);
    }
    if user.is_sso_user {
        return Err(AuthError::SsoManaged);
    }
    if !sets_address {
        return Ok(());
    }
    let tx = auth.begin(&request.origin).await?;
    let found = async {
        let by_email = match &change.email {
            Some(email) => users::find_by_email(&tx, email, &user.aud).await?,
            None => None,
        };
        let by_phone = match &change.phone {
            Some(phone) => users::find_by_phone(&tx, phone, &user.aud).await?,
            None => None,
        };
        Ok((by_email, by_phone))
    }
    .await;
    let (by_email, by_phone) = database::finish(tx, found).await?;
    let is_other = |found: Option<users::User>| found.is_some_and(|found| found.id != user.id);
    if is_other(by_email) {
        return Err(AuthError::EmailExists);
    }
    if is_other(by_phone) {
        return Err(AuthError::PhoneExists);
    }
    if let Some(phone) = change.phone.as_deref().filter(|_phone| !auth.config.sms_autoconfirm) {
        check_sendable(auth, phone, SmsKind::PhoneChange)?;
    }
    match &change.email {
        Some(email) if !is_immediate(auth, user) => auth.mailer.check_recipient(email),
        Some(_) | None => Ok(()),
    }
}

/// Whether a new address needs no confirmation: an anonymous user's first one under autoconfirm.
fn is_immediate(auth: &Auth, user: &User) -> bool {
    user.is_anonymous && auth.config.mailer_autoconfirm
}

/// A new password that passed all checks.
struct NewPassword {
    /// The column's new value; `None` clears it.
    hash: Option<String>,
    /// Whether it uses up the pending nonce.
    uses_nonce: bool,
}

/// Rows 8 to 10 of the contract's table.
async fn new_password(
    auth: &Auth,
    request: &RequestContext,
    change: &Change,
    caller: &Caller,
    amr: &[Amr],
) -> Result<Option<NewPassword>, AuthError> {
    let user = &caller.account.user;
    let Some(password) = change.password.as_deref() else { return Ok(None) };
    let uses_nonce = needs_nonce(auth, request, change, caller).await?;
    let is_recovery =
        amr.iter().any(|entry| matches!(entry.method.as_str(), "recovery" | "otp" | "magiclink"));
    let stored = user.encrypted_password.as_deref();
    if auth.config.security_update_password_require_current_password
        && !is_recovery
        && let Some(stored) = stored
    {
        let current = filled(&change.current_password).ok_or(AuthError::CurrentPasswordRequired)?;
        if !is_password(auth, current, stored).await? {
            return Err(AuthError::CurrentPasswordInvalid);
        }
    }
    if password.is_empty() {
        return Ok(Some(NewPassword { hash: None, uses_nonce }));
    }
    if let Some(stored) = stored
        && is_password(auth, password, stored).await?
    {
        return Err(AuthError::SamePassword);
    }
    let hash = Some(auth.hasher.hash(password).await?);
    Ok(Some(NewPassword { hash, uses_nonce }))
}

/// An unsupported hash matches no password.
async fn is_password(auth: &Auth, password: &str, stored: &str) -> Result<bool, AuthError> {
    match auth.hasher.verify(password, stored).await {
        Ok(verdict) => Ok(verdict != Verdict::Wrong),
        Err(HashError::Unsupported) => Ok(false),
        Err(error @ (HashError::Overloaded | HashError::Failed)) => Err(error.into()),
    }
}

/// Whether the change requires a nonce, which is then valid. The change uses it up.
async fn needs_nonce(
    auth: &Auth,
    request: &RequestContext,
    change: &Change,
    caller: &Caller,
) -> Result<bool, AuthError> {
    if !auth.config.security_update_password_require_reauthentication {
        return Ok(false);
    }
    let now = auth.now();
    let began = caller.session.as_ref().and_then(|session| session.created_at);
    let is_recent = began.is_some_and(|began| {
        now.as_second().saturating_sub(began.as_second()) < REAUTHENTICATE_AFTER_SECONDS
    });
    if is_recent {
        return Ok(false);
    }
    let nonce = filled(&change.nonce).ok_or(AuthError::ReauthenticationNeeded)?;
    let tx = auth.begin(&request.origin).await?;
    let settings = CodeSettings::new(&auth.config);
    let is_valid = one_time::check_nonce(&tx, settings, caller.account.user.id, nonce, auth.now()).await;
    if database::finish(tx, is_valid).await? { Ok(true) } else { Err(AuthError::ReauthenticationNotValid) }
}

/// Writes the change and returns the account.
async fn apply(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    caller: &Caller,
    change: &Change,
    password: Option<NewPassword>,
    codes: &mut Codes<'_>,
) -> Result<Account, AuthError> {
    let now = codes.emails.now;
    let user = &caller.account.user;
    // Every change of codes locks the user first, to prevent deadlocks.
    let locked = users::lock(tx, user.id).await?.ok_or(AuthError::NoSuchSub)?;
    if let Some(password) = password {
        if password.uses_nonce && !one_time::use_nonce(tx, user.id).await? {
            return Err(AuthError::ReauthenticationNotValid);
        }
        users::set_password(tx, user.id, password.hash.as_deref(), now).await?;
        // Keep the session that changed the password, if the token has one.
        let scope = caller.session.as_ref().map_or(Scope::Global, |session| Scope::Others(session.id));
        sessions::end(tx, user.id, scope).await?;
        auth.audit_log(&request.origin.client)
            .record(tx, user, Action::UserUpdatedPassword, None, now)
            .await?;
        notify(tx, auth, &request.origin, (user.id, user.profile()), AccountChange::Password).await?;
    }
    if let Some(data) = &change.data {
        users::merge_metadata(tx, user.id, Metadata::User, data, now).await?;
    }
    if let Some(data) = &change.app_metadata {
        users::merge_metadata(tx, user.id, Metadata::App, data, now).await?;
    }
    if let Some(email) = &change.email {
        change_email(auth, tx, &locked, email, &mut codes.emails).await?;
    }
    match &change.phone {
        Some(phone) if auth.config.sms_autoconfirm => {
            let set = users::set_phone(tx, user.id, phone, now).await;
            set.map_err(|error| error.map_taken_address(AuthError::PhoneExists))?;
            let changed = Profile { phone, ..user.profile() };
            notify(tx, auth, &request.origin, (user.id, changed), AccountChange::Phone { old: &user.phone })
                .await?;
        }
        Some(phone) => codes.sms.phone_change(tx, &locked, phone).await?,
        None => {}
    }
    auth.audit_log(&request.origin.client).record(tx, user, Action::UserModified, None, now).await?;
    users::account(tx, user.id).await?.ok_or(AuthError::NoSuchSub)
}

/// Sets the address, or mails a confirmation.
async fn change_email(
    auth: &Auth,
    tx: &Tx,
    user: &User,
    email: &str,
    emails: &mut CodeEmails<'_>,
) -> Result<(), AuthError> {
    let now = emails.now;
    if is_immediate(auth, user) {
        let mut data = Object::new();
        data.insert("sub".to_owned(), user.id.to_string().into());
        data.insert("email".to_owned(), email.into());
        data.insert("email_verified".to_owned(), Value::Bool(true));
        data.insert("phone_verified".to_owned(), Value::Bool(false));
        users::set_email(tx, user.id, email, &data, now)
            .await
            .map_err(|error| error.map_taken_address(AuthError::EmailExists))?;
        // Autoconfirm confirms the address but does not prove its ownership.
        data.insert("email_verified".to_owned(), Value::Bool(false));
        return users::insert_identity(tx, user.id, "email", &user.id.to_string(), &data, now).await;
    }
    emails.email_change(tx, user, email).await
}
