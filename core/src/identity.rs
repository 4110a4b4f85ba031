//! The client on whose behalf work is done, for the purpose of sharing resources: a user is identified by the token's
//! subject, anyone without a subject by role and network address. One person with two addresses has two shares, and
//! visitors behind one address have one together; no finer distinction can be trusted.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

/// Key of a client's share of a limited resource ([`crate::fair_share`]). A hash with a random key: subjects of any
/// length need no allocation, and a client cannot choose one that collides with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(u64);

impl Identity {
    /// The server's own work.
    pub const SERVER: Self = Self(0);

    /// The identity of `subject`, or of `role` at `address` if there is no subject. The role separates a service key
    /// from visitors behind the same proxy.
    #[must_use]
    pub fn new(subject: Option<&str>, role: &str, address: Option<IpAddr>) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(match subject {
            Some(subject) => KEY.hash_one(("subject", subject)),
            None => KEY.hash_one(("role", role, address.map(network))),
        })
    }
}

/// The network that counts as one client: an IPv4 address, or the /64 usually assigned to an IPv6 subscriber.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(address: &str) -> Identity {
        Identity::new(None, "anon", Some(address.parse().unwrap()))
    }

    #[test]
    fn users_are_identified_by_subject_and_visitors_by_network() {
        let user = |subject, address: &str| {
            Identity::new(Some(subject), "authenticated", Some(address.parse().unwrap()))
        };
        assert_eq!(user("a", "192.0.2.1"), user("a", "198.51.100.1"));
        assert_ne!(user("a", "192.0.2.1"), user("b", "192.0.2.1"));
        assert_eq!(visitor("2001:db8::1"), visitor("2001:db8::ffff:0:0:1"));
        assert_ne!(visitor("2001:db8::1"), visitor("2001:db8:0:1::1"));
        assert_eq!(visitor("192.0.2.1"), visitor("::ffff:192.0.2.1"));
        assert_ne!(visitor("192.0.2.1"), visitor("192.0.2.2"));
        let service = Identity::new(None, "service_role", Some("192.0.2.1".parse().unwrap()));
        assert_ne!(visitor("192.0.2.1"), service);
    }
}
