//! This service's metrics. Labels have a closed set of values: the names in the registry.

use std::time::Duration;

use http::StatusCode;

/// A function was called.
pub(crate) fn called(function: &str, status: StatusCode, took: Duration) {
    let class = match status.as_u16() / 100 {
        1 | 2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    let name = function.to_owned();
    metrics::counter!("basalt_functions_requests_total", "function" => name.clone(), "status" => class)
        .increment(1);
    metrics::histogram!("basalt_functions_duration_seconds", "function" => name).record(took.as_secs_f64());
}

/// A call was rejected because of its token.
pub(crate) fn refused(function: &str) {
    metrics::counter!("basalt_functions_refused_total", "function" => function.to_owned()).increment(1);
}
