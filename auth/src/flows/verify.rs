//! Giving a code or a link back (auth.md §3.10): which pending code is meant, whether it holds, and what it ends with:
//! a session, an authorization code, or the wait for a second confirmation. What it changes about the account is
//! [`mod@effects`]; how the answer looks is [`crate::http`].
//!
//! All of it is one transaction, in which the code's row is deleted. Only the count of wrong codes outlives a request
//! that fails.

mod effects;

use basalt_core::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::codes::flow_state::{self, AuthenticationMethod};
use crate::codes::one_time::{self, CodeSettings, FlowType, Pending, TokenType};
use crate::database;
use crate::error::AuthError;
use crate::origin::{Client, Origin};
use crate::sessions::access_token::Granted;
use crate::sessions::{self, Begun, PasswordState};
use crate::state::Auth;
use crate::users::{self, User};

/// `type` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerificationType {
    Signup,
    Invite,
    Recovery,
    MagicLink,
    /// Becomes [`VerificationType::Signup`] or [`VerificationType::MagicLink`], whichever is pending.
    Email,
    EmailChange,
    Sms,
    PhoneChange,
}

impl VerificationType {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        const ALL: [VerificationType; 8] = [
            VerificationType::Signup,
            VerificationType::Invite,
            VerificationType::Recovery,
            VerificationType::MagicLink,
            VerificationType::Email,
            VerificationType::EmailChange,
            VerificationType::Sms,
            VerificationType::PhoneChange,
        ];
        ALL.into_iter().find(|candidate| candidate.as_str() == text)
    }

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Signup => "signup",
            Self::Invite => "invite",
            Self::Recovery => "recovery",
            Self::MagicLink => "magiclink",
            Self::Email => "email",
            Self::EmailChange => "email_change",
            Self::Sms => "sms",
            Self::PhoneChange => "phone_change",
        }
    }

    /// Whether its codes go to phones, which get no links.
    pub(crate) const fn is_phone(self) -> bool {
        matches!(self, Self::Sms | Self::PhoneChange)
    }

    const fn token_types(self) -> &'static [TokenType] {
        match self {
            Self::Signup | Self::Invite | Self::Sms => &[TokenType::Confirmation],
            Self::Recovery | Self::MagicLink => &[TokenType::Recovery],
            Self::Email => &[TokenType::Confirmation, TokenType::Recovery],
            Self::EmailChange => &[TokenType::EmailChangeCurrent, TokenType::EmailChangeNew],
            Self::PhoneChange => &[TokenType::PhoneChange],
        }
    }

    /// What it turns out to be once the code is found.
    const fn resolved(self, found: TokenType) -> Self {
        match (self, found) {
            (Self::Email, TokenType::Recovery) => Self::MagicLink,
            (Self::Email, _) => Self::Signup,
            (other, _) => other,
        }
    }

    /// The flow that a link of this type goes on with.
    const fn authentication_method(self) -> AuthenticationMethod {
        match self {
            Self::Invite => AuthenticationMethod::Invite,
            Self::Recovery => AuthenticationMethod::Recovery,
            Self::MagicLink => AuthenticationMethod::MagicLink,
            Self::EmailChange | Self::PhoneChange => AuthenticationMethod::EmailChange,
            Self::Signup | Self::Email | Self::Sms => AuthenticationMethod::EmailSignup,
        }
    }
}

/// What a request brings.
pub(crate) enum Proof {
    /// A typed code and the address, in stored form, that it was sent to.
    Code { address: String, code: String },
    /// What stands in the link.
    Hash(String),
}

impl Proof {
    /// The one answer to whatever is wrong with it.
    const fn refusal(&self) -> AuthError {
        match self {
            Self::Code { .. } => AuthError::OtpExpired,
            Self::Hash(_) => AuthError::LinkExpired,
        }
    }
}

/// How a code that held ended.
pub(crate) enum Verified {
    /// With a session; the type is the resolved one.
    SignedIn(Box<Granted>, VerificationType),
    /// With a code to exchange.
    AuthCode(String),
    /// With the wait for the other of two confirmations.
    HalfConfirmed,
}

/// How the transaction ended. All but an error commit.
enum Outcome {
    Verified(Verified),
    /// The request fails, the count of wrong codes stays.
    Refused(AuthError),
}

/// Redeems what the request brings; with [`FlowType::Pkce`] for an authorization code.
///
/// # Errors
/// The code does not hold, its user is banned, or the database's.
pub(crate) async fn redeem(
    auth: &Auth,
    origin: &Origin,
    kind: VerificationType,
    proof: &Proof,
    flow: FlowType,
) -> Result<Verified, AuthError> {
    let attempt = Attempt { auth, origin, flow, now: auth.now() };
    let tx = auth.begin(origin).await?;
    let outcome = attempt.run(&tx, kind, proof).await;
    match database::finish(tx, outcome).await? {
        Outcome::Verified(verified) => Ok(verified),
        Outcome::Refused(error) => Err(error),
    }
}

struct Attempt<'a> {
    auth: &'a Auth,
    origin: &'a Origin,
    flow: FlowType,
    now: Timestamp,
}

impl Attempt<'_> {
    async fn run(&self, tx: &Tx, kind: VerificationType, proof: &Proof) -> Result<Outcome, AuthError> {
        let Some(pending) = self.find(tx, kind, proof).await? else {
            return Ok(Outcome::Refused(proof.refusal()));
        };
        let kind = kind.resolved(pending.token_type);
        let Some(user) = users::find(tx, pending.user_id).await? else {
            return Ok(Outcome::Refused(proof.refusal()));
        };
        if !pending.is_alive(CodeSettings::new(&self.auth.config), &user, self.now)
            || !is_for(kind, &user, &pending)
        {
            return Ok(Outcome::Refused(proof.refusal()));
        }
        if user.is_banned(self.now) {
            return Err(AuthError::VerifyBanned);
        }
        if !one_time::consume(tx, &pending).await? {
            return Ok(Outcome::Refused(proof.refusal()));
        }
        if !self.apply(tx, kind, &user, &pending).await? {
            return Ok(Outcome::Verified(Verified::HalfConfirmed));
        }
        effects::recompute_providers(tx, user.id, self.now).await?;
        match self.flow {
            FlowType::Pkce => {
                let method = kind.authentication_method();
                let code = flow_state::issue_code(tx, user.id, method, self.now).await?;
                Ok(Outcome::Verified(Verified::AuthCode(code)))
            }
            FlowType::Implicit => {
                let granted = sign_in(tx, &self.origin.client, user.id, "otp", self.now).await?;
                Ok(Outcome::Verified(Verified::SignedIn(Box::new(granted), kind)))
            }
        }
    }

    /// The pending code that is meant. A typed one that is wrong counts against those it could have been.
    async fn find(
        &self,
        tx: &Tx,
        kind: VerificationType,
        proof: &Proof,
    ) -> Result<Option<Pending>, AuthError> {
        match proof {
            Proof::Hash(hash) => one_time::pending_with_hash(tx, hash, kind.token_types()).await,
            Proof::Code { address, code } => {
                let audience = self.auth.audience(self.origin);
                let mut pending = one_time::pending_at(tx, address, kind.token_types(), audience).await?;
                if let Some(index) = pending.iter().position(|pending| pending.is(code)) {
                    return Ok(Some(pending.swap_remove(index)));
                }
                one_time::note_failure(tx, &pending).await?;
                Ok(None)
            }
        }
    }

    /// Changes the account. `false` when the change waits for another confirmation.
    async fn apply(
        &self,
        tx: &Tx,
        kind: VerificationType,
        user: &User,
        pending: &Pending,
    ) -> Result<bool, AuthError> {
        let account = effects::Effects { auth: self.auth, origin: self.origin, tx, user, now: self.now };
        match kind {
            VerificationType::Signup | VerificationType::Invite | VerificationType::Email => {
                account.confirm_email().await?;
            }
            VerificationType::Recovery | VerificationType::MagicLink => account.recover().await?,
            VerificationType::Sms => account.confirm_phone().await?,
            VerificationType::EmailChange => return account.change_email(pending.token_type).await,
            VerificationType::PhoneChange => account.change_phone(&pending.relates_to).await?,
        }
        Ok(true)
    }
}

/// A confirmation may have gone to the e-mail address or to the phone: it confirms only where it went.
fn is_for(kind: VerificationType, user: &User, pending: &Pending) -> bool {
    let address = match kind {
        VerificationType::Sms => &user.phone,
        VerificationType::Signup
        | VerificationType::Invite
        | VerificationType::Email
        | VerificationType::Recovery
        | VerificationType::MagicLink => &user.email,
        VerificationType::EmailChange | VerificationType::PhoneChange => return true,
    };
    !address.is_empty() && address.eq_ignore_ascii_case(&pending.relates_to)
}

/// Begins a session; the account is read after the project's triggers have run.
///
/// # Errors
/// The user is gone, or the database's.
pub(crate) async fn sign_in(
    tx: &Tx,
    client: &Client,
    user_id: Uuid,
    method: &str,
    now: Timestamp,
) -> Result<Granted, AuthError> {
    let vanished = || AuthError::Internal("a user whose row is locked is not there".to_owned());
    let Begun { session_id, amr, refresh_token, user: _ } =
        sessions::begin(tx, client, user_id, method, PasswordState::default(), now)
            .await?
            .ok_or_else(vanished)?;
    let account = users::account(tx, user_id).await?.ok_or_else(vanished)?;
    Ok(Granted { account, session_id, amr, refresh_token, now, weak_password: None })
}
