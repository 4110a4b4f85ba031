//! Injects faults, one after the other.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::tally::Tally;
use crate::load::is_refusal;

const SOON: Duration = Duration::from_secs(60);
/// The pause between two faults.
const PAUSE: Duration = Duration::from_millis(250);

/// Schema changes. Each is one transaction and can be repeated.
const CHANGES: [(&str, &str); 8] = [
    ("DDL: column added", "alter table public.entries add column if not exists extra text default 'x'"),
    (
        "DDL: function created",
        "create or replace function public.answer() returns int language sql stable as 'select 42';
         grant execute on function public.answer() to service_role",
    ),
    (
        "DDL: function replaced",
        "drop function if exists public.steady(int);
         create function public.steady(n int) returns int language sql stable set search_path = '' as 'select n * 2';
         grant execute on function public.steady(int) to service_role",
    ),
    (
        "DDL: view replaced",
        "drop view if exists public.current_pets;
         create view public.current_pets with (security_invoker) as select id, name from public.pets;
         grant select on public.current_pets to service_role",
    ),
    ("DDL: column dropped", "alter table public.entries drop column if exists extra"),
    (
        "DDL: foreign key recreated",
        "alter table public.pets drop constraint if exists pets_owner;
         alter table public.pets add constraint pets_owner foreign key (owner_id) references public.owners",
    ),
    ("DDL: function dropped", "drop function if exists public.answer()"),
    ("DDL: column type changed and restored", "alter table public.pets alter column note type varchar(80)"),
];
const BACK_TO_TEXT: &str = "alter table public.pets alter column note type text";

/// Injects faults for `time` and samples the server's memory.
pub(super) async fn harass(server: &Basalt, tally: &Tally, time: Duration) {
    let end = Instant::now() + time;
    let mut round = 0;
    while Instant::now() < end {
        for (number, (what, statements)) in CHANGES.into_iter().enumerate() {
            administer(server, tally, what, statements).await;
            // Frequently recreate tables, functions and views, which changes their OIDs.
            if number % 2 == 0 {
                let (what, statements) = CHANGES[2];
                administer(server, tally, what, statements).await;
            }
            sample(server, tally).await;
        }
        administer(server, tally, "DDL: column type changed and restored", BACK_TO_TEXT).await;
        // SIGTERM, as from pg_terminate_backend().
        for (pid, _) in backends(server) {
            if kill_process(pid, Signal::TERM).is_ok() {
                tally.harm("backends terminated");
            }
        }
        sample(server, tally).await;
        // Not every round: while PostgreSQL recovers, no other fault can be tested.
        match round % 6 {
            1 => restart(server, tally, "PostgreSQL killed (kill -9)", Signal::KILL).await,
            3 => restart(server, tally, "PostgreSQL stopped (fast shutdown)", Signal::INT).await,
            5 => {
                // PostgreSQL terminates all other backends and recovers.
                if let Some((pid, _)) = backends(server).first()
                    && kill_process(*pid, Signal::KILL).is_ok()
                {
                    tally.harm("backends killed (kill -9)");
                }
            }
            _ => {}
        }
        round += 1;
    }
}

async fn sample(server: &Basalt, tally: &Tally) {
    tokio::time::sleep(PAUSE).await;
    tally.sample_memory(resident_kilobytes(server));
}

/// Ends PostgreSQL and waits until a new one is ready.
async fn restart(server: &Basalt, tally: &Tally, what: &'static str, signal: Signal) {
    let Some(before) = server.postgres_pid() else { return };
    if kill_process(before, signal).is_err() {
        return;
    }
    tally.harm(what);
    let deadline = Instant::now() + SOON;
    while server.postgres_pid().is_none_or(|pid| pid == before) {
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: PostgreSQL is not restarted"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ready = server.get("/ready");
    while !ready.clone().try_send().await.is_ok_and(|response| response.status == 200) {
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: the server does not become ready"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Changes the schema, retrying until it succeeds.
async fn administer(server: &Basalt, tally: &Tally, what: &'static str, statements: &str) {
    let call = server.post("/rest/v1/rpc/administer").apikey(server.service_key());
    let call = call.json(&json!({ "statements": statements }));
    let deadline = Instant::now() + SOON;
    loop {
        match call.clone().try_send().await {
            Ok(response) if response.status == 204 => return tally.harm(what),
            // DDL on several tables in use can deadlock with other sessions.
            Ok(response) if response.status == 500 && response.json()["code"] == "40P01" => {}
            Ok(response) if is_refusal(&response) => {}
            other => return tally.complain(format!("{what}: {other:?}")),
        }
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: always refused"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The backends of the request pool, with their process titles.
pub(super) fn backends(server: &Basalt) -> Vec<(Pid, String)> {
    let Some(postmaster) = server.postgres_pid().map(|pid| pid.as_raw_nonzero()) else { return Vec::new() };
    let children = format!("/proc/{postmaster}/task/{postmaster}/children");
    let children = std::fs::read_to_string(children).unwrap_or_default();
    let titled = children.split_whitespace().filter_map(|pid| {
        let title = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
        Some((Pid::from_raw(pid.parse().ok()?)?, title.trim_end_matches('\0').to_owned()))
    });
    titled.filter(|(_, title)| title.contains("authenticator")).collect()
}

fn resident_kilobytes(server: &Basalt) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
