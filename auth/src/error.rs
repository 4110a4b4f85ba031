//! What can go wrong, and how it looks on the wire (auth.md §3.1): code outside of this folder knows no statuses, codes
//! and shapes. Status and code are [`mod@wire`]'s, bodies [`mod@render`]'s; what other crates' failures become is
//! [`mod@cause`].
//!
//! An error's `Display` text is its message, word for word as clients compare it. Which of the two shapes it takes
//! depends on the request's `X-Supabase-Api-Version`, so an error travels to [`mod@render`] in the response's extensions
//! and becomes a body there. What only operators may see (SQL, causes) stays in the variants and goes to the log.

mod cause;
pub(crate) mod feature;
mod render;
mod wire;

use std::borrow::Cow;
use std::time::Duration;

use basalt_core::keys::KeyError;
use basalt_core::pg_error::PgError;
use basalt_core::session::SessionError;

use crate::passwords::policy::Weakness;
pub(crate) use cause::Taken;
use feature::Feature;
pub(crate) use render::{ApiVersion, RenderContext, not_found, render, render_fault};

/// Everything auth answers with instead of what was asked for. Messages are the contract's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    // The request itself.
    /// The body is no JSON object of the expected fields.
    #[error("Could not parse request body as JSON: {0}")]
    BadJson(String),
    /// The body passed the limit, in bytes.
    #[error("Request body too large (max {0} bytes)")]
    BodyTooLarge(usize),
    /// A parameter breaks a rule; the text names it.
    #[error("{0}")]
    Validation(Cow<'static, str>),
    /// The per-address limiter.
    #[error("Request rate limit reached")]
    RateLimited {
        /// When the next request may come.
        retry_after: Duration,
    },
    /// The same kind of mail went to this user a moment ago.
    #[error("For security purposes, you can only request this after {seconds} seconds.")]
    MailTooSoon {
        /// Whole seconds left.
        seconds: i64,
    },
    /// The whole server has sent as many mails as it may for now.
    #[error("email rate limit exceeded")]
    MailLimit {
        /// When the next mail may leave.
        retry_after: Duration,
    },
    /// Only some addresses get mail here, and this is none of them.
    #[error("Email address {0:?} cannot be used as it is not authorized")]
    EmailNotAuthorized(String),
    /// The deadline passed.
    #[error("Processing this request timed out, please retry after a moment.")]
    Timeout,
    /// The client sends its body too slowly.
    #[error("The request body came too slowly")]
    SlowBody,

    // The bearer.
    /// No bearer at all.
    #[error("This endpoint requires a valid Bearer token")]
    NoBearer,
    /// Signature, algorithm, key or a time claim.
    #[error("invalid JWT: unable to parse or verify signature, {0}")]
    BadJwt(String),
    /// No `sub`: an API key used as a user's token.
    #[error("invalid claim: missing sub claim")]
    NoSub,
    /// `sub` is no UUID.
    #[error("invalid claim: sub claim must be a UUID")]
    SubNotUuid,
    /// `session_id` is no UUID.
    #[error("invalid claim: session_id claim must be a UUID")]
    SessionIdNotUuid,
    /// The token's user is gone.
    #[error("User from sub claim in JWT does not exist")]
    NoSuchSub,
    /// The token's session has ended.
    #[error("Session from session_id claim in JWT does not exist")]
    NoSuchSession,
    /// The token's user is banned.
    #[error("User is banned")]
    BannedBearer,
    /// The token's role is no admin role.
    #[error("User not allowed")]
    NotAdmin,

    // Sign-up and sign-in.
    /// `disable_signup`.
    #[error("Signups not allowed for this instance")]
    SignupDisabled,
    /// The password breaks the policy.
    #[error("{}", .0.message)]
    WeakPassword(Weakness),
    /// Sign-up by e-mail is off.
    #[error("Email signups are disabled")]
    EmailSignupsDisabled,
    /// Sign-up by phone is off.
    #[error("Phone signups are disabled")]
    PhoneSignupsDisabled,
    /// Sign-in by e-mail is off.
    #[error("Email logins are disabled")]
    EmailLoginsDisabled,
    /// Sign-in by phone is off.
    #[error("Phone logins are disabled")]
    PhoneLoginsDisabled,
    /// A mail route while mail is off; sign-in says the same with another status.
    #[error("Email logins are disabled")]
    MailRoutesDisabled,
    /// A message route while messages are off.
    #[error("Phone logins are disabled")]
    MessageRoutesDisabled,
    /// Magic links are off.
    #[error("Login with magic link is disabled")]
    MagicLinkDisabled,
    /// Messages are off, or there is no provider for them.
    #[error("Unsupported phone provider")]
    UnsupportedPhoneProvider,
    /// A code for an unknown address, and no account was to be made.
    #[error("Signups not allowed for otp")]
    OtpDisabled,
    /// A nonce for an address that was never confirmed.
    #[error("Please verify your email first.")]
    VerifyEmailFirst,
    /// A nonce for a number that was never confirmed.
    #[error("Please verify your phone first.")]
    VerifyPhoneFirst,
    /// Anonymous accounts are off.
    #[error("Anonymous sign-ins are disabled")]
    AnonymousDisabled,
    /// The address belongs to a user.
    #[error("User already registered")]
    UserAlreadyExists,
    /// `grant_type` is missing or unknown.
    #[error("unsupported_grant_type")]
    UnsupportedGrant,
    /// Unknown user, no password, or the wrong one: the same answer.
    #[error("Invalid login credentials")]
    InvalidCredentials,
    /// The right password of a banned user.
    #[error("User is banned")]
    SignInBanned,
    /// The right password, the address is not confirmed.
    #[error("Email not confirmed")]
    EmailNotConfirmed,
    /// No provider of messages is configured; the text is what the message was to be about.
    #[error("Error sending {0} OTP to provider: no SMS provider is configured")]
    SmsSendFailed(&'static str),
    /// The right password, the number is not confirmed.
    #[error("Phone not confirmed")]
    PhoneNotConfirmed,

    // Refresh.
    /// Unknown token, or a signature that is not the session's.
    #[error("Invalid Refresh Token: Refresh Token Not Found")]
    RefreshTokenNotFound,
    /// Reuse outside the interval; the session is gone.
    #[error("Invalid Refresh Token: Already Used")]
    RefreshTokenAlreadyUsed,
    /// An old row without a session.
    #[error("Invalid Refresh Token: No Valid Session Found")]
    NoValidSession,
    /// A limit on sessions; the text in brackets, with a space before it, says which.
    #[error("Invalid Refresh Token: Session Expired{0}")]
    SessionExpired(&'static str),
    /// The user is banned.
    #[error("Invalid Refresh Token: User Banned")]
    RefreshBanned,
    /// The session belongs to an OAuth client, which refreshes elsewhere.
    #[error("Invalid client for this refresh token")]
    OAuthClientSession,

    // Codes, links and flows.
    /// A typed code that is wrong or old, or of no user.
    #[error("Token has expired or is invalid")]
    OtpExpired,
    /// A link whose code is gone, old or was never made.
    #[error("Email link is invalid or has expired")]
    LinkExpired,
    /// The right code of a banned user.
    #[error("User is banned")]
    VerifyBanned,
    /// An address that is none, where a code is given back.
    #[error("Invalid email format")]
    VerifyEmailFormat,
    /// No PKCE flow waits for this code.
    #[error("invalid flow state, no valid flow state found")]
    FlowStateNotFound,
    /// The link was opened too long ago.
    #[error("invalid flow state, flow state has expired")]
    FlowStateExpired,
    /// Not what the challenge was made of.
    #[error("code challenge does not match previously saved code verifier")]
    BadCodeVerifier,

    // Changing a user.
    /// `app_metadata` from a normal user.
    #[error("Updating app_metadata requires admin privileges")]
    AppMetadataNeedsAdmin,
    /// A verified factor, and the session is aal1.
    #[error("AAL2 session is required to update email or password when MFA is enabled.")]
    InsufficientAal,
    /// A password for an account without an address.
    #[error("Updating password of an anonymous user without an email or phone is not allowed")]
    AnonymousPassword,
    /// A single sign-on account.
    #[error("Updating email, phone, password of a SSO account only possible via SSO")]
    SsoManaged,
    /// The new address is another user's.
    #[error("A user with this email address has already been registered")]
    EmailExists,
    /// The new number is another user's.
    #[error("A user with this phone number has already been registered")]
    PhoneExists,
    /// The session is older than a day and no nonce was given.
    #[error("Password update requires reauthentication")]
    ReauthenticationNeeded,
    /// The nonce is wrong or old.
    #[error("Nonce has expired or is invalid")]
    ReauthenticationNotValid,
    /// `current_password` is asked for and missing.
    #[error("Current password required when setting new password.")]
    CurrentPasswordRequired,
    /// `current_password` is wrong.
    #[error("Current password required when setting new password.")]
    CurrentPasswordInvalid,
    /// The new password is the old one.
    #[error("New password should be different from the old password.")]
    SamePassword,

    // Admins.
    /// A token bound to a session that has ended.
    #[error("Session is no longer valid")]
    AdminSessionExpired,
    /// The path names no user.
    #[error("User not found")]
    UserNotFound,
    /// A link for an unknown address.
    #[error("User with this email not found")]
    NoUserWithEmail,
    /// The path's id is no UUID.
    #[error("user_id must be an UUID")]
    UserIdNotUuid,
    /// The new user's number is another one's.
    #[error("Phone number already registered by another user")]
    PhoneRegistered,
    /// The path's session id is no UUID.
    #[error("session_id must be an UUID")]
    SessionPathNotUuid,
    /// The path names no session of the user.
    #[error("Session not found")]
    SessionNotFound,
    /// The path's identity id is no UUID.
    #[error("identity_id must be an UUID")]
    IdentityIdNotUuid,
    /// Users may not link and unlink by themselves here.
    #[error("Manual linking is disabled")]
    ManualLinkingDisabled,
    /// Unlinking with a token of another audience.
    #[error("Token audience doesn't match request audience")]
    UnexpectedAudience,
    /// The last identity stays.
    #[error("User must have at least 1 identity after unlinking")]
    SingleIdentity,
    /// The path names no identity of the user.
    #[error("Identity doesn't exist")]
    IdentityNotFound,
    /// A feature that is off.
    #[error("{}", .0.message)]
    SwitchedOff(Feature),
    /// Anonymous users have no account to protect.
    #[error("Anonymous user not allowed to perform these actions")]
    AnonymousRefused,
    /// The path's factor id is no UUID.
    #[error("factor_id must be an UUID")]
    FactorIdNotUuid,
    /// The path names no factor of the user.
    #[error("Factor not found")]
    FactorNotFound,
    /// A verified factor may be given up with a session that used one.
    #[error("AAL2 required to unenroll verified factor")]
    FactorNeedsAal2,
    /// The grants `id_token` and `web3` in the words of OAuth: what their request lacks.
    #[error("{0}")]
    InvalidRequest(&'static str),
    /// The provider behind this issuer is off.
    #[error("Provider (issuer \"{0}\") is not enabled")]
    IssuerDisabled(String),
    /// A wallet of an unsupported chain.
    #[error("Unsupported chain")]
    UnsupportedChain,
    /// The address that would be left belongs to another user.
    #[error("Unable to unlink identity due to email conflict")]
    IdentityEmailConflict,
    /// The given password hash cannot be used.
    #[error("Error creating user")]
    CreatingUser,
    /// The insert of an admin's new user failed.
    #[error("Database error creating new user")]
    InsertingUser(#[source] Box<PgError>),
    /// The removal of a user failed, most often at a foreign key of the project's.
    #[error("Database error deleting user")]
    DeletingUser(#[source] Box<PgError>),

    // The command line's.
    /// An administrator was asked for, and the project has no table for them.
    #[error(
        "the table public.user_roles does not exist: apply the project's migrations first (basalt migrate)"
    )]
    NoUserRoles,

    // Ours and the database's.
    /// As many password hashes as may wait are waiting.
    #[error("The server is busy, please retry after a moment.")]
    Overloaded,
    /// The insert of a user failed, most often in a trigger of the project's.
    #[error("Database error saving new user")]
    SavingUser(#[source] Box<PgError>),
    /// The update of a user failed.
    #[error("Error updating user")]
    UpdatingUser(#[source] Box<PgError>),
    /// A look-up failed.
    #[error("Database error querying schema")]
    Querying(#[source] Box<PgError>),
    /// The database is not there, or too busy.
    #[error("The database is unavailable, please retry after a moment.")]
    DatabaseUnavailable(#[source] SessionError),
    /// Any other statement failed.
    #[error("Unexpected failure, please check server logs for more information")]
    Database(#[source] Box<PgError>),
    /// A token could not be signed.
    #[error("Unexpected failure, please check server logs for more information")]
    Signing(#[source] KeyError),
    /// Something that cannot happen did; the text is for the log.
    #[error("Unexpected failure, please check server logs for more information")]
    Internal(String),
}

impl AuthError {
    /// A rule on a parameter was broken.
    pub(crate) const fn validation(text: &'static str) -> Self {
        Self::Validation(Cow::Borrowed(text))
    }
}
