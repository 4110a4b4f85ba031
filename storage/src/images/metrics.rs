//! Metrics of image transformations.

use std::time::Duration;

pub(super) use ::metrics::Gauge;
use basalt_core::convert::saturating;

/// Gauge of images in progress or queued; `limit` is the most allowed.
pub(super) fn images(limit: usize) -> Gauge {
    metrics::gauge!("basalt_storage_images_limit").set(count(saturating(limit)));
    let in_use = metrics::gauge!("basalt_storage_images");
    in_use.set(0.0);
    in_use
}

/// Records the duration of a transformation, successful or not.
pub(super) fn record_duration(took: Duration) {
    metrics::histogram!("basalt_storage_image_seconds").record(took);
}

/// Gauge of the cache's size; `limit` is the most allowed.
pub(super) fn cache_bytes(limit: u64) -> Gauge {
    metrics::gauge!("basalt_storage_image_cache_bytes_limit").set(count(limit));
    metrics::gauge!("basalt_storage_image_cache_bytes")
}

/// Counts a cache lookup.
pub(super) fn count_lookup(is_found: bool) {
    let outcome = if is_found { "hit" } else { "miss" };
    metrics::counter!("basalt_storage_image_cache_lookups_total", "outcome" => outcome).increment(1);
}

#[expect(clippy::cast_precision_loss, reason = "disk sizes are exact in an f64")]
pub(super) fn count(number: u64) -> f64 {
    number as f64
}
