//! What makes servers fall, one thing after the other.

use std::time::{Duration, Instant};

use basalt_testkit::Basalt;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::tally::Tally;
use crate::load::is_refusal;

const SOON: Duration = Duration::from_secs(60);
/// Between two faults.
const PAUSE: Duration = Duration::from_millis(250);

/// Changes of the schema. Each is one transaction and may be repeated.
const CHANGES: [(&str, &str); 8] = [
    ("DDL: column added", "alter table public.entries add column if not exists extra text default 'x'"),
    (
        "DDL: function created",
        "create or replace function public.answer() returns int language sql stable as 'select 42';
         grant execute on function public.answer() to service_role",
    ),
    (
        "DDL: function made anew",
        "drop function if exists public.steady(int);
         create function public.steady(n int) returns int language sql stable set search_path = '' as 'select n * 2';
         grant execute on function public.steady(int) to service_role",
    ),
    (
        "DDL: view made anew",
        "drop view if exists public.current_pets;
         create view public.current_pets with (security_invoker) as select id, name from public.pets;
         grant select on public.current_pets to service_role",
    ),
    ("DDL: column dropped", "alter table public.entries drop column if exists extra"),
    (
        "DDL: foreign key made anew",
        "alter table public.pets drop constraint if exists pets_owner;
         alter table public.pets add constraint pets_owner foreign key (owner_id) references public.owners",
    ),
    ("DDL: function dropped", "drop function if exists public.answer()"),
    ("DDL: type changed to and fro", "alter table public.pets alter column note type varchar(80)"),
];
const BACK_TO_TEXT: &str = "alter table public.pets alter column note type text";

/// Until the time is over; meanwhile the server's memory is sampled.
pub(super) async fn harass(server: &Basalt, tally: &Tally, time: Duration) {
    let end = Instant::now() + time;
    let mut round = 0;
    while Instant::now() < end {
        for (number, (what, statements)) in CHANGES.into_iter().enumerate() {
            administer(server, tally, what, statements).await;
            // The same tables, functions and views under other numbers, in between and often.
            if number % 2 == 0 {
                let (what, statements) = CHANGES[2];
                administer(server, tally, what, statements).await;
            }
            sample(server, tally).await;
        }
        administer(server, tally, "DDL: type changed to and fro", BACK_TO_TEXT).await;
        // What pg_terminate_backend() does.
        for (pid, _) in backends(server) {
            if kill_process(pid, Signal::TERM).is_ok() {
                tally.harm("backends terminated");
            }
        }
        sample(server, tally).await;
        // Not always: while PostgreSQL recovers nothing else can be tried.
        match round % 6 {
            1 => restart(server, tally, "PostgreSQL killed (kill -9)", Signal::KILL).await,
            3 => restart(server, tally, "PostgreSQL stopped (fast shutdown)", Signal::INT).await,
            5 => {
                // PostgreSQL ends all the others, and recovers.
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

/// Ends PostgreSQL and waits until another one serves.
async fn restart(server: &Basalt, tally: &Tally, what: &'static str, signal: Signal) {
    let Some(before) = server.postgres_pid() else { return };
    if kill_process(before, signal).is_err() {
        return;
    }
    tally.harm(what);
    let deadline = Instant::now() + SOON;
    while server.postgres_pid().is_none_or(|pid| pid == before) {
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: it does not come back"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let ready = server.get("/ready");
    while !ready.clone().try_send().await.is_ok_and(|answer| answer.status == 200) {
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: the server does not become ready"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Changes the schema, as often as it takes.
async fn administer(server: &Basalt, tally: &Tally, what: &'static str, statements: &str) {
    let call = server.post("/rest/v1/rpc/administer").apikey(server.service_key());
    let call = call.json(&json!({ "statements": statements }));
    let deadline = Instant::now() + SOON;
    loop {
        match call.clone().try_send().await {
            Ok(answer) if answer.status == 204 => return tally.harm(what),
            // A session that changes tables which others use waits for them in its own order.
            Ok(answer) if answer.status == 500 && answer.json()["code"] == "40P01" => {}
            Ok(answer) if is_refusal(&answer) => {}
            other => return tally.complain(format!("{what}: {other:?}")),
        }
        if Instant::now() > deadline {
            return tally.complain(format!("{what}: always refused"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The backends of request work, with what PostgreSQL says they do.
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
