//! `cron`: jobs that run every second. Each due time must have one run; its delay is from that time to the first statement.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::basalt::{self, Basalt};
use crate::options::UnderTest;
use crate::report::{self, rounded};

/// How long the last runs may take to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The function runs as the superuser, because a job cannot read when it was due. The primary key refuses a second run.
const SETUP: &str = "
create extension if not exists pg_cron;
create table public.bench_runs (job int, due_at timestamptz, at timestamptz default clock_timestamp(), primary key (job, due_at));
create function public.bench_run(job int) returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into public.bench_runs (job, due_at)
  select $1, s.due_at from basalt.cron_schedule s join cron.job j using (jobid) where j.jobname = 'bench ' || $1
$$;
grant execute on function public.bench_run(int) to postgres";

/// Each job's due times are a second apart.
const RUNS: &str = "
with job as (
  select job, count(*) as runs, round(extract(epoch from max(due_at) - min(due_at)))::bigint + 1 as due from public.bench_runs group by job)
select (select count(*) from job), (select coalesce(sum(runs), 0)::bigint from job), (select coalesce(sum(due), 0)::bigint from job),
  (select count(*) from cron.job_run_details where status <> 'succeeded'), (select count(*) from cron.job_run_details)";

/// Milliseconds: median, 95th percentile, largest.
const DELAYS: &str = "
select percentile_cont(array[0.5, 0.95, 1]) within group (order by extract(epoch from at - due_at) * 1000)::float8[] from public.bench_runs";

/// Jobs that run every second, each due time once.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Jobs, one measurement each.
    #[arg(long, value_delimiter = ',', default_value = "1,20", value_parser = clap::value_parser!(i32).range(1..=1000))]
    jobs: Vec<i32>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// The output file.
    #[arg(long, default_value = "target/bench/cron.json")]
    json: PathBuf,
    #[command(flatten)]
    under_test: UnderTest,
}

/// Measures and reports.
pub(crate) async fn run(options: &Options) -> Result<()> {
    let program = &options.under_test.server;
    let work = basalt::work_folder(program)?;
    let circumstances = report::circumstances();
    let mut basalt = Basalt::start(program, work).await?;
    basalt.database().await?.batch_execute(SETUP).await.context("cannot prepare the jobs")?;
    let mut rows = Vec::new();
    report::print("  jobs   runs/s  missed   p50 ms   p95 ms   max ms");
    for &jobs in &options.jobs {
        let mut rounds = Vec::new();
        for _ in 0..options.under_test.rounds {
            rounds.push(measure(&basalt, jobs, Duration::from_secs(options.seconds)).await?);
            basalt.running.check()?;
        }
        let row = report::medians(&rounds);
        let figure = |name: &str| row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN);
        report::print(&format!(
            "{jobs:>6}  {:>7.2}  {:>6.0}  {:>7.1}  {:>7.1}  {:>7.1}",
            figure("per_second"),
            figure("missed"),
            figure("p50_ms"),
            figure("p95_ms"),
            figure("slowest_ms")
        ));
        rows.push(row);
    }
    let figures = json!({
        "circumstances": circumstances, "rounds": options.under_test.rounds, "seconds": options.seconds,
        "postgresql": basalt.database_version, "cron": rows,
    });
    report::write(&options.json, &figures)
}

async fn measure(basalt: &Basalt, jobs: i32, time: Duration) -> Result<Value> {
    let database = basalt.database().await?;
    database.batch_execute("truncate public.bench_runs, cron.job_run_details").await?;
    let schedule = "select cron.schedule('bench ' || n, '1 second', format('select public.bench_run(%s)', n)) from generate_series(1, $1) n";
    database.query(schedule, &[&jobs]).await?;
    tokio::time::sleep(time).await;
    database
        .batch_execute("select cron.unschedule(jobid) from cron.job where jobname like 'bench %'")
        .await?;
    let end = Instant::now();
    let running = "select count(*) from cron.job_run_details where status in ('starting', 'running')";
    while database.query_one(running, &[]).await?.try_get::<_, i64>(0)? > 0 {
        if end.elapsed() > PATIENCE {
            bail!("runs have not ended after {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let row = database.query_one(RUNS, &[]).await?;
    let [with_runs, runs, due, failed, recorded] = [0, 1, 2, 3, 4].map(|place| row.try_get::<_, i64>(place));
    let (with_runs, runs, due, failed, recorded) = (with_runs?, runs?, due?, failed?, recorded?);
    ensure!(with_runs == i64::from(jobs), "{with_runs} of {jobs} jobs ran");
    ensure!(failed == 0 && runs == recorded, "{runs} runs, {recorded} recorded, {failed} of them failed");
    let delays: Vec<f64> = database.query_one(DELAYS, &[]).await?.try_get(0)?;
    let delay = |place: usize| rounded(delays.get(place).copied().unwrap_or(f64::NAN));
    Ok(json!({
        "jobs": jobs, "runs": runs, "missed": due - runs,
        "per_second": rounded(f64::from(i32::try_from(runs)?) / time.as_secs_f64()),
        "p50_ms": delay(0), "p95_ms": delay(1), "slowest_ms": delay(2),
    }))
}
