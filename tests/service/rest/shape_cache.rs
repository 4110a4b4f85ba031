//! The request shape cache: metrics and the bound `rest.shape_cache`. `rest/tests/plans` checks that cached and uncached
//! requests give the same statement.

use basalt_testkit::Basalt;
use serde_json::json;

use super::{get, server};

/// The value of a metric with its labels; 0 if it is absent.
pub(super) async fn metric(server: &Basalt, name: &str) -> f64 {
    let metrics = server.get("/metrics").bearer(server.secret_key()).send().await.expect(200).text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().unwrap())
}

const HITS: &str = "basalt_rest_shape_lookups_total{result=\"hit\"}";

#[tokio::test]
async fn requests_with_different_values_share_a_shape() {
    let server = server().start().await;
    let ids = [1, 2, 1, 2, 1];
    for id in ids {
        let response = get(&server, &format!("/clients?select=id&id=eq.{id}")).await.expect(200);
        assert_eq!(response.json(), json!([{ "id": id }]));
    }
    // Admitted at the second request, hit at the third.
    assert_eq!(metric(&server, HITS).await, 3.0);
    assert_eq!(metric(&server, "basalt_rest_shapes").await, 1.0);
    let other = get(&server, "/clients?select=id&id=gt.1&limit=1").await.expect(200);
    assert_eq!(other.json(), json!([{ "id": 2 }]));
    assert_eq!(metric(&server, HITS).await, 3.0);
}

#[tokio::test]
async fn shape_cache_evicts_at_its_size_limit() {
    const BYTES: u32 = 64 * 1024;
    let server = server().config("rest.shape_cache", &BYTES.to_string()).start().await;
    for alias in 0..120 {
        for _ in 0..2 {
            let _answer = get(&server, &format!("/clients?select=a{alias}:id")).await.expect(200);
        }
    }
    assert!(metric(&server, "basalt_rest_shape_evictions_total").await > 0.0);
    let bytes = metric(&server, "basalt_rest_shape_bytes").await;
    assert!(bytes > 0.0 && bytes <= f64::from(BYTES), "{bytes}");
}

#[tokio::test]
async fn shape_cache_can_be_disabled() {
    let server = server().config("rest.shape_cache", "0").start().await;
    for id in [1, 2, 1, 2] {
        let response = get(&server, &format!("/clients?select=id&id=eq.{id}")).await.expect(200);
        assert_eq!(response.json(), json!([{ "id": id }]));
    }
    assert_eq!((metric(&server, HITS).await, metric(&server, "basalt_rest_shapes").await), (0.0, 0.0));
}
