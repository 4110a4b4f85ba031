//! Backups restored into a new folder: complete, damaged, without the passphrase. Nothing half restored starts.

use super::*;
use crate::load::{Load, project};

#[tokio::test]
async fn a_backup_restores_rows_objects_secrets_and_files() {
    let project = project();
    let server = Basalt::builder()
        .embedded()
        .project(project.path())
        .variable(PASSPHRASE.0, PASSPHRASE.1)
        .start()
        .await;
    let user = with_content(&server).await;
    let target = beside(&server, "backups");
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(50).await;
    let printed = ok(of_server(&server, &["backup", "--to", shown(&target)]).await);
    assert!(printed.contains("is complete in"), "{printed}");
    let _outcome = load.finish().await;
    let listed = ok(of_server(&server, &["backup", "list", "--from", shown(&target), "--json"]).await);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["backups"][0]["state"], "complete");
    assert_eq!(listed["backups"][0]["manifest"]["blobs"], 1);
    let verified = ok(of_server(&server, &["backup", "verify", "--from", shown(&target)]).await);
    assert!(verified.contains("1 objects"), "{verified}");

    let machine = Machine::beside(&server, &target);
    for live in [project.path(), server.state_dir()] {
        refused(&machine.restore(shown(live), Some(PASSPHRASE), &[]).await.1, "not empty");
    }
    let (into, output) = machine.restore("restored", None, &[]).await;
    refused(&output, "BASALT_BACKUP_PASSPHRASE");
    // Nothing half restored starts, and nothing is restored over it.
    is_not_started(&into, None).await;
    refused(&machine.restore("restored", Some(PASSPHRASE), &[]).await.1, "not empty");
    fs::remove_dir_all(&into).unwrap();
    let _restored = ok(machine.restore("restored", Some(PASSPHRASE), &[]).await.1);
    assert_eq!(
        fs::read(into.join(".basalt/secrets.json")).unwrap(),
        fs::read(server.state_dir().join("secrets.json")).unwrap()
    );
    for entry in fs::read_dir(project.path().join("migrations")).unwrap() {
        let file = entry.unwrap().path();
        let copy = into.join("migrations").join(file.file_name().unwrap());
        assert_eq!(fs::read(&file).unwrap(), fs::read(&copy).unwrap(), "{}", copy.display());
    }
    let mut restored = Restored::start(&into).await;
    let client = restored.client().await;
    let row = client.query_one("select count(*) from entries", &[]).await.unwrap();
    assert!(row.get::<_, i64>(0) >= 50);
    has_content(&into, &user).await;
    drop(client);
    restored.stop();
}

/// A server with two backups, and the key that decrypts them.
struct TwoBackups {
    server: Basalt,
    machine: Machine,
    key: String,
}

impl TwoBackups {
    async fn make() -> Self {
        let server = Basalt::builder().embedded().start().await;
        let target = beside(&server, "backups");
        for _ in 0..2 {
            let _made = ok(of_server(&server, &["backup", "--to", shown(&target)]).await);
        }
        let secrets = fs::read(server.state_dir().join("secrets.json")).unwrap();
        let secrets: Value = serde_json::from_slice(&secrets).unwrap();
        let key = secrets["master_key"].as_str().unwrap().to_owned();
        Self { machine: Machine::beside(&server, &target), server, key }
    }

    async fn restore(&self, options: &[&str]) -> (PathBuf, Output) {
        self.machine.restore("restored", Some(("BASALT_SERVER_MASTER_KEY", &self.key)), options).await
    }
}

#[tokio::test]
async fn damaged_and_incomplete_backups_are_not_restored() {
    let fixture = TwoBackups::make().await;
    let TwoBackups { server, machine, .. } = &fixture;
    let target = &machine.target;
    // An interrupted backup has no manifest; the earlier one is restored.
    let newest = sets(target).pop().unwrap();
    fs::remove_file(newest.join("manifest.json")).unwrap();
    let listed = ok(of_server(server, &["backup", "list", "--from", shown(target)]).await);
    assert!(listed.contains("incomplete") && listed.contains("complete  "), "{listed}");
    let name = newest.file_name().unwrap().to_str().unwrap();
    let (into, output) = fixture.restore(&["--backup", name]).await;
    refused(&output, "it is incomplete");
    assert!(!into.exists());
    // A torn file.
    let complete = sets(target).remove(0);
    let base = complete.join("base.tar.gz");
    let whole = fs::read(&base).unwrap();
    fs::write(&base, &whole[..whole.len() / 2]).unwrap();
    refused(&fixture.restore(&[]).await.1, "is damaged");
    refused(&of_server(server, &["backup", "verify", "--from", shown(target)]).await, "is damaged");
    is_not_started(&into, Some(("BASALT_SERVER_MASTER_KEY", &fixture.key))).await;
    fs::remove_dir_all(&into).unwrap();
    fs::write(&base, whole).unwrap();
    // A manifest that is wrong about the rows.
    let manifest = complete.join("manifest.json");
    let right = fs::read_to_string(&manifest).unwrap();
    let mut wrong: Value = serde_json::from_str(&right).unwrap();
    wrong["rows"]["auth.users"] = json!({ "count": 7, "is_exact": true });
    fs::write(&manifest, wrong.to_string()).unwrap();
    refused(&fixture.restore(&[]).await.1, "auth.users has 0 rows instead of 7");
    fs::remove_dir_all(&into).unwrap();
    fs::write(&manifest, right).unwrap();
    let _restored = ok(fixture.restore(&[]).await.1);
    // Another project cannot use the target.
    let mut foreign: Value =
        serde_json::from_slice(&fs::read(server.state_dir().join("secrets.json")).unwrap()).unwrap();
    foreign["master_key"] = json!("x".repeat(48));
    let other = Basalt::builder().embedded().start().await;
    let project = beside(&other, "foreign");
    fs::create_dir_all(project.join("state")).unwrap();
    fs::write(project.join("state/secrets.json"), foreign.to_string()).unwrap();
    let backup = ["backup", "--data", "state", "--to", shown(target)];
    refused(&elsewhere(&project, None, &backup).await, "belongs to another project");
}

/// Without the passphrase, database and objects are still restored; new secrets are made on request.
#[tokio::test]
async fn lost_passphrase_leaves_database_and_objects() {
    let server = Basalt::builder().embedded().variable(PASSPHRASE.0, PASSPHRASE.1).start().await;
    let user = with_content(&server).await;
    let target = beside(&server, "backups");
    let _made = ok(of_server(&server, &["backup", "--to", shown(&target)]).await);
    let machine = Machine::beside(&server, &target);
    let (into, output) = machine.restore("restored", None, &["--without-secrets"]).await;
    let _restored = ok(output);
    refused(&elsewhere(&into, None, &["keys", "--data", ".basalt"]).await, "basalt secrets reset");
    let reset = ok(elsewhere(&into, None, &["secrets", "reset", "--data", ".basalt"]).await);
    assert!(!reset.contains(PASSPHRASE.1));
    let mut restored = Restored::start(&into).await;
    drop(restored.client().await);
    has_content(&into, &user).await;
    restored.stop();
}
