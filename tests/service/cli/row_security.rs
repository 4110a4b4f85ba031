use basalt_testkit::Basalt;
use http::Method;
use serde_json::{Value, json};

use super::basalt;

/// Lists the private bucket as anon.
async fn listed(server: &Basalt) -> Value {
    let list = server.request(Method::POST, "/storage/v1/object/list/private").bearer(server.anon_key());
    list.json(&json!({"prefix": ""})).send().await.expect(200).json()
}

#[tokio::test]
async fn disabled_row_security_is_reported_and_restored() {
    let server = Basalt::start().await;
    server
        .database()
        .admin_sql(
            "insert into storage.buckets (id, name) values ('private', 'private');
             insert into storage.objects (bucket_id, name) values ('private', 'secret.txt');
             alter table storage.objects disable row level security",
        )
        .await;
    assert_eq!(listed(&server).await[0]["name"], "secret.txt", "without row security anon sees the object");

    let doctor = basalt(&server, &["doctor"]);
    assert!(doctor.out.contains("FAIL  row security   disabled on storage.objects,"), "{}", doctor.out);
    let check = basalt(&server, &["policies", "check"]);
    let fault = "storage.objects: belongs to a service and has no row-level security";
    assert!(check.code == 1 && check.out.contains(fault), "{}{}", check.out, check.err);

    let log = "row-level security was disabled on storage.objects";
    let restarted = Basalt::builder().database_url(&server.database().url()).expect_log(log).start().await;
    restarted.wait_for_log(log).await;
    assert_eq!(listed(&server).await, json!([]));
    let doctor = basalt(&server, &["doctor"]);
    assert!(doctor.out.contains("ok    row security"), "{}", doctor.out);
    assert!(!basalt(&server, &["policies", "check"]).out.contains(fault));
}
