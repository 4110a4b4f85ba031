//! Settings of the section `[realtime]`.

use basalt_core::settings;
use basalt_core::settings::Fallback::{By, Is};
use basalt_core::settings::kinds::{Bytes, Cap, Whole};
use secrecy::{ExposeSecret, SecretString};

settings! {
    /// Settings of `[realtime]`.
    #[derive(Clone, Debug)]
    pub struct RealtimeConfig in "realtime" with r {
        /// Most sockets that have joined a channel. Beyond it, connecting is answered with 429 and joining
        /// with `ConnectionRateLimitReached`.
        max_concurrent_users: usize as Whole<1, 1_000_000> = Is("20000");
        /// Most channels of one socket. Beyond it, joining is answered with `ChannelRateLimitReached`.
        max_channels_per_client: usize as Whole<1, 10_000> = Is("100");
        /// Joins per second, averaged over ten seconds. Beyond it, connecting is answered with 429, and
        /// joining closes the socket.
        max_joins_per_second: Option<u64> as Cap<1_000_000> = Is("2500");
        /// Broadcasts sent and delivered per second, averaged over ten seconds. Beyond it, the sender's
        /// channel is closed and HTTP requests are answered with 429. 0 means no limit.
        max_events_per_second: Option<u64> as Cap<1_000_000_000> = Is("0");
        /// Presence messages per second, averaged over ten seconds. Beyond it, the sender's channel is
        /// closed. 0 means no limit.
        max_presence_events_per_second: Option<u64> as Cap<1_000_000> = Is("10000");
        /// Largest payload of a broadcast or a presence.
        max_payload_size: usize as Bytes<1_024, 4_000_000> = Is("3MB");
        /// Memory for row changes that wait for evaluation. Beyond it, the channels subscribed to the next
        /// table in line get `phx_error` and rejoin.
        change_memory: usize as Bytes<1_048_576, 68_719_476_736> = Is("64MiB");
        /// Only allow joins of private channels.
        private_only: bool = Is("false");
        /// NATS servers over which several servers on one database share broadcasts and presence:
        /// `nats://user:password@host:4222` or `tls://…`, separated by commas.
        nats_url: Option<SecretString> = By("none: this server is the only one"), secret;
    }
}

impl RealtimeConfig {
    /// Conflicting or invalid settings, as `(key, problem)`.
    #[must_use]
    pub fn faults(&self) -> Vec<(&'static str, &'static str)> {
        let urls = self.nats_url.as_ref().map(|urls| crate::nats::addresses(urls.expose_secret()));
        if urls.is_some_and(|urls| urls.is_err()) {
            return vec![("realtime.nats_url", "is not a NATS URL: use nats://user:password@host:4222")];
        }
        Vec::new()
    }
}
