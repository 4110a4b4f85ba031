//! E-mails to users: which one is sent, what it says, and the link in it. Delivery is [`basalt_mail`].

mod link;
pub(crate) mod mailer;
pub(crate) mod notifications;
mod recipients;
