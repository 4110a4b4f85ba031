//! Metric handles, resolved once: looking one up by name costs more than the increment.

use std::sync::OnceLock;

use metrics::{Counter, Gauge};

macro_rules! handle {
    ($name:ident: $kind:ident = $made:expr) => {
        pub(crate) fn $name() -> &'static $kind {
            static HANDLE: OnceLock<$kind> = OnceLock::new();
            HANDLE.get_or_init(|| $made)
        }
    };
}

handle!(sockets: Gauge = metrics::gauge!("basalt_realtime_sockets"));
handle!(channels: Gauge = metrics::gauge!("basalt_realtime_channels"));
handle!(presences: Gauge = metrics::gauge!("basalt_realtime_presences"));
handle!(presence_bytes: Gauge = metrics::gauge!("basalt_realtime_presence_bytes"));
handle!(queued_bytes: Gauge = metrics::gauge!("basalt_realtime_queued_bytes"));
handle!(receiving_bytes: Gauge = metrics::gauge!("basalt_realtime_receiving_bytes"));
handle!(deliveries: Counter = metrics::counter!("basalt_realtime_deliveries_total"));
handle!(malformed: Counter = metrics::counter!("basalt_realtime_malformed_frames_total"));
handle!(permission_changes: Counter = metrics::counter!("basalt_realtime_permission_changes_total"));
handle!(bus_connected: Gauge = metrics::gauge!("basalt_realtime_bus_connected"));
handle!(bus_nodes: Gauge = metrics::gauge!("basalt_realtime_bus_nodes"));
handle!(bus_dropped: Counter = metrics::counter!("basalt_realtime_bus_dropped_total"));

/// Joins by outcome: `ok` or the error code.
pub(crate) fn count_join(outcome: &str) {
    metrics::counter!("basalt_realtime_joins_total", "outcome" => outcome.to_owned()).increment(1);
}

/// Renewals of private channels' leases by outcome: `kept`, `lost`, `failed`.
pub(crate) fn count_renewal(outcome: &'static str) {
    metrics::counter!("basalt_realtime_renewals_total", "outcome" => outcome).increment(1);
}

/// Broadcasts by source: `socket`, `http`, `database`, `bus`.
pub(crate) fn count_broadcasts(source: &'static str, count: u64) {
    metrics::counter!("basalt_realtime_broadcasts_total", "source" => source).increment(count);
}

/// Sockets closed by the server, by reason.
pub(crate) fn count_closed(reason: &'static str) {
    metrics::counter!("basalt_realtime_sockets_closed_total", "reason" => reason).increment(1);
}

/// Registers the metrics at zero, so that they are exported before their first event, and sets the limits.
pub(crate) fn register(max_users: usize) {
    for gauge in [
        sockets(),
        channels(),
        presences(),
        presence_bytes(),
        queued_bytes(),
        receiving_bytes(),
        bus_connected(),
        bus_nodes(),
    ] {
        gauge.increment(0.0);
    }
    for counter in [deliveries(), malformed(), bus_dropped(), permission_changes()] {
        counter.increment(0);
    }
    for source in ["socket", "http", "database", "bus"] {
        count_broadcasts(source, 0);
    }
    #[expect(clippy::cast_precision_loss, reason = "the setting's maximum is below 2^53")]
    metrics::gauge!("basalt_realtime_users_limit").set(max_users as f64);
}

/// Increments a gauge and decrements it on drop.
#[derive(Debug)]
pub(crate) struct Counted(&'static GaugeHandle);

/// Accessor of a gauge in this module.
pub(crate) type GaugeHandle = fn() -> &'static Gauge;

impl Counted {
    pub(crate) fn one(gauge: &'static GaugeHandle) -> Self {
        gauge().increment(1.0);
        Self(gauge)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.0)().decrement(1.0);
    }
}
