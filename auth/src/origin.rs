//! What the code below the handlers gets of a request, without HTTP types.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use basalt_core::identity::Identity;
use tokio::time::Instant;

use crate::redirects::Redirects;

/// The client of a request, as sessions record it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    /// The address, as far as the gateway could determine it.
    pub(crate) address: IpAddr,
    /// `User-Agent`, shortened to what a session row stores.
    pub(crate) user_agent: String,
}

/// Where a request comes from and how long it may take.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) client: Client,
    /// When work for this request stops.
    pub(crate) deadline: Instant,
    /// `X-JWT-AUD`: the audience that the request is about.
    pub(crate) audience: Option<String>,
    pub(crate) links: LinkHints,
}

/// The parts of a request that decide where links in its e-mails lead.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkHints {
    /// `redirect_to`, from the header or else the query. Not checked.
    pub(crate) redirect_to: Option<String>,
    /// `Referer`. Not checked.
    pub(crate) referer: Option<String>,
    /// `X-Forwarded-Host`. Not checked.
    pub(crate) forwarded_host: Option<String>,
}

impl LinkHints {
    /// The target of links: what the request names if it is allowed, else `site_url`.
    pub(crate) fn target(&self, redirects: &Redirects) -> String {
        redirects.target(self.redirect_to.as_deref(), self.referer.as_deref())
    }
}

impl Origin {
    /// The command line on this machine.
    pub(crate) fn local(limit: Duration) -> Self {
        Self {
            client: Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), user_agent: String::new() },
            deadline: Instant::now() + limit,
            audience: None,
            links: LinkHints::default(),
        }
    }

    /// Which client's share of the connections the request uses. By address alone: most requests have no session, and the
    /// statements of the others are as short.
    pub(crate) fn identity(&self) -> Identity {
        Identity::new(None, "", Some(self.client.address))
    }
}
