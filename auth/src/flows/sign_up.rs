//! Sign-up (auth.md §3.3, §3.4). A sign-up is one transaction, which includes the project's triggers: insert the user, insert the
//! identity, confirm, and read the row again, because a trigger may have changed it.
//!
//! The response for a taken address depends on the settings. Without autoconfirm it must not reveal the account: it contains a
//! fake user and takes as long. With autoconfirm a sign-up returns a session, so the account cannot be hidden; an unconfirmed
//! account can be signed in to only with its password.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::codes::challenge::Challenge;
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::flows::code_sms::CodeSms;
use crate::limits::rate_limit::Counter;
use crate::origin::Origin;
use crate::passwords::hasher::{HashError, Verdict};
use crate::sessions::access_token::Granted;
use crate::sessions::{self, PasswordState};
use crate::sms::{Channel, SmsKind};
use crate::state::Auth;
use crate::users::create::{NewUser, create, provider_metadata};
use crate::users::{self, Account, Object, User, read_back, row_missing};

/// The normalised address of a sign-up.
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

    pub(crate) fn email(&self) -> Option<&str> {
        match self {
            Self::Email(email) => Some(email),
            Self::Phone(_) => None,
        }
    }

    pub(crate) fn phone(&self) -> Option<&str> {
        match self {
            Self::Email(_) => None,
            Self::Phone(phone) => Some(phone),
        }
    }

    /// The account with this address.
    pub(super) async fn find(&self, auth: &Auth, origin: &Origin) -> Result<Option<User>, AuthError> {
        let audience = auth.audience(origin);
        let tx = auth.begin(origin).await?;
        let found = match self {
            Self::Email(email) => users::find_by_email(&tx, email, audience).await,
            Self::Phone(phone) => users::find_by_phone(&tx, phone, audience).await,
        };
        database::finish(tx, found).await
    }

    pub(super) fn is_autoconfirmed(&self, auth: &Auth) -> bool {
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

/// A validated sign-up.
pub(crate) struct SignUp {
    pub(crate) contact: Contact,
    pub(crate) password: String,
    pub(crate) data: Object,
    pub(crate) challenge: Option<Challenge>,
    /// For a sign-up by phone.
    pub(crate) channel: Channel,
}

/// The message that confirms a sign-up.
enum CodeMessage<'a> {
    Email(CodeEmails<'a>),
    Sms(CodeSms<'a>),
}

impl CodeMessage<'_> {
    const fn now(&self) -> Timestamp {
        match self {
            Self::Email(emails) => emails.now,
            Self::Sms(sms) => sms.now,
        }
    }

    /// Sends the message after the commit.
    async fn deliver(self) -> Result<(), AuthError> {
        match self {
            Self::Email(emails) => emails.deliver().await,
            Self::Sms(sms) => sms.deliver().await.map(|_message_id| ()),
        }
    }
}

/// Result of a sign-up.
pub(crate) enum SignedUp {
    /// A session.
    SignedIn(Box<Granted>),
    /// An unconfirmed account, or a fake one.
    Unconfirmed(Box<Account>),
}

impl SignUp {
    pub(crate) async fn run(&self, auth: &Auth, origin: &Origin) -> Result<SignedUp, AuthError> {
        match &self.contact {
            Contact::Email(email) if !auth.config.mailer_autoconfirm => auth.mailer.check_recipient(email)?,
            Contact::Email(_) | Contact::Phone(_) => {}
        }
        match self.contact.find(auth, origin).await? {
            Some(user) => Box::pin(self.repeat(auth, origin, user)).await,
            None => match Box::pin(self.create(auth, origin)).await {
                // A concurrent request took the address.
                Err(error) if error.is_taken_address() => {
                    let user = self.contact.find(auth, origin).await?.ok_or(error)?;
                    Box::pin(self.repeat(auth, origin, user)).await
                }
                created => created,
            },
        }
    }

    async fn create(&self, auth: &Auth, origin: &Origin) -> Result<SignedUp, AuthError> {
        if self.contact.is_autoconfirmed(auth) {
            let new = self.new_user(auth, origin, auth.hasher.hash(&self.password).await?);
            auth.approve_new_user(origin, &new).await?;
            let id = new.id;
            let tx = auth.begin(origin).await?;
            let granted = self.create_confirmed(auth, origin, &tx, new).await;
            let granted = database::finish(tx, granted).await?;
            auth.notify_user_created(origin, id).await?;
            return Ok(SignedUp::SignedIn(Box::new(granted)));
        }
        let message = self.message(auth, origin)?;
        let new = self.new_user(auth, origin, auth.hasher.hash(&self.password).await?);
        let padding = auth.response_times.start();
        let signed_up = Box::pin(self.approve_and_create(auth, origin, new, message)).await;
        padding.wait().await;
        signed_up
    }

    async fn approve_and_create(
        &self,
        auth: &Auth,
        origin: &Origin,
        new: NewUser<'_>,
        mut message: CodeMessage<'_>,
    ) -> Result<SignedUp, AuthError> {
        auth.approve_new_user(origin, &new).await?;
        let id = new.id;
        let tx = auth.begin(origin).await?;
        let signed_up = self.create_unconfirmed(auth, origin, &tx, new, &mut message).await;
        let signed_up = database::finish(tx, signed_up).await?;
        auth.notify_user_created(origin, id).await?;
        if matches!(signed_up, SignedUp::Unconfirmed(_)) {
            message.deliver().await?;
        }
        Ok(signed_up)
    }

    fn message<'a>(&self, auth: &'a Auth, origin: &'a Origin) -> Result<CodeMessage<'a>, AuthError> {
        Ok(match &self.contact {
            Contact::Email(_) => {
                CodeMessage::Email(CodeEmails::about_address(auth, origin, self.challenge.clone())?)
            }
            Contact::Phone(phone) => {
                let (channel, kind) = (self.channel, SmsKind::Confirmation);
                CodeMessage::Sms(CodeSms::about_number(auth, origin, channel, phone, kind)?)
            }
        })
    }

    async fn create_confirmed(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        new: NewUser<'_>,
    ) -> Result<Granted, AuthError> {
        let now = auth.now();
        let user = insert(tx, new, now).await?;
        self.record(auth, origin, tx, &user, Action::UserSignedUp, now).await?;
        self.confirm_and_begin(auth, origin, tx, &user, PasswordState::default(), now).await
    }

    async fn create_unconfirmed(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        new: NewUser<'_>,
        message: &mut CodeMessage<'_>,
    ) -> Result<SignedUp, AuthError> {
        let now = message.now();
        let user = insert(tx, new, now).await?;
        if self.contact.is_confirmed(&user) {
            // By a trigger of the project, which knows that the address is proven (decision 0140).
            self.record(auth, origin, tx, &user, Action::UserSignedUp, now).await?;
            let state = PasswordState::default();
            let granted = self.confirm_and_begin(auth, origin, tx, &user, state, now).await?;
            return Ok(SignedUp::SignedIn(Box::new(granted)));
        }
        self.record(auth, origin, tx, &user, Action::UserConfirmationRequested, now).await?;
        let sent = match message {
            CodeMessage::Email(emails) => emails.confirmation(tx, &user).await,
            CodeMessage::Sms(sms) => sms.first_confirmation(tx, &user).await,
        };
        sent.map_err(AuthError::signing_up)?;
        let account = users::account(tx, user.id).await?.ok_or_else(row_missing)?;
        Ok(SignedUp::Unconfirmed(Box::new(account)))
    }

    fn new_user<'a>(&'a self, auth: &'a Auth, origin: &'a Origin, hash: String) -> NewUser<'a> {
        NewUser {
            email: self.contact.email(),
            phone: self.contact.phone(),
            password_hash: Some(hash),
            user_metadata: self.data.clone(),
            is_sign_up: true,
            ..NewUser::new(auth.audience(origin), auth.config.default_role())
        }
    }

    async fn record(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        user: &User,
        action: Action,
        now: Timestamp,
    ) -> Result<(), AuthError> {
        let traits = audit::provider(self.contact.provider());
        auth.audit_log(&origin.client).record(tx, user, action, traits, now).await
    }

    async fn confirm_and_begin(
        &self,
        auth: &Auth,
        origin: &Origin,
        tx: &Tx,
        user: &User,
        state: PasswordState<'_>,
        now: Timestamp,
    ) -> Result<Granted, AuthError> {
        match &self.contact {
            Contact::Email(_) => users::confirm_email(tx, user.id, now).await?,
            Contact::Phone(_) => users::confirm_phone(tx, user.id, now).await?,
        }
        self.record(auth, origin, tx, user, Action::Login, now).await?;
        let new_session = sessions::begin(tx, &origin.client, user.id, "password", state, now)
            .await?
            .ok_or(AuthError::UserAlreadyExists)?;
        // The statement that began the session returned the row as it was before triggers ran.
        let new_session = sessions::NewSession { user: read_back(tx, user.id).await?, ..new_session };
        Granted::from_new_session(tx, new_session, now).await
    }

    /// A sign-up with an existing account's address.
    async fn repeat(&self, auth: &Auth, origin: &Origin, user: User) -> Result<SignedUp, AuthError> {
        let is_autoconfirmed = auth.config.mailer_autoconfirm || auth.config.sms_autoconfirm;
        match (self.contact.is_confirmed(&user), self.contact.is_autoconfirmed(auth)) {
            (true, _) if is_autoconfirmed => Err(AuthError::UserAlreadyExists),
            (false, true) => self.sign_in_unconfirmed(auth, origin, user).await,
            (is_confirmed, _) => {
                let message = self.message(auth, origin)?;
                // Takes the same time as a new account.
                auth.hasher.hash(&self.password).await?;
                let padding = auth.response_times.start();
                let account = if is_confirmed {
                    let account = self.obfuscate(auth, origin, &user).await;
                    drop(message);
                    account
                } else {
                    self.resend_confirmation(auth, origin, user.id, message).await
                };
                padding.wait().await;
                Ok(SignedUp::Unconfirmed(Box::new(account?)))
            }
        }
    }

    /// Confirms and signs in to an unconfirmed account, if the password is correct.
    async fn sign_in_unconfirmed(
        &self,
        auth: &Auth,
        origin: &Origin,
        user: User,
    ) -> Result<SignedUp, AuthError> {
        let name = match &self.contact {
            Contact::Email(_) => user.email.to_lowercase(),
            Contact::Phone(_) => user.phone.clone(),
        };
        let attempt = auth.limits.accounts.attempt(&name, Counter::UnknownNetworks).await?;
        let stored = user.encrypted_password.as_deref();
        match auth.hasher.verify_sign_in(&self.password, stored, false).await {
            Ok(Verdict::Right | Verdict::RightButOutdated) => {}
            Ok(Verdict::Wrong) | Err(HashError::Unsupported) => {
                attempt.failed();
                return Err(AuthError::UserAlreadyExists);
            }
            Err(error @ (HashError::Overloaded | HashError::Failed)) => return Err(error.into()),
        }
        attempt.succeeded();
        let now = auth.now();
        let state = PasswordState { verified: stored, rehashed: None };
        let tx = auth.begin(origin).await?;
        let granted = self.confirm_and_begin(auth, origin, &tx, &user, state, now).await;
        let granted = database::finish(tx, granted).await?;
        Ok(SignedUp::SignedIn(Box::new(granted)))
    }

    /// Resends the confirmation of an unconfirmed account; nothing of the request is stored.
    async fn resend_confirmation(
        &self,
        auth: &Auth,
        origin: &Origin,
        id: Uuid,
        mut message: CodeMessage<'_>,
    ) -> Result<Account, AuthError> {
        let tx = auth.begin(origin).await?;
        let account = async {
            let user = users::lock(&tx, id).await?.ok_or_else(row_missing)?;
            let action = Action::UserConfirmationRequested;
            self.record(auth, origin, &tx, &user, action, message.now()).await?;
            match &mut message {
                CodeMessage::Email(emails) => emails.confirmation(&tx, &user).await?,
                CodeMessage::Sms(sms) => sms.confirmation(&tx, &user).await?,
            }
            users::account(&tx, id).await?.ok_or_else(row_missing)
        }
        .await;
        let mut account = database::finish(tx, account).await?;
        message.deliver().await?;
        if account.user.invited_at.is_some() {
            // Do not reveal the inviter's data to a client that signs up with the invited address.
            account.user.user_metadata = Object::new();
            account.identities.clear();
        }
        Ok(account)
    }

    /// A fake user, which hides that a confirmed account exists.
    async fn obfuscate(&self, auth: &Auth, origin: &Origin, user: &User) -> Result<Account, AuthError> {
        let now = auth.now();
        let tx = auth.begin(origin).await?;
        let recorded = self.record(auth, origin, &tx, user, Action::UserRepeatedSignUp, now).await;
        database::finish(tx, recorded).await?;
        if auth.development {
            tracing::info!(
                "a sign-up used the address of a confirmed account: the response contains a made-up user without identities, and no \
                 mail is sent, so that addresses of accounts stay secret. With auth.mailer_autoconfirm the response is the error \
                 user_already_exists"
            );
        }
        let made_up = User {
            email: self.contact.email().unwrap_or_default().to_owned(),
            phone: self.contact.phone().unwrap_or_default().to_owned(),
            aud: auth.audience(origin).to_owned(),
            app_metadata: provider_metadata(&[self.contact.provider()]),
            user_metadata: self.data.clone(),
            confirmation_sent_at: Some(now),
            ..User::blank(random::uuid(), now)
        };
        Ok(Account { user: made_up, identities: Vec::new(), factors: Vec::new() })
    }
}

async fn insert(tx: &Tx, new: NewUser<'_>, now: Timestamp) -> Result<User, AuthError> {
    let id = create(tx, new, now).await?;
    read_back(tx, id).await
}

/// Creates an anonymous account and signs in.
pub(crate) async fn anonymous(auth: &Auth, origin: &Origin, data: Object) -> Result<Granted, AuthError> {
    let now = auth.now();
    let new =
        NewUser { user_metadata: data, ..NewUser::new(auth.audience(origin), auth.config.default_role()) };
    auth.approve_new_user(origin, &new).await?;
    let id = new.id;
    let tx = auth.begin(origin).await?;
    let granted = async {
        create(&tx, new, now).await?;
        let new_session =
            sessions::begin(&tx, &origin.client, id, "anonymous", PasswordState::default(), now)
                .await?
                .ok_or_else(row_missing)?;
        let new_session = sessions::NewSession { user: read_back(&tx, id).await?, ..new_session };
        auth.audit_log(&origin.client)
            .record(&tx, &new_session.user, Action::UserSignedUp, None, now)
            .await?;
        Granted::from_new_session(&tx, new_session, now).await
    }
    .await;
    let granted = database::finish(tx, granted).await?;
    auth.notify_user_created(origin, id).await?;
    Ok(granted)
}
