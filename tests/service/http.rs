//! The gateway's HTTP features for services (DESIGN §12, "HTTP"), through the test kit's probe service: streams, sockets, error
//! formats and headers.

mod shapes;
mod sockets;
mod streams;
