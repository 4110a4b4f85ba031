#![doc = include_str!("../README.md")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test kit fails a test by panicking")]

mod builder;
mod chaos_proxy;
mod cluster;
mod database;
mod executed;
mod folder;
mod http;
mod http_stub;
mod keys;
mod log;
mod mailbox;
mod nats_server;
mod ports;
mod probe_service;
mod process;
mod runtime;
mod s3_server;
mod server;
mod smtp;
mod stripe_double;
mod user;
mod websocket;

pub use builder::Builder;
pub use chaos_proxy::{ChaosProxy, Link};
pub use cluster::Cluster;
pub use database::{Held, TestDatabase};
pub use http::{Part, Request, Response, StreamedResponse};
pub use http_stub::{HttpStub, Reply, StubRequest};
pub use log::LogLine;
pub use mailbox::{Mail, Mailbox};
pub use nats_server::NatsServer;
pub use ports::free_port;
pub use probe_service::{ProbeLimits, ProbeServer};
pub use s3_server::S3Server;
pub use server::Basalt;
pub use smtp::{ReceivedMail, Security, SmtpServer};
pub use stripe_double::StripeDouble;
pub use user::User;
pub use websocket::{Message, WebSocket};
