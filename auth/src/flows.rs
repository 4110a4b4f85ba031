//! What a request or command does, from validated input to result. A flow combines accounts, sessions, codes, e-mails and limits,
//! and owns its transactions. Handlers parse requests and build responses; the modules below are independent of requests.

pub(crate) mod admin;
pub(crate) mod code_emails;
pub(crate) mod code_sign_in;
pub(crate) mod code_sms;
pub(crate) mod external;
pub(crate) mod factors;
pub(crate) mod generated_link;
pub(crate) mod grants;
pub(crate) mod invitation;
pub(crate) mod magic_link;
pub(crate) mod notifications;
pub(crate) mod oauth_server;
pub(crate) mod passkeys;
pub(crate) mod phone_sign_in;
pub(crate) mod sign_up;
pub(crate) mod verify;
