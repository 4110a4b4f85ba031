//! What a function's fault does: to its own callers, and to nothing else. One function misbehaves, `calm` is called all the while.

use std::path::PathBuf;
use std::time::Duration;

use basalt_testkit::{Basalt, Builder, Request, Response};
use tokio::time::{Instant, sleep};

use super::typescript::Project;

const CALM: (&str, &str) = ("calm", "Deno.serve(() => new Response('calm'))");

/// Status and code of a call.
fn outcome(response: &Response) -> (u16, &str) {
    (response.status.as_u16(), response.header("sb-error-code"))
}

fn post(server: &Basalt, path: &str) -> Request {
    server.post(&format!("/functions/v1/{path}"))
}

/// Short limits, so that the tests are.
fn limited(project: &Project) -> Builder {
    project
        .server()
        .config("functions.cpu_limit", "1s")
        .config("functions.memory_mb", "64")
        .config("functions.idle_timeout", "10s")
        .expect_log("the worker")
        .expect_log("failed to start")
        .expect_log("request timed out in functions")
        .expect_log("error: ")
        .expect_log("a worker does not respond")
        .expect_log("Fatal")
        .expect_log("dropped")
}

/// The workers of this server that still run.
fn workers_of(server: &Basalt) -> usize {
    let state = server.state_dir().to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter(|process| {
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command);
            command.contains("--preload") && command.contains(&state)
        })
        .count()
}

/// One row of the table: the fault, and what its caller gets.
struct Fault {
    name: &'static str,
    code: &'static str,
    expected: (u16, &'static str),
}

const FAULTS: [Fault; 12] = [
    Fault { name: "loop", code: "Deno.serve(() => { for (;;); })", expected: (546, "WORKER_LIMIT") },
    Fault {
        name: "buffers",
        code: "const kept: Uint8Array[] = []; Deno.serve(() => { for (;;) kept.push(new Uint8Array(16 << 20).fill(1)); })",
        expected: (546, "WORKER_LIMIT"),
    },
    Fault {
        name: "heap",
        code: "const kept: unknown[] = []; Deno.serve(() => { for (let i = 0; ; i++) kept.push({ i, text: 'x' + i }); })",
        expected: (546, "WORKER_LIMIT"),
    },
    Fault {
        name: "rejection",
        code: "Deno.serve(() => { Promise.reject(new Error('nobody awaits')); return new Promise(() => {}); })",
        expected: (500, "WORKER_ERROR"),
    },
    Fault { name: "throws", code: "throw new Error('at the top'); Deno.serve(() => new Response())", expected: (503, "BOOT_ERROR") },
    Fault { name: "syntax", code: "Deno.serve(() => new Response()", expected: (503, "BOOT_ERROR") },
    Fault { name: "missing", code: "import './nothing.ts'; Deno.serve(() => new Response())", expected: (503, "BOOT_ERROR") },
    Fault { name: "mute", code: "Deno.serve(() => new Promise(() => {}))", expected: (504, "IDLE_TIMEOUT") },
    Fault { name: "handler", code: "Deno.serve(() => { throw new Error('mine') })", expected: (500, "EDGE_FUNCTION_ERROR") },
    Fault { name: "nothing", code: "Deno.serve((() => undefined) as any)", expected: (502, "EDGE_FUNCTION_ERROR") },
    Fault {
        name: "gigabyte",
        code: "Deno.serve(() => { for (let i = 0; i < 1_000_000; i++) console.log('x'.repeat(1000)); return new Response('done'); })",
        expected: (200, ""),
    },
    Fault {
        name: "sockets",
        code: "Deno.serve(async () => { const all = Array.from({ length: 2000 }, () => Deno.connect({ port: 1 }).catch(() => 0));
               await Promise.all(all); return new Response('done'); })",
        expected: (200, ""),
    },
];

#[tokio::test]
async fn fault_has_its_response_and_harms_no_other_function() {
    let mut functions: Vec<(&str, &str)> = FAULTS.iter().map(|fault| (fault.name, fault.code)).collect();
    functions.push(CALM);
    let project = Project::new(&functions);
    let server = limited(&project)
        .expect_log("mine")
        .expect_log("instead of a Response")
        .expect_log("nobody awaits")
        .expect_log("Array buffer allocation failed")
        .start()
        .await;
    assert_eq!(post(&server, "calm").send().await.expect(200).text(), "calm");
    for Fault { name, expected, .. } in &FAULTS {
        let fault = post(&server, name).send();
        let others = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..10 {
                let started = Instant::now();
                assert_eq!(post(&server, "calm").send().await.expect(200).text(), "calm", "beside {name}");
                slowest = slowest.max(started.elapsed());
                sleep(Duration::from_millis(20)).await;
            }
            slowest
        };
        let (response, slowest) = tokio::join!(fault, others);
        assert_eq!(outcome(&response), *expected, "{name}: {}", response.text());
        assert!(!response.text().contains("index.ts"), "{name} shows its stack: {}", response.text());
        // Two busy cores; a blocked function would take seconds.
        assert!(slowest < Duration::from_millis(900), "{name}: another function took {slowest:?}");
    }
    // A second call of each gets a new worker, or the same answer.
    for name in ["loop", "rejection", "syntax"] {
        let expected = FAULTS.iter().find(|fault| fault.name == name).map(|fault| fault.expected);
        assert_eq!(Some(outcome(&post(&server, name).send().await)), expected, "{name}");
    }
}

#[tokio::test]
async fn failing_starts_are_not_repeated_for_a_while() {
    let project = Project::new(&[("throws", "throw new Error('at the top')")]);
    let server = limited(&project).start().await;
    for _ in 0..3 {
        post(&server, "throws").send().await.expect(503);
    }
    let started = Instant::now();
    for _ in 0..20 {
        post(&server, "throws").send().await.expect(503);
    }
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    // A saved correction takes effect at once.
    project.write("functions/throws/index.ts", "Deno.serve(() => new Response('fixed'))");
    server.until(Duration::from_secs(3), &post(&server, "throws"), |response| response.status == 200).await;
}

#[tokio::test]
async fn worker_killed_in_a_stream_cuts_only_that_stream() {
    let streams = "Deno.serve(() => new Response(new ReadableStream({
        async pull(out) { out.enqueue(new TextEncoder().encode(`${Deno.pid}\\n`)); await new Promise((done) => setTimeout(done, 50)); },
    })))";
    let project = Project::new(&[("streams", streams), CALM]);
    let server = limited(&project).start().await;
    let mut stream = post(&server, "streams").open().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();
    let pid: i32 = String::from_utf8_lossy(&first).trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let cut = loop {
        match stream.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_cut) => break true,
        }
    };
    assert!(cut, "the stream must not end as if it were complete");
    assert_eq!(post(&server, "calm").send().await.expect(200).text(), "calm");
    let mut again = post(&server, "streams").open().await.unwrap();
    assert!(again.chunk().await.unwrap().is_some());
}

#[tokio::test]
async fn many_functions_share_few_workers() {
    let names: Vec<String> = (0..12).map(|number| format!("f{number}")).collect();
    let functions: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "Deno.serve(() => new Response('hi'))")).collect();
    let project = Project::new(&functions);
    let server = project
        .server()
        .config("functions.max_workers", "3")
        .config("functions.queue_timeout", "60s")
        .start()
        .await;
    let calls = names.iter().map(|name| post(&server, name).send());
    for response in futures_util::future::join_all(calls).await {
        response.expect(200);
    }
    assert!(workers_of(&server) <= 3, "{}", workers_of(&server));
}

#[tokio::test]
async fn busy_workers_end_the_wait_with_503() {
    let slow = "Deno.serve(async () => { await new Promise((done) => setTimeout(done, 3000)); return new Response('slow'); })";
    let project = Project::new(&[("slow", slow), CALM]);
    let server = project
        .server()
        .config("functions.max_workers", "1")
        .config("functions.queue_timeout", "500ms")
        .start()
        .await;
    let slow = post(&server, "slow").send();
    let other = async {
        sleep(Duration::from_millis(1500)).await;
        post(&server, "calm").send().await
    };
    let (slow, other) = tokio::join!(slow, other);
    slow.expect(200);
    assert_eq!((outcome(&other), other.header("retry-after")), ((503, "WORKER_POOL_EXHAUSTED"), "1"));
}

#[tokio::test]
async fn old_worker_is_replaced_and_its_requests_finish() {
    let code = "Deno.serve(async (request) => {
        const wait = Number(new URL(request.url).searchParams.get('wait'));
        await new Promise((done) => setTimeout(done, wait));
        return new Response(Deno.env.get('SB_EXECUTION_ID'));
    })";
    let project = Project::new(&[("old", code)]);
    let server = limited(&project)
        .config("functions.wall_clock", "10s")
        .config("functions.idle_timeout", "30s")
        .start()
        .await;
    let long = post(&server, "old?wait=7000").send();
    let later = async {
        let first = post(&server, "old?wait=0").send().await.expect(200).text();
        sleep(Duration::from_millis(5500)).await;
        (first, post(&server, "old?wait=0").send().await.expect(200).text())
    };
    let (long, (first, second)) = tokio::join!(long, later);
    assert_eq!(long.expect(200).text(), first);
    assert_ne!(first, second, "half of its time is over, so another worker has the request");
    // Over the limit: ended by force.
    let response = post(&server, "old?wait=20000").send().await;
    assert_eq!(outcome(&response), (546, "WORKER_LIMIT"));
}

#[tokio::test]
async fn background_tasks_finish_before_the_server_stops() {
    let code = "Deno.serve(() => {
        const work = async () => {
            await new Promise((done) => setTimeout(done, 4000));
            await Deno.writeTextFile(Deno.env.get('DONE')!, 'done');
        };
        EdgeRuntime.waitUntil(work());
        return new Response('at once');
    })";
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let done: PathBuf = dir.path().join("done");
    let project = Project::new(&[("background", code)]);
    project.write(
        "basalt.toml",
        &format!(
            "[functions.background]\nverify_jwt = false\nenv = {{ DONE = {:?} }}\n",
            done.display().to_string()
        ),
    );
    let mut server = project.server().start().await;
    let started = Instant::now();
    post(&server, "background").send().await.expect(200);
    assert!(started.elapsed() < Duration::from_millis(3900), "the response waited for the task");
    server.stop().await;
    assert_eq!(std::fs::read_to_string(&done).unwrap(), "done");
}
