//! The metrics recorder behind `/metrics`. [`crate::metric_table`] describes the metrics.

use std::time::Duration;

use basalt_core::clock::Clock;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::ServeError;
use crate::metric_table;

/// Installs the recorder of this process.
///
/// # Errors
/// A recorder is already installed.
pub(super) fn install() -> Result<PrometheusHandle, ServeError> {
    const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| ServeError::Metrics(error.to_string()))?;
    metric_table::describe();
    metrics::gauge!("basalt_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970")]
    metrics::gauge!("process_start_time_seconds").set(Clock::system().unix_seconds() as f64);
    Ok(handle)
}

/// Drains recorded durations into their histograms periodically. Otherwise the recorder would keep every sample on a
/// server whose `/metrics` is never read.
#[expect(clippy::infinite_loop, reason = "the shutdown token cancels the task")]
pub(super) async fn keep(metrics: PrometheusHandle) {
    const INTERVAL: Duration = Duration::from_secs(5);
    loop {
        tokio::time::sleep(INTERVAL).await;
        metrics.run_upkeep();
    }
}

/// Sets the gauges of this process, before metrics are rendered.
pub(super) fn report_process() {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return };
    let resident =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_ascii_whitespace().next());
    if let Some(kibibytes) = resident.and_then(|number| number.parse::<f64>().ok()) {
        metrics::gauge!("process_resident_memory_bytes").set(kibibytes * 1024.0);
    }
}
