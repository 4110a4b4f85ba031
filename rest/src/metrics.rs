//! Names of this service's metrics; docs/METRICS.md lists them.

/// Counter: schema cache loads, by `result` (`ok`, `failed`).
pub const SCHEMA_LOADS: &str = "basalt_rest_schema_cache_loads_total";
/// Histogram: how long a load took, in seconds.
pub const SCHEMA_LOAD_SECONDS: &str = "basalt_rest_schema_cache_load_duration_seconds";
/// Counter: checks whether the catalog has changed, by `result` (`ok`, `failed`, `refused`).
pub const SCHEMA_CHECKS: &str = "basalt_rest_schema_looks_total";
/// Gauge: relations in the schema cache.
pub const SCHEMA_RELATIONS: &str = "basalt_rest_schema_cache_relations";
/// Gauge: request shapes whose plan and statements are kept.
pub const SHAPES: &str = "basalt_rest_shapes";
/// Gauge: bytes they take, about.
pub const SHAPE_BYTES: &str = "basalt_rest_shape_bytes";
/// Gauge: how many may be kept.
pub const SHAPES_LIMIT: &str = "basalt_rest_shapes_limit";
/// Gauge: bytes they may take (`rest.shape_cache`).
pub const SHAPE_BYTES_LIMIT: &str = "basalt_rest_shape_bytes_limit";
/// Counter: look-ups of shapes, by `result` (`hit`, `miss`).
pub const SHAPE_LOOKUPS: &str = "basalt_rest_shape_lookups_total";
/// Counter: shapes that went because there were too many.
pub const SHAPE_EVICTIONS: &str = "basalt_rest_shape_evictions_total";
