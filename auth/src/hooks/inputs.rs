//! Inputs and outputs of each hook (auth.md §3.20).

use serde_json::{Value, json};
use uuid::Uuid;

use super::Hooks;
use crate::error::AuthError;
use crate::hook_types::HookKind;
use crate::hook_types::error::HookError;
use crate::origin::Origin;
use crate::users::body::UserBody;
use crate::users::{Account, Object};
use jiff::Timestamp;

/// Claims that a hook must keep, with their types.
const REQUIRED: [(&str, Type); 10] = [
    ("aud", Type::Audience),
    ("exp", Type::Integer),
    ("iat", Type::Integer),
    ("sub", Type::Text),
    ("email", Type::Text),
    ("phone", Type::Text),
    ("role", Type::Text),
    ("aal", Type::Text),
    ("session_id", Type::Text),
    ("is_anonymous", Type::Boolean),
];

#[derive(Clone, Copy)]
enum Type {
    Audience,
    Integer,
    Text,
    Boolean,
}

impl Type {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Audience => {
                value.is_string() || value.as_array().is_some_and(|items| items.iter().all(Value::is_string))
            }
            Self::Integer => value.is_i64(),
            Self::Text => value.is_string(),
            Self::Boolean => value.is_boolean(),
        }
    }
}

/// A hook's decision about an attempt.
pub(crate) enum Decision {
    Continue,
    Reject {
        message: String,
        /// End all sessions of the user.
        should_logout_user: bool,
    },
}

impl Hooks {
    /// The claims of a new access token, if the hook is enabled. `method` is how the token was obtained.
    pub(crate) async fn custom_access_token(
        &self,
        origin: &Origin,
        now: Timestamp,
        user_id: Uuid,
        method: &str,
        claims: Object,
    ) -> Result<Object, AuthError> {
        let input = json!({ "user_id": user_id, "claims": claims, "authentication_method": method });
        let mut output = self.run(HookKind::CustomAccessToken, origin, now, input).await?.unwrap_or_default();
        let Some(Value::Object(claims)) = output.get_mut("claims").map(Value::take) else {
            return Err(HookError::failed("output claims field is missing", "").into());
        };
        for (name, expected) in REQUIRED {
            let problem = match claims.get(name) {
                Some(value) if expected.fits(value) => continue,
                Some(_) => "has another type",
                None => "is required",
            };
            let message = format!(
                "output claims do not conform to the expected schema: \n- {name}: {name} {problem}\n"
            );
            return Err(HookError::failed(&message, "").into());
        }
        Ok(claims)
    }

    /// Asks whether a user may be created.
    pub(crate) async fn before_user_created(
        &self,
        origin: &Origin,
        now: Timestamp,
        account: &Account,
    ) -> Result<(), AuthError> {
        let input = json!({ "user": UserBody::from(account) });
        self.run(HookKind::BeforeUserCreated, origin, now, input).await?;
        Ok(())
    }

    /// Notifies the hook of a new user.
    pub(crate) async fn after_user_created(
        &self,
        origin: &Origin,
        now: Timestamp,
        account: &Account,
    ) -> Result<(), AuthError> {
        let input = json!({ "user": UserBody::from(account) });
        self.run(HookKind::AfterUserCreated, origin, now, input).await?;
        Ok(())
    }

    /// Asks about an attempt to sign in with a password.
    pub(crate) async fn password_attempt(
        &self,
        origin: &Origin,
        now: Timestamp,
        user_id: Uuid,
        is_valid: bool,
    ) -> Result<Decision, AuthError> {
        let input = json!({ "user_id": user_id, "valid": is_valid });
        let output = self.run(HookKind::PasswordVerificationAttempt, origin, now, input).await?;
        decision(output, "Further password verification attempts will be rejected.")
    }

    /// Asks about an attempt to verify a second factor.
    pub(crate) async fn mfa_attempt(
        &self,
        origin: &Origin,
        now: Timestamp,
        user_id: Uuid,
        factor: (Uuid, &str),
        is_valid: bool,
    ) -> Result<Decision, AuthError> {
        let (factor_id, factor_type) = factor;
        let input = json!({
            "user_id": user_id, "factor_id": factor_id, "factor_type": factor_type, "valid": is_valid
        });
        let output = self.run(HookKind::MfaVerificationAttempt, origin, now, input).await?;
        decision(output, "Further MFA verification attempts will be rejected.")
    }

    /// Sends a text message.
    pub(crate) async fn send_sms(
        &self,
        origin: &Origin,
        now: Timestamp,
        account: &Account,
        sms: Value,
    ) -> Result<(), AuthError> {
        let input = json!({ "user": UserBody::from(account), "sms": sms });
        self.run(HookKind::SendSms, origin, now, input).await?;
        Ok(())
    }

    /// Sends a mail.
    pub(crate) async fn send_email(
        &self,
        origin: &Origin,
        now: Timestamp,
        account: &Account,
        email_data: Object,
    ) -> Result<(), AuthError> {
        self.send_queued_email(origin, now, email_input(account, &email_data)).await
    }

    /// Sends a mail with an input of [`email_input`].
    pub(crate) async fn send_queued_email(
        &self,
        origin: &Origin,
        now: Timestamp,
        input: Value,
    ) -> Result<(), AuthError> {
        self.run(HookKind::SendEmail, origin, now, input).await?;
        Ok(())
    }
}

/// The input of the hook that sends mails.
pub(crate) fn email_input(account: &Account, email_data: &Object) -> Value {
    json!({ "user": UserBody::from(account), "email_data": email_data })
}

/// A hook that answers without a decision does not object. Any other value rejects the attempt: it may be a misspelt `reject`.
fn decision(output: Option<Value>, default_message: &str) -> Result<Decision, AuthError> {
    let output = output.unwrap_or_default();
    match output.get("decision") {
        None | Some(Value::Null) => Ok(Decision::Continue),
        Some(Value::String(decision)) if decision == "continue" || decision.is_empty() => {
            Ok(Decision::Continue)
        }
        Some(Value::String(decision)) if decision == "reject" => {
            let message = output.get("message").and_then(Value::as_str).filter(|message| !message.is_empty());
            Ok(Decision::Reject {
                message: message.unwrap_or(default_message).to_owned(),
                should_logout_user: output.get("should_logout_user") == Some(&Value::Bool(true)),
            })
        }
        Some(_) => {
            Err(HookError::failed("Error unmarshaling JSON output.", "the decision is unknown").into())
        }
    }
}
