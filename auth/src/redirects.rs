//! The redirect allow-list (auth.md §3.11). All redirects are checked here: a target that an attacker chooses would receive the
//! tokens of the user who clicks.
//!
//! The rules are upstream's, with one more: a target is rejected if another parser could read it differently (backslashes, white
//! space, user names, encoded or numeric hosts). Allowed targets are used verbatim.

mod glob;

use std::net::IpAddr;

use url::{Host, Url};

use glob::Glob;

/// Longest target; more would not fit into a header.
const MAX_BYTES: usize = 4096;

/// A parameter that auth-js adds with a random value, so no entry can match it (auth.md §5.4, 18).
const FLOW_ID: &str = "sb_flow_id";

/// Schemes that execute or show the URL's own content, or files. No entry can allow them.
const FORBIDDEN_SCHEMES: [&str; 7] =
    ["javascript", "data", "vbscript", "file", "blob", "about", "view-source"];

/// `site_url` and the compiled allow-list.
pub(crate) struct Redirects {
    site_url: String,
    /// `None` if `site_url` is ambiguous between parsers; then no other URL counts as the site.
    site: Option<Target>,
    globs: Vec<Glob>,
}

impl Redirects {
    /// Invalid globs were reported at startup ([`is_glob`]); they are ignored here.
    pub(crate) fn new(site_url: &str, allow_list: &[String]) -> Self {
        Self {
            site_url: site_url.to_owned(),
            site: Target::parse(site_url),
            globs: allow_list.iter().filter_map(|entry| Glob::parse(entry)).collect(),
        }
    }

    /// Whether a URL is a page of the site or of an allowed site. Excludes loopback addresses.
    pub(crate) fn is_app_page(&self, url: &str) -> bool {
        let Some(target) = Target::parse(url).filter(Target::is_web) else { return false };
        let matched = without_flow_id(url.split('#').next().unwrap_or_default());
        self.site.as_ref().is_some_and(|site| target.is_same_site(site))
            || self.globs.iter().any(|glob| glob.matches(&matched))
    }

    /// Whether a redirect to `url` is allowed.
    pub(crate) fn is_allowed(&self, url: &str) -> bool {
        let Some(target) = Target::parse(url) else { return false };
        if self.site.as_ref().is_some_and(|site| target.is_same_site(site)) {
            return true;
        }
        match &target.host {
            // Loopback: only a program on the user's own machine can answer.
            Some(Host::Ipv4(address)) if target.is_web() => return address.is_loopback(),
            Some(Host::Ipv6(address)) if target.is_web() => {
                return IpAddr::V6(*address).to_canonical().is_loopback();
            }
            Some(_) | None => {}
        }
        let matched = without_flow_id(url.split('#').next().unwrap_or_default());
        self.globs.iter().any(|glob| glob.matches(&matched))
    }

    /// The target of a mail's link: the one that the request names (`redirect_to`) or comes from (`Referer`) if it is
    /// allowed, else `site_url`.
    pub(crate) fn target(&self, named: Option<&str>, referer: Option<&str>) -> String {
        if let Some(named) = named {
            return self.allowed(named).unwrap_or(&self.site_url).to_owned();
        }
        // Not logged: every page that links here sends a Referer.
        referer.filter(|referer| self.is_allowed(referer)).unwrap_or(&self.site_url).to_owned()
    }

    /// The requested target, if it is allowed.
    pub(crate) fn allowed<'a>(&self, named: &'a str) -> Option<&'a str> {
        let is_allowed = self.is_allowed(named);
        if !is_allowed && !named.is_empty() {
            log_rejected(named);
        }
        Some(named).filter(|_| is_allowed)
    }
}

/// Logged because a silent fallback is hard to diagnose.
fn log_rejected(named: &str) {
    let shown: String = named.chars().take(200).collect();
    tracing::warn!(
        redirect_to = ?shown,
        "redirect_to is neither below auth.site_url nor matched by auth.uri_allow_list; using site_url"
    );
}

/// Whether all parsers read the URL alike, and its scheme does not execute or show its own content.
pub(crate) fn is_unambiguous(url: &str) -> bool {
    Target::parse(url).is_some()
}

/// Whether an entry of the allow-list is a valid glob.
pub(crate) fn is_glob(entry: &str) -> bool {
    Glob::parse(entry).is_some()
}

/// A URL that all parsers read alike.
struct Target {
    scheme: String,
    /// Optional for custom schemes.
    host: Option<Host>,
    port: Option<u16>,
}

impl Target {
    fn parse(text: &str) -> Option<Self> {
        // Rejects characters that browsers drop, convert to slashes or display differently.
        let is_plain =
            |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'\\' | b'"' | b'<' | b'>' | b'`' | b'^');
        if text.len() > MAX_BYTES || !text.bytes().all(is_plain) {
            return None;
        }
        let (scheme, rest) = text.split_once(':')?;
        let url = Url::parse(text).ok()?;
        if !url.scheme().eq_ignore_ascii_case(scheme) || FORBIDDEN_SCHEMES.contains(&url.scheme()) {
            return None;
        }
        let port = url.port_or_known_default();
        let target =
            Self { scheme: url.scheme().to_owned(), host: url.host().map(|host| host.to_owned()), port };
        if !target.is_web() {
            return Some(target);
        }
        let authority = rest.strip_prefix("//")?;
        let authority = authority.split(['/', '?', '#']).next()?;
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            Some(_) | None => authority,
        };
        let is_read_alike = match target.host.as_ref()? {
            Host::Domain(name) => is_host_name(host) && name.eq_ignore_ascii_case(host),
            // Rejects `127.1` and `2130706433`, which other parsers read as names.
            Host::Ipv4(address) => address.to_string() == host,
            Host::Ipv6(_) => host.starts_with('['),
        };
        is_read_alike.then_some(target)
    }

    fn is_web(&self) -> bool {
        matches!(self.scheme.as_str(), "http" | "https")
    }

    /// Whether this is a page of `site`. On localhost the port is ignored: development servers change theirs.
    fn is_same_site(&self, site: &Self) -> bool {
        let is_localhost = matches!(&site.host, Some(Host::Domain(name)) if name == "localhost");
        site.host.is_some()
            && self.scheme == site.scheme
            && self.host == site.host
            && (is_localhost || self.port == site.port)
    }
}

/// `^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?$`
fn is_host_name(host: &str) -> bool {
    let is_edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = host.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Removes the client's own parameter from a URL.
fn without_flow_id(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let is_flow_id = |pair: &&str| pair.split('=').next() == Some(FLOW_ID);
    if !query.split('&').any(|pair| is_flow_id(&pair)) {
        return url.to_owned();
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_flow_id(pair)).collect();
    if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) }
}

#[cfg(test)]
mod tests;
