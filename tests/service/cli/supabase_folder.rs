//! `basalt init`, `migration …`, `migrate` and `db …` in a folder in Supabase's layout, beside a running server.

use std::fs;
use std::path::Path;

use basalt_testkit::Basalt;

use super::{CliOutput, alone, basalt, basalt_with};

fn write(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Waits until REST serves the table.
async fn until_found(server: &Basalt, table: &str) {
    for _ in 0..1500 {
        let response = server.get(&format!("/rest/v1/{table}")).apikey(server.anon_key()).send().await;
        if response.status == 200 {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("{table} is not served after half a minute");
}

#[tokio::test]
async fn commands_work_beside_a_running_server() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "supabase/config.toml", "[api]\nmax_rows = 7\n");
    write(
        dir.path(),
        "supabase/migrations/20240101000000_notes.sql",
        "create table public.notes (id int primary key, body text);",
    );
    let server = Basalt::builder()
        .project(dir.path())
        .config("server.mode", "production")
        .expect_log("production mode with server.public_url")
        .start()
        .await;
    let rows = server.get("/rest/v1/notes").apikey(server.anon_key()).send().await;
    assert_eq!(rows.text(), "[]", "new tables are exposed");

    // A production server does not watch the folder.
    let made = basalt(&server, &["migration", "new", "add-labels"]).ok().out;
    let path = made.trim().strip_prefix("created ").unwrap();
    assert!(path.ends_with("_add_labels.sql"), "{path}");
    write(dir.path(), path, "create table public.labels (name text primary key);");
    write(dir.path(), "supabase/migrations/20990101000000_bad.sql", "create tabel x ();");
    let list = basalt(&server, &["migration", "list"]).ok().out;
    assert_eq!(
        list.lines().filter(|line| line.contains("20240101000000  20240101000000")).count(),
        1,
        "{list}"
    );
    let migrated = basalt(&server, &["migrate"]).ok();
    assert!(
        migrated.err.contains("2 of 3 migrations applied (1 now), 0 skipped, 1 failed"),
        "{}",
        migrated.err
    );
    assert!(
        migrated.err.contains("20990101000000_bad.sql, line 1 (statement 1): syntax error"),
        "{}",
        migrated.err
    );
    basalt(&server, &["migrate", "--strict"]).failed("later files were not applied because of --strict");
    until_found(&server, "labels").await;

    basalt(&server, &["migration", "repair", "20990101000000", "--status", "applied"]).ok();
    assert!(basalt(&server, &["migrate", "--strict"]).ok().err.contains("3 of 3 migrations applied (0 now)"));
    basalt(&server, &["migration", "repair", "20990101000000", "--status", "reverted"]).ok();
    basalt(&server, &["migration", "repair", "1", "--status", "applied"])
        .failed("no migration in the folder has the number 1");
    fs::remove_file(dir.path().join("supabase/migrations/20990101000000_bad.sql")).unwrap();

    let types = basalt(&server, &["gen", "types"]).ok().out;
    assert!(types.contains("labels: {") && types.contains("notes: {"), "{types}");
    // One line for each table, and nothing about policy files, which the project does not have.
    let checked = basalt(&server, &["policies", "check"]);
    assert_eq!(checked.out.lines().count(), 2, "{}", checked.out);
    assert!(!checked.out.contains("drift"), "{}", checked.out);

    assert_eq!(basalt(&server, &["db", "diff"]).ok().out, "the database is as the files make it\n");
    server.database().admin_sql("alter table notes add by_hand int; create table stray (id int)").await;
    let diff = basalt(&server, &["db", "diff"]);
    assert_eq!(diff.code, 1);
    assert!(
        diff.out.contains("+ column public.notes.by_hand") && diff.out.contains("+ table public.stray"),
        "{}",
        diff.out
    );

    let dump = "COPY public.notes (id, body) FROM stdin;\n1\ta\\tb\n2\t\\N\n\\.\nINSERT INTO public.labels VALUES ('x;y');\nCREATE TABLE z ();\n";
    let restored = basalt_with(&server, &["db", "restore", "-"], dump).ok().out;
    assert_eq!(
        restored,
        "public.labels: 1 new rows\npublic.notes: 2 new rows\nleft out 1 statements that are not rows: the schema is made by the project's migrations\n"
    );
    let again = basalt_with(&server, &["db", "restore", "-"], dump).ok().out;
    assert!(again.contains("public.notes: 0 new rows"), "{again}");
    let cut = basalt_with(&server, &["db", "restore", "-"], "COPY public.notes (id) FROM stdin;\n3\n");
    cut.failed("the dump ends inside a COPY block");
    assert_eq!(server.database().count("notes").await, 2);
}

#[tokio::test]
async fn objects_path_of_config_toml_fills_buckets() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "supabase/config.toml",
        "[storage.buckets.pictures]\npublic = true\nobjects_path = \"./pictures\"\n[storage.buckets.none]\nobjects_path = \"./none\"\n",
    );
    write(dir.path(), "supabase/pictures/a folder/note.txt", "from the folder");
    write(dir.path(), "supabase/pictures/logo.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>");
    let mut server =
        Basalt::builder().project(dir.path()).expect_log("objects_path of bucket none").start().await;
    server.wait_for_log("uploaded the files of").await;
    let read =
        |server: &Basalt, name: &str| server.get(&format!("/storage/v1/object/public/pictures/{name}"));
    let note = read(&server, "a%20folder/note.txt").send().await.expect(200);
    assert_eq!((note.text(), note.header("content-type")), ("from the folder".to_owned(), "text/plain"));
    let logo = read(&server, "logo.svg").send().await.expect(200);
    assert_eq!(logo.header("content-type"), "image/svg+xml");
    server.wait_for_log("cannot read").await;
    // What the project changed since stays.
    let object = "/storage/v1/object/pictures/a%20folder/note.txt";
    let change = server.put(object).apikey(server.service_key()).header("content-type", "text/plain");
    change.body("changed").send().await.expect(200);
    server.stop().await;
    server.start_again().await;
    server.wait_for_log("uploaded the files of").await;
    assert_eq!(read(&server, "a%20folder/note.txt").send().await.expect(200).text(), "changed");
}

#[tokio::test]
async fn vault_section_of_config_toml_fills_the_vault() {
    let dir = tempfile::tempdir().unwrap();
    let config = |key: &str| {
        format!("[db.vault]\nstripe_key = \"{key}\"\nfrom_environment = \"env(VAULT_TOKEN)\"\nempty = \"\"\n")
    };
    write(dir.path(), "supabase/config.toml", &config("sk_first"));
    let mut server =
        Basalt::builder().project(dir.path()).variable("VAULT_TOKEN", "of the environment").start().await;
    let secrets =
        "select string_agg(name || '=' || decrypted_secret, ', ' order by name) from vault.decrypted_secrets";
    assert_eq!(
        server.database().value(secrets).await,
        "from_environment=of the environment, stripe_key=sk_first"
    );
    server.stop().await;
    // A changed value replaces the secret; an unchanged one stays as it is.
    write(dir.path(), "supabase/config.toml", &config("sk_second"));
    server.start_again().await;
    assert_eq!(
        server.database().value(secrets).await,
        "from_environment=of the environment, stripe_key=sk_second"
    );
    let changed = "select string_agg(name, ', ') from vault.secrets where updated_at > created_at";
    assert_eq!(server.database().value(changed).await, "stripe_key");
    let readable =
        "select count(*) from vault.secrets where secret like '%sk_%' or secret like '%environment%'";
    assert_eq!(server.database().value(readable).await, "0", "secrets are encrypted");
    assert!(
        server.log().iter().all(|line| !line.raw.contains("sk_") && !line.raw.contains("of the environment"))
    );
}

#[tokio::test]
async fn development_server_applies_new_files_at_once() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "supabase/config.toml", "not = [toml");
    write(dir.path(), "supabase/migrations/1_a.sql", "create table public.a (id int);");
    let server = Basalt::builder()
        .project(dir.path())
        .expect_log("config.toml:1: is not valid TOML")
        .expect_log("syntax error")
        .start()
        .await;
    write(dir.path(), "supabase/migrations/2_b.sql", "create table public.b (id int);");
    until_found(&server, "b").await;
    write(dir.path(), "supabase/migrations/3_c.sql", "create tabel c (id int);");
    server.wait_for_log("3_c.sql, line 1 (statement 1): syntax error").await;
    write(dir.path(), "supabase/migrations/3_c.sql", "create table public.c (id int);");
    until_found(&server, "c").await;
}

#[tokio::test]
async fn init_makes_folders_that_start() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &'static [&'static str]| alone(dir.path(), arguments);
    let made = run(&["init", "--supabase"]).await.ok().out;
    assert!(made.contains("created supabase/config.toml") && made.contains("created .gitignore"), "{made}");
    assert!(
        run(&["init", "--supabase"])
            .await
            .ok()
            .out
            .contains("supabase/config.toml exists and stays as it is")
    );
    let refused: CliOutput = run(&["init"]).await;
    refused.failed("has a folder supabase/ already");
    write(
        dir.path(),
        "supabase/migrations/1_t.sql",
        "create table public.t (id int); insert into t values (1);",
    );
    write(dir.path(), "supabase/seed.sql", "insert into t values (2);");
    assert!(run(&["migrate", "--seed"]).await.ok().err.contains("seeds run: supabase/seed.sql"));
    run(&["db", "reset"]).await.failed("Confirm with --yes");
    write(dir.path(), "supabase/seed.sql", "insert into t values (3);");
    assert!(run(&["db", "reset", "--yes"]).await.ok().err.contains("1 of 1 migrations applied (1 now)"));
    assert_eq!(run(&["db", "diff"]).await.ok().out, "the database is as the files make it\n");

    let other = tempfile::tempdir().unwrap();
    assert!(alone(other.path(), &["init"]).await.ok().out.contains("created basalt.toml"));
    assert!(
        alone(other.path(), &["migration", "new", "first"])
            .await
            .ok()
            .out
            .contains("migrations/0001_first.sql")
    );
    assert!(
        alone(other.path(), &["migration", "new", "second"])
            .await
            .ok()
            .out
            .contains("migrations/0002_second.sql")
    );
    alone(other.path(), &["migration", "new", "a/b"]).await.failed("use letters, digits and _");
}
