//! E-mails to users: content and links. [`basalt_mail`] delivers them.

mod link;
pub(crate) mod mailer;
mod recipients;
