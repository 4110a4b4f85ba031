//! Blobs and intents that uploads leave behind, and waiting for conditions.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use serde_json::json;

/// Names of all files in the store: blobs and partial blobs.
pub(super) fn files(server: &Basalt) -> Vec<String> {
    let folders = std::fs::read_dir(server.state_dir().join("storage")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).into_iter().flatten());
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// The number of blobs being written.
pub(super) async fn intents(server: &Basalt) -> i64 {
    let rows = server.database().admin_sql("select count(*) from storage.blob_intents").await;
    rows[0][0].as_deref().unwrap().parse().unwrap()
}

/// Waits until there are no intents and every file belongs to an object or is garbage.
pub(super) async fn until_no_partial_uploads(server: &Basalt) {
    const KNOWN: &str =
        "select version from storage.objects union select blob::text from storage.blob_garbage";
    until("no partial uploads remain", async || {
        let files = files(server);
        let known = server.database().admin_sql(KNOWN).await;
        let known: HashSet<String> = known.into_iter().filter_map(|row| row[0].clone()).collect();
        intents(server).await == 0 && files.iter().all(|file| known.contains(file))
    })
    .await;
}

#[tokio::test]
async fn files_of_a_deleted_plan_leave_the_disk() {
    let server = Basalt::builder().app().start().await;
    let owner = server.sign_up("ada@example.org").await;
    let plan = server.post("/rest/v1/plans").by(&server, &owner).header("prefer", "return=representation");
    let plan = plan.json(&json!({"title": "Growth"})).send().await.expect(201).json()[0]["id"].clone();
    let plan = plan.as_str().unwrap();
    for (path, mime) in [("plan_files/{}/a_1.txt", "text/plain"), ("org_logos/{}/logo.png", "image/png")] {
        let upload = server.post(&format!("/storage/v1/object/{}", path.replace("{}", plan)));
        let upload = upload.by(&server, &owner).header("content-type", mime);
        upload.body("the bytes").send().await.expect(200);
    }
    assert_eq!(files(&server).len(), 2);
    server.delete(&format!("/rest/v1/plans?id=eq.{plan}")).by(&server, &owner).send().await.expect(204);
    server.database().admin_sql("update storage.blob_garbage set next_attempt_at = now()").await;
    until("the plan's files are deleted", async || files(&server).is_empty()).await;
}

/// Waits for a condition.
pub(super) async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true().await {
        assert!(Instant::now() < deadline, "timed out after a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
