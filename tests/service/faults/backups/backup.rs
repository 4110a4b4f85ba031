//! Backups made under load, interrupted, on a full disk, or by a schedule.

use super::*;
use crate::load::{Load, project};

#[tokio::test]
async fn every_backup_that_says_complete_restores() {
    back_up_with_kills(3).await;
}

/// `BASALT_TEST_BACKUP_ROUNDS` sets the number of rounds.
#[tokio::test]
#[ignore = "cargo xtask nightly: makes 200 backups"]
async fn two_hundred_backups_with_kills_restore() {
    let rounds = std::env::var("BASALT_TEST_BACKUP_ROUNDS").map_or(200, |text| text.parse().unwrap());
    back_up_with_kills(rounds).await;
}

/// Kills the backup or PostgreSQL in two of three rounds, and verifies every backup that is complete.
async fn back_up_with_kills(rounds: u32) {
    let project = project();
    let mut server = Basalt::builder()
        .embedded()
        .project(project.path())
        .expect_log("PostgreSQL ended; restarting it")
        .start()
        .await;
    for text in crate::load::DATABASE_AWAY {
        server.expect_log(text);
    }
    let target = beside(&server, "backups");
    let load = Load::start(&server, 4, 0);
    load.until_acknowledged(20).await;
    for round in 0..rounds {
        let mut command = server.same_settings();
        let _arguments =
            command.args(["backup", "--to", shown(&target)]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut backup = command.spawn().unwrap();
        sleep(Duration::from_millis(u64::from(round * 137 % 900))).await;
        match round % 3 {
            0 => backup.kill().unwrap(),
            1 => server.kill_postgres(),
            _ => {}
        }
        let _status = tokio::task::spawn_blocking(move || backup.wait()).await.unwrap().unwrap();
        let read = server.get("/rest/v1/entries?select=id&limit=1").apikey(server.service_key());
        server.until(Duration::from_secs(60), &read, |response| response.status == 200).await;
    }
    let _outcome = load.finish().await;
    server.stop().await;
    let complete = complete_sets(&target);
    // Every third round kills nothing.
    assert!(complete.len() >= rounds as usize / 3, "{} of {rounds} backups are complete", complete.len());
    for set in complete {
        let name = set.file_name().unwrap().to_str().unwrap().to_owned();
        let verified = of_server(&server, &["backup", "verify", &name, "--from", shown(&target)]).await;
        let _verified = ok(verified);
    }
}

/// A file larger than the limit cannot be written. The signal is ignored; the write then fails, as on a full disk.
#[tokio::test]
async fn full_disk_fails_the_backup() {
    let server = Basalt::builder().embedded().start().await;
    let target = beside(&server, "small");
    let program = server.same_settings();
    let mut command = Command::new("sh");
    let _configured = command
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\"")
        .arg(program.get_program())
        .args(program.get_args())
        .args(["backup", "--to", shown(&target)]);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(dir) = program.get_current_dir() {
        let _moved = command.current_dir(dir);
    }
    refused(&run(command).await, "cannot write");
    assert!(!sets(&target).is_empty());
    assert!(complete_sets(&target).is_empty());
}

/// The rows are those of a server whose clock was ahead: one kind is planned, the other's run was killed.
#[tokio::test]
async fn clock_set_back_does_not_postpone_backups() {
    let target = tempfile::tempdir().unwrap();
    let mut server = Basalt::builder()
        .config("backup.target", shown(target.path()))
        .config("backup.schedule", "0 0 * * *")
        .config("backup.verify_schedule", "0 0 * * *")
        .start()
        .await;
    let planned =
        "select count(*) from basalt.backup_jobs where next_attempt_at < now() + interval '25 hours'";
    until("both are planned", async || server.database().value(planned).await == "2").await;
    server.stop().await;
    let ahead = "update basalt.backup_jobs set attempts = case kind when 'backup' then 0 else 1 end,
        due_at = due_at + interval '10 years', next_attempt_at = next_attempt_at + interval '10 years'";
    let _rows = server.database().admin_sql(ahead).await;
    server.start_again().await;
    until("both are planned again", async || server.database().value(planned).await == "2").await;
}
