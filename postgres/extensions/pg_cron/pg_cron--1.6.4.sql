-- pg_cron's tables and functions. The server runs the jobs (extensions/src/cron.rs).

do $$
begin
  if to_regnamespace('cron') is null then
    create schema cron;
  end if;
end $$;

create sequence cron.jobid_seq;
create sequence cron.runid_seq;

create table cron.job (
  jobid bigint primary key default nextval('cron.jobid_seq'),
  schedule text not null,
  command text not null check (octet_length(command) <= 1048576),
  nodename text not null default 'localhost',
  nodeport integer not null default current_setting('port')::integer,
  database text not null default current_database(),
  username text not null default current_user,
  active boolean not null default true,
  jobname text,
  constraint jobname_username_uniq unique (jobname, username)
);

create table cron.job_run_details (
  jobid bigint,
  runid bigint primary key default nextval('cron.runid_seq'),
  job_pid integer,
  database text,
  username text,
  command text,
  status text,
  return_message text,
  start_time timestamptz,
  end_time timestamptz
);
create index job_run_details_start_time on cron.job_run_details (start_time);

alter sequence cron.jobid_seq owned by cron.job.jobid;
alter sequence cron.runid_seq owned by cron.job_run_details.runid;

-- The project's data, so dumps include it.
select pg_catalog.pg_extension_config_dump('cron.job', '');
select pg_catalog.pg_extension_config_dump('cron.jobid_seq', '');

alter table cron.job enable row level security;
create policy cron_job_policy on cron.job using (username = current_user);
alter table cron.job_run_details enable row level security;
create policy cron_job_run_details_policy on cron.job_run_details using (username = current_user);

-- Raises unless the schedule is five cron fields, `N seconds` with N below 60, or a nickname such as `@daily`.
create function cron.basalt_check_schedule(schedule text) returns void
language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  fields text[];
  lowest constant integer[] := array[0, 0, 1, 1, 0];
  highest constant integer[] := array[59, 23, 31, 12, 7];
  names constant text[] := array['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
  days constant text[] := array['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
  field text;
  item text;
  parts text[];
begin
  if octet_length(schedule) > 1000 then
    raise exception 'invalid schedule: longer than 1000 bytes' using errcode = '22023';
  end if;
  if schedule ~* '^\s*[1-5]?[0-9]\s+seconds?\s*$' and schedule !~ '^\s*0+\s' then
    return;
  end if;
  if lower(btrim(schedule)) in ('@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly') then
    return;
  end if;
  fields := regexp_split_to_array(btrim(lower(schedule)), '\s+');
  if cardinality(fields) is distinct from 5 then
    raise exception 'invalid schedule: %', schedule using
      errcode = '22023', hint = 'Use cron format (e.g. 5 4 * * *), or interval format ''[1-59] seconds''';
  end if;
  for place in 1..5 loop
    field := fields[place];
    if place = 4 then
      for number in 1..12 loop field := replace(field, names[number], number::text); end loop;
    elsif place = 5 then
      for number in 1..7 loop field := replace(field, days[number], (number - 1)::text); end loop;
    end if;
    foreach item in array string_to_array(field, ',') loop
      -- The last day of the month.
      continue when place = 3 and item = '$';
      parts := regexp_match(item, '^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?$');
      if parts is null
        or parts[1]::integer not between lowest[place] and highest[place]
        or parts[2]::integer not between parts[1]::integer and highest[place]
        or parts[3]::integer = 0
      then
        raise exception 'invalid schedule: %', schedule using
          errcode = '22023', detail = format('Field %s: "%s" is not valid.', place, item);
      end if;
    end loop;
  end loop;
end $$;

-- Runs as the role that writes the row: row-level security does not hold for `postgres`, which bypasses it.
create function cron.basalt_check_job() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform cron.basalt_check_schedule(new.schedule);
  -- A superuser's jobs run as the project's owner.
  if new.username is distinct from 'postgres'
    and (select rolsuper from pg_catalog.pg_roles where rolname = new.username)
  then
    new.username := 'postgres';
  end if;
  if new.username is distinct from current_user::text
    and not (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
  then
    raise exception 'must be superuser to create a job for another role' using errcode = '42501';
  end if;
  if new.username is distinct from 'postgres' then
    raise exception 'role % cannot own a cron job on this server', new.username using
      errcode = '42501', hint = 'Schedule the job as role postgres, for example in a security definer function owned by it.';
  end if;
  if new.database is distinct from current_database() then
    raise exception 'cron jobs on this server run in database %', current_database() using errcode = '0A000';
  end if;
  if tg_op = 'INSERT' and (select count(*) from cron.job) >= 1000 then
    raise exception 'there are 1000 cron jobs already' using errcode = '53400', hint = 'Remove jobs with cron.unschedule().';
  end if;
  return new;
end $$;
create trigger basalt_check_job before insert or update on cron.job
  for each row execute function cron.basalt_check_job();

create function cron.basalt_notify() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  notify basalt_cron;
  return null;
end $$;
create trigger basalt_notify after insert or update or delete or truncate on cron.job
  for each statement execute function cron.basalt_notify();

-- Also under `session_replication_role = replica`, which `postgres` may set.
alter table cron.job enable always trigger basalt_check_job;
alter table cron.job enable always trigger basalt_notify;

create function cron.schedule(job_name text, schedule text, command text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  id bigint;
begin
  if job_name is null then
    raise exception 'job_name can not be NULL' using errcode = '22004';
  end if;
  insert into cron.job (jobname, schedule, command, username)
  values (job_name, schedule, command, case
    when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 'postgres' else current_user::text end)
  on conflict on constraint jobname_username_uniq do update
    set schedule = excluded.schedule, command = excluded.command, database = excluded.database
  returning jobid into id;
  return id;
end $$;

create function cron.schedule(schedule text, command text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  id bigint;
begin
  insert into cron.job (schedule, command) values (schedule, command) returning jobid into id;
  return id;
end $$;

create function cron.schedule_in_database(
  job_name text, schedule text, command text, database text, username text default null, active boolean default true
) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  id bigint;
begin
  insert into cron.job (jobname, schedule, command, database, username, active)
  values (job_name, schedule, command, database, coalesce(username, case
    when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 'postgres' else current_user::text end), active)
  on conflict on constraint jobname_username_uniq do update
    set schedule = excluded.schedule, command = excluded.command, database = excluded.database, active = excluded.active
  returning jobid into id;
  return id;
end $$;

create function cron.alter_job(
  job_id bigint, schedule text default null, command text default null, database text default null,
  username text default null, active boolean default null
) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
  update cron.job j
  set schedule = coalesce(alter_job.schedule, j.schedule), command = coalesce(alter_job.command, j.command),
    database = coalesce(alter_job.database, j.database), username = coalesce(alter_job.username, j.username),
    active = coalesce(alter_job.active, j.active)
  where j.jobid = job_id;
  if not found then
    raise exception 'Job % does not exist or you don''t own it', job_id using errcode = '42704';
  end if;
end $$;

create function cron.unschedule(job_id bigint) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  delete from cron.job where jobid = job_id;
  if not found then
    raise exception 'could not find valid entry for job %', job_id using errcode = '42704';
  end if;
  return true;
end $$;

create function cron.unschedule(job_name text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  delete from cron.job where jobname = job_name and username = case
    when (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then 'postgres' else current_user::text end;
  if not found then
    raise exception 'could not find valid entry for job ''%''', job_name using errcode = '42704';
  end if;
  return true;
end $$;

revoke all on all functions in schema cron from public;
grant usage on schema cron to postgres with grant option;
grant select, insert, update, delete on cron.job to postgres;
grant select, delete, truncate on cron.job_run_details to postgres with grant option;
grant usage on sequence cron.jobid_seq to postgres;
grant execute on all functions in schema cron to postgres with grant option;
