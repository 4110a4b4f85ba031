#![doc = include_str!("../README.md")]

pub mod mailbox;
mod outbox;
pub mod plain_text;
pub mod queue;
pub mod resend;
pub mod smtp;
pub mod worker;

pub use outbox::{Author, CHANNEL, Content, Destination, Message, Outbox};
pub use queue::table_of;
