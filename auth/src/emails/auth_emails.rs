//! E-mails that carry a code: everything that asks for one comes through here. A code is issued, its flow begun and its
//! e-mail put into the outbox in the caller's transaction, within three limits: so many mails of a kind to one user,
//! so many of the whole server, and only to addresses that may get mail (auth.md §3.19, §3.21). Who may ask for what
//! is the routes' business.
//!
//! The caller must have read the user under lock in the same transaction. The times in
//! it are what holds two requests at one moment to one mail.

use basalt_core::pool::Tx;
use jiff::Timestamp;

use crate::Auth;
use crate::codes::challenge::Challenge;
use crate::codes::flow_state::{self, AuthenticationMethod};
use crate::codes::one_time::{self, FlowType, IssuedCode, TokenType};
use crate::emails::kind::EmailKind;
use crate::emails::mailer::{Details, Email};
use crate::error::AuthError;
use crate::http::redirect;
use crate::http::request::RequestContext;
use crate::limits::email_rate::Reservation;
use crate::users::{self, User};

/// The e-mails of one request.
pub(crate) struct AuthEmails<'a> {
    auth: &'a Auth,
    challenge: Option<Challenge>,
    redirect_to: String,
    external_url: Option<String>,
    reservation: Reservation<'a>,
    pub(crate) now: Timestamp,
}

impl<'a> AuthEmails<'a> {
    /// For a request whose account is known.
    pub(crate) fn new(auth: &'a Auth, request: &RequestContext, challenge: Option<Challenge>) -> Self {
        Self::with(auth.email_limiter.reserve(), auth, request, challenge)
    }

    /// For a request about an address that may have no account: the price of one mail is put aside.
    ///
    /// # Errors
    /// The whole server has sent too many.
    pub(crate) fn about_address(
        auth: &'a Auth,
        request: &RequestContext,
        challenge: Option<Challenge>,
    ) -> Result<Self, AuthError> {
        Ok(Self::with(auth.email_limiter.reserve_one()?, auth, request, challenge))
    }

    fn with(
        reservation: Reservation<'a>,
        auth: &'a Auth,
        request: &RequestContext,
        challenge: Option<Challenge>,
    ) -> Self {
        Self {
            auth,
            challenge,
            redirect_to: redirect::target(auth, request),
            external_url: external_url(auth, request),
            reservation,
            now: auth.now(),
        }
    }

    /// The transaction has committed; without this the e-mails count for nothing.
    pub(crate) fn sent(self) {
        self.reservation.spend();
    }

    /// Finishes a sign-up.
    pub(crate) async fn confirmation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.confirmation_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::EmailSignup).await?;
        self.send(tx, user, EmailKind::Confirmation, TokenType::Confirmation, &user.email, flow).await
    }

    /// Invites; as often as the inviter likes, and never in a flow of the inviter's browser.
    pub(crate) async fn invitation(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        let (kind, token) = (EmailKind::Invite, TokenType::Confirmation);
        self.send(tx, user, kind, token, &user.email, FlowType::Implicit).await
    }

    /// Leads to a new password.
    pub(crate) async fn recovery(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.recovery_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::Recovery).await?;
        self.send(tx, user, EmailKind::Recovery, TokenType::Recovery, &user.email, flow).await
    }

    /// Signs in.
    pub(crate) async fn magic_link(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.recovery_sent_at)?;
        let flow = self.begin(tx, user, AuthenticationMethod::MagicLink).await?;
        self.send(tx, user, EmailKind::MagicLink, TokenType::Recovery, &user.email, flow).await
    }

    /// Brings a nonce.
    pub(crate) async fn reauthentication(&mut self, tx: &Tx, user: &User) -> Result<(), AuthError> {
        self.check_frequency(user.reauthentication_sent_at)?;
        let (kind, token) = (EmailKind::Reauthentication, TokenType::Reauthentication);
        self.send(tx, user, kind, token, &user.email, FlowType::Implicit).await
    }

    /// Asks the new address, and the present one where both have to agree (auth.md §3.7).
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

    /// At most one mail of a kind per user and interval.
    fn check_frequency(&self, last: Option<Timestamp>) -> Result<(), AuthError> {
        check_frequency(last, self.auth.config.mailer_max_frequency, self.now)
    }

    /// The flow of the request, which waits for the link when the request brought a challenge.
    async fn begin(&self, tx: &Tx, user: &User, method: AuthenticationMethod) -> Result<FlowType, AuthError> {
        let Some(challenge) = &self.challenge else { return Ok(FlowType::Implicit) };
        flow_state::begin(tx, user, &challenge.text, &challenge.method, method, self.now).await?;
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
        check_authorized(self.auth, to)?;
        self.reservation.take()?;
        let issued = one_time::issue(tx, self.auth, user, token, to, flow, self.now).await?;
        let email = Email {
            external_url: self.external_url.as_deref(),
            ..email_with_code(kind, user, to, &issued, &self.redirect_to)
        };
        self.auth.mailer.send(tx, &email).await
    }
}

/// An e-mail as [`AuthEmails`] writes it; `generate_link` takes its link and sends nothing.
pub(crate) fn email_with_code<'a>(
    kind: EmailKind,
    user: &'a User,
    to: &'a str,
    issued: &'a IssuedCode,
    redirect_to: &'a str,
) -> Email<'a> {
    Email {
        kind,
        user,
        to,
        code: &issued.code,
        token_hash: &issued.hash,
        redirect_to,
        external_url: None,
        details: Details { new_email: &user.email_change, ..Details::default() },
    }
}

/// Where links lead when the request came by another of this service's names (auth.md §3.11): `X-Forwarded-Host`, if
/// it is among `auth.mailer_external_hosts`. Any client can send the header, which is why there is a list.
pub(crate) fn external_url(auth: &Auth, request: &RequestContext) -> Option<String> {
    let host = request.headers.get("x-forwarded-host").and_then(|value| value.to_str().ok())?;
    other_url(host, &auth.config.mailer_external_hosts, &auth.config.external_url)
}

fn other_url(host: &str, hosts: &[String], external_url: &str) -> Option<String> {
    if !hosts.iter().any(|entry| entry.eq_ignore_ascii_case(host)) {
        return None;
    }
    let name = host.split(':').next().unwrap_or_default();
    let scheme = if name.eq_ignore_ascii_case("localhost") { "http" } else { "https" };
    let path = url::Url::parse(external_url).map_or_else(|_none| String::new(), |url| url.path().to_owned());
    Some(format!("{scheme}://{host}{}", path.trim_end_matches('/')))
}

/// At most one of a kind per user and interval (auth.md §3.19).
pub(crate) fn check_frequency(
    last: Option<Timestamp>,
    interval_seconds: u64,
    now: Timestamp,
) -> Result<(), AuthError> {
    let Some(last) = last else { return Ok(()) };
    let interval_ms = i64::try_from(interval_seconds).unwrap_or(i64::MAX).saturating_mul(1000);
    let passed_ms = now.as_millisecond().saturating_sub(last.as_millisecond());
    let left_ms = interval_ms.saturating_sub(passed_ms);
    // Whole seconds, but "after 0 seconds" would be no answer.
    if left_ms > 0 { Err(AuthError::MailTooSoon { seconds: (left_ms / 1000).max(1) }) } else { Ok(()) }
}

/// Whether an address may get mail (`auth.external_email_authorized_addresses`). Checked before the look-up of who has
/// the address, so that a refusal does not tell.
pub(crate) fn check_authorized(auth: &Auth, address: &str) -> Result<(), AuthError> {
    let authorized = &auth.config.external_email_authorized_addresses;
    if authorized.is_empty() || is_authorized(address, authorized) {
        Ok(())
    } else {
        Err(AuthError::EmailNotAuthorized(address.to_owned()))
    }
}

/// `ada+test@example.org` is `ada@example.org` here.
fn is_authorized(address: &str, authorized: &[String]) -> bool {
    let plain = match address.rsplit_once('@') {
        Some((local, host)) => format!("{}@{host}", local.split('+').next().unwrap_or_default()),
        None => address.to_owned(),
    };
    authorized.iter().any(|entry| entry.eq_ignore_ascii_case(address) || entry.eq_ignore_ascii_case(&plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_mail_waits_for_its_minute() {
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

    #[test]
    fn links_lead_to_another_name_of_ours_only() {
        let hosts = ["auth.example.org".to_owned(), "localhost:9999".to_owned()];
        let url = |host: &str| other_url(host, &hosts, "https://api.example.org/auth/v1");
        assert_eq!(url("AUTH.example.org").as_deref(), Some("https://AUTH.example.org/auth/v1"));
        assert_eq!(url("localhost:9999").as_deref(), Some("http://localhost:9999/auth/v1"));
        assert_eq!(url("evil.example.com"), None);
        assert_eq!(
            other_url("auth.example.org", &hosts, "https://x/").as_deref(),
            Some("https://auth.example.org")
        );
    }

    #[test]
    fn labels_do_not_make_another_address() {
        let authorized = ["Ada@example.org".to_owned(), "ops+alerts@example.org".to_owned()];
        for address in ["ada@example.org", "ada+1@example.org", "ops+alerts@example.org"] {
            assert!(is_authorized(address, &authorized), "{address}");
        }
        for address in ["eve@example.org", "ops@example.org", "ada@example.com", "ops+x@example.org"] {
            assert!(!is_authorized(address, &authorized), "{address}");
        }
    }
}
