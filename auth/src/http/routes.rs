//! Handlers, one module per path. They parse the request and build the response; [`crate::flows`] and the row modules do the
//! work.

pub(crate) mod admin;
pub(crate) mod admin_audit;
pub(crate) mod admin_users;
pub(crate) mod custom_providers;
pub(crate) mod external;
pub(crate) mod factors;
pub(crate) mod generate_link;
pub(crate) mod health;
pub(crate) mod identities;
pub(crate) mod invite;
pub(crate) mod jwks;
pub(crate) mod logout;
pub(crate) mod oauth;
pub(crate) mod oauth_clients;
pub(crate) mod otp;
pub(crate) mod passkeys;
pub(crate) mod reauthenticate;
pub(crate) mod recover;
pub(crate) mod recovery_codes;
pub(crate) mod resend;
pub(crate) mod sessions;
pub(crate) mod settings;
pub(crate) mod signup;
pub(crate) mod switched_off;
pub(crate) mod token;
pub(crate) mod user;
pub(crate) mod verify;
