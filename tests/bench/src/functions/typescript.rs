//! TypeScript functions: calls through Basalt beside the same file on Deno alone, cold starts, and what workers occupy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::basalt::Basalt;
use crate::http::{self, Load, Until};
use crate::process::{self, Running};
use crate::report::{self, median, megabytes, rounded};
use crate::token;

/// Functions that are called once, each for a cold start; all of them stay idle afterwards.
const COLD: usize = 50;
const CONNECTIONS: [usize; 2] = [1, 16];
const TIME: Duration = Duration::from_secs(5);
const BODY: &str = r#"{"name":"Ada","numbers":[1,2,3]}"#;
const CODE: &str = r#"
Deno.serve({ port: Number(Deno.env.get("PORT") ?? 8000) }, async (request) => {
  const { name, numbers } = await request.json();
  return Response.json({ name, sum: numbers.reduce((sum: number, next: number) => sum + next, 0) });
});
"#;

/// Measures and prints; returns the figures.
pub(super) async fn measure(server: &Path, work: &Path) -> Result<Value> {
    let Some(deno) = deno() else {
        report::print("\nDeno is missing (run `npm ci`): TypeScript functions were left out");
        return Ok(Value::Null);
    };
    let functions = work.join("functions");
    for name in std::iter::once("warm".to_owned()).chain((0..COLD).map(|number| format!("cold{number}"))) {
        let folder = functions.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("index.ts"), CODE)?;
    }
    let functions = functions.canonicalize()?;
    let settings = [
        ("BASALT_FUNCTIONS_DIR", functions.display().to_string()),
        ("BASALT_FUNCTIONS_MAX_WORKERS", (COLD + 4).to_string()),
    ];
    let mut basalt = Basalt::start_app(server, work, &settings).await?;
    let alone_port = process::free_port()?;
    let mut command = Command::new(&deno);
    command.args(["run", "--no-prompt", "--no-config", "--allow-net", "--allow-env=PORT"]);
    command.arg(functions.join("warm/index.ts")).env("PORT", alone_port.to_string());
    let mut alone = Running::start("deno", &mut command, &work.join("deno.log"))?;
    let started = Instant::now();
    while http::status(alone_port, "/").await.is_none() {
        alone.check()?;
        ensure!(started.elapsed() < Duration::from_secs(30), "Deno did not start");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    report::print("\nTypeScript function                  rate/s   p50 ms   p99 ms");
    let mut calls = Vec::new();
    for connections in CONNECTIONS {
        let mut rates = Vec::new();
        for (name, port, path) in
            [("Deno alone", alone_port, "/"), ("Basalt", basalt.port, "/functions/v1/warm")]
        {
            // The first call starts the worker.
            load(port, path, connections, Until::Count(200)).await?;
            let load = load(port, path, connections, Until::Time(TIME)).await?;
            let (p50, p99) = (load.quantile_ms(0.5), load.quantile_ms(0.99));
            let label = format!("{name}, {connections} connections");
            report::print(&format!("{label:<34}  {:>7.0}  {p50:>7.2}  {p99:>7.2}", load.rate()));
            rates.push(load.rate());
            calls.push(json!({
                "server": name, "connections": connections, "per_second": rounded(load.rate()),
                "p50_ms": rounded(p50), "p99_ms": rounded(p99),
            }));
        }
        if let [alone, ours] = rates[..] {
            report::print(&format!("ratio: {:.2}", ours / alone));
        }
    }
    let mut starts = Vec::new();
    let before = process::resident_bytes(basalt.running.pid());
    for number in 0..COLD {
        let start = Instant::now();
        load(basalt.port, &format!("/functions/v1/cold{number}"), 1, Until::Count(1)).await?;
        starts.push(start.elapsed().as_secs_f64() * 1e3);
    }
    basalt.running.check()?;
    let workers = process::children(basalt.running.pid(), "--preload");
    let resident: Vec<f64> = workers.iter().map(|pid| megabytes(process::resident_bytes(*pid))).collect();
    let grown = megabytes(process::resident_bytes(basalt.running.pid()).saturating_sub(before));
    let (cold, memory) = (median(starts.iter().copied()), median(resident.iter().copied()));
    report::print(&format!("cold start: {cold:.0} ms (median of {COLD})"));
    report::print(&format!(
        "{} idle workers: {memory:.0} MB each; the server grew by {grown:.1} MB",
        resident.len()
    ));
    Ok(json!({
        "calls": calls, "cold_start_ms": rounded(cold), "workers": resident.len(), "worker_mb": rounded(memory),
        "server_grown_mb": rounded(grown),
    }))
}

async fn load(port: u16, path: &str, connections: usize, until: Until) -> Result<Load> {
    let token = token::sign(&token::claims(&token::person_id(0)));
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let requests = Rc::new(vec![request.into_bytes()]);
    http::load(port, requests, 200, connections, until).await.with_context(|| format!("POST {path}"))
}

/// The program that npm installed.
fn deno() -> Option<PathBuf> {
    let packages = fs::read_dir("node_modules/@deno").ok()?;
    packages.flatten().map(|package| package.path().join("deno")).find(|program| program.is_file())
}
