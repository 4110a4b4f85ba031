//! Letters to users: from what happened to a mail in the outbox. [`Mailer::send`] renders subject, HTML and plain text
//! and enqueues them in the caller's transaction; when they leave is [`basalt_core::mail`]'s business. Which code a
//! letter carries, whether it may be sent again so soon, and where its link may lead were decided before.

mod kind;
mod link;

use basalt_core::mail::{Message, Outbox};
use basalt_core::pool::Tx;

pub(crate) use kind::LetterKind;

use crate::config::AuthConfig;
use crate::error::AuthError;
use crate::users::User;

/// A letter to be written. What its kind does not need may be empty.
#[derive(Debug, Clone)]
pub(crate) struct Letter<'a> {
    pub(crate) kind: LetterKind,
    /// The account it is about.
    pub(crate) user: &'a User,
    /// The recipient.
    pub(crate) to: &'a str,
    /// `.Token`: what a person types.
    pub(crate) code: &'a str,
    /// `.TokenHash`, as stored: with `pkce_` in a PKCE flow.
    pub(crate) token_hash: &'a str,
    /// `.RedirectTo`: the allowed target, never the raw parameter.
    pub(crate) redirect_to: &'a str,
    /// Base of the link when it is not the configured one (`X-Forwarded-Host` among `mailer_external_hosts`), with the
    /// service's path and without a slash at the end.
    pub(crate) external_url: Option<&'a str>,
    pub(crate) details: Details<'a>,
}

/// What only some kinds tell.
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

impl<'a> Letter<'a> {
    /// A notification, which carries neither code nor link.
    pub(crate) fn notification(kind: LetterKind, user: &'a User, to: &'a str, details: Details<'a>) -> Self {
        Self { kind, user, to, code: "", token_hash: "", redirect_to: "", external_url: None, details }
    }
}

/// Writes letters. One for each service.
pub(crate) struct Mailer {
    outbox: Outbox,
    external_url: String,
}

impl Mailer {
    pub(crate) fn new(config: &AuthConfig, outbox: Outbox) -> Self {
        Self { outbox, external_url: config.external_url.clone() }
    }

    /// The link of a letter (auth.md §3.21), also for `generate_link`; `None` where its kind has none.
    pub(crate) fn link(&self, letter: &Letter<'_>) -> Option<String> {
        let external_url = letter.external_url.unwrap_or(&self.external_url);
        let verify_url = link::verify_url(external_url, "");
        let verification_type = letter.kind.verification_type()?;
        Some(link::verify(&verify_url, letter.token_hash, verification_type, letter.redirect_to))
    }

    /// Writes the letter and puts it into the outbox: it leaves when `tx` has committed. A notification that is
    /// switched off is not written.
    pub(crate) async fn send(&self, tx: &Tx, letter: &Letter<'_>) -> Result<(), AuthError> {
        if letter.kind.is_notification() {
            return Ok(());
        }
        let link = self.link(letter).unwrap_or_default();
        let message = Message {
            kind: letter.kind.name(),
            to: letter.to.to_owned(),
            subject: "Your account".to_owned(),
            html: format!("<p><a href=\"{link}\">{link}</a> {}</p>", letter.code),
            text: format!("{link}\n{}\n", letter.code),
        };
        Ok(self.outbox.enqueue(tx, &message).await?)
    }
}
