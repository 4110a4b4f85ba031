//! Restricts development pages to requests from this machine, because the mailbox shows sign-in links.
//!
//! `Host` must name this machine; otherwise a foreign page whose name resolves to it could read the pages (DNS
//! rebinding). The peer must be this machine, because a client can send any `Host`. Behind a proxy on this machine
//! the peer is the proxy, so a forwarded request is rejected unless the proxy is in `server.trusted_proxies` and
//! reports a client on this machine. A proxy that adds no forwarding header cannot be detected. A server behind one
//! has its public address in `server.public_url`, which makes it a production server without a mailbox.

use std::net::IpAddr;

use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, FORWARDED, HOST, X_CONTENT_TYPE_OPTIONS};
use http::uri::Authority;
use http::{HeaderName, Request, StatusCode};

use crate::address::IpRange;
use crate::layers::client_address;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Headers that proxies add to forwarded requests.
const FORWARDING_HEADERS: [HeaderName; 5] = [
    FORWARDED,
    FORWARDED_FOR,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Response to a request that does not come from this machine; `None` for a local one.
#[must_use]
pub fn refusal<B>(peer: IpAddr, request: &Request<B>, trusted: &[IpRange]) -> Option<Response> {
    const TEXT: &str = "This is for programs on the server's own machine. Open it there, as localhost, 127.0.0.1 or [::1], without a \
                        proxy in between.\n";
    if names_this_machine(request) && comes_from_this_machine(peer, request, trusted) {
        return None;
    }
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ];
    Some((StatusCode::NOT_FOUND, headers, TEXT).into_response())
}

fn comes_from_this_machine<B>(peer: IpAddr, request: &Request<B>, trusted: &[IpRange]) -> bool {
    let (peer, headers) = (peer.to_canonical(), request.headers());
    let is_forwarded = FORWARDING_HEADERS.iter().any(|name| headers.contains_key(name));
    let names_client =
        headers.contains_key(FORWARDED_FOR) && trusted.iter().any(|range| range.contains(peer));
    peer.is_loopback()
        && (!is_forwarded || names_client && client_address::resolve(peer, headers, trusted).0.is_loopback())
}

/// Whether the host is `localhost`, a subdomain of it, or a loopback address, with any port. HTTP/2 has it in the
/// URI.
fn names_this_machine<B>(request: &Request<B>) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let Some(authority) = host.as_ref().or_else(|| request.uri().authority()) else { return false };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn admits(peer: IpAddr, headers: &[(&str, &str)], trusted: &[IpRange]) -> bool {
        let request =
            headers.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
        refusal(peer, &request.body(()).unwrap(), trusted).is_none()
    }

    #[test]
    fn host_must_name_this_machine() {
        for host in
            ["localhost", "localhost:8000", "app.localhost:1", "127.0.0.1:8000", "127.9.9.9", "[::1]:80"]
        {
            assert!(admits(HERE, &[("host", host)], &[]), "{host}");
        }
        for host in ["example.org", "localhost.example.org", "10.0.0.1", "", "127.0.0.1.nip.io", "[::2]"] {
            assert!(!admits(HERE, &[("host", host)], &[]), "{host}");
        }
        assert!(!admits(HERE, &[], &[]));
    }

    #[test]
    fn peer_must_be_this_machine() {
        let host = [("host", "localhost:8000")];
        for peer in [HERE, Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()] {
            assert!(admits(peer, &host, &[]), "{peer}");
        }
        for peer in ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert!(!admits(peer.parse().unwrap(), &host, &["192.0.2.0/24".parse().unwrap()]), "{peer}");
        }
    }

    #[test]
    fn forwarded_request_is_judged_by_its_client() {
        let proxies = ["127.0.0.1/32".parse().unwrap()];
        let admits =
            |name, value, trusted: &[IpRange]| admits(HERE, &[("host", "localhost"), (name, value)], trusted);
        for (name, value) in [
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9, 127.0.0.1"),
            ("forwarded", "for=203.0.113.9"),
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-host", "example.org"),
            ("x-forwarded-proto", "https"),
        ] {
            assert!(!admits(name, value, &[]) && !admits(name, value, &proxies), "{name}: {value}");
        }
        assert!(admits("x-forwarded-for", "127.0.0.1", &proxies));
        assert!(!admits("x-forwarded-for", "127.0.0.1", &[]), "the header is untrusted");
    }
}
