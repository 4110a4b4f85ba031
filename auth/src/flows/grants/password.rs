//! Grant `password` (auth.md §3.5). Response and time are the same for an unknown user, a user without a password, and a wrong
//! password. Other problems of an account are reported only with the correct password.
//!
//! No connection is held while hashing: a short read, then the hash, then one statement that begins the session only if the
//! verified hash is still the stored one. These two round trips are the cost of a sign-in besides the hash (decision 0027).
//!
//! Wrong passwords are counted by account ([`crate::limits::rate_limit::AccountLimit`]), before anything is hashed.

use basalt_core::identity::network;
use serde::Deserialize;
use uuid::Uuid;

use crate::database;
use crate::error::AuthError;
use crate::fields::{filled, text};
use crate::hook_types::HookKind;
use crate::hooks::Decision;
use crate::limits::rate_limit::{Attempt, Counter};
use crate::origin::Origin;
use crate::passwords::hasher::{HashError, Verdict};
use crate::sessions::access_token::Granted;
use crate::sessions::{self, PasswordState, Scope, SignIn};
use crate::state::Auth;
use crate::users::{self, User};

#[derive(Deserialize)]
pub(crate) struct PasswordGrant {
    email: Option<String>,
    phone: Option<String>,
    password: Option<String>,
}

/// The identifier of a sign-in.
#[derive(Clone, Copy)]
enum Login<'a> {
    Email(&'a str),
    Phone(&'a str),
}

impl Login<'_> {
    /// The normalised identifier.
    fn name(self) -> String {
        match self {
            Self::Email(email) => email.to_lowercase(),
            Self::Phone(phone) => phone.trim_start_matches('+').replace(' ', ""),
        }
    }
}

impl PasswordGrant {
    fn login(&self, auth: &Auth) -> Result<Login<'_>, AuthError> {
        match (filled(&self.email), filled(&self.phone)) {
            (Some(_), Some(_)) => Err(AuthError::validation(
                "Only an email address or phone number should be provided on login.",
            )),
            (Some(_), None) if !auth.config.external_email_enabled => Err(AuthError::EmailLoginsDisabled),
            (Some(email), None) => Ok(Login::Email(email)),
            (None, Some(_)) if !auth.config.external_phone_enabled => Err(AuthError::PhoneLoginsDisabled),
            (None, Some(phone)) => Ok(Login::Phone(phone)),
            (None, None) => Err(AuthError::validation("missing email or phone")),
        }
    }

    /// Signs in.
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<Granted, AuthError> {
        let login = self.login(auth)?;
        let password = text(&self.password);
        let padding = auth.refusal_times.start();
        let found = find(auth, origin, login).await?;
        let attempt = attempt(auth, origin, &login.name(), found.as_ref()).await?;
        // Determined before the password is verified, but reported only if it is correct.
        let refusal = found.as_ref().and_then(|user| check_state(auth, user, login).err());
        let user_id = found.as_ref().map(|user| user.id);
        let verified = verify(auth, found, password, refusal.is_some()).await;
        match &verified {
            Ok(_) => attempt.succeeded(),
            Err(AuthError::InvalidCredentials) => attempt.failed(),
            Err(_) => drop(attempt),
        }
        let is_banned = matches!(refusal, Some(AuthError::SignInBanned));
        let decided = match (user_id, &verified) {
            (Some(user_id), Ok(_)) if !is_banned => ask_hook(auth, origin, user_id, true).await,
            (Some(user_id), Err(AuthError::InvalidCredentials)) => {
                ask_hook(auth, origin, user_id, false).await
            }
            _ => Ok(()),
        };
        let allowed = match (decided, verified, refusal) {
            (Err(rejection), ..) => Err(rejection),
            (Ok(()), Ok(_), Some(refusal)) => Err(refusal),
            (Ok(()), verified, _) => verified,
        };
        if allowed.is_err() {
            padding.wait_beyond(auth.hasher.rejection_cost()).await;
        }
        let (user, verified, verdict) = allowed?;
        let rehashed = match verdict {
            // A full queue must not fail the sign-in: the next one rehashes.
            Verdict::RightButOutdated => auth.hasher.hash(password).await.ok(),
            Verdict::Right | Verdict::Wrong => None,
        };
        let state = PasswordState { verified: Some(&verified), rehashed: rehashed.as_deref() };
        let mut granted = match begin(auth, origin, &user, login, state).await? {
            Some(granted) => {
                if rehashed.is_some() {
                    crate::metrics::rehashed();
                }
                granted
            }
            // Rare: not part of every sign-in's future.
            None => Box::pin(self.begin_with_current_hash(auth, origin, login)).await?,
        };
        granted.weak_password = Some(auth.password_rules.weakness(password).await);
        Ok(granted)
    }

    /// Begins the session of a password that was correct for a hash replaced in the meantime: by a simultaneous sign-in
    /// that rehashed the same password, or by a new password.
    async fn begin_with_current_hash(
        &self,
        auth: &Auth,
        origin: &Origin,
        login: Login<'_>,
    ) -> Result<Granted, AuthError> {
        let found = find(auth, origin, login).await?;
        if let Some(user) = &found {
            check_state(auth, user, login)?;
        }
        let (user, verified, _) = verify(auth, found, text(&self.password), false).await?;
        let state = PasswordState { verified: Some(&verified), rehashed: None };
        begin(auth, origin, &user, login, state).await?.ok_or(AuthError::InvalidCredentials)
    }
}

async fn find(auth: &Auth, origin: &Origin, login: Login<'_>) -> Result<Option<User>, AuthError> {
    let audience = auth.audience(origin);
    let mut may_repeat = true;
    loop {
        let tx = auth.autocommit(origin).await?;
        let found = match login {
            Login::Email(email) => users::find_by_email(&tx, email, audience).await,
            Login::Phone(_) => users::find_by_phone(&tx, &login.name(), audience).await,
        };
        match database::finish(tx, found).await {
            Err(error) if may_repeat && error.is_lost_connection() => may_repeat = false,
            found => return found,
        }
    }
}

/// Registers an attempt with the account's limiter.
///
/// # Errors
/// There were too many wrong passwords.
async fn attempt<'a>(
    auth: &'a Auth,
    origin: &Origin,
    login: &str,
    user: Option<&User>,
) -> Result<Attempt<'a>, AuthError> {
    let closed = match auth.limits.accounts.attempt(login, Counter::UnknownNetworks).await {
        Ok(attempt) => return Ok(attempt),
        Err(closed) => closed,
    };
    // Also for unknown users: the time must not reveal them.
    let user_id = user.map_or(Uuid::nil(), |user| user.id);
    let network = network(origin.client.address);
    let tx = auth.begin(origin).await?;
    let is_known = sessions::has_session_from(&tx, user_id, network).await;
    if !database::finish(tx, is_known).await? {
        return Err(closed);
    }
    auth.limits.accounts.attempt(login, Counter::KnownNetwork(network)).await
}

/// Verifies the password. A rejection takes the same time for every account.
async fn verify(
    auth: &Auth,
    found: Option<User>,
    password: &str,
    is_refused: bool,
) -> Result<(User, String, Verdict), AuthError> {
    let found = found.and_then(|mut user| user.encrypted_password.take().map(|stored| (user, stored)));
    let stored = found.as_ref().map(|(_, stored)| stored.as_str());
    let verdict = auth.hasher.verify_sign_in(password, stored, is_refused).await;
    match (verdict, found) {
        (Ok(verdict @ (Verdict::Right | Verdict::RightButOutdated)), Some((user, stored))) => {
            Ok((user, stored, verdict))
        }
        (Err(HashError::Unsupported), Some((user, _))) => {
            tracing::warn!(user_id = %user.id, "unsupported password hash; reset this user's password");
            Err(AuthError::InvalidCredentials)
        }
        (Err(error @ (HashError::Overloaded | HashError::Failed)), _) => Err(error.into()),
        (Ok(_) | Err(HashError::Unsupported), _) => Err(AuthError::InvalidCredentials),
    }
}

/// Lets the hook decide about an attempt, if it is enabled.
async fn ask_hook(auth: &Auth, origin: &Origin, user_id: Uuid, is_valid: bool) -> Result<(), AuthError> {
    if !auth.hooks.is_enabled(HookKind::PasswordVerificationAttempt) {
        return Ok(());
    }
    match auth.hooks.password_attempt(origin, auth.now(), user_id, is_valid).await? {
        Decision::Continue => Ok(()),
        Decision::Reject { message, should_logout_user } => {
            if should_logout_user {
                let tx = auth.begin(origin).await?;
                let ended = sessions::end(&tx, user_id, Scope::Global).await;
                database::finish(tx, ended).await?;
            }
            Err(AuthError::PasswordRejected(message))
        }
    }
}

fn check_state(auth: &Auth, user: &User, login: Login<'_>) -> Result<(), AuthError> {
    if user.is_banned(auth.clock.now()) {
        return Err(AuthError::SignInBanned);
    }
    match login {
        Login::Email(_) if user.email_confirmed_at.is_none() => Err(AuthError::EmailNotConfirmed),
        Login::Phone(_) if user.phone_confirmed_at.is_none() => Err(AuthError::PhoneNotConfirmed),
        Login::Email(_) | Login::Phone(_) => Ok(()),
    }
}

/// `None` if the user was deleted, or the stored hash is no longer the verified one.
async fn begin(
    auth: &Auth,
    origin: &Origin,
    user: &User,
    login: Login<'_>,
    state: PasswordState<'_>,
) -> Result<Option<Granted>, AuthError> {
    let provider = match login {
        Login::Email(_) => "email",
        Login::Phone(_) => "phone",
    };
    let audit_log = auth.audit_log(&origin.client);
    let sign_in = SignIn::new(auth.now());
    let mut may_repeat = true;
    loop {
        let tx = auth.autocommit(origin).await?;
        let begun = sign_in.begin(&tx, audit_log, &origin.client, user, provider, state).await;
        match database::finish(tx, begun).await {
            // Safe even if the session began before the connection broke.
            Err(error) if may_repeat && error.is_lost_connection() => may_repeat = false,
            begun => return begun,
        }
    }
}
