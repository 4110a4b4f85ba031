//! Tests of whole servers on a real PostgreSQL: one module for each service or part of the server. What takes parts away
//! from a running server is in `faults/`, an executable of its own.

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
