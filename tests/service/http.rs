//! The gateway's HTTP features for services (DESIGN §12, "HTTP"), through the test kit's probe service: streams, sockets, error
//! formats and headers.

mod connections;
mod error_formats;
mod gateway;
mod hostile;
mod keys;
mod logs;
mod streams;
mod websockets;
