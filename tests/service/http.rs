//! What a service may ask of the gateway (DESIGN §12, "HTTP"), through the test kit's probe service: streams, sockets, its
//! own words and headers.

mod shapes;
mod sockets;
mod streams;
