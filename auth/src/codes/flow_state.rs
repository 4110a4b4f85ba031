//! `auth.flow_state`: PKCE flows from the challenge to the exchange of the code (auth.md §3.5). A flow begins with the mail, gets
//! its authorization code when the link is opened, and ends with the exchange. It expires relative to the opening, so that a
//! link can be opened as long as it is valid.
//!
//! Only the SHA-256 of the authorization code is stored, so that reading the table does not allow an exchange.

use aws_lc_rs::digest::{SHA256, digest};
use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::codes::challenge::{Challenge, is_verifier};
use crate::database::column;
use crate::error::AuthError;
use crate::providers::{FlowSecret, ProviderTokens};

/// Time limit from opening the link to the exchange (`external.flow_state_expiry_duration`).
const LIFE_SECONDS: i64 = 300;

/// `authentication_method` of a flow, which becomes the session's `amr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthenticationMethod {
    EmailSignup,
    Invite,
    Recovery,
    MagicLink,
    EmailChange,
}

impl AuthenticationMethod {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::EmailSignup => "email/signup",
            Self::Invite => "invite",
            Self::Recovery => "recovery",
            Self::MagicLink => "magiclink",
            Self::EmailChange => "email_change",
        }
    }

    /// Methods whose codes share a column with this one, so that a new mail of either ends the flows of both.
    const fn siblings(self) -> &'static [&'static str] {
        match self {
            Self::EmailSignup | Self::Invite => &["email/signup", "invite"],
            Self::Recovery | Self::MagicLink => &["recovery", "magiclink"],
            Self::EmailChange => &["email_change"],
        }
    }
}

/// Begins a flow for a mail. Challenge and `method` (in any case) must be valid (auth.md §3.2).
///
/// # Errors
/// The database's.
pub(crate) async fn begin(
    tx: &Tx,
    user_id: Uuid,
    challenge: &str,
    method: &str,
    authentication_method: AuthenticationMethod,
    now: Timestamp,
) -> Result<(), AuthError> {
    // The code of an older mail was replaced, so its flow has ended.
    const FORGET: &str = "\
delete from auth.flow_state
where user_id = $1 and authentication_method = any($2) and auth_code_issued_at is null";
    const BEGIN: &str = "\
insert into auth.flow_state (id, user_id, code_challenge_method, code_challenge, provider_type, authentication_method,
  created_at, updated_at)
values ($1, $2, $3::text::auth.code_challenge_method, $4, 'email', $5, $6, $6)";
    let method = method.to_ascii_lowercase();
    tx.execute(FORGET, &[&user_id, &authentication_method.siblings()]).await?;
    tx.execute(
        BEGIN,
        &[&random::uuid(), &user_id, &method, &challenge, &authentication_method.as_str(), &now],
    )
    .await?;
    Ok(())
}

/// Issues the authorization code of the user's newest flow of this kind, when the link is opened.
///
/// # Errors
/// The flow does not exist, or the database failed.
pub(crate) async fn issue_code(
    tx: &Tx,
    user_id: Uuid,
    authentication_method: AuthenticationMethod,
    now: Timestamp,
) -> Result<String, AuthError> {
    const ISSUE: &str = "\
update auth.flow_state f
set auth_code = $3, auth_code_issued_at = $4, updated_at = $4
where f.id = (
  select g.id
  from auth.flow_state g
  where g.user_id = $1 and g.authentication_method = any($2) and g.auth_code_issued_at is null
  order by g.created_at desc
  limit 1
)";
    let code = random::uuid().to_string();
    let changed =
        tx.execute(ISSUE, &[&user_id, &authentication_method.siblings(), &stored(&code), &now]).await?;
    if changed == 0 { Err(AuthError::FlowStateNotFound) } else { Ok(code) }
}

/// An exchanged flow. Its row is deleted.
pub(crate) struct Exchanged {
    pub(crate) user_id: Uuid,
    /// For `amr`.
    pub(crate) authentication_method: String,
    /// `email`, or the external provider.
    pub(crate) provider: String,
    /// Of an external provider.
    pub(crate) tokens: Option<ProviderTokens>,
}

/// Exchanges an authorization code and deletes its flow. Of concurrent exchanges one succeeds. Locks the user first, as every
/// change of codes does.
///
/// # Errors
/// The code is unknown or expired, or the verifier does not match.
pub(crate) async fn exchange(
    tx: &Tx,
    code: &str,
    verifier: &str,
    now: Timestamp,
) -> Result<Exchanged, AuthError> {
    const LOCK: &str = "\
select u.id
from auth.users u
where u.id in (select f.user_id from auth.flow_state f where f.auth_code = $1)
for no key update";
    const FIND: &str = "\
select f.id, f.user_id, f.code_challenge_method::text as code_challenge_method, coalesce(f.code_challenge, '') as code_challenge,
  f.authentication_method, coalesce(f.auth_code_issued_at, f.created_at) as issued_at, f.provider_type,
  f.provider_access_token, f.provider_refresh_token
from auth.flow_state f
where f.auth_code = $1
for update";
    const END: &str = "delete from auth.flow_state where id = $1";
    let code = stored(code);
    tx.query_opt(LOCK, &[&code]).await?.ok_or(AuthError::FlowStateNotFound)?;
    // A separate statement, so that its snapshot is taken under the lock.
    let row = tx.query_opt(FIND, &[&code]).await?.ok_or(AuthError::FlowStateNotFound)?;
    let issued_at: Option<Timestamp> = column(&row, "issued_at")?;
    let age = issued_at.map_or(i64::MAX, |at| now.as_second().saturating_sub(at.as_second()));
    if age >= LIFE_SECONDS {
        return Err(AuthError::FlowStateExpired);
    }
    let method: Option<&str> = column(&row, "code_challenge_method")?;
    if !is_verifier(method.unwrap_or_default(), column(&row, "code_challenge")?, verifier) {
        return Err(AuthError::BadCodeVerifier);
    }
    let id: Uuid = column(&row, "id")?;
    tx.execute(END, &[&id]).await?;
    let user_id: Option<Uuid> = column(&row, "user_id")?;
    Ok(Exchanged {
        user_id: user_id.ok_or(AuthError::FlowStateNotFound)?,
        authentication_method: column(&row, "authentication_method")?,
        provider: column(&row, "provider_type")?,
        tokens: column::<Option<String>>(&row, "provider_access_token")?
            .map(|access_token| {
                Ok::<_, AuthError>(ProviderTokens {
                    access_token,
                    refresh_token: column(&row, "provider_refresh_token")?,
                })
            })
            .transpose()?,
    })
}

/// A flow at an external provider.
pub(crate) struct NewExternalFlow<'a> {
    pub(crate) provider: &'a str,
    pub(crate) secret: &'a FlowSecret,
    /// Where the browser returns to; allowed.
    pub(crate) target: &'a str,
    /// Of the app, which then gets a code instead of tokens.
    pub(crate) challenge: Option<&'a Challenge>,
    /// The user who gets the identity, if it is not a sign-in.
    pub(crate) linking_user: Option<Uuid>,
    pub(crate) is_email_optional: bool,
}

/// Begins a flow and returns its `state`.
pub(crate) async fn begin_external(
    tx: &Tx,
    flow: &NewExternalFlow<'_>,
    now: Timestamp,
) -> Result<Uuid, AuthError> {
    const SECRET: &str = "\
insert into auth.oauth_client_states (id, provider_type, code_verifier, created_at) values ($1, $2, $3, $4)";
    const BEGIN: &str = "\
insert into auth.flow_state (id, code_challenge_method, code_challenge, provider_type, authentication_method, referrer,
  oauth_client_state_id, linking_target_id, email_optional, created_at, updated_at)
values ($1, $2::text::auth.code_challenge_method, $3, $4, 'oauth', $5, $6, $7, $8, $9, $9)";
    let (id, secret_id) = (random::uuid(), random::uuid());
    let challenge = flow.challenge.map(|challenge| challenge.text.as_str());
    let method = flow.challenge.map(|challenge| challenge.method.to_ascii_lowercase());
    tx.execute(SECRET, &[&secret_id, &flow.provider, &flow.secret.0, &now]).await?;
    tx.execute(
        BEGIN,
        &[
            &id,
            &method,
            &challenge,
            &flow.provider,
            &flow.target,
            &secret_id,
            &flow.linking_user,
            &flow.is_email_optional,
            &now,
        ],
    )
    .await?;
    Ok(id)
}

/// A flow whose browser has come back.
pub(crate) struct ExternalFlow {
    pub(crate) id: Uuid,
    pub(crate) provider: String,
    pub(crate) secret: FlowSecret,
    pub(crate) target: String,
    /// Whether the app gets a code.
    pub(crate) is_pkce: bool,
    pub(crate) linking_user: Option<Uuid>,
    pub(crate) is_email_optional: bool,
}

/// Takes the flow of a `state`. Of concurrent callbacks one succeeds.
///
/// # Errors
/// The state is unknown, expired, or was used.
pub(crate) async fn take_external(tx: &Tx, state: Uuid, now: Timestamp) -> Result<ExternalFlow, AuthError> {
    const FIND: &str = "\
select f.provider_type, f.referrer, f.code_challenge is not null as is_pkce, f.linking_target_id, f.email_optional,
  f.created_at, f.oauth_client_state_id
from auth.flow_state f
where f.id = $1 and f.authentication_method = 'oauth'";
    const TAKE: &str = "delete from auth.oauth_client_states where id = $1 returning code_verifier";
    let unknown = || AuthError::BadOAuthState("OAuth state not found or expired");
    let row = tx.query_opt(FIND, &[&state]).await.map_err(AuthError::querying)?.ok_or_else(unknown)?;
    let created_at: Option<Timestamp> = column(&row, "created_at")?;
    let age = created_at.map_or(i64::MAX, |at| now.as_second().saturating_sub(at.as_second()));
    if age >= LIFE_SECONDS {
        return Err(AuthError::BadOAuthState("OAuth state has expired"));
    }
    let secret_id: Option<Uuid> = column(&row, "oauth_client_state_id")?;
    let taken = tx.query_opt(TAKE, &[&secret_id]).await?.ok_or(AuthError::OAuthStateUsed)?;
    let secret: Option<String> = column(&taken, "code_verifier")?;
    Ok(ExternalFlow {
        id: state,
        provider: column(&row, "provider_type")?,
        secret: FlowSecret(secret.ok_or_else(unknown)?),
        target: column::<Option<String>>(&row, "referrer")?.unwrap_or_default(),
        is_pkce: column(&row, "is_pkce")?,
        linking_user: column(&row, "linking_target_id")?,
        is_email_optional: column(&row, "email_optional")?,
    })
}

/// Issues the authorization code of a flow at an external provider, together with the provider's tokens.
pub(crate) async fn issue_external_code(
    tx: &Tx,
    flow: &ExternalFlow,
    user_id: Uuid,
    tokens: &ProviderTokens,
    now: Timestamp,
) -> Result<String, AuthError> {
    const ISSUE: &str = "\
update auth.flow_state
set user_id = $2, auth_code = $3, auth_code_issued_at = $4, updated_at = $4, provider_access_token = $5,
  provider_refresh_token = $6
where id = $1";
    let code = random::uuid().to_string();
    tx.execute(
        ISSUE,
        &[&flow.id, &user_id, &stored(&code), &now, &tokens.access_token, &tokens.refresh_token],
    )
    .await?;
    Ok(code)
}

/// The stored hash of an authorization code.
fn stored(code: &str) -> String {
    hex::encode(digest(&SHA256, code.as_bytes()))
}
