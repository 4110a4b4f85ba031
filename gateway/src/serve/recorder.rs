//! The recorder of metrics, which `/metrics` reads.

use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::ServeError;

/// Becomes the recorder of the whole process.
///
/// # Errors
/// There is one already.
pub(super) fn install() -> Result<PrometheusHandle, ServeError> {
    const SECONDS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(|error| ServeError::Metrics(error.to_string()))
}

/// Folds recorded durations into their histograms; until then the recorder keeps each one, and nobody may ever ask for
/// `/metrics`.
#[expect(clippy::infinite_loop, reason = "ended from outside, by the shutdown token")]
pub(super) async fn keep(metrics: PrometheusHandle) {
    const INTERVAL: Duration = Duration::from_secs(5);
    loop {
        tokio::time::sleep(INTERVAL).await;
        metrics.run_upkeep();
    }
}
