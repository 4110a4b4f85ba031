use std::path::PathBuf;
use std::process::Command;

use basalt_testkit::Basalt;
use serde_json::json;

use super::basalt;

/// The path of a blob.
fn blob(server: &Basalt, name: &str) -> PathBuf {
    server.state_dir().join("storage").join(name.split_at(2).0).join(name)
}

#[tokio::test]
async fn storage_check_compares_and_clean_deletes_orphans() {
    let server = Basalt::start().await;
    let there = "10000000-0000-4000-8000-000000000001";
    let lost = "ff000000-0000-4000-8000-000000000002";
    let orphan = "20000000-0000-4000-8000-000000000003";
    let written = "20000000-0000-4000-8000-000000000004";
    for name in [there, orphan, written] {
        std::fs::write(blob(&server, name), "12345").unwrap();
    }
    server
        .database()
        .admin_sql(&format!(
            "insert into storage.buckets (id, name) values ('b', 'b');
             insert into storage.objects (bucket_id, name, version) values
               ('b', 'there', '{there}'), ('b', 'lost', '{lost}'), ('b', 'imported', null);
             insert into storage.blob_intents (blob) values ('{written}')"
        ))
        .await;
    let check = |arguments: &[&str]| {
        let done = basalt(&server, &[&["storage", "check"], arguments].concat());
        assert_eq!(done.code, 1, "a row has no blob: {}{}", done.out, done.err);
        done
    };
    assert_eq!(check(&["--json"]).json()["blobs_without_row"], json!([]), "younger than a day");
    for name in [orphan, written] {
        let path = blob(&server, name);
        let touched = Command::new("touch").args(["-d", "2 days ago"]).arg(path).status().unwrap();
        assert!(touched.success());
    }
    let found = check(&["--json"]).json();
    let expected = json!({
        "blobs": 1,
        "bytes": 5,
        "rows_without_blob": [
            { "row": "object b/lost", "version": lost },
            { "row": "object b/imported", "version": null },
        ],
        "blobs_without_row": [{ "blob": orphan, "bytes": 5 }],
    });
    assert_eq!(found, expected);
    let shown = check(&[]).out;
    assert!(shown.contains("object b/lost") && shown.contains(orphan) && !shown.contains(written), "{shown}");

    let output = basalt(&server, &["storage", "gc"]).ok().out;
    assert_eq!(output, "0 uploads abandoned, 0 incomplete uploads removed, 1 blobs deleted\n");
    assert!(
        !blob(&server, orphan).exists() && blob(&server, written).exists() && blob(&server, there).exists()
    );
    let output = basalt(&server, &["storage", "gc", "--older-than", "0"]).ok().out;
    assert_eq!(output, "1 uploads abandoned, 0 incomplete uploads removed, 1 blobs deleted\n");
    assert!(!blob(&server, written).exists() && blob(&server, there).exists());
}
