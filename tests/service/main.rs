//! Tests of whole servers on a real PostgreSQL, one module for each service or part of the server. Fault injection is in
//! `faults/`, a separate executable.

mod auth;
mod cli;
mod connections;
mod doctor;
mod functions;
mod gateway;
mod gotrue_drop_in;
mod hostile;
mod http;
mod jobs;
mod keys;
mod logs;
mod mail;
mod postgrest_drop_in;
mod project;
mod realtime;
mod rest;
mod session;
mod storage;
