//! Redeeming a code or link (auth.md §3.10): finds and checks the pending code, applies its effects ([`mod@effects`]), and
//! returns a session, an authorization code, or a request for the second confirmation.
//!
//! All of it is one transaction, which deletes the code. If the request fails, only the count of wrong codes is committed.

mod effects;

use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::codes::flow_state::{self, AuthenticationMethod};
use crate::codes::one_time::{self, CodeSettings, FlowType, PendingCode, TokenType};
use crate::database;
use crate::error::AuthError;
use crate::origin::{Client, Origin};
use crate::sessions::access_token::Granted;
use crate::sessions::{self, NewSession, PasswordState};
use crate::state::Auth;
use crate::users::{self, User};

/// `type` of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VerificationType {
    Signup,
    Invite,
    Recovery,
    MagicLink,
    /// Resolved to [`VerificationType::Signup`] or [`VerificationType::MagicLink`], whichever is pending.
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

    /// Whether its codes are sent to phones, which get no links.
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

    /// The resolved type, given the code that was found.
    const fn resolved(self, found: TokenType) -> Self {
        match (self, found) {
            (Self::Email, TokenType::Recovery) => Self::MagicLink,
            (Self::Email, _) => Self::Signup,
            (other, _) => other,
        }
    }

    /// The authentication method of the flow that a link of this type continues.
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

/// The code or hash in a request.
pub(crate) enum Proof {
    /// A typed code and the normalised address it was sent to.
    Code { address: String, code: String },
    /// The token of a link.
    Hash(String),
}

impl Proof {
    /// The error, which is the same for every reason.
    const fn refusal(&self) -> AuthError {
        match self {
            Self::Code { .. } => AuthError::OtpExpired,
            Self::Hash(_) => AuthError::LinkExpired,
        }
    }
}

/// Result of a valid code.
pub(crate) enum Verified {
    /// A session, with the resolved type.
    SignedIn(Box<Granted>, VerificationType),
    /// An authorization code to exchange.
    AuthCode(String),
    /// The other of two confirmations is still pending.
    HalfConfirmed,
}

/// Result of the transaction. Both commit.
enum Outcome {
    Verified(Verified),
    /// The request fails, but the count of wrong codes is committed.
    Refused(AuthError),
}

/// Redeems a code: for a session, or with [`FlowType::Pkce`] for an authorization code.
///
/// # Errors
/// The code is invalid, its user is banned, or the database failed.
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
        if !pending.is_valid(CodeSettings::new(&self.auth.config), &user, self.now)
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

    /// Finds the pending code. A wrong typed code counts against all pending codes it could have matched.
    async fn find(
        &self,
        tx: &Tx,
        kind: VerificationType,
        proof: &Proof,
    ) -> Result<Option<PendingCode>, AuthError> {
        match proof {
            Proof::Hash(hash) => one_time::find_by_hash(tx, hash, kind.token_types()).await,
            Proof::Code { address, code } => {
                let audience = self.auth.audience(self.origin);
                let mut pending =
                    one_time::find_by_address(tx, address, kind.token_types(), audience).await?;
                if let Some(index) = pending.iter().position(|pending| pending.matches(code)) {
                    return Ok(Some(pending.swap_remove(index)));
                }
                one_time::note_failure(tx, &pending).await?;
                Ok(None)
            }
        }
    }

    /// Applies the effects. `false` if another confirmation is pending.
    async fn apply(
        &self,
        tx: &Tx,
        kind: VerificationType,
        user: &User,
        pending: &PendingCode,
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

/// A confirmation may have been sent by e-mail or to the phone; it confirms only that address.
fn is_for(kind: VerificationType, user: &User, pending: &PendingCode) -> bool {
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

/// Begins a session. Reads the account again after the project's triggers have run.
///
/// # Errors
/// The user does not exist, or the database failed.
pub(crate) async fn sign_in(
    tx: &Tx,
    client: &Client,
    user_id: Uuid,
    method: &str,
    now: Timestamp,
) -> Result<Granted, AuthError> {
    let vanished = || AuthError::Internal("a locked user row does not exist".to_owned());
    let NewSession { session_id, amr, refresh_token, user: _ } =
        sessions::begin(tx, client, user_id, method, PasswordState::default(), now)
            .await?
            .ok_or_else(vanished)?;
    let account = users::account(tx, user_id).await?.ok_or_else(vanished)?;
    Ok(Granted {
        account,
        session_id,
        amr,
        refresh_token,
        now,
        weak_password: None,
        provider_tokens: None,
        client: None,
        is_refresh: false,
    })
}
