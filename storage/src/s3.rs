//! The S3 protocol at `/s3` (storage.md §3.16), by hand over what the client sent.
//!
//! `operation` says what a request asks for, `sigv4` whether its signature holds, `payload` and `chunked` read its body;
//! the rest maps each operation onto the functions that serve the other protocols, with the rights of the caller.

mod checksum;
pub mod chunked;
mod error;
mod hex;
mod operation;
mod payload;
pub mod sigv4;
mod xml;
