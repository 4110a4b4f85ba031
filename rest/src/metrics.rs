//! Names of this service's metrics; docs/METRICS.md lists them.

/// Counter: schema cache loads, by `result` (`ok`, `failed`).
pub const SCHEMA_LOADS: &str = "basalt_rest_schema_cache_loads_total";
/// Histogram: how long a load took, in seconds.
pub const SCHEMA_LOAD_SECONDS: &str = "basalt_rest_schema_cache_load_duration_seconds";
/// Gauge: relations in the schema cache.
pub const SCHEMA_RELATIONS: &str = "basalt_rest_schema_cache_relations";
