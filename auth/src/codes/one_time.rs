//! One-time codes (auth.md §3.10): generated, hashed and stored here, redeemed in [`mod@redeem`].
//!
//! A pending code is a row of `auth.one_time_tokens`, one per user and type; a newer code replaces it. Columns of `auth.users`
//! repeat the hash for readers of that table and contain the sent-at time, from which its life counts. Every change of
//! either locks the user's row first, to prevent deadlocks.

mod redeem;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA224, digest};
use basalt_core::random;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use uuid::Uuid;

use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::users;
pub(crate) use redeem::{
    PendingCode, check_nonce, consume, find_by_address, find_by_hash, note_failure, use_nonce,
};

/// Prefix of the hashes of PKCE flows, which end in an authorization code instead of a session.
const PKCE_PREFIX: &str = "pkce_";

/// Purpose of a code: `auth.one_time_token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// Sign-up by e-mail or phone, and invitation.
    Confirmation,
    /// Password reset and magic link; a newer one replaces either.
    Recovery,
    /// E-mail change, sent to the current address.
    EmailChangeCurrent,
    /// E-mail change, sent to the new address.
    EmailChangeNew,
    /// Nonce for a password change.
    Reauthentication,
    /// Phone change, sent to the new number.
    PhoneChange,
}

impl TokenType {
    /// The label in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Confirmation => "confirmation_token",
            Self::Recovery => "recovery_token",
            Self::EmailChangeCurrent => "email_change_token_current",
            Self::EmailChangeNew => "email_change_token_new",
            Self::Reauthentication => "reauthentication_token",
            Self::PhoneChange => "phone_change_token",
        }
    }

    /// The type of a label in the database.
    fn from_label(label: &str) -> Option<Self> {
        const ALL: [TokenType; 6] = [
            TokenType::Confirmation,
            TokenType::Recovery,
            TokenType::EmailChangeCurrent,
            TokenType::EmailChangeNew,
            TokenType::Reauthentication,
            TokenType::PhoneChange,
        ];
        ALL.into_iter().find(|token_type| token_type.as_str() == label)
    }
}

/// The result of a mail's link: a session in the fragment, or an authorization code in the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowType {
    Implicit,
    /// A [`crate::codes::flow_state`] waits for the code.
    Pkce,
}

/// How codes are made, by the kind of address they are sent to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeSettings {
    email: CodeForm,
    sms: CodeForm,
}

#[derive(Debug, Clone, Copy)]
struct CodeForm {
    /// Number of digits in a code.
    length: u8,
    life_seconds: u64,
}

impl CodeSettings {
    pub(crate) const fn new(config: &AuthConfig) -> Self {
        Self {
            email: CodeForm { length: config.mailer_otp_length, life_seconds: config.mailer_otp_exp },
            sms: CodeForm { length: config.sms_otp_length, life_seconds: config.sms_otp_exp },
        }
    }

    /// A random code for this kind of address.
    pub(crate) fn new_code(self, address: &str) -> String {
        digits(self.for_address(address).length)
    }

    fn for_address(self, address: &str) -> CodeForm {
        if address.contains('@') { self.email } else { self.sms }
    }
}

/// A new code. Only its hash is stored. No `Debug`, so that no log can show the code.
pub(crate) struct IssuedCode {
    /// The digits to type.
    pub(crate) code: String,
    /// The stored hash, which is also the token of links.
    pub(crate) hash: String,
}

macro_rules! issue {
    ($token:literal, $sent_at:literal) => {
        concat!(
            "with u as (update auth.users set ",
            $token,
            " = $2, ",
            $sent_at,
            " = $3, updated_at = $3 where id = $1 returning id)
insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to, created_at, updated_at)
select $4, u.id, $5::text::auth.one_time_token_type, $2, $6, $3::timestamptz at time zone 'utc',
  $3::timestamptz at time zone 'utc'
from u
on conflict (user_id, token_type) do update
set id = excluded.id, token_hash = excluded.token_hash, relates_to = excluded.relates_to,
  created_at = excluded.created_at, updated_at = excluded.updated_at"
        )
    };
}

/// Generates a code for `address` (an e-mail address or digits) and stores it ([`store`]).
///
/// # Errors
/// The database's.
pub(crate) async fn issue(
    tx: &Tx,
    settings: CodeSettings,
    user_id: Uuid,
    token_type: TokenType,
    address: &str,
    flow: FlowType,
    now: Timestamp,
) -> Result<IssuedCode, AuthError> {
    store(tx, user_id, token_type, address, settings.new_code(address), flow, now).await
}

/// Stores the hash of a code for `address`, replacing a pending one of the type. Sets the sent-at time.
///
/// # Errors
/// The database's.
pub(crate) async fn store(
    tx: &Tx,
    user_id: Uuid,
    token_type: TokenType,
    address: &str,
    code: String,
    flow: FlowType,
    now: Timestamp,
) -> Result<IssuedCode, AuthError> {
    const CONFIRMATION: &str = issue!("confirmation_token", "confirmation_sent_at");
    const RECOVERY: &str = issue!("recovery_token", "recovery_sent_at");
    const EMAIL_CHANGE_CURRENT: &str = issue!("email_change_token_current", "email_change_sent_at");
    const EMAIL_CHANGE_NEW: &str = issue!("email_change_token_new", "email_change_sent_at");
    const REAUTHENTICATION: &str = issue!("reauthentication_token", "reauthentication_sent_at");
    const PHONE_CHANGE: &str = issue!("phone_change_token", "phone_change_sent_at");
    let sql = match token_type {
        TokenType::Confirmation => CONFIRMATION,
        TokenType::Recovery => RECOVERY,
        TokenType::EmailChangeCurrent => EMAIL_CHANGE_CURRENT,
        TokenType::EmailChangeNew => EMAIL_CHANGE_NEW,
        TokenType::Reauthentication => REAUTHENTICATION,
        TokenType::PhoneChange => PHONE_CHANGE,
    };
    let prefix = match flow {
        FlowType::Implicit => "",
        FlowType::Pkce => PKCE_PREFIX,
    };
    let hash = format!("{prefix}{}", code_hash(address, &code));
    let relates_to = address.to_lowercase();
    tx.execute(sql, &[&user_id, &hash, &now, &random::uuid(), &token_type.as_str(), &relates_to])
        .await
        .map_err(AuthError::updating)?;
    Ok(IssuedCode { code, hash })
}

macro_rules! clear {
    ($token:literal) => {
        concat!(
            "with u as (update auth.users set ",
            $token,
            " = '' where id = $1 and ",
            $token,
            " <> '' returning id)
delete from auth.one_time_tokens t where t.user_id = $1 and t.token_type = $2::text::auth.one_time_token_type
  and (select count(*) from u) >= 0"
        )
    };
}

/// Deletes a pending code, if there is one.
///
/// # Errors
/// The database's.
pub(crate) async fn clear(tx: &Tx, user_id: Uuid, token_type: TokenType) -> Result<(), AuthError> {
    const CONFIRMATION: &str = clear!("confirmation_token");
    const RECOVERY: &str = clear!("recovery_token");
    const EMAIL_CHANGE_CURRENT: &str = clear!("email_change_token_current");
    const EMAIL_CHANGE_NEW: &str = clear!("email_change_token_new");
    const REAUTHENTICATION: &str = clear!("reauthentication_token");
    const PHONE_CHANGE: &str = clear!("phone_change_token");
    let sql = match token_type {
        TokenType::Confirmation => CONFIRMATION,
        TokenType::Recovery => RECOVERY,
        TokenType::EmailChangeCurrent => EMAIL_CHANGE_CURRENT,
        TokenType::EmailChangeNew => EMAIL_CHANGE_NEW,
        TokenType::Reauthentication => REAUTHENTICATION,
        TokenType::PhoneChange => PHONE_CHANGE,
    };
    tx.execute(sql, &[&user_id, &token_type.as_str()]).await.map_err(AuthError::updating)?;
    Ok(())
}

macro_rules! revoke {
    ($token:literal, $sent_at:literal) => {
        concat!(
            "with t as (
  delete from auth.one_time_tokens t
  where t.user_id = $1 and t.token_type = $2::text::auth.one_time_token_type and t.token_hash = $3
  returning t.user_id
)
update auth.users u set ",
            $token,
            " = '', ",
            $sent_at,
            " = $4 from t where u.id = t.user_id"
        )
    };
}

/// What undoes an issued code whose message was not sent.
pub(crate) struct Revocation {
    pub(crate) user_id: Uuid,
    pub(crate) token_type: TokenType,
    /// The stored hash: a newer code is not touched.
    pub(crate) hash: String,
    /// The previous sent-at time.
    pub(crate) sent_before: Option<Timestamp>,
    /// Whether the account was created for this code, and is deleted with it.
    pub(crate) deletes_user: bool,
}

/// Deletes a code whose message was not sent, so that the user can request another one at once.
///
/// # Errors
/// The database's.
pub(crate) async fn revoke(tx: &Tx, revocation: &Revocation) -> Result<(), AuthError> {
    const CONFIRMATION: &str = revoke!("confirmation_token", "confirmation_sent_at");
    const RECOVERY: &str = revoke!("recovery_token", "recovery_sent_at");
    const EMAIL_CHANGE_CURRENT: &str = revoke!("email_change_token_current", "email_change_sent_at");
    const EMAIL_CHANGE_NEW: &str = revoke!("email_change_token_new", "email_change_sent_at");
    const REAUTHENTICATION: &str = revoke!("reauthentication_token", "reauthentication_sent_at");
    const PHONE_CHANGE: &str = revoke!("phone_change_token", "phone_change_sent_at");
    const DELETE_USER: &str = "\
delete from auth.users where id = $1 and confirmation_token = $2 and confirmed_at is null and last_sign_in_at is null";
    let Revocation { user_id, token_type, hash, sent_before, deletes_user } = revocation;
    if users::lock(tx, *user_id).await?.is_none() {
        return Ok(());
    }
    if *deletes_user {
        tx.execute(DELETE_USER, &[user_id, hash]).await.map_err(AuthError::deleting)?;
        return Ok(());
    }
    let sql = match token_type {
        TokenType::Confirmation => CONFIRMATION,
        TokenType::Recovery => RECOVERY,
        TokenType::EmailChangeCurrent => EMAIL_CHANGE_CURRENT,
        TokenType::EmailChangeNew => EMAIL_CHANGE_NEW,
        TokenType::Reauthentication => REAUTHENTICATION,
        TokenType::PhoneChange => PHONE_CHANGE,
    };
    tx.execute(sql, &[user_id, &token_type.as_str(), hash, sent_before])
        .await
        .map_err(AuthError::updating)?;
    Ok(())
}

/// `length` decimal digits, each equally likely.
pub(crate) fn digits(length: u8) -> String {
    let length = usize::from(length);
    let mut code = String::with_capacity(length);
    while code.len() < length {
        // Rejection sampling: using all 256 values would favour the digits 0 to 5.
        let fair = random::bytes::<16>().into_iter().filter(|byte| *byte < 250);
        code.extend(fair.take(length - code.len()).map(|byte| char::from(b'0' + byte % 10)));
    }
    code
}

/// The stored hash of a code: `hex(SHA-224(lower(address) || code))`.
pub(crate) fn code_hash(address: &str, code: &str) -> String {
    let text = format!("{}{code}", address.to_lowercase());
    hex::encode(digest(&SHA224, text.as_bytes()))
}

/// Whether `code` matches the stored hash, which has a prefix for PKCE flows.
pub(crate) fn is_code(stored: &str, address: &str, code: &str) -> bool {
    let stored = stored.strip_prefix(PKCE_PREFIX).unwrap_or(stored);
    verify_slices_are_equal(stored.as_bytes(), code_hash(address, code).as_bytes()).is_ok()
}

/// The flow type of a stored hash.
pub(crate) fn flow_type(hash: &str) -> FlowType {
    if hash.starts_with(PKCE_PREFIX) { FlowType::Pkce } else { FlowType::Implicit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_test_vector_of_the_contract() {
        let hash = "b507a4ef007e1379d644aa6fe395cf98f1054ac96b63a052dca9a26a";
        assert_eq!(code_hash("User@example.com", "123456"), hash);
        assert!(is_code(hash, "user@example.com", "123456"));
        assert!(is_code(&format!("pkce_{hash}"), "user@example.com", "123456"));
        assert!(!is_code(hash, "user@example.com", "123457"));
        assert!(!is_code("", "user@example.com", "123456"));
    }

    #[test]
    fn codes_have_uniform_digits() {
        for length in 6..=10 {
            let code = digits(length);
            assert_eq!(code.len(), usize::from(length));
            assert!(code.bytes().all(|byte| byte.is_ascii_digit()), "{code}");
        }
        let mut seen = [0_u32; 10];
        for _ in 0..2000 {
            for byte in digits(10).bytes() {
                seen[usize::from(byte - b'0')] += 1;
            }
        }
        // 2000 expected, standard deviation 42; a modulo of a byte would give 2031 and 1953.
        assert!(seen.iter().all(|count| (1780..=2220).contains(count)), "{seen:?}");
    }
}
