//! Ports for servers that must know their port before they listen.
//!
//! From below the kernel's ephemeral range, so that no other process gets such a port by chance, neither before the server
//! binds it nor while the server restarts.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Linux's default ephemeral range is 32768 to 60999.
const OURS: Range<u16> = 10_240..32_768;

/// A free loopback port, returned only once by this process.
///
/// # Panics
/// If all are taken.
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Concurrent test processes start at different ports.
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
    fn ports_are_unique_and_free() {
        let first = free_port();
        let next = OURS.start + (first + 1 - OURS.start) % (OURS.end - OURS.start);
        // If it is already taken, it is skipped all the same.
        let _holder = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        let second = free_port();
        assert!(OURS.contains(&first) && OURS.contains(&second));
        assert!(second != first && second != next, "{first} {next} {second}");
    }
}
