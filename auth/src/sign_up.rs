//! Making accounts (auth.md §3.3, §3.4). One sign-up is one transaction, in which the project's triggers take part:
//! insert of the user, insert of the identity, the update that confirms, then a second look at the row, because a
//! trigger may have changed it.
//!
//! What an address that is taken answers depends on the settings. Without autoconfirm nobody may learn from it: the
//! answer is a made-up user, and takes as long. With autoconfirm a sign-up answers with a session, so the address
//! cannot be hidden; an account that was never confirmed is entered only with its own password.

use basalt_core::pool::Tx;
use basalt_core::random;
use jiff::Timestamp;

use crate::Auth;
use crate::access_token::Granted;
use crate::audit::{self, Action};
use crate::error::AuthError;
use crate::hasher::Verdict;
use crate::request::RequestContext;
use crate::sessions::{self, PasswordState};
use crate::users::{self, Account, NewUser, Object, User};

/// The address of a sign-up, in the form that is stored.
#[derive(Debug, Clone)]
pub(crate) enum Contact {
    Email(String),
    Phone(String),
}

impl Contact {
    pub(crate) const fn provider(&self) -> &'static str {
        match self {
            Self::Email(_) => "email",
            Self::Phone(_) => "phone",
        }
    }

    fn email(&self) -> Option<&str> {
        match self {
            Self::Email(email) => Some(email),
            Self::Phone(_) => None,
        }
    }

    fn phone(&self) -> Option<&str> {
        match self {
            Self::Email(_) => None,
            Self::Phone(phone) => Some(phone),
        }
    }

    fn is_autoconfirmed(&self, auth: &Auth) -> bool {
        match self {
            Self::Email(_) => auth.config.mailer_autoconfirm,
            Self::Phone(_) => auth.config.sms_autoconfirm,
        }
    }

    fn is_confirmed(&self, user: &User) -> bool {
        match self {
            Self::Email(_) => user.email_confirmed_at.is_some(),
            Self::Phone(_) => user.phone_confirmed_at.is_some(),
        }
    }
}

/// A checked sign-up.
pub(crate) struct SignUp {
    pub(crate) contact: Contact,
    pub(crate) password: String,
    pub(crate) data: Object,
}

/// How a sign-up ended.
pub(crate) enum SignedUp {
    /// With a session.
    SignedIn(Box<Granted>),
    /// With an account that waits for confirmation, or looks like one.
    Unconfirmed(Box<Account>),
}

impl SignUp {
    pub(crate) async fn run(&self, auth: &Auth, request: &RequestContext) -> Result<SignedUp, AuthError> {
        if matches!(self.contact, Contact::Phone(_)) && !auth.config.sms_autoconfirm {
            return Err(AuthError::SmsSendFailed);
        }
        match self.find(auth, request).await? {
            Some(user) => Box::pin(self.again(auth, request, user)).await,
            None => match self.create(auth, request).await {
                // Somebody else took the address a moment ago: his is the account.
                Err(error) if error.is_taken_address() => {
                    let user = self.find(auth, request).await?.ok_or(error)?;
                    Box::pin(self.again(auth, request, user)).await
                }
                created => created,
            },
        }
    }

    async fn find(&self, auth: &Auth, request: &RequestContext) -> Result<Option<User>, AuthError> {
        let audience = request.audience().unwrap_or(&auth.config.jwt.aud);
        let tx = auth.begin(request).await?;
        let found = match &self.contact {
            Contact::Email(email) => users::find_by_email(&tx, email, audience).await,
            Contact::Phone(phone) => users::find_by_phone(&tx, phone, audience).await,
        };
        crate::finish(tx, found).await
    }

    async fn create(&self, auth: &Auth, request: &RequestContext) -> Result<SignedUp, AuthError> {
        let hash = auth.hasher.hash(&self.password).await?;
        let now = auth.now();
        let tx = auth.begin(request).await?;
        let created = self.create_in(auth, request, &tx, hash, now).await;
        crate::finish(tx, created).await
    }

    async fn create_in(
        &self,
        auth: &Auth,
        request: &RequestContext,
        tx: &Tx,
        hash: String,
        now: Timestamp,
    ) -> Result<SignedUp, AuthError> {
        let autoconfirm = self.contact.is_autoconfirmed(auth);
        let user = self.insert(auth, request, tx, hash, now).await?;
        let traits = audit::provider(self.contact.provider());
        if !autoconfirm {
            audit::record(tx, &auth.config, request, &user, Action::UserConfirmationRequested, traits, now)
                .await?;
            mail_is_dropped(&user);
            let account = users::complete(tx, user).await?;
            return Ok(SignedUp::Unconfirmed(Box::new(account)));
        }
        audit::record(tx, &auth.config, request, &user, Action::UserSignedUp, traits, now).await?;
        let granted = self.confirm_and_begin(auth, request, tx, &user, PasswordState::default(), now).await?;
        Ok(SignedUp::SignedIn(Box::new(granted)))
    }

    /// Inserts user and identity and reads the row back.
    async fn insert(
        &self,
        auth: &Auth,
        request: &RequestContext,
        tx: &Tx,
        hash: String,
        now: Timestamp,
    ) -> Result<User, AuthError> {
        let id = random::uuid();
        let provider = self.contact.provider();
        let data = users::sign_up_data(id, self.contact.email(), self.contact.phone(), &self.data);
        let new = NewUser {
            id,
            aud: request.audience().unwrap_or(&auth.config.jwt.aud).to_owned(),
            role: auth.config.default_role().to_owned(),
            email: self.contact.email().map(str::to_owned),
            phone: self.contact.phone().map(str::to_owned),
            encrypted_password: Some(hash),
            app_metadata: users::provider_metadata(provider),
            user_metadata: data.clone(),
            confirmation_sent_at: (!self.contact.is_autoconfirmed(auth)).then_some(now),
            is_anonymous: false,
        };
        users::insert(tx, &new, now).await?;
        users::insert_identity(tx, id, provider, &id.to_string(), &data, now).await?;
        read_back(tx, id).await
    }

    async fn confirm_and_begin(
        &self,
        auth: &Auth,
        request: &RequestContext,
        tx: &Tx,
        user: &User,
        state: PasswordState<'_>,
        now: Timestamp,
    ) -> Result<Granted, AuthError> {
        match &self.contact {
            Contact::Email(_) => users::confirm_email(tx, user.id, now).await?,
            Contact::Phone(_) => users::confirm_phone(tx, user.id, now).await?,
        }
        let traits = audit::provider(self.contact.provider());
        audit::record(tx, &auth.config, request, user, Action::Login, traits, now).await?;
        let begun = sessions::begin(tx, request, user.id, "password", state, now)
            .await?
            .ok_or(AuthError::UserAlreadyExists)?;
        // The statement that began the session answered the row as it was before its own triggers ran.
        let begun = sessions::Begun { user: read_back(tx, user.id).await?, ..begun };
        Granted::of(tx, begun, now).await
    }

    /// A sign-up with an address that has an account.
    async fn again(&self, auth: &Auth, request: &RequestContext, user: User) -> Result<SignedUp, AuthError> {
        let is_autoconfirmed = auth.config.mailer_autoconfirm || auth.config.sms_autoconfirm;
        match (self.contact.is_confirmed(&user), self.contact.is_autoconfirmed(auth)) {
            (true, _) if is_autoconfirmed => Err(AuthError::UserAlreadyExists),
            (true, _) => self.obfuscate(auth, request, &user).await,
            (false, true) => self.enter(auth, request, user).await,
            (false, false) => self.repeat(auth, request, &user).await,
        }
    }

    /// An account that was never confirmed and now may be: its own password opens it, another one does not.
    async fn enter(&self, auth: &Auth, request: &RequestContext, user: User) -> Result<SignedUp, AuthError> {
        let Some(stored) = user.encrypted_password.as_deref() else {
            auth.hasher.verify_nobody(&self.password).await?;
            return Err(AuthError::UserAlreadyExists);
        };
        if auth.hasher.verify(&self.password, stored).await? == Verdict::Wrong {
            return Err(AuthError::UserAlreadyExists);
        }
        let now = auth.now();
        let state = PasswordState { verified: Some(stored), rehashed: None };
        let tx = auth.begin(request).await?;
        let granted = self.confirm_and_begin(auth, request, &tx, &user, state, now).await;
        let granted = crate::finish(tx, granted).await?;
        Ok(SignedUp::SignedIn(Box::new(granted)))
    }

    /// The user exists and waits for confirmation: another mail, nothing of what was sent is stored.
    async fn repeat(
        &self,
        auth: &Auth,
        request: &RequestContext,
        user: &User,
    ) -> Result<SignedUp, AuthError> {
        // A new account would be hashed for now.
        auth.hasher.verify_nobody(&self.password).await?;
        let now = auth.now();
        let tx = auth.begin(request).await?;
        let account = async {
            check_frequency(user.confirmation_sent_at, auth.config.mailer_max_frequency, now)?;
            users::confirmation_sent(&tx, user.id, now).await?;
            let traits = audit::provider(self.contact.provider());
            audit::record(&tx, &auth.config, request, user, Action::UserConfirmationRequested, traits, now)
                .await?;
            mail_is_dropped(user);
            let user = read_back(&tx, user.id).await?;
            users::complete(&tx, user).await
        }
        .await;
        let mut account = crate::finish(tx, account).await?;
        if account.user.invited_at.is_some() {
            // Whoever signs up with an invited address may not see what the inviter stored.
            account.user.user_metadata = Object::new();
            account.identities.clear();
        }
        Ok(SignedUp::Unconfirmed(Box::new(account)))
    }

    /// The user exists and is confirmed: an answer that does not say so.
    async fn obfuscate(
        &self,
        auth: &Auth,
        request: &RequestContext,
        user: &User,
    ) -> Result<SignedUp, AuthError> {
        auth.hasher.verify_nobody(&self.password).await?;
        let now = auth.now();
        let tx = auth.begin(request).await?;
        let traits = audit::provider(self.contact.provider());
        let recorded =
            audit::record(&tx, &auth.config, request, user, Action::UserRepeatedSignUp, traits, now).await;
        crate::finish(tx, recorded).await?;
        let made_up = User {
            email: self.contact.email().unwrap_or_default().to_owned(),
            phone: self.contact.phone().unwrap_or_default().to_owned(),
            aud: request.audience().unwrap_or(&auth.config.jwt.aud).to_owned(),
            app_metadata: users::provider_metadata(self.contact.provider()),
            user_metadata: self.data.clone(),
            confirmation_sent_at: Some(now),
            ..User::blank(random::uuid(), now)
        };
        let account = Account { user: made_up, identities: Vec::new(), factors: Vec::new() };
        Ok(SignedUp::Unconfirmed(Box::new(account)))
    }
}

/// An account without address and password, signed in.
pub(crate) async fn anonymous(
    auth: &Auth,
    request: &RequestContext,
    data: Object,
) -> Result<Granted, AuthError> {
    let now = auth.now();
    let new = NewUser {
        id: random::uuid(),
        aud: request.audience().unwrap_or(&auth.config.jwt.aud).to_owned(),
        role: auth.config.default_role().to_owned(),
        email: None,
        phone: None,
        encrypted_password: None,
        app_metadata: Object::new(),
        user_metadata: data,
        confirmation_sent_at: None,
        is_anonymous: true,
    };
    let tx = auth.begin(request).await?;
    let granted = async {
        users::insert(&tx, &new, now).await?;
        let begun = sessions::begin(&tx, request, new.id, "anonymous", PasswordState::default(), now)
            .await?
            .ok_or_else(vanished)?;
        let begun = sessions::Begun { user: read_back(&tx, new.id).await?, ..begun };
        audit::record(&tx, &auth.config, request, &begun.user, Action::UserSignedUp, None, now).await?;
        Granted::of(&tx, begun, now).await
    }
    .await;
    crate::finish(tx, granted).await
}

/// A row that this transaction has just written.
pub(crate) async fn read_back(tx: &Tx, id: uuid::Uuid) -> Result<User, AuthError> {
    users::find(tx, id).await?.ok_or_else(vanished)
}

fn vanished() -> AuthError {
    AuthError::Internal("a user just written is not there: a trigger on auth.users swallows rows".to_owned())
}

/// At most one mail of a kind per user and interval (auth.md §3.19).
pub(crate) fn check_frequency(
    last: Option<Timestamp>,
    interval_seconds: u64,
    now: Timestamp,
) -> Result<(), AuthError> {
    let Some(last) = last else { return Ok(()) };
    let passed = now.as_second().saturating_sub(last.as_second());
    let left = i64::try_from(interval_seconds).unwrap_or(i64::MAX).saturating_sub(passed);
    if left > 0 { Err(AuthError::MailTooSoon { seconds: left }) } else { Ok(()) }
}

/// Without a mail server upstream drops the mail and the request succeeds (auth.md §3.21).
pub(crate) fn mail_is_dropped(user: &User) {
    tracing::warn!(user_id = %user.id, "a mail was dropped: no mail server is configured, so this address cannot be confirmed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_mail_waits_for_its_minute() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert!(check_frequency(None, 60, at(100)).is_ok());
        assert!(check_frequency(Some(at(40)), 60, at(100)).is_ok());
        assert_eq!(
            check_frequency(Some(at(90)), 60, at(100)).unwrap_err().to_string(),
            "For security purposes, you can only request this after 50 seconds."
        );
    }
}
