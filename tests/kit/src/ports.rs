//! Ports for servers that must know theirs before they listen.
//!
//! From below the range that the kernel hands out for connections and for `bind` to port 0: no process gets one of
//! these by chance, neither before the server binds it nor while a server that comes back to it is down.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Linux hands out 32768 to 60999 unless told otherwise.
const OURS: Range<u16> = 10_240..32_768;

/// A loopback port that no process listens on, and that this process gives out once.
///
/// # Panics
/// All are taken.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Test processes that run side by side begin at different places.
    let first = std::process::id().wrapping_mul(256);
    for _ in OURS {
        let turn =
            first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % u32::from(OURS.end - OURS.start);
        let port = OURS.start + u16::try_from(turn).expect("the remainder of a division by a port");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {OURS:?} is free")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once_and_not_while_another_listens() {
        let first = free_port();
        let next = OURS.start + (first + 1 - OURS.start) % (OURS.end - OURS.start);
        // It may be taken already; then it is passed over all the same.
        let _holder = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        let second = free_port();
        assert!(OURS.contains(&first) && OURS.contains(&second));
        assert!(second != first && second != next, "{first} {next} {second}");
    }
}
