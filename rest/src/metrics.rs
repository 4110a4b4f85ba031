//! Names of this service's metrics, documented in docs/METRICS.md.

/// Counter: schema cache loads, by `result` (`ok`, `failed`).
pub const SCHEMA_LOADS: &str = "basalt_rest_schema_cache_loads_total";
/// Histogram: duration of a schema cache load in seconds.
pub const SCHEMA_LOAD_SECONDS: &str = "basalt_rest_schema_cache_load_duration_seconds";
/// Counter: checks for catalog changes, by `result` (`ok`, `failed`, `refused`).
pub const SCHEMA_CHECKS: &str = "basalt_rest_schema_looks_total";
/// Gauge: relations in the schema cache.
pub const SCHEMA_RELATIONS: &str = "basalt_rest_schema_cache_relations";
/// Gauge: cached request shapes, each with its plan and statements.
pub const SHAPES: &str = "basalt_rest_shapes";
/// Gauge: approximate memory used by cached request shapes, in bytes.
pub const SHAPE_BYTES: &str = "basalt_rest_shape_bytes";
/// Gauge: maximum number of cached request shapes.
pub const SHAPES_LIMIT: &str = "basalt_rest_shapes_limit";
/// Gauge: maximum memory of cached request shapes in bytes (`rest.shape_cache`).
pub const SHAPE_BYTES_LIMIT: &str = "basalt_rest_shape_bytes_limit";
/// Counter: lookups of request shapes, by `result` (`hit`, `miss`).
pub const SHAPE_LOOKUPS: &str = "basalt_rest_shape_lookups_total";
/// Counter: request shapes evicted because a limit was exceeded.
pub const SHAPE_EVICTIONS: &str = "basalt_rest_shape_evictions_total";
