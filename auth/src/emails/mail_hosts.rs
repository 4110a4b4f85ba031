//! Whether a host can get mail at all (auth.md §3.21, "extended validation"), asked of DNS before a mail is written: a
//! mistyped domain is told to who typed it, and costs no bounce. Off unless configured; where DNS does not answer, the
//! address is taken: sign-up must not depend on it.
//!
//! Asked before anybody looks who has the address, and never within a transaction: an answer may take seconds.

mod dns;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use crate::config::AuthConfig;
use crate::error::AuthError;
use dns::{Answer, Kind};

/// Longest wait for DNS, for all questions about one host.
const LIMIT: Duration = Duration::from_secs(3);
/// How long a host's verdict is kept.
const KEPT: Duration = Duration::from_secs(600);
/// Verdicts kept.
const HOSTS: NonZeroUsize = match NonZeroUsize::new(1024) {
    Some(hosts) => hosts,
    None => NonZeroUsize::MIN,
};

/// What is known of hosts that mail goes to.
pub(crate) struct MailHosts {
    nameserver: SocketAddr,
    /// Mail servers, and domains, that get no mail.
    blocked: Vec<String>,
    /// Whether a host takes mail, and when it was asked. Held for one look-up, never across an await.
    verdicts: Mutex<LruCache<String, (Instant, bool)>>,
}

impl MailHosts {
    /// `None` where it is switched off.
    pub(crate) fn new(config: &AuthConfig) -> Option<Self> {
        config.mailer_email_validation_extended.then(|| Self {
            nameserver: config.mailer_email_validation_nameserver.unwrap_or_else(dns::system_nameserver),
            blocked: config.mailer_email_validation_blocked_mx.iter().map(|name| plain(name)).collect(),
            verdicts: Mutex::new(LruCache::new(HOSTS)),
        })
    }

    /// Whether mail may go to a checked address.
    ///
    /// # Errors
    /// Its host takes no mail, or is blocked.
    pub(crate) async fn check(&self, address: &str) -> Result<(), AuthError> {
        let host = address.rsplit_once('@').map_or("", |(_local, host)| host);
        if self.takes_mail(host).await { Ok(()) } else { Err(AuthError::EmailInvalid(address.to_owned())) }
    }

    async fn takes_mail(&self, host: &str) -> bool {
        let host = plain(host);
        if self.is_blocked(&host) {
            return false;
        }
        if let Some(kept) = self.kept(&host) {
            return kept;
        }
        match tokio::time::timeout(LIMIT, self.ask(&host)).await {
            Ok(Ok(takes_mail)) => {
                self.verdicts().put(host, (Instant::now(), takes_mail));
                takes_mail
            }
            Ok(Err(error)) => {
                tracing::info!(%error, "DNS does not say whether a host takes mail; it gets some");
                true
            }
            Err(_elapsed) => {
                tracing::info!("DNS does not answer whether a host takes mail; it gets some");
                true
            }
        }
    }

    /// RFC 5321 section 5.1, and RFC 7505 for hosts that say they take none.
    async fn ask(&self, host: &str) -> std::io::Result<bool> {
        let exchanges = match dns::ask(self.nameserver, host, Kind::Mx).await? {
            Answer::NoSuchName => return Ok(false),
            Answer::Unknown => return Ok(true),
            Answer::Records(exchanges) => exchanges,
        };
        if !exchanges.is_empty() {
            let taking: Vec<String> =
                exchanges.iter().map(|name| plain(name)).filter(|name| !name.is_empty()).collect();
            return Ok(!taking.is_empty() && !taking.iter().any(|name| self.is_blocked(name)));
        }
        for kind in [Kind::A, Kind::Aaaa] {
            match dns::ask(self.nameserver, host, kind).await? {
                Answer::Records(addresses) if addresses.is_empty() => {}
                Answer::NoSuchName => return Ok(false),
                Answer::Records(_) | Answer::Unknown => return Ok(true),
            }
        }
        Ok(false)
    }

    /// `mx.example.org` is blocked by itself and by `example.org`.
    fn is_blocked(&self, host: &str) -> bool {
        self.blocked.iter().any(|name| {
            host.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    }

    fn kept(&self, host: &str) -> Option<bool> {
        self.verdicts().get(host).filter(|(asked, _)| asked.elapsed() < KEPT).map(|(_, verdict)| *verdict)
    }

    fn verdicts(&self) -> std::sync::MutexGuard<'_, LruCache<String, (Instant, bool)>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A host in one spelling.
fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}
