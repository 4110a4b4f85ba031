//! Links that an admin generates (auth.md §3.12): each type's effect on the account, and its code, which is like a mailed one.

use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;

use crate::audit::{self, Action};
use crate::codes::one_time::{self, CodeSettings, FlowType, IssuedCode, TokenType};
use crate::database;
use crate::emails::mailer::Email;
use crate::error::AuthError;
use crate::flows::code_emails;
use crate::flows::invitation::Invitee;
use crate::origin::Origin;
use crate::state::Auth;
use crate::templates::kind::EmailKind;
use crate::users::address;
use crate::users::create::{NewUser, create};
use crate::users::{self, Account, Metadata, Object, User, read_back, row_missing};

/// `type` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkType {
    Signup,
    Invite,
    MagicLink,
    Recovery,
    EmailChangeCurrent,
    EmailChangeNew,
}

impl LinkType {
    const ALL: [Self; 6] = [
        Self::Signup,
        Self::Invite,
        Self::MagicLink,
        Self::Recovery,
        Self::EmailChangeCurrent,
        Self::EmailChangeNew,
    ];

    /// # Errors
    /// The type is unknown.
    pub(crate) fn read(text: &str) -> Result<Self, AuthError> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        known.ok_or_else(|| {
            AuthError::Validation(format!("Invalid email action link type requested: {text}").into())
        })
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Signup => "signup",
            Self::Invite => "invite",
            Self::MagicLink => "magiclink",
            Self::Recovery => "recovery",
            Self::EmailChangeCurrent => "email_change_current",
            Self::EmailChangeNew => "email_change_new",
        }
    }

    const fn email(self) -> EmailKind {
        match self {
            Self::Signup => EmailKind::Confirmation,
            Self::Invite => EmailKind::Invite,
            Self::MagicLink => EmailKind::MagicLink,
            Self::Recovery => EmailKind::Recovery,
            Self::EmailChangeCurrent => EmailKind::EmailChangeCurrent,
            Self::EmailChangeNew => EmailKind::EmailChangeNew,
        }
    }

    const fn token(self) -> TokenType {
        match self {
            Self::Signup | Self::Invite => TokenType::Confirmation,
            Self::MagicLink | Self::Recovery => TokenType::Recovery,
            Self::EmailChangeCurrent => TokenType::EmailChangeCurrent,
            Self::EmailChangeNew => TokenType::EmailChangeNew,
        }
    }
}

/// A validated request.
pub(crate) struct LinkRequest<'a> {
    pub(crate) kind: LinkType,
    /// Normalised as accounts store it.
    pub(crate) email: String,
    /// For a sign-up.
    pub(crate) password: String,
    /// For an e-mail change; not validated.
    pub(crate) new_email: String,
    pub(crate) data: Object,
    /// An allowed target.
    pub(crate) redirect_to: String,
    pub(crate) audience: &'a str,
}

/// The generated link.
pub(crate) struct GeneratedLink {
    /// The actual type: for an unknown address a magic link becomes a sign-up.
    pub(crate) kind: LinkType,
    pub(crate) account: Account,
    pub(crate) issued: IssuedCode,
    pub(crate) action_link: String,
}

/// The transaction and the actor.
struct LinkContext<'a> {
    auth: &'a Auth,
    origin: &'a Origin,
    actor: &'a User,
    tx: &'a Tx,
    now: Timestamp,
}

impl LinkContext<'_> {
    async fn record(&self, user: &User, action: Action) -> Result<(), AuthError> {
        let Self { auth, origin, actor, tx, now } = *self;
        auth.audit_log(&origin.client).record(tx, actor, action, audit::about(user), now).await
    }
}

impl LinkRequest<'_> {
    pub(crate) async fn generate(
        &self,
        auth: &Auth,
        origin: &Origin,
        actor: &User,
    ) -> Result<GeneratedLink, AuthError> {
        let tx = auth.begin(origin).await?;
        let found = users::find_by_email(&tx, &self.email, self.audience).await;
        let is_unknown = database::finish(tx, found).await?.is_none();
        let needs_user =
            matches!(self.kind, LinkType::Recovery | LinkType::EmailChangeCurrent | LinkType::EmailChangeNew);
        if is_unknown && needs_user {
            return Err(AuthError::NoUserWithEmail);
        }
        let becomes_sign_up = is_unknown && self.kind == LinkType::MagicLink;
        let kind = if becomes_sign_up { LinkType::Signup } else { self.kind };
        let hash = if kind == LinkType::Signup && is_unknown { Some(self.hash(auth).await?) } else { None };
        let tx = auth.begin(origin).await?;
        let context = LinkContext { auth, origin, actor, tx: &tx, now: auth.now() };
        let made = async {
            let user = self.prepare(&context, kind, hash).await?;
            self.issue(&context, kind, user).await
        }
        .await;
        let made = database::finish(tx, made).await?;
        if is_unknown {
            auth.notify_user_created(origin, made.account.user.id).await?;
        }
        Ok(made)
    }

    /// The password hash of a new account.
    async fn hash(&self, auth: &Auth) -> Result<String, AuthError> {
        if self.kind == LinkType::MagicLink {
            return Ok(auth.hasher.random_hash());
        }
        if self.password.is_empty() {
            return Err(AuthError::validation("Signup requires a valid password"));
        }
        auth.password_rules.check(&self.password).await?;
        Ok(auth.hasher.hash(&self.password).await?)
    }

    /// Applies the effects on the account.
    async fn prepare(
        &self,
        context: &LinkContext<'_>,
        kind: LinkType,
        hash: Option<String>,
    ) -> Result<User, AuthError> {
        let LinkContext { auth, origin, actor, tx, now } = *context;
        match kind {
            LinkType::Invite => {
                let (email, data) = (self.email.clone(), self.data.clone());
                Invitee { email, audience: self.audience, data, now, id: random::uuid() }
                    .invite(tx, auth.config.default_role(), auth.audit_log(&origin.client), actor)
                    .await
            }
            LinkType::Signup => {
                let user = self.sign_up(context, hash).await?;
                context.record(&user, Action::UserConfirmationRequested).await?;
                Ok(user)
            }
            LinkType::MagicLink | LinkType::Recovery => {
                let user = self.known(tx).await?;
                context.record(&user, Action::UserRecoveryRequested).await?;
                Ok(user)
            }
            LinkType::EmailChangeCurrent | LinkType::EmailChangeNew => {
                let user = self.known(tx).await?;
                self.request_email_change(context, &user).await
            }
        }
    }

    async fn known(&self, tx: &Tx) -> Result<User, AuthError> {
        users::lock_by_email(tx, &self.email, self.audience).await?.ok_or(AuthError::NoUserWithEmail)
    }

    /// Creates an unconfirmed account, or updates the metadata of an existing one.
    async fn sign_up(&self, context: &LinkContext<'_>, hash: Option<String>) -> Result<User, AuthError> {
        let LinkContext { auth, tx, now, .. } = *context;
        match (users::lock_by_email(tx, &self.email, self.audience).await?, hash) {
            (Some(user), _) if user.email_confirmed_at.is_some() => Err(AuthError::EmailExists),
            (Some(user), _) => {
                users::merge_metadata(tx, user.id, Metadata::User, &self.data, now).await?;
                read_back(tx, user.id).await
            }
            (None, hash) => {
                let new = NewUser {
                    email: Some(&self.email),
                    password_hash: hash,
                    user_metadata: self.data.clone(),
                    ..NewUser::new(self.audience, auth.config.default_role())
                };
                let created = create(tx, new, now).await;
                let id = created.map_err(|error| error.map_taken_address(AuthError::EmailExists))?;
                read_back(tx, id).await
            }
        }
    }

    /// Stores the new address. A pending change to the same address continues: an admin requests its two links separately.
    async fn request_email_change(&self, context: &LinkContext<'_>, user: &User) -> Result<User, AuthError> {
        let LinkContext { auth, tx, now, .. } = *context;
        let is_current = self.kind == LinkType::EmailChangeCurrent;
        if is_current && !auth.config.mailer_secure_email_change_enabled {
            return Err(AuthError::validation(
                "Enable secure email change to generate link for current email",
            ));
        }
        let new_email = address::email(&self.new_email)?;
        let taken = users::find_by_email(tx, &new_email, &user.aud).await?;
        if taken.is_some_and(|taken| taken.id != user.id) {
            return Err(AuthError::EmailExists);
        }
        if user.email_change != new_email {
            users::request_email_change(tx, user.id, &new_email, now).await?;
        }
        read_back(tx, user.id).await
    }

    /// Issues the code and builds the link.
    async fn issue(
        &self,
        context: &LinkContext<'_>,
        kind: LinkType,
        user: User,
    ) -> Result<GeneratedLink, AuthError> {
        let LinkContext { auth, tx, now, .. } = *context;
        let to = if kind == LinkType::EmailChangeNew { &user.email_change } else { &user.email };
        let settings = CodeSettings::new(&auth.config);
        let issued =
            one_time::issue(tx, settings, user.id, kind.token(), to, FlowType::Implicit, now).await?;
        let external_url = auth.mailer.external_url(context.origin.links.forwarded_host.as_deref());
        let email = Email {
            external_url: external_url.as_deref(),
            ..code_emails::email_with_code(kind.email(), &user, to, &issued, &self.redirect_to)
        };
        let action_link = auth.mailer.link(&email).unwrap_or_default();
        let account = users::account(tx, user.id).await?.ok_or_else(row_missing)?;
        Ok(GeneratedLink { kind, account, issued, action_link })
    }
}
