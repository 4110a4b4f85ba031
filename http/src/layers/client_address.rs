//! Determines the client's address (DESIGN §12, "client address"): the peer, or the last untrusted address in
//! `X-Forwarded-For` if the peer is one of `server.trusted_proxies`.

use std::net::IpAddr;

use basalt_core::service::ClientAddress;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::uri::Scheme;

use crate::address::IpRange;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Scheme used by the client, as reported by the proxy if that is trusted.
#[must_use]
pub fn scheme(peer: IpAddr, headers: &HeaderMap, trusted: &[IpRange]) -> Scheme {
    let is_https = headers.get(FORWARDED_PROTO).is_some_and(|sent| sent == "https");
    let peer = peer.to_canonical();
    if is_https && trusted.iter().any(|range| range.contains(peer)) { Scheme::HTTPS } else { Scheme::HTTP }
}

/// The peer, if it forwards for others without being trusted and is in a private network, as the operator's own proxy
/// would be. Public addresses are ignored, because anyone may send the header.
#[must_use]
pub fn untrusted_proxy(peer: IpAddr, headers: &HeaderMap, trusted: &[IpRange]) -> Option<IpAddr> {
    let peer = peer.to_canonical();
    let is_near = match peer {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    };
    let is_untrusted = || !trusted.iter().any(|range| range.contains(peer));
    (is_near && headers.contains_key(FORWARDED_FOR) && is_untrusted()).then_some(peer)
}

/// Address of the client.
#[must_use]
pub fn resolve(peer: IpAddr, headers: &HeaderMap, trusted: &[IpRange]) -> ClientAddress {
    let peer = peer.to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let mut client = peer;
    if is_trusted(peer) {
        let forwarded: Vec<&str> = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .collect();
        for hop in forwarded.into_iter().rev() {
            // Only an untrusted party would write an invalid address, so the previous hop counts as the client.
            let Ok(address) = hop.trim().parse::<IpAddr>() else { break };
            client = address.to_canonical();
            if !is_trusted(client) {
                break;
            }
        }
    }
    ClientAddress(client)
}

/// Replaces `X-Forwarded-For` by the determined address; SQL reads it from `request.headers` (rest.md §5, 30).
pub fn set_forwarded_for(headers: &mut HeaderMap, address: ClientAddress) {
    if let Ok(value) = HeaderValue::from_str(&address.0.to_string()) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forwarded(text: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(FORWARDED_FOR, HeaderValue::from_static(text))])
    }

    #[test]
    fn untrusted_peer_cannot_choose_its_address() {
        let seen = resolve([192, 0, 2, 1].into(), &forwarded("203.0.113.9"), &[]);
        assert_eq!(seen.0, IpAddr::from([192, 0, 2, 1]));
    }

    #[test]
    fn untrusted_proxy_is_near_and_forwards() {
        let headers = forwarded("203.0.113.9");
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let found =
            |peer: &str, headers: &HeaderMap| untrusted_proxy(peer.parse().unwrap(), headers, &trusted);
        for peer in ["127.0.0.1", "172.17.0.2", "::1", "fd00::1", "::ffff:192.168.0.1"] {
            assert!(found(peer, &headers).is_some(), "{peer}");
            assert_eq!(found(peer, &HeaderMap::new()), None, "{peer}");
        }
        for peer in ["10.1.2.3", "203.0.113.1", "2001:db8::1"] {
            assert_eq!(found(peer, &headers), None, "{peer}");
        }
    }

    #[test]
    fn only_a_trusted_proxy_tells_the_scheme() {
        let headers = HeaderMap::from_iter([(FORWARDED_PROTO, HeaderValue::from_static("https"))]);
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        assert_eq!(scheme([10, 0, 0, 1].into(), &headers, &trusted), Scheme::HTTPS);
        assert_eq!(scheme([192, 0, 2, 1].into(), &headers, &trusted), Scheme::HTTP);
        assert_eq!(scheme([10, 0, 0, 1].into(), &HeaderMap::new(), &trusted), Scheme::HTTP);
    }

    #[test]
    fn behind_trusted_proxies_the_last_untrusted_hop_counts() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let seen = resolve([10, 0, 0, 1].into(), &forwarded("198.51.100.7, 203.0.113.9, 10.0.0.2"), &trusted);
        assert_eq!(seen.0, IpAddr::from([203, 0, 113, 9]));
        let unreadable = resolve([10, 0, 0, 1].into(), &forwarded("203.0.113.9, nonsense"), &trusted);
        assert_eq!(unreadable.0, IpAddr::from([10, 0, 0, 1]));
    }
}
