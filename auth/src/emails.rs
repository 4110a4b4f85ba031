//! E-mails to users: content, links and notifications. [`basalt_mail`] delivers them.

mod link;
pub(crate) mod mailer;
pub(crate) mod notifications;
mod recipients;
