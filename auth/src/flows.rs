//! What a request or a command does, from its checked input to its result: each flow combines accounts, sessions, codes,
//! e-mails and limits, and owns its transactions. The handlers above read input and write responses; the modules below
//! know nothing of requests.

pub(crate) mod admin;
pub(crate) mod code_emails;
pub(crate) mod generated_link;
pub(crate) mod grants;
pub(crate) mod invitation;
pub(crate) mod magic_link;
pub(crate) mod sign_up;
pub(crate) mod verify;
