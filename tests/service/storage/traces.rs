//! What uploads leave behind.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use basalt_testkit::Basalt;

/// Names of all files in the store: blobs, and what is half-written.
pub(super) fn files(server: &Basalt) -> Vec<String> {
    let folders = std::fs::read_dir(server.state_dir().join("storage")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).into_iter().flatten());
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
}

/// Blobs that are being written.
pub(super) async fn intents(server: &Basalt) -> i64 {
    let rows = server.database().admin_sql("select count(*) from storage.blob_intents").await;
    rows[0][0].as_deref().unwrap().parse().unwrap()
}

/// Waits until there are no intents, and no files but those of objects and of the garbage.
pub(super) async fn until_nothing_is_left(server: &Basalt) {
    const KNOWN: &str =
        "select version from storage.objects union select blob::text from storage.blob_garbage";
    until("nothing is left of uploads", async || {
        let files = files(server);
        let known = server.database().admin_sql(KNOWN).await;
        let known: HashSet<String> = known.into_iter().filter_map(|row| row[0].clone()).collect();
        intents(server).await == 0 && files.iter().all(|file| known.contains(file))
    })
    .await;
}

/// Waits for a condition.
pub(super) async fn until(what: &str, is_true: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_true().await {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
