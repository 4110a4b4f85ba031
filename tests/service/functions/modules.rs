//! Modules that functions import from registries and other hosts: downloads, the cache, and their failures.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use basalt_pg::system_migrations::sha256_hex;
use basalt_testkit::{HttpStub, Reply, StubRequest};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::typescript::{Project, answer, call};

/// The responses of a registry and of a host of modules: `jsr:` and `https:` imports without the internet.
fn remote_modules(path: &str) -> Reply {
    const WORDS: &str = "export const word: string = 'registry';";
    let respond = |text: &str| {
        let headers = vec![("content-type", "application/typescript".to_owned())];
        Reply::RespondWith(200, headers, text.to_owned())
    };
    match path {
        "/@own/words/meta.json" => Reply::Respond(
            200,
            json!({"scope": "own", "name": "words", "latest": "1.0.0", "versions": {"1.0.0": {}}})
                .to_string(),
        ),
        "/@own/words/1.0.0_meta.json" => {
            let checksum = format!("sha256-{}", sha256_hex(WORDS.as_bytes()));
            let manifest = json!({"/mod.ts": {"size": WORDS.len(), "checksum": checksum}});
            Reply::Respond(200, json!({"manifest": manifest, "exports": {".": "./mod.ts"}}).to_string())
        }
        "/@own/words/1.0.0/mod.ts" => respond(WORDS),
        "/x/mod.ts" => respond("export { word } from './deps.ts';"),
        "/x/deps.ts" => respond("export const word = 'host';"),
        "/x/large.ts" => respond(&format!("export const large = '{}';", "x".repeat(16 << 20))),
        _ => Reply::Respond(404, "{}".to_owned()),
    }
}

async fn module_host() -> HttpStub {
    HttpStub::start(|request: &StubRequest| {
        remote_modules(request.head.split_whitespace().nth(1).unwrap_or_default())
    })
    .await
}

#[tokio::test]
async fn remote_modules_are_fetched_once_and_failures_name_them() {
    let stub = module_host().await;
    let host = stub.url();
    let url = format!("import {{ word }} from '{host}/x/mod.ts'; Deno.serve(() => new Response(word))");
    let missing = format!("import '{host}/x/missing.ts'; Deno.serve(() => new Response('never'))");
    let project = Project::new(&[
        ("url", &url),
        ("jsr", "import { word } from 'jsr:@own/words@1'; Deno.serve(() => new Response(word))"),
        ("missing", &missing),
    ]);
    let server = project.server().variable("JSR_URL", &format!("{host}/")).expect_log("missing.ts");
    let server = server.start().await;
    assert_eq!(answer(&server, "url").await, "host");
    assert_eq!(answer(&server, "jsr").await, "registry");
    let failed = call(&server, "missing").send().await.expect(503);
    assert_eq!(failed.header("sb-error-code"), "BOOT_ERROR");
    server.wait_for_log(&format!("{host}/x/missing.ts")).await;
    // A new worker finds the modules in the cache.
    stub.reply(|_| Reply::Close);
    let source = format!("{url}\n");
    project.write("functions/url/index.ts", &source.replace("(word)", "(word + ' again')"));
    let started = Instant::now();
    while answer(&server, "url").await != "host again" {
        assert!(started.elapsed() < Duration::from_secs(30), "the saved file had no effect");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Detaches a file system, even while a server uses it.
struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _status = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// Needs root and the right to mount, which containers may lack.
#[tokio::test]
async fn full_disk_fails_only_the_function_whose_modules_do_not_fit() {
    let disk = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=16M,mode=755", "tmpfs"]).arg(disk.path());
    if !mount.output().is_ok_and(|output| output.status.success()) {
        println!("cannot mount a small file system here");
        return;
    }
    let _unmount = Unmount(disk.path());
    let stub = module_host().await;
    let large = format!(
        "import {{ large }} from '{}/x/large.ts'; Deno.serve(() => new Response(String(large.length)))",
        stub.url()
    );
    let project = Project::new(&[("large", &large), ("calm", "Deno.serve(() => new Response('calm'))")]);
    let server = project.server().state_dir(disk.path().join("state"));
    let server = server.expect_log("large").expect_log("No space left").start().await;
    let failed = call(&server, "large").send().await.expect(503);
    assert_eq!(failed.header("sb-error-code"), "BOOT_ERROR");
    server.wait_for_log("No space left").await;
    let filler = disk.path().join("filler");
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    drop(file);
    // Without a cache, the code is compiled again.
    assert_eq!(answer(&server, "calm").await, "calm");
    server.get("/ready").send().await.expect(200);
    fs::remove_file(&filler).unwrap();
    let remount = format!("remount,size={}M", 64);
    let status = Command::new("mount").args(["-o", &remount]).arg(disk.path()).status();
    assert!(status.is_ok_and(|status| status.success()));
    project.write("functions/large/index.ts", &format!("{large}\n"));
    let request = call(&server, "large");
    let grown = server.until(Duration::from_secs(30), &request, |response| response.status == 200).await;
    assert_eq!(grown.text(), (16 << 20).to_string());
}
