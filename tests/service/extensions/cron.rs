//! Jobs of `pg_cron`, run by the server.

use basalt_testkit::Basalt;

use super::{error, run, until, value};

#[tokio::test]
async fn job_every_second_runs_once_each_with_two_servers() {
    let server = Basalt::start().await;
    let database = server.database();
    let _second = Basalt::builder().database_url(&database.url()).start().await;
    let setup = "create extension pg_cron with schema extensions;
      create table ticks (at timestamptz default clock_timestamp(), run_by text default session_user);
      select cron.schedule('tick', '1 second', 'insert into public.ticks default values')";
    let _rows = run(database, setup).await;
    until(database, "select count(*) >= 6 from ticks", "t").await;
    let _rows = run(database, "select cron.unschedule('tick')").await;
    until(database, "select count(*) from cron.job_run_details where status in ('starting', 'running')", "0")
        .await;
    let facts = "select format('%s %s', count(*) <= extract(epoch from max(at) - min(at)) + 2, string_agg(distinct run_by, ' ')) from ticks";
    assert_eq!(value(database, facts).await, "t postgres");
    let recorded =
        "select count(*) = (select count(*) from ticks) from cron.job_run_details where status = 'succeeded'";
    assert_eq!(value(database, recorded).await, "t", "each run is recorded once");
    // It no longer runs.
    let count = value(database, "select count(*) from ticks").await;
    let _rows = run(database, "select pg_sleep(1.5)").await;
    assert_eq!(value(database, "select count(*) from ticks").await, count);
}

#[tokio::test]
async fn failing_and_changed_jobs_are_recorded() {
    let server = Basalt::start().await;
    let database = server.database();
    let setup = "create extension pg_cron;
      create table seen (who text);
      select cron.schedule('wrong', '1 second', 'select 1/0');
      select cron.schedule('right', '1 second', 'insert into public.seen select current_user; vacuum');
      select cron.schedule('right', '1 second', 'insert into public.seen select session_user')";
    let _rows = run(database, setup).await;
    assert_eq!(value(database, "select count(*) from cron.job").await, "2", "the same name replaces the job");
    until(database, "select min(who) from seen", "postgres").await;
    let failed = "select distinct format('%s %s %s', status, return_message, job_pid is not null)
      from cron.job_run_details where end_time is not null and command like '%1/0' limit 1";
    until(database, failed, "failed ERROR:  division by zero t").await;
    let succeeded = "select return_message from cron.job_run_details where status = 'succeeded' limit 1";
    assert_eq!(value(database, succeeded).await, "1 row");
    let inactive =
        "select cron.alter_job((select jobid from cron.job where jobname = 'wrong'), active := false)";
    let _rows = run(database, inactive).await;
    let planned = "select (select count(*) from basalt.cron_schedule) || ' ' || (select count(*) from cron.job where active)";
    let start = std::time::Instant::now();
    while database.value(planned).await != "1 1" {
        assert!(start.elapsed().as_secs() < 30, "an inactive job is still planned");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn looping_job_is_terminated_and_others_run() {
    let server = Basalt::builder()
        .config("extensions.cron_max_run_time", "2s")
        .config("extensions.cron_concurrency", "2")
        .start()
        .await;
    let database = server.database();
    // It catches what a cancel request would do, and outlives its own timeout.
    let setup = "create extension pg_cron;
      create table ticks ();
      select cron.schedule('loop', '1 second', $c$ set statement_timeout = 0; do $$ begin loop
        begin perform pg_sleep(0.01); exception when query_canceled then null; end; end loop; end $$ $c$);
      select cron.schedule('tick', '1 second', 'insert into public.ticks default values')";
    let _rows = run(database, setup).await;
    let ended = "select return_message from cron.job_run_details where status = 'failed' limit 1";
    until(database, ended, "ERROR:  terminated after 2 s (extensions.cron_max_run_time)").await;
    until(database, "select count(*) >= 2 from ticks", "t").await;
    let _rows = run(database, "select cron.unschedule('loop')").await;
    until(database, "select count(*) from pg_stat_activity where query like '%query_canceled%' and pid <> pg_backend_pid() and datname = current_database()", "0").await;
}

#[tokio::test]
async fn jobs_belong_to_postgres_alone() {
    let server = Basalt::start().await;
    let database = server.database();
    let _rows = run(database, "create extension pg_cron").await;
    for (statement, message) in [
        ("select cron.unschedule('none')", "could not find valid entry for job 'none'"),
        ("select cron.unschedule(7)", "could not find valid entry for job 7"),
        ("select cron.schedule('a', '61 * * * *', 'select 1')", "invalid schedule: 61 * * * *"),
        ("select cron.schedule('a', '* * * *', 'select 1')", "invalid schedule: * * * *"),
        ("select cron.schedule('a', '60 seconds', 'select 1')", "invalid schedule: 60 seconds"),
        (
            "select cron.schedule_in_database('a', '* * * * *', 'select 1', 'other')",
            "cron jobs on this server run in database",
        ),
        (
            "select cron.schedule_in_database('a', '* * * * *', 'select 1', current_database(), 'service_role')",
            "must be superuser",
        ),
        (
            "set local role service_role; select cron.schedule('a', '* * * * *', 'select 1')",
            "permission denied for schema cron",
        ),
    ] {
        let found = error(database, statement).await;
        assert!(found.contains(message), "{statement}: {found}");
    }
    // With the rights, but another role: it would run with the rights of `postgres`.
    let setup = "grant usage on schema cron to service_role;
      grant execute on all functions in schema cron to service_role";
    let _rows = run(database, setup).await;
    let found =
        error(database, "set local role service_role; select cron.schedule('a', '* * * * *', 'select 1')")
            .await;
    assert!(found.starts_with("42501"), "{found}");
    // The usual guards.
    let guarded = "select cron.schedule('b', '0 3 * * *', 'select 1');
      select cron.unschedule('b') where exists (select from cron.job where jobname = 'b');
      select cron.unschedule(jobid) from cron.job where jobname = 'b';
      do $$ begin perform cron.unschedule('b'); exception when others then null; end $$";
    let _rows = run(database, guarded).await;
    assert_eq!(value(database, "select count(*) from cron.job").await, "0");
}
