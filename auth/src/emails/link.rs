//! The link of an e-mail (auth.md §3.21).

use std::fmt::Write as _;

/// The link to `verify_url`. `redirect_to` is percent-encoded entirely if it contains `&`, `=` or `#`; otherwise only characters
/// that are invalid in URLs are encoded.
pub(crate) fn verify(
    verify_url: &str,
    token_hash: &str,
    verification_type: &str,
    redirect_to: &str,
) -> String {
    let separator = if verify_url.contains('?') { '&' } else { '?' };
    let mut link = format!("{verify_url}{separator}token={token_hash}&type={verification_type}&redirect_to=");
    let encode_all = redirect_to.contains(['&', '=', '#']);
    for byte in redirect_to.bytes() {
        let keep = match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => true,
            b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'+' => false,
            0x21..=0x7e => !encode_all,
            _ => false,
        };
        if keep {
            link.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _written = write!(link, "%{byte:02X}");
        }
    }
    link
}

/// The link target of a kind. `path` is `auth.mailer_url_paths_<kind>`: empty or upstream's `/verify` mean `/verify` below
/// `external_url`; any other value is resolved relative to it, and may be an absolute URL.
pub(crate) fn verify_url(external_url: &str, path: &str) -> String {
    let own = || format!("{external_url}/verify");
    if path.is_empty() || path == "/verify" {
        return own();
    }
    let resolved = url::Url::parse(external_url).and_then(|base| base.join(path));
    resolved.map_or_else(|_not_a_url| own(), |url| url.to_string())
}

/// Base of links when the client reached this service under another of its names (auth.md §3.11): `host` if it is among
/// `hosts`. Any client can send `X-Forwarded-Host`, so only listed names count.
pub(crate) fn external_url(host: &str, hosts: &[String], configured: &str) -> Option<String> {
    if !hosts.iter().any(|entry| entry.eq_ignore_ascii_case(host)) {
        return None;
    }
    let name = host.split(':').next().unwrap_or_default();
    let scheme = if name.eq_ignore_ascii_case("localhost") { "http" } else { "https" };
    let path = url::Url::parse(configured).map_or_else(|_none| String::new(), |url| url.path().to_owned());
    Some(format!("{scheme}://{host}{}", path.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://api.example.org/auth/v1/verify";

    #[test]
    fn plain_target_is_not_encoded() {
        assert_eq!(
            verify(BASE, "abc", "signup", "https://app.example.org/welcome?to"),
            "https://api.example.org/auth/v1/verify?token=abc&type=signup&redirect_to=https://app.example.org/welcome?to"
        );
    }

    #[test]
    fn target_with_query_is_fully_encoded() {
        assert_eq!(
            verify(BASE, "pkce_abc", "magiclink", "https://app.example.org/?a=b&c#d"),
            "https://api.example.org/auth/v1/verify?token=pkce_abc&type=magiclink\
             &redirect_to=https%3A%2F%2Fapp.example.org%2F%3Fa%3Db%26c%23d"
        );
    }

    #[test]
    fn invalid_url_characters_are_always_encoded() {
        let link = verify(BASE, "abc", "signup", "app://x/\"><script> ä");
        assert!(link.ends_with("redirect_to=app://x/%22%3E%3Cscript%3E%20%C3%A4"), "{link}");
    }

    #[test]
    fn only_listed_hosts_replace_the_external_url() {
        let hosts = ["auth.example.org".to_owned(), "localhost:9999".to_owned()];
        let url = |host: &str| external_url(host, &hosts, "https://api.example.org/auth/v1");
        assert_eq!(url("AUTH.example.org").as_deref(), Some("https://AUTH.example.org/auth/v1"));
        assert_eq!(url("localhost:9999").as_deref(), Some("http://localhost:9999/auth/v1"));
        assert_eq!(url("evil.example.com"), None);
        assert_eq!(
            external_url("auth.example.org", &hosts, "https://x/").as_deref(),
            Some("https://auth.example.org")
        );
    }

    #[test]
    fn configured_path_replaces_verify() {
        let external = "https://api.example.org/auth/v1";
        assert_eq!(verify_url(external, ""), BASE);
        assert_eq!(verify_url(external, "/verify"), BASE);
        assert_eq!(verify_url(external, "/auth/v1/verify"), BASE);
        assert_eq!(
            verify_url(external, "https://app.example.org/confirm"),
            "https://app.example.org/confirm"
        );
    }
}
