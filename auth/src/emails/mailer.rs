//! Writes e-mails: [`Mailer::send`] renders subject, HTML and plain text and enqueues them in the caller's transaction.
//! [`basalt_mail`] delivers them. The caller has issued the code and checked limits and redirect target.

use basalt_mail::{Destination, Message, Outbox, mailbox};
use basalt_pg::pool::Tx;
use serde_json::{Map, Value, json};

use super::{link, recipients};
use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::templates::kind::EmailKind;
use crate::templates::{RemoteTemplate, RenderedEmail, Templates};

/// The data of an account that templates can use.
#[derive(Clone, Copy)]
pub(crate) struct Profile<'a> {
    /// `.Email`.
    pub(crate) email: &'a str,
    /// `.Phone`.
    pub(crate) phone: &'a str,
    /// `.Data`.
    pub(crate) metadata: &'a Map<String, Value>,
}

/// An e-mail to write. Fields that its kind does not use may be empty. No `Debug`, so that no log can show the code.
#[derive(Clone)]
pub(crate) struct Email<'a> {
    pub(crate) kind: EmailKind,
    /// The account it is about.
    pub(crate) profile: Profile<'a>,
    /// The recipient.
    pub(crate) to: &'a str,
    /// `.Token`: the code to type.
    pub(crate) code: &'a str,
    /// `.TokenHash`, as stored: with `pkce_` in a PKCE flow.
    pub(crate) token_hash: &'a str,
    /// `.RedirectTo`: an allowed target, never the raw parameter.
    pub(crate) redirect_to: &'a str,
    /// Base of the link if it differs from the configured one (`X-Forwarded-Host` in `mailer_external_hosts`), with the service's
    /// path and without a trailing slash.
    pub(crate) external_url: Option<&'a str>,
    pub(crate) details: Details<'a>,
}

/// Variables of some kinds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Details<'a> {
    /// E-mail change.
    pub(crate) new_email: &'a str,
    /// Notification of an e-mail change.
    pub(crate) old_email: &'a str,
    /// Notification of a phone change.
    pub(crate) phone: &'a str,
    /// Notification of a phone change.
    pub(crate) old_phone: &'a str,
    /// Notifications of identities.
    pub(crate) provider: &'a str,
    /// Notifications of factors.
    pub(crate) factor_type: &'a str,
}

impl<'a> Email<'a> {
    /// A notification, without code or link.
    pub(crate) fn notification(
        kind: EmailKind,
        profile: Profile<'a>,
        to: &'a str,
        details: Details<'a>,
    ) -> Self {
        Self { kind, profile, to, code: "", token_hash: "", redirect_to: "", external_url: None, details }
    }
}

/// Writes e-mails.
pub(crate) struct Mailer {
    config: AuthConfig,
    outbox: Outbox,
    templates: Templates,
}

impl Mailer {
    pub(crate) fn new(config: &AuthConfig, outbox: Outbox) -> Self {
        Self { templates: Templates::new(&config.mailer_letters), config: config.clone(), outbox }
    }

    /// The templates behind URLs. Each needs a task that refreshes it.
    pub(crate) fn remote_templates(&self) -> impl Iterator<Item = RemoteTemplate> {
        self.templates.remote_templates()
    }

    /// Checks that an address may receive mail.
    ///
    /// # Errors
    /// It is not on the configured list.
    pub(crate) fn check_recipient(&self, address: &str) -> Result<(), AuthError> {
        recipients::check(address, &self.config.external_email_authorized_addresses)
    }

    /// Base of links for a request with this `X-Forwarded-Host`; `None` for the configured one.
    pub(crate) fn external_url(&self, forwarded_host: Option<&str>) -> Option<String> {
        link::external_url(forwarded_host?, &self.config.mailer_external_hosts, &self.config.external_url)
    }

    /// The link of an e-mail (auth.md §3.21), also for `generate_link`; `None` if its kind has none.
    pub(crate) fn link(&self, email: &Email<'_>) -> Option<String> {
        let config = &self.config;
        let external_url = email.external_url.unwrap_or(&config.external_url);
        let settings = config.mailer_letters.get(email.kind.name());
        let verify_url = link::verify_url(external_url, settings.map_or("", |settings| &settings.url_path));
        let verification_type = email.kind.verification_type()?;
        Some(link::verify(&verify_url, email.token_hash, verification_type, email.redirect_to))
    }

    /// Whether e-mails of this kind are enabled; notifications are off by default.
    pub(crate) fn is_enabled(&self, kind: EmailKind) -> bool {
        is_enabled(&self.config, kind)
    }

    /// Renders the e-mail and enqueues it, to be sent when `tx` has committed. Does nothing for a disabled notification.
    pub(crate) async fn send(&self, tx: &Tx, email: &Email<'_>) -> Result<(), AuthError> {
        let config = &self.config;
        let kind = email.kind;
        if !is_enabled(config, kind) {
            return Ok(());
        }
        let link = self.link(email);
        let values = values(config, email, link.as_deref());
        let rendered = self.templates.render(kind, &values);
        let RenderedEmail { subject, html, text } =
            rendered.map_err(|error| AuthError::Internal(format!("the {} email: {error}", kind.name())))?;
        // Without the link: a reader of the log could sign in with it.
        if self.outbox.destination() == Destination::Mailbox {
            let url = config.external_url.trim_end_matches("/auth/v1");
            tracing::info!(
                kind = kind.name(),
                to = email.to,
                "mail delivered to the mailbox at {url}{}",
                mailbox::PATH
            );
        }
        let message = Message {
            kind: kind.name(),
            to: email.to.to_owned(),
            subject,
            html,
            text,
            idempotency_key: None,
            author: None,
            unsubscribe_url: None,
        };
        Ok(self.outbox.enqueue(tx, &message).await?)
    }
}

/// Whether e-mails of this kind are enabled.
fn is_enabled(config: &AuthConfig, kind: EmailKind) -> bool {
    match kind {
        EmailKind::PasswordChanged => config.mailer_notifications_password_changed_enabled,
        EmailKind::EmailChanged => config.mailer_notifications_email_changed_enabled,
        EmailKind::PhoneChanged => config.mailer_notifications_phone_changed_enabled,
        EmailKind::IdentityLinked => config.mailer_notifications_identity_linked_enabled,
        EmailKind::IdentityUnlinked => config.mailer_notifications_identity_unlinked_enabled,
        EmailKind::MfaFactorEnrolled => config.mailer_notifications_mfa_factor_enrolled_enabled,
        EmailKind::MfaFactorUnenrolled => config.mailer_notifications_mfa_factor_unenrolled_enabled,
        EmailKind::Confirmation
        | EmailKind::Invite
        | EmailKind::MagicLink
        | EmailKind::Recovery
        | EmailKind::EmailChangeCurrent
        | EmailKind::EmailChangeNew
        | EmailKind::Reauthentication => true,
    }
}

/// The variables of auth.md §3.21, and our own `.AppName`: the sender's name, else the site's host.
fn values(config: &AuthConfig, email: &Email<'_>, link: Option<&str>) -> Value {
    let Email { profile, to, code, token_hash, redirect_to, details, .. } = email;
    let site = url::Url::parse(&config.site_url).ok();
    let host = site.as_ref().and_then(url::Url::host_str).unwrap_or(&config.site_url);
    let name = if config.mailer_sender_name.is_empty() { host } else { &config.mailer_sender_name };
    json!({
        "AppName": name,
        "SiteURL": config.site_url,
        "Email": profile.email,
        "Data": profile.metadata,
        "RedirectTo": redirect_to,
        "Token": code,
        "TokenHash": token_hash,
        "ConfirmationURL": link,
        "SendingTo": to,
        "NewEmail": details.new_email,
        "OldEmail": details.old_email,
        "Phone": if details.phone.is_empty() { profile.phone } else { details.phone },
        "OldPhone": details.old_phone,
        "Provider": details.provider,
        "FactorType": details.factor_type,
    })
}

#[cfg(test)]
mod tests;
