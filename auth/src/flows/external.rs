//! Sign-in with external providers (auth.md §3.16): beginning a flow, the provider's way back, and which account the user gets.

use std::sync::Arc;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use crate::audit::{self, Action};
use crate::codes::challenge::Challenge;
use crate::codes::flow_state::{self, ExternalFlow, NewExternalFlow};
use crate::database;
use crate::error::AuthError;
use crate::flows::code_emails::CodeEmails;
use crate::flows::notifications::{AccountChange, notify};
use crate::flows::verify;
use crate::origin::Origin;
use crate::providers::custom;
use crate::providers::{ExternalUser, FlowSecret, Provider, ProviderTokens};
use crate::sessions::access_token::Granted;
use crate::state::{Approval, Auth};
use crate::users::create::{NewIdentity, NewUser, create};
use crate::users::{self, Metadata, Object, User, address, read_back};

/// A request to sign in at a provider, or to link an identity of it.
pub(crate) struct ExternalSignIn<'a> {
    pub(crate) provider: &'a Provider,
    pub(crate) scopes: Option<&'a str>,
    /// Passed on to the provider.
    pub(crate) parameters: &'a [(&'a str, &'a str)],
    pub(crate) challenge: Option<Challenge>,
    pub(crate) linking_user: Option<Uuid>,
    /// Whether only this browser may finish the flow.
    pub(crate) is_bound: bool,
}

/// Where to send the browser.
pub(crate) struct Departure {
    /// At the provider.
    pub(crate) url: String,
    /// Binds the flow to the browser.
    pub(crate) secret: FlowSecret,
}

impl ExternalSignIn<'_> {
    /// Begins the flow.
    pub(crate) async fn begin(&self, auth: &Auth, origin: &Origin) -> Result<Departure, AuthError> {
        let secret = FlowSecret::generate(self.is_bound);
        let target = origin.links.target(&auth.redirects);
        let flow = NewExternalFlow {
            provider: self.provider.name(),
            secret: &secret,
            target: &target,
            challenge: self.challenge.as_ref(),
            linking_user: self.linking_user,
            is_email_optional: self.provider.is_email_optional(),
        };
        let tx = auth.begin(origin).await?;
        let begun = flow_state::begin_external(&tx, &flow, auth.now()).await;
        let state = database::finish(tx, begun).await?.to_string();
        let url = auth
            .providers
            .authorization_url(self.provider, &state, &secret, self.scopes, self.parameters)
            .await?;
        Ok(Departure { url, secret })
    }
}

/// An enabled provider: one of the settings, or a custom one.
pub(crate) async fn find_provider(
    auth: &Auth,
    origin: &Origin,
    name: &str,
) -> Result<Option<Arc<Provider>>, AuthError> {
    if !name.starts_with(custom::PREFIX) || !auth.config.custom_oauth_enabled {
        return Ok(auth.providers.find(name));
    }
    let tx = auth.autocommit(origin).await?;
    let found = custom::find(&tx, name).await;
    let found = database::finish(tx, found).await?.filter(|custom| custom.is_enabled);
    Ok(found.map(|custom| auth.providers.custom(custom)))
}

/// Takes the flow of a callback's `state`.
///
/// # Errors
/// The state is unknown, expired or used.
pub(crate) async fn take(auth: &Auth, origin: &Origin, state: Uuid) -> Result<ExternalFlow, AuthError> {
    let tx = auth.begin(origin).await?;
    let taken = flow_state::take_external(&tx, state, auth.now()).await;
    database::finish(tx, taken).await
}

/// How a callback ends.
pub(crate) enum Arrival {
    /// Implicit flow: the app gets the session.
    SignedIn(Box<Granted>),
    /// PKCE flow: the app gets this code.
    AuthCode(String),
}

/// Finishes a flow with the provider's authorization code.
pub(crate) async fn finish(
    auth: &Auth,
    origin: &Origin,
    flow: &ExternalFlow,
    code: &str,
    posted_name: Option<&Object>,
) -> Result<Arrival, AuthError> {
    let provider = find_provider(auth, origin, &flow.provider)
        .await?
        .ok_or(AuthError::BadOAuthState("OAuth state not found or expired"))?;
    let now = auth.now();
    let (mut user, tokens) = auth.providers.exchange(&provider, code, &flow.secret, now.as_second()).await?;
    user.claims.extend(posted_name.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())));
    let account = Resolver { auth, origin, provider: provider.name(), user: &user, now };
    let resolved = account.resolve(flow.linking_user, flow.is_email_optional).await?;
    let tx = auth.begin(origin).await?;
    let arrived = async {
        if flow.is_pkce {
            return Ok(Arrival::AuthCode(
                flow_state::issue_external_code(&tx, flow, resolved, &tokens, now).await?,
            ));
        }
        Ok(Arrival::SignedIn(Box::new(account.sign_in(&tx, resolved, tokens).await?)))
    }
    .await;
    database::finish(tx, arrived).await
}

/// Signs in with an ID token that the app got from the provider, or links its identity.
pub(crate) async fn sign_in_with_id_token(
    auth: &Auth,
    origin: &Origin,
    provider: &Provider,
    user: &ExternalUser,
    access_token: Option<&str>,
    linking_user: Option<Uuid>,
) -> Result<Granted, AuthError> {
    let now = auth.now();
    let account = Resolver { auth, origin, provider: provider.name(), user, now };
    let resolved = account.resolve(linking_user, provider.is_email_optional()).await?;
    let tokens =
        ProviderTokens { access_token: access_token.unwrap_or_default().to_owned(), refresh_token: None };
    let tx = auth.begin(origin).await?;
    let granted = account.sign_in(&tx, resolved, tokens).await;
    database::finish(tx, granted).await
}

/// Finds the account of an external user.
struct Resolver<'a> {
    auth: &'a Auth,
    origin: &'a Origin,
    provider: &'a str,
    user: &'a ExternalUser,
    now: Timestamp,
}

/// The account, and whether it may be signed in to.
enum Resolved {
    Account(Uuid),
    /// The address is not confirmed. A mail has been enqueued if there is an address.
    Unconfirmed,
}

impl Resolver<'_> {
    /// The id of the account. Commits what it writes, also if the sign-in has to wait for a confirmation.
    async fn resolve(&self, linking_user: Option<Uuid>, is_email_optional: bool) -> Result<Uuid, AuthError> {
        let email = match &self.user.email {
            Some(email) => Some(address::email(email)?),
            None if is_email_optional || linking_user.is_some() => None,
            None => return Err(AuthError::NoExternalEmail),
        };
        let approval = self.approve(linking_user, email.as_deref()).await?;
        let mut emails = CodeEmails::new(self.auth, self.origin, None);
        let tx = self.auth.begin(self.origin).await?;
        let resolved = async {
            match linking_user {
                Some(id) => Ok(Resolved::Account(self.link(&tx, id, email.as_deref()).await?)),
                None => self.find_or_create(&tx, email.as_deref(), approval, &mut emails).await,
            }
        }
        .await;
        let resolved = database::finish(tx, resolved).await?;
        self.auth.notify_user_created(self.origin, approval.user_id).await?;
        emails.deliver().await?;
        match resolved {
            Resolved::Account(id) => Ok(id),
            Resolved::Unconfirmed => {
                Err(AuthError::ExternalEmailUnverified(self.unverified(email.is_some())))
            }
        }
    }

    fn unverified(&self, has_email: bool) -> String {
        let name = self.provider;
        if has_email {
            format!("Unverified email with {name}. A confirmation email has been sent to your {name} email")
        } else {
            format!("Unverified email with {name}. Verify the email with {name} in order to sign in")
        }
    }

    async fn find_or_create(
        &self,
        tx: &Tx,
        email: Option<&str>,
        approval: Approval,
        emails: &mut CodeEmails<'_>,
    ) -> Result<Resolved, AuthError> {
        let is_verified = self.user.is_email_verified;
        let id = match users::find_identity(tx, self.provider, &self.user.subject).await? {
            Some(known) => {
                let user = users::lock(tx, known.user_id).await?.ok_or(AuthError::NoSuchSub)?;
                self.refresh(tx, &user, &known.data).await?;
                user.id
            }
            None => match self.account_to_link(tx, email).await? {
                Some(user) => {
                    if user.confirmed_at.is_none() {
                        users::clear_unconfirmed(tx, user.id, self.now).await?;
                    }
                    self.add_identity(tx, &user).await?;
                    user.id
                }
                None => self.create(tx, email, approval).await?,
            },
        };
        let user = read_back(tx, id).await?;
        if user.is_banned(self.now) {
            return Err(AuthError::SignInBanned);
        }
        let config = &self.auth.config;
        let is_same = email.is_some_and(|email| user.email.eq_ignore_ascii_case(email));
        if user.email_confirmed_at.is_none() && is_same && (is_verified || config.mailer_autoconfirm) {
            users::confirm_email(tx, id, self.now).await?;
        } else if user.confirmed_at.is_none() && !user.email.is_empty() {
            if config.mailer_allow_unverified_email_sign_ins {
                return Ok(Resolved::Account(id));
            }
            let recent = emails.confirmation(tx, &user).await;
            // A mail sent a moment ago still works.
            return match recent {
                Ok(()) | Err(AuthError::MailTooSoon { .. }) => Ok(Resolved::Unconfirmed),
                Err(error) => Err(error),
            };
        }
        Ok(Resolved::Account(id))
    }

    /// The account with the address, if the provider has verified it.
    async fn account_to_link(&self, tx: &Tx, email: Option<&str>) -> Result<Option<User>, AuthError> {
        let Some(email) = email.filter(|_email| self.user.is_email_verified) else { return Ok(None) };
        let mut found = users::lock_all_by_email(tx, email, self.auth.audience(self.origin)).await?;
        if found.len() > 1 {
            return Err(AuthError::SeveralAccounts);
        }
        Ok(found.pop())
    }

    /// Creates an account. It gets the address unless another account has it.
    async fn create(&self, tx: &Tx, email: Option<&str>, approval: Approval) -> Result<Uuid, AuthError> {
        if self.auth.config.disable_signup {
            return Err(AuthError::SignupDisabled);
        }
        let email = self.free_email(tx, email).await?;
        let new = self.new_user(approval.check()?, email);
        let id = create(tx, new, self.now).await?;
        let user = read_back(tx, id).await?;
        self.record(tx, &user, Action::UserSignedUp).await?;
        Ok(id)
    }

    /// The address, unless another account has it.
    async fn free_email<'e>(&self, tx: &Tx, email: Option<&'e str>) -> Result<Option<&'e str>, AuthError> {
        let audience = self.auth.audience(self.origin);
        Ok(match email {
            Some(email) if users::find_by_email(tx, email, audience).await?.is_none() => Some(email),
            Some(_) | None => None,
        })
    }

    fn new_user<'n>(&'n self, id: Uuid, email: Option<&'n str>) -> NewUser<'n> {
        let identity =
            NewIdentity { provider: self.provider, subject: &self.user.subject, data: &self.user.claims };
        NewUser {
            id,
            email,
            user_metadata: self.user.claims.clone(),
            external: Some(identity),
            ..NewUser::new(self.auth.audience(self.origin), self.auth.config.default_role())
        }
    }

    /// Asks the hook about a new account.
    async fn approve(&self, linking_user: Option<Uuid>, email: Option<&str>) -> Result<Approval, AuthError> {
        let approval = Approval::new(self.auth);
        if !approval.is_required || linking_user.is_some() || self.auth.config.disable_signup {
            return Ok(approval);
        }
        let tx = self.auth.begin(self.origin).await?;
        let found = async {
            let is_known = users::find_identity(&tx, self.provider, &self.user.subject).await?.is_some()
                || self.account_to_link(&tx, email).await?.is_some();
            Ok((is_known, self.free_email(&tx, email).await?))
        }
        .await;
        let (is_known, free_email) = database::finish(tx, found).await?;
        if is_known {
            return Ok(approval);
        }
        self.auth.approve_new_user(self.origin, &self.new_user(approval.user_id, free_email)).await?;
        Ok(approval.given())
    }

    /// Stores what the provider reports now. Metadata that the user has changed since stays.
    async fn refresh(&self, tx: &Tx, user: &User, known: &Object) -> Result<(), AuthError> {
        let claims = &self.user.claims;
        let is_own = |name: &str| match user.user_metadata.get(name) {
            Some(value) => known.get(name) != Some(value),
            None => false,
        };
        let news: Object = claims
            .iter()
            .filter(|(name, value)| !is_own(name) && user.user_metadata.get(*name) != Some(*value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        users::update_identity(tx, self.provider, &self.user.subject, claims, self.now).await?;
        if !news.is_empty() {
            users::merge_metadata(tx, user.id, Metadata::User, &news, self.now).await?;
        }
        Ok(())
    }

    /// Adds the identity to a user's account, with the metadata that the user does not have yet.
    async fn add_identity(&self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        let ExternalUser { subject, claims, .. } = self.user;
        users::insert_identity(tx, user.id, self.provider, subject, claims, self.now).await?;
        users::add_provider(tx, user.id, self.provider, self.now).await?;
        let current = read_back(tx, user.id).await?.user_metadata;
        let is_new = |(name, _): &(&String, &Value)| !current.contains_key(*name);
        let news: Object =
            claims.iter().filter(is_new).map(|(name, value)| (name.clone(), value.clone())).collect();
        users::merge_metadata(tx, user.id, Metadata::User, &news, self.now).await?;
        notify(
            tx,
            self.auth,
            self.origin,
            (user.id, user.profile()),
            AccountChange::IdentityLinked { provider: self.provider },
        )
        .await
    }

    /// Links the identity to the user who requested it.
    async fn link(&self, tx: &Tx, id: Uuid, email: Option<&str>) -> Result<Uuid, AuthError> {
        if !self.auth.config.security_manual_linking_enabled {
            return Err(AuthError::ManualLinkingDisabled);
        }
        let user = users::lock(tx, id).await?.ok_or(AuthError::NoSuchSub)?;
        if user.is_banned(self.now) {
            return Err(AuthError::SignInBanned);
        }
        match users::find_identity(tx, self.provider, &self.user.subject).await? {
            Some(known) if known.user_id == id => return Err(AuthError::IdentityLinked),
            Some(_) => return Err(AuthError::IdentityLinkedElsewhere),
            None => {}
        }
        self.add_identity(tx, &user).await?;
        // An anonymous user gets the verified address, unless another account has it.
        if let Some(email) = email.filter(|_email| user.email.is_empty() && self.user.is_email_verified)
            && users::find_by_email(tx, email, &user.aud).await?.is_none()
        {
            users::set_first_email(tx, id, email, self.now).await?;
            users::confirm_email(tx, id, self.now).await?;
        }
        self.record(tx, &user, Action::IdentityLinked).await?;
        Ok(id)
    }

    /// Begins the session.
    async fn sign_in(&self, tx: &Tx, id: Uuid, tokens: ProviderTokens) -> Result<Granted, AuthError> {
        let user = read_back(tx, id).await?;
        self.record(tx, &user, Action::Login).await?;
        let granted = verify::sign_in(tx, &self.origin.client, id, "oauth", self.now).await?;
        let provider_tokens = Some(tokens).filter(|tokens| !tokens.access_token.is_empty());
        Ok(Granted { provider_tokens, ..granted })
    }

    async fn record(&self, tx: &Tx, user: &User, action: Action) -> Result<(), AuthError> {
        let traits = audit::provider(self.provider);
        self.auth.audit_log(&self.origin.client).record(tx, user, action, traits, self.now).await
    }
}
