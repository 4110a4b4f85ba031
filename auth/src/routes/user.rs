//! `GET /user` and `PUT /user`: the caller's own account (auth.md §3.7).
//!
//! A change is checked in the contract's order against the account as it stood when the request came; passwords are
//! hashed between two transactions, so that no connection waits for argon2.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use basalt_core::pool::Tx;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::Auth;
use crate::address;
use crate::audit::{self, Action};
use crate::bearer::{Bearer, Caller};
use crate::error::AuthError;
use crate::hasher::{HashError, Verdict};
use crate::one_time;
use crate::request::{RequestContext, read_json};
use crate::routes::signup::{check_channel, check_new_password, check_pkce};
use crate::sessions::{self, Amr, Scope};
use crate::sign_up::{check_frequency, mail_is_dropped};
use crate::users::{self, Account, Object};
use crate::wire::UserBody;

/// A session older than this proves too little for a new password (`security.update_password_require_…`).
const REAUTHENTICATE_AFTER_SECONDS: i64 = 24 * 3600;

#[derive(Debug, Deserialize)]
struct UserChange {
    email: Option<String>,
    phone: Option<String>,
    password: Option<String>,
    current_password: Option<String>,
    nonce: Option<String>,
    data: Option<Object>,
    app_metadata: Option<Object>,
    channel: Option<String>,
    code_challenge: Option<String>,
    code_challenge_method: Option<String>,
}

pub(crate) async fn get(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
) -> Result<Response, AuthError> {
    let bearer = Bearer::read(&auth, &request)?;
    let tx = auth.begin(&request).await?;
    let caller = bearer.caller(&auth, &tx).await;
    let caller = crate::finish(tx, caller).await?;
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
    auth.limits.user.check(request.address)?;
    let change: UserChange = read_json(body).await?;
    let change = change.checked(&auth, &bearer, &caller.account)?;
    check_account(&auth, &request, &change, &caller.account, &amr).await?;
    let password = new_password(&auth, &change, &caller, &amr).await?;
    let tx = auth.begin(&request).await?;
    let account = apply(&auth, &request, &tx, &caller, &change, password).await;
    let account = crate::finish(tx, account).await?;
    Ok(Json(UserBody::from(&account)).into_response())
}

async fn load(
    auth: &Auth,
    request: &RequestContext,
    bearer: &Bearer,
) -> Result<(Caller, Vec<Amr>), AuthError> {
    let tx = auth.begin(request).await?;
    let loaded = async {
        let caller = bearer.caller(auth, &tx).await?;
        let amr = match &caller.session {
            Some(session) => sessions::amr(&tx, session.id).await?,
            None => Vec::new(),
        };
        Ok((caller, amr))
    }
    .await;
    crate::finish(tx, loaded).await
}

/// A change whose fields are in stored form; an address that is the account's own is no change.
struct Change {
    email: Option<String>,
    phone: Option<String>,
    /// `Some("")` clears the password.
    password: Option<String>,
    current_password: Option<String>,
    nonce: Option<String>,
    data: Option<Object>,
    app_metadata: Option<Object>,
}

impl UserChange {
    /// Everything that can be judged without the database, in the contract's order.
    fn checked(self, auth: &Auth, bearer: &Bearer, account: &Account) -> Result<Change, AuthError> {
        let user = &account.user;
        let filled = |field: Option<String>| field.filter(|text| !text.is_empty());
        let email = filled(self.email).map(|email| address::email(&email)).transpose()?;
        let phone = filled(self.phone).map(|phone| address::phone(&phone)).transpose()?;
        if phone.is_some() {
            check_channel(self.channel.as_deref().unwrap_or_default())?;
        }
        check_pkce(
            self.code_challenge.as_deref().unwrap_or_default(),
            self.code_challenge_method.as_deref().unwrap_or_default(),
        )?;
        if let Some(password) = self.password.as_deref().filter(|password| !password.is_empty()) {
            check_new_password(auth, password)?;
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
        })
    }
}

/// What the account and other accounts have to say: rows 3 to 7 of the contract's table.
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
    let tx = auth.begin(request).await?;
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
    let (by_email, by_phone) = crate::finish(tx, found).await?;
    let is_other = |found: Option<users::User>| found.is_some_and(|found| found.id != user.id);
    if is_other(by_email) {
        return Err(AuthError::EmailExists);
    }
    if is_other(by_phone) {
        return Err(AuthError::PhoneExists);
    }
    if change.phone.is_some() && !auth.config.sms_autoconfirm {
        return Err(AuthError::SmsSendFailed);
    }
    Ok(())
}

/// What the password column will hold: outer `None` leaves it alone, inner `None` clears it.
async fn new_password(
    auth: &Auth,
    change: &Change,
    caller: &Caller,
    amr: &[Amr],
) -> Result<Option<Option<String>>, AuthError> {
    let user = &caller.account.user;
    let Some(password) = change.password.as_deref() else { return Ok(None) };
    check_reauthentication(auth, change, caller)?;
    let is_recovery =
        amr.iter().any(|entry| matches!(entry.method.as_str(), "recovery" | "otp" | "magiclink"));
    let stored = user.encrypted_password.as_deref();
    if auth.config.security_update_password_require_current_password
        && !is_recovery
        && let Some(stored) = stored
    {
        let current = change.current_password.as_deref().unwrap_or_default();
        if current.is_empty() {
            return Err(AuthError::CurrentPasswordRequired);
        }
        if !is_password(auth, current, stored).await? {
            return Err(AuthError::CurrentPasswordInvalid);
        }
    }
    if password.is_empty() {
        return Ok(Some(None));
    }
    if let Some(stored) = stored
        && is_password(auth, password, stored).await?
    {
        return Err(AuthError::SamePassword);
    }
    Ok(Some(Some(auth.hasher.hash(password).await?)))
}

/// A hash of no supported form is no password of anybody's.
async fn is_password(auth: &Auth, password: &str, stored: &str) -> Result<bool, AuthError> {
    match auth.hasher.verify(password, stored).await {
        Ok(verdict) => Ok(verdict != Verdict::Wrong),
        Err(HashError::Unsupported) => Ok(false),
        Err(error @ (HashError::Overloaded | HashError::Failed)) => Err(error.into()),
    }
}

fn check_reauthentication(auth: &Auth, change: &Change, caller: &Caller) -> Result<(), AuthError> {
    if !auth.config.security_update_password_require_reauthentication {
        return Ok(());
    }
    let now = auth.now();
    let began = caller.session.as_ref().and_then(|session| session.created_at);
    let is_recent = began.is_some_and(|began| {
        now.as_second().saturating_sub(began.as_second()) < REAUTHENTICATE_AFTER_SECONDS
    });
    if is_recent {
        return Ok(());
    }
    let nonce = change.nonce.as_deref().unwrap_or_default();
    if nonce.is_empty() {
        return Err(AuthError::ReauthenticationNeeded);
    }
    let user = &caller.account.user;
    let life = i64::try_from(auth.config.mailer_otp_exp).unwrap_or(i64::MAX);
    let is_alive = user
        .reauthentication_sent_at
        .is_some_and(|sent| now.as_second().saturating_sub(sent.as_second()) < life);
    let address = if user.email.is_empty() { &user.phone } else { &user.email };
    if is_alive && one_time::is_code(&user.reauthentication_token, address, nonce) {
        Ok(())
    } else {
        Err(AuthError::ReauthenticationNotValid)
    }
}

/// Writes the change and reads the account back.
async fn apply(
    auth: &Auth,
    request: &RequestContext,
    tx: &Tx,
    caller: &Caller,
    change: &Change,
    password: Option<Option<String>>,
) -> Result<Account, AuthError> {
    let now = auth.now();
    let user = &caller.account.user;
    if let Some(hash) = password {
        users::set_password(tx, user.id, hash.as_deref(), now).await?;
        // The session that changed the password stays; a token outside of sessions has none to spare.
        let scope = caller.session.as_ref().map_or(Scope::Global, |session| Scope::Others(session.id));
        sessions::end(tx, user.id, scope).await?;
        audit::record(tx, &auth.config, request, user, Action::UserUpdatedPassword, None, now).await?;
    }
    if let Some(data) = &change.data {
        users::merge_user_metadata(tx, user.id, data, now).await?;
    }
    if let Some(data) = &change.app_metadata {
        users::merge_app_metadata(tx, user.id, data, now).await?;
    }
    if let Some(email) = &change.email {
        change_email(auth, tx, caller, email, now).await?;
    }
    if let Some(phone) = &change.phone {
        let set = users::set_phone(tx, user.id, phone, now).await;
        set.map_err(|error| error.or_taken(AuthError::PhoneExists))?;
    }
    audit::record(tx, &auth.config, request, user, Action::UserModified, None, now).await?;
    users::account(tx, user.id).await?.ok_or(AuthError::NoSuchSub)
}

/// An anonymous user's first address is theirs at once where no mail is asked for; every other one waits for its
/// confirmation.
async fn change_email(
    auth: &Auth,
    tx: &Tx,
    caller: &Caller,
    email: &str,
    now: Timestamp,
) -> Result<(), AuthError> {
    let user = &caller.account.user;
    if user.is_anonymous && auth.config.mailer_autoconfirm {
        let mut data = Object::new();
        data.insert("sub".to_owned(), user.id.to_string().into());
        data.insert("email".to_owned(), email.into());
        data.insert("email_verified".to_owned(), Value::Bool(true));
        data.insert("phone_verified".to_owned(), Value::Bool(false));
        users::set_email(tx, user.id, email, &data, now)
            .await
            .map_err(|error| error.or_taken(AuthError::EmailExists))?;
        return users::insert_identity(tx, user.id, "email", &user.id.to_string(), &data, now).await;
    }
    check_frequency(user.email_change_sent_at, auth.config.mailer_max_frequency, now)?;
    users::request_email_change(tx, user.id, email, now).await?;
    mail_is_dropped(user);
    Ok(())
}
