//! `POST /signup`: by e-mail, by phone, or anonymously (auth.md §3.3, §3.4). The checks, in the contract's order;
//! what they let through is [`crate::sign_up`]'s.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;

use crate::Auth;
use crate::address;
use crate::error::AuthError;
use crate::password_policy::MAX_PASSWORD_BYTES;
use crate::request::{RequestContext, read_json};
use crate::routes::token;
use crate::sign_up::{self, Contact, SignUp, SignedUp};
use crate::users::Object;
use crate::wire::UserBody;

#[derive(Debug, Deserialize)]
struct SignupBody {
    #[serde(default)]
    email: Option<String>,
    phone: Option<String>,
    password: Option<String>,
    data: Option<Object>,
    channel: Option<String>,
    code_challenge: Option<String>,
    code_challenge_method: Option<String>,
}

pub(crate) async fn post(
    State(auth): State<Arc<Auth>>,
    request: RequestContext,
    body: Body,
) -> Result<Response, AuthError> {
    let body: SignupBody = read_json(body).await?;
    let (email, phone) = (text(&body.email), text(&body.phone));
    if email.is_empty() && phone.is_empty() {
        if !auth.config.external_anonymous_users_enabled {
            return Err(AuthError::AnonymousDisabled);
        }
        auth.limits.anonymous.check(request.address)?;
        if auth.config.disable_signup {
            return Err(AuthError::SignupDisabled);
        }
        let granted = sign_up::anonymous(&auth, &request, body.data.unwrap_or_default()).await?;
        return token::answer(&auth, &granted);
    }
    auth.limits.signup.check(request.address)?;
    let contact = check(&auth, &body, email, phone)?;
    let sign_up =
        SignUp { contact, password: text(&body.password).to_owned(), data: body.data.unwrap_or_default() };
    match Box::pin(sign_up.run(&auth, &request)).await? {
        SignedUp::SignedIn(granted) => token::answer(&auth, &granted),
        SignedUp::Unconfirmed(account) => Ok(Json(UserBody::from(account.as_ref())).into_response()),
    }
}

fn text(field: &Option<String>) -> &str {
    field.as_deref().unwrap_or_default()
}

fn check(auth: &Auth, body: &SignupBody, email: &str, phone: &str) -> Result<Contact, AuthError> {
    let config = &auth.config;
    if config.disable_signup {
        return Err(AuthError::SignupDisabled);
    }
    let password = text(&body.password);
    if password.is_empty() {
        return Err(AuthError::validation("Signup requires a valid password"));
    }
    check_new_password(auth, password)?;
    if !email.is_empty() && !phone.is_empty() {
        return Err(AuthError::validation(
            "Only an email address or phone number should be provided on signup.",
        ));
    }
    if !phone.is_empty() {
        check_channel(text(&body.channel))?;
    }
    let challenge = text(&body.code_challenge);
    check_pkce(challenge, text(&body.code_challenge_method))?;
    if !phone.is_empty() && !challenge.is_empty() {
        return Err(AuthError::validation("PKCE not supported for phone signups"));
    }
    if phone.is_empty() {
        if !config.external_email_enabled {
            return Err(AuthError::EmailSignupsDisabled);
        }
        address::email(email).map(Contact::Email)
    } else {
        if !config.external_phone_enabled {
            return Err(AuthError::PhoneSignupsDisabled);
        }
        address::phone(phone).map(Contact::Phone)
    }
}

/// The rules for a password that is being set.
pub(crate) fn check_new_password(auth: &Auth, password: &str) -> Result<(), AuthError> {
    if password.len() > MAX_PASSWORD_BYTES {
        return Err(AuthError::validation("Password cannot be longer than 72 characters"));
    }
    auth.policy.weakness(password).map_or(Ok(()), |weakness| Err(AuthError::WeakPassword(weakness)))
}

/// WhatsApp needs a provider that we do not have.
pub(crate) fn check_channel(channel: &str) -> Result<(), AuthError> {
    if matches!(channel, "" | "sms") {
        return Ok(());
    }
    Err(AuthError::validation(
        "Invalid channel, supported values are 'sms' or 'whatsapp'. 'whatsapp' is only supported if Twilio or Twilio \
         Verify is used as the provider.",
    ))
}

/// PKCE parameters: both or none, and of the right form (auth.md §3.2).
pub(crate) fn check_pkce(challenge: &str, method: &str) -> Result<(), AuthError> {
    if challenge.is_empty() && method.is_empty() {
        return Ok(());
    }
    let is_method = method.eq_ignore_ascii_case("s256") || method.eq_ignore_ascii_case("plain");
    if challenge.is_empty() || !is_method {
        return Err(AuthError::validation("PKCE flow requires code_challenge_method and code_challenge"));
    }
    if !(43..=128).contains(&challenge.len()) {
        return Err(AuthError::validation("code challenge has to be between 43 and 128 characters"));
    }
    if !challenge.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)) {
        return Err(AuthError::validation(
            "code challenge can only contain alphanumeric characters, hyphens, periods, underscores and tildes",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkce_parameters_come_together_and_in_form() {
        let message = |challenge: &str, method: &str| {
            check_pkce(challenge, method).err().map(|error| error.to_string())
        };
        let good = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert_eq!(message("", ""), None);
        assert_eq!(message(good, "S256"), None);
        assert_eq!(message(good, "plain"), None);
        let both = Some("PKCE flow requires code_challenge_method and code_challenge".to_owned());
        assert_eq!(message(good, ""), both);
        assert_eq!(message("", "s256"), both);
        assert_eq!(
            message("short", "s256").as_deref(),
            Some("code challenge has to be between 43 and 128 characters")
        );
        assert!(message(&format!("{good}!"), "s256").is_some());
    }
}
