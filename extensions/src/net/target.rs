//! Where a URL leads: to this server, or outside.

use url::{Host, Url};

/// The paths of this server's API. Others, such as the development mailbox, are not for SQL.
const API_PATHS: [&str; 6] =
    ["/rest/v1/", "/auth/v1/", "/storage/v1/", "/realtime/v1/", "/functions/v1/", "/graphql/v1"];

/// Host names that mean this machine in a project made for Supabase's local stack.
const LOCAL_NAMES: [&str; 4] = ["localhost", "host.docker.internal", "kong", "api.supabase.internal"];
/// The API's port in that stack, and inside it.
const LOCAL_PORTS: [u16; 2] = [54_321, 8000];

/// The addresses under which a request means this server.
#[derive(Debug, Clone)]
pub struct OwnServer {
    /// Where this server listens: `http://127.0.0.1:8000`. `None` if it listens on no port.
    pub origin: Option<Url>,
    /// `server.public_url`.
    pub public_url: Url,
    /// The project's id on Supabase (`extensions.project_ref`): `<id>.supabase.co` is this server.
    pub project_ref: Option<String>,
}

/// The destination of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// This server, at this URL.
    Own(Url),
    /// Another host.
    Outside,
    /// This server, at a path that SQL must not reach.
    Refused,
}

impl OwnServer {
    pub(super) fn target(&self, url: &Url) -> Target {
        if !self.is_own(url) {
            return Target::Outside;
        }
        let is_api = API_PATHS.iter().any(|path| url.path().starts_with(path));
        match &self.origin {
            Some(origin) if is_api => {
                let mut own = origin.clone();
                own.set_path(url.path());
                own.set_query(url.query());
                Target::Own(own)
            }
            Some(_) | None => Target::Refused,
        }
    }

    fn is_own(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        let same = |other: &Url| url.host() == other.host() && port == other.port_or_known_default();
        if same(&self.public_url) || self.origin.as_ref().is_some_and(same) {
            return true;
        }
        let is_local = match url.host() {
            Some(Host::Domain(name)) => {
                let hosted = name.strip_suffix(".supabase.co");
                if hosted.is_some() && hosted == self.project_ref.as_deref() {
                    return true;
                }
                LOCAL_NAMES.contains(&name) || name.starts_with("supabase_kong_")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let own_port = self.origin.as_ref().and_then(Url::port_or_known_default);
        is_local && port.is_some_and(|port| LOCAL_PORTS.contains(&port) || Some(port) == own_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> OwnServer {
        OwnServer {
            origin: Some("http://127.0.0.1:9000".parse().unwrap()),
            public_url: "https://api.example.org".parse().unwrap(),
            project_ref: Some("abcdefghijklmnopqrst".to_owned()),
        }
    }

    fn target(url: &str) -> Target {
        server().target(&url.parse().unwrap())
    }

    #[test]
    fn own_names_lead_to_this_server() {
        let own = Target::Own("http://127.0.0.1:9000/functions/v1/hello?a=1".parse().unwrap());
        for origin in [
            "https://abcdefghijklmnopqrst.supabase.co",
            "https://api.example.org",
            "http://127.0.0.1:9000",
            "http://localhost:9000",
            "http://localhost:54321",
            "http://host.docker.internal:54321",
            "http://kong:8000",
            "http://supabase_kong_app:8000",
        ] {
            assert_eq!(target(&format!("{origin}/functions/v1/hello?a=1")), own, "{origin}");
        }
    }

    #[test]
    fn only_the_api_can_be_called() {
        for path in ["/mailbox", "/metrics", "/", "/functions/v1/../../mailbox", "/restless/v1/"] {
            assert_eq!(target(&format!("http://localhost:9000{path}")), Target::Refused, "{path}");
        }
    }

    #[test]
    fn other_hosts_are_outside() {
        for url in [
            "https://zzzzzzzzzzzzzzzzzzzz.supabase.co/functions/v1/hello",
            "https://evil-abcdefghijklmnopqrst.supabase.co/rest/v1/",
            "https://api.example.org:444/rest/v1/",
            "http://127.0.0.1:5432/rest/v1/",
            "http://169.254.169.254/latest/meta-data",
        ] {
            assert_eq!(target(url), Target::Outside, "{url}");
        }
    }
}
