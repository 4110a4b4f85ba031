//! Tests of whole servers on a real PostgreSQL, one module for each service or part of the server. Fault injection is in
//! `faults/`, a separate executable.

mod auth;
mod cli;
mod extensions;
mod functions;
mod gotrue_drop_in;
mod http;
mod jobs;
mod mail;
mod pg;
mod postgrest_drop_in;
mod project;
mod realtime;
mod rest;
mod storage;
