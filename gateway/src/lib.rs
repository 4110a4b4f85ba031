//! The gateway's parts as a library, so that the binary, the tests and the testkit share them.

pub mod embedded;
