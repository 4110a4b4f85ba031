//! E-mails to users: which one is sent, what it says, and the link in it. Delivery is [`basalt_mail`].

pub(crate) mod auth_emails;
pub(crate) mod kind;
mod link;
pub(crate) mod mailer;
pub(crate) mod notifications;
pub(crate) mod templates;
