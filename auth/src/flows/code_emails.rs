//! Mails with a code; all of them are sent here. In the caller's transaction this issues the code, begins the PKCE flow and
//! enqueues the mail, subject to three limits: frequency per kind and user, mails of the whole server, and authorised recipients
//! (auth.md §3.19, §3.21).
//!
//! The caller must have locked the user in the same transaction: its sent-at times limit concurrent requests to one mail.

use basalt_core::convert::saturating;
use basalt_pg::pool::Tx;
use jiff::Timestamp;
use serde_json::json;

use crate::codes::challenge::Challenge;
use crate::codes::flow_state::{self, AuthenticationMethod};
use crate::codes::one_time::{self, CodeSettings, FlowType, IssuedCode, Revocation, TokenType};
use crate::database;
use crate::emails::mailer::{Details, Email};
use crate::error::AuthError;
use crate::hook_types::HookKind;
use crate::limits::email_rate::Reservation;
use crate::origin::Origin;
use crate::state::Auth;
use crate::templates::kind::EmailKind;
use crate::users::{self, Account, Object, User, row_missing};

/// The e-mails of one request.
pub(crate) struct CodeEmails<'a> {
    auth: &'a Auth,
    origin: &'a Origin,
    challenge: Option<Challenge>,
    redirect_to: String,
    external_url: Option<String>,
    reservation: Reservation<'a>,
    /// For the hook, which gets the mails after the commit.
    pending: Option<HookEmail>,
    pub(crate) now: Timestamp,
}

/// A mail that the hook sends; for an address change, both mails.
struct HookEmail {
    account: Account,
    data: Object,
    revocations: Vec<Revocation>,
}

impl<'a> CodeEmails<'a> {
    /// For requests about a known account.
    pub(crate) fn new(auth: &'a Auth, origin: &'a Origin, challenge: Option<Challenge>) -> Self {
        Self::with(auth.email_limiter.reserve(), auth, origin, challenge)
    }

    /// For requests about an address that may have no account: reserves one mail in advance.
    ///
    /// # Errors
    /// The server-wide limit is exhausted.
    pub(crate) fn about_address(
        auth: &'a Auth,
        origin: &'a Origin,
        challenge: Option<Challenge>,
    ) -> Result<Self, AuthError> {
        Ok(Self::with(auth.email_limiter.reserve_one()?, auth, origin, challenge))
    }

    fn with(
        reservation: Reservation<'a>,
        auth: &'a Auth,
        origin: &'a Origin,
        challenge: Option<Challenge>,
    ) -> Self {
        Self {
            auth,
            origin,
            challenge,
            pending: None,
            redirect_to: origin.links.target(&auth.redirects),
            external_url: auth.mailer.external_url(origin.links.forwarded_host.as_deref()),
            reservation,
            now: auth.now(),
        }
    }

    /// Counts the mails towards the server-wide limit, and gives them to the hook if it is enabled; call it after the commit.
    ///
    /// # Errors
    /// The hook rejects the mail or fails. Its codes are revoked.
    pub(crate) async fn deliver(self) -> Result<(), AuthError> {
        let Self { auth, origin, reservation, pending, now, .. } = self;
        reservation.spend();
        let Some(HookEmail { account, data, revocations }) = pending else { return Ok(()) };
        let sent = auth.hooks.send_email(origin, now, &account, data).await;
        if sent.is_err() {
            Box::pin(revoke(auth, origin, &revocations)).await?;
        }
        sent
    }

    /// Mails the confirmation of a sign-up.
    pub(crate) async fn confirmation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.confirmation_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::EmailSignup).await?;
        self.send(tx, user, EmailKind::Confirmation, TokenType::Confirmation, &user.email, flow).await
    }

    /// Mails an invitation. Without frequency limit, and always implicit: a PKCE flow would belong to the inviter's browser.
    pub(crate) async fn invitation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        let (kind, token) = (EmailKind::Invite, TokenType::Confirmation);
        self.send(tx, user, kind, token, &user.email, FlowType::Implicit).await
    }

    /// Mails a password reset.
    pub(crate) async fn recovery(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.recovery_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::Recovery).await?;
        self.send(tx, user, EmailKind::Recovery, TokenType::Recovery, &user.email, flow).await
    }

    /// Mails a magic link.
    pub(crate) async fn magic_link(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.recovery_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::MagicLink).await?;
        self.send(tx, user, EmailKind::MagicLink, TokenType::Recovery, &user.email, flow).await
    }

    /// Mails a reauthentication nonce.
    pub(crate) async fn reauthentication(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.reauthentication_sent_at)?;
        let (kind, token) = (EmailKind::Reauthentication, TokenType::Reauthentication);
        self.send(tx, user, kind, token, &user.email, FlowType::Implicit).await
    }

    /// Mails the new address, and the current one if both must confirm (auth.md §3.7).
    pub(crate) async fn email_change(
        &mut self,
        tx: &Tx,
        user: &User,
        new_email: &str,
    ) -> Result<(), AuthError> {
        self.check_frequency(user.email_change_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::EmailChange).await?;
        users::request_email_change(tx, user.id, new_email, self.now).await?;
        let asked = User { email_change: new_email.to_owned(), ..user.clone() };
        let (kind, token) = (EmailKind::EmailChangeNew, TokenType::EmailChangeNew);
        self.send(tx, &asked, kind, token, new_email, flow).await?;
        if self.auth.config.mailer_secure_email_change_enabled && !user.email.is_empty() {
            let (kind, token) = (EmailKind::EmailChangeCurrent, TokenType::EmailChangeCurrent);
            self.send(tx, &asked, kind, token, &user.email, flow).await?;
        }
        Ok(())
    }

    fn check_frequency(&self, last: Option<Timestamp>) -> Result<(), AuthError> {
        check_frequency(last, self.auth.config.mailer_max_frequency, self.now)
    }

    /// Begins a PKCE flow if the request has a challenge.
    async fn begin(&self, tx: &Tx, user: &User, method: AuthenticationMethod) -> Result<FlowType, AuthError> {
        let Some(challenge) = &self.challenge else { return Ok(FlowType::Implicit) };
        flow_state::begin(tx, user.id, &challenge.text, &challenge.method, method, self.now).await?;
        Ok(FlowType::Pkce)
    }

    async fn send(
        &mut self,
        tx: &Tx,
        user: &User,
        kind: EmailKind,
        token: TokenType,
        to: &str,
        flow: FlowType,
    ) -> Result<(), AuthError> {
        self.auth.mailer.check_recipient(to)?;
        self.reservation.take()?;
        let settings = CodeSettings::new(&self.auth.config);
        let issued = one_time::issue(tx, settings, user.id, token, to, flow, self.now).await?;
        if self.auth.hooks.is_enabled(HookKind::SendEmail) {
            return self.hold_for_hook(tx, user, kind, token, &issued).await;
        }
        let email = Email {
            external_url: self.external_url.as_deref(),
            ..email_with_code(kind, user, to, &issued, &self.redirect_to)
        };
        self.auth.mailer.send(tx, &email).await
    }
}

impl CodeEmails<'_> {
    /// Keeps a mail for the hook. The mail to the current address of a change joins that to the new one, with upstream's pairs:
    /// `token_hash_new` belongs to `token`, which the current address gets (auth.md §3.20).
    async fn hold_for_hook(
        &mut self,
        tx: &Tx,
        user: &User,
        kind: EmailKind,
        token_type: TokenType,
        issued: &IssuedCode,
    ) -> Result<(), AuthError> {
        let sent_before = match token_type {
            TokenType::Confirmation => user.confirmation_sent_at,
            TokenType::Recovery => user.recovery_sent_at,
            TokenType::EmailChangeCurrent | TokenType::EmailChangeNew => user.email_change_sent_at,
            TokenType::Reauthentication => user.reauthentication_sent_at,
            TokenType::PhoneChange => user.phone_change_sent_at,
        };
        let revocation = Revocation {
            user_id: user.id,
            token_type,
            hash: issued.hash.clone(),
            sent_before,
            deletes_user: false,
        };
        if let Some(pending) = self.pending.as_mut().filter(|_other| kind == EmailKind::EmailChangeCurrent) {
            let to_new = pending.data.insert("token".to_owned(), issued.code.as_str().into());
            pending.data.insert("token_new".to_owned(), to_new.unwrap_or_default());
            pending.data.insert("token_hash_new".to_owned(), issued.hash.as_str().into());
            pending.revocations.push(revocation);
            return Ok(());
        }
        let account = users::account(tx, user.id).await?.ok_or_else(row_missing)?;
        let old_email = if kind == EmailKind::EmailChangeNew { user.email.as_str() } else { "" };
        let pairs = [
            ("token", issued.code.as_str()),
            ("token_hash", &issued.hash),
            ("redirect_to", &self.redirect_to),
            ("email_action_type", kind.verification_type().unwrap_or("reauthentication")),
            ("site_url", self.external_url.as_deref().unwrap_or(&self.auth.config.external_url)),
            ("token_new", ""),
            ("token_hash_new", ""),
            ("old_email", old_email),
            ("old_phone", ""),
            ("provider", ""),
            ("factor_type", ""),
        ];
        let data = pairs.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        self.pending = Some(HookEmail { account, data, revocations: vec![revocation] });
        Ok(())
    }
}

/// Revokes codes that were not delivered, so that the user can request another one at once.
pub(super) async fn revoke(
    auth: &Auth,
    origin: &Origin,
    revocations: &[Revocation],
) -> Result<(), AuthError> {
    let tx = auth.begin(origin).await?;
    let revoked = async {
        for revocation in revocations {
            one_time::revoke(&tx, revocation).await?;
        }
        Ok(())
    }
    .await;
    database::finish(tx, revoked).await
}

/// The mail for a code. `generate_link` uses only its link.
pub(crate) fn email_with_code<'a>(
    kind: EmailKind,
    user: &'a User,
    to: &'a str,
    issued: &'a IssuedCode,
    redirect_to: &'a str,
) -> Email<'a> {
    Email {
        kind,
        profile: user.profile(),
        to,
        code: &issued.code,
        token_hash: &issued.hash,
        redirect_to,
        external_url: None,
        details: Details { new_email: &user.email_change, ..Details::default() },
    }
}

/// At most one mail of a kind per user and interval (auth.md §3.19).
pub(crate) fn check_frequency(
    last: Option<Timestamp>,
    interval_seconds: u64,
    now: Timestamp,
) -> Result<(), AuthError> {
    let left = seconds_left(last, interval_seconds, now);
    left.map_or(Ok(()), |seconds| Err(AuthError::MailTooSoon { seconds }))
}

/// Whole seconds until the next message may be sent; `None` if it may be sent now.
pub(crate) fn seconds_left(last: Option<Timestamp>, interval_seconds: u64, now: Timestamp) -> Option<i64> {
    let last = last?;
    let interval_ms = saturating::<i64>(interval_seconds).saturating_mul(1000);
    let passed_ms = now.as_millisecond().saturating_sub(last.as_millisecond());
    let left_ms = interval_ms.saturating_sub(passed_ms);
    // Whole seconds, but at least 1: "after 0 seconds" makes no sense.
    (left_ms > 0).then(|| (left_ms / 1000).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_mails_to_one_per_interval() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let text = |last: Option<i64>, now: i64| {
            check_frequency(last.map(at), 60, at(now)).err().map(|error| error.to_string())
        };
        let after = |seconds: i64| {
            Some(format!("For security purposes, you can only request this after {seconds} seconds."))
        };
        assert_eq!(text(None, 100_000), None);
        assert_eq!(text(Some(40_000), 100_000), None);
        assert_eq!(text(Some(100_000), 100_000), after(60));
        assert_eq!(text(Some(90_000), 100_000), after(50));
        assert_eq!(text(Some(90_000), 100_300), after(49));
        assert_eq!(text(Some(40_001), 100_000), after(1));
    }
}
