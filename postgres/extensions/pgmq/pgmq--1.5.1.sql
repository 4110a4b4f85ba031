-- pgmq's queues: `pgmq.q_NAME` holds messages, `pgmq.a_NAME` archived ones. A message that was read is hidden until `vt`.

do $$
begin
  if to_regnamespace('pgmq') is null then
    create schema pgmq;
  end if;
end $$;

create table pgmq.meta (
  queue_name varchar not null unique,
  is_partitioned boolean not null,
  is_unlogged boolean not null,
  created_at timestamptz not null default now()
);
alter table pgmq.meta enable row level security;
select pg_catalog.pg_extension_config_dump('pgmq.meta', '');

create type pgmq.message_record as (
  msg_id bigint, read_ct integer, enqueued_at timestamptz, vt timestamptz, message jsonb, headers jsonb
);
create type pgmq.queue_record as (
  queue_name varchar, is_partitioned boolean, is_unlogged boolean, created_at timestamptz
);
create type pgmq.metrics_result as (
  queue_name text, queue_length bigint, newest_msg_age_sec integer, oldest_msg_age_sec integer, total_messages bigint,
  scrape_time timestamptz, queue_visible_length bigint
);

-- The name of a queue's table, in lower case as upstream stores it.
create function pgmq.format_table_name(queue_name text, prefix text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
begin
  if queue_name !~ '^[A-Za-z0-9_-]+$' or length(queue_name) > 47 then
    raise exception 'queue name "%" is not valid: use at most 47 letters, digits, _ and -', queue_name using errcode = '22023';
  end if;
  return lower(prefix || '_' || queue_name);
end $$;

create function pgmq.basalt_create(queue_name text, persistence text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  queue text := pgmq.format_table_name(queue_name, 'q');
  archive text := pgmq.format_table_name(queue_name, 'a');
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('pgmq.' || queue, 0));
  execute format('create %s table if not exists pgmq.%I (
    msg_id bigint primary key generated always as identity,
    read_ct integer not null default 0,
    enqueued_at timestamptz not null default now(),
    vt timestamptz not null,
    message jsonb,
    headers jsonb)', persistence, queue);
  execute format('create table if not exists pgmq.%I (
    msg_id bigint primary key,
    read_ct integer not null default 0,
    enqueued_at timestamptz not null default now(),
    archived_at timestamptz not null default now(),
    vt timestamptz not null,
    message jsonb,
    headers jsonb)', archive);
  execute format('create index if not exists %I on pgmq.%I (vt)', queue || '_vt_idx', queue);
  execute format('create index if not exists %I on pgmq.%I (archived_at)', 'archived_at_idx_' || queue_name, archive);
  execute format('alter table pgmq.%I enable row level security', queue);
  execute format('alter table pgmq.%I enable row level security', archive);
  insert into pgmq.meta (queue_name, is_partitioned, is_unlogged)
  values (queue_name, false, persistence = 'unlogged') on conflict do nothing;
end $$;

create function pgmq.create(queue_name text) returns void
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.basalt_create(queue_name, '') $$;
create function pgmq.create_non_partitioned(queue_name text) returns void
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.basalt_create(queue_name, '') $$;
create function pgmq.create_unlogged(queue_name text) returns void
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.basalt_create(queue_name, 'unlogged') $$;

create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay timestamptz) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('insert into pgmq.%I (vt, message, headers)
    select $1, m, h from unnest($2, $3) with ordinality as sent (m, h, place) order by place returning msg_id',
    pgmq.format_table_name(queue_name, 'q')) using delay, msgs, headers;
end $$;
create function pgmq.send_batch(queue_name text, msgs jsonb[], delay integer default 0) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$
  select pgmq.send_batch(queue_name, msgs, null::jsonb[], clock_timestamp() + make_interval(secs => delay))
$$;
create function pgmq.send_batch(queue_name text, msgs jsonb[], delay timestamptz) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.send_batch(queue_name, msgs, null::jsonb[], delay) $$;
create function pgmq.send_batch(queue_name text, msgs jsonb[], headers jsonb[], delay integer default 0) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$
  select pgmq.send_batch(queue_name, msgs, headers, clock_timestamp() + make_interval(secs => delay))
$$;

create function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay timestamptz) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.send_batch(queue_name, array[msg], array[headers], delay) $$;
create function pgmq.send(queue_name text, msg jsonb, delay integer default 0) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$
  select pgmq.send(queue_name, msg, null::jsonb, clock_timestamp() + make_interval(secs => delay))
$$;
create function pgmq.send(queue_name text, msg jsonb, delay timestamptz) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$ select pgmq.send(queue_name, msg, null::jsonb, delay) $$;
create function pgmq.send(queue_name text, msg jsonb, headers jsonb, delay integer default 0) returns setof bigint
language sql set search_path = pg_catalog, pg_temp as $$
  select pgmq.send(queue_name, msg, headers, clock_timestamp() + make_interval(secs => delay))
$$;

create function pgmq.read(queue_name text, vt integer, qty integer, conditional jsonb default '{}')
returns setof pgmq.message_record
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('
    with due as (
      select msg_id from pgmq.%1$I
      where vt <= clock_timestamp() and ($3 = ''{}'' or message @> $3)
      order by msg_id limit $1 for update skip locked)
    update pgmq.%1$I m
    set vt = clock_timestamp() + make_interval(secs => $2), read_ct = read_ct + 1
    from due where m.msg_id = due.msg_id
    returning m.msg_id, m.read_ct, m.enqueued_at, m.vt, m.message, m.headers',
    pgmq.format_table_name(queue_name, 'q')) using qty, vt, conditional;
end $$;

create function pgmq.read_with_poll(
  queue_name text, vt integer, qty integer, max_poll_seconds integer default 5, poll_interval_ms integer default 100,
  conditional jsonb default '{}'
) returns setof pgmq.message_record
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  deadline timestamptz := clock_timestamp() + make_interval(secs => least(max_poll_seconds, 60));
begin
  loop
    return query select * from pgmq.read(queue_name, vt, qty, conditional);
    exit when found or clock_timestamp() >= deadline;
    perform pg_catalog.pg_sleep(greatest(poll_interval_ms, 10) / 1000.0);
  end loop;
end $$;

create function pgmq.pop(queue_name text) returns setof pgmq.message_record
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('
    delete from pgmq.%1$I where msg_id = (
      select msg_id from pgmq.%1$I where vt <= clock_timestamp() order by msg_id limit 1 for update skip locked)
    returning msg_id, read_ct, enqueued_at, vt, message, headers', pgmq.format_table_name(queue_name, 'q'));
end $$;

create function pgmq.delete(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('delete from pgmq.%I where msg_id = any($1) returning msg_id',
    pgmq.format_table_name(queue_name, 'q')) using msg_ids;
end $$;
create function pgmq.delete(queue_name text, msg_id bigint) returns boolean
language sql set search_path = pg_catalog, pg_temp as $$ select exists (select from pgmq.delete(queue_name, array[msg_id])) $$;

create function pgmq.archive(queue_name text, msg_ids bigint[]) returns setof bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('
    with taken as (delete from pgmq.%I where msg_id = any($1) returning msg_id, read_ct, enqueued_at, vt, message, headers)
    insert into pgmq.%I (msg_id, read_ct, enqueued_at, vt, message, headers) select * from taken returning msg_id',
    pgmq.format_table_name(queue_name, 'q'), pgmq.format_table_name(queue_name, 'a')) using msg_ids;
end $$;
create function pgmq.archive(queue_name text, msg_id bigint) returns boolean
language sql set search_path = pg_catalog, pg_temp as $$ select exists (select from pgmq.archive(queue_name, array[msg_id])) $$;

create function pgmq.set_vt(queue_name text, msg_id bigint, vt integer) returns setof pgmq.message_record
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  return query execute format('update pgmq.%I set vt = clock_timestamp() + make_interval(secs => $1) where msg_id = $2
    returning msg_id, read_ct, enqueued_at, vt, message, headers', pgmq.format_table_name(queue_name, 'q')) using vt, msg_id;
end $$;

create function pgmq.purge_queue(queue_name text) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  deleted bigint;
begin
  execute format('delete from pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
  get diagnostics deleted = row_count;
  return deleted;
end $$;

create function pgmq.drop_queue(queue_name text) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
begin
  execute format('drop table if exists pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
  execute format('drop table if exists pgmq.%I', pgmq.format_table_name(queue_name, 'a'));
  delete from pgmq.meta m where m.queue_name = queue_name;
  return found;
end $$;

create function pgmq.list_queues() returns setof pgmq.queue_record
language sql stable set search_path = pg_catalog, pg_temp as $$
  select queue_name, is_partitioned, is_unlogged, created_at from pgmq.meta order by created_at, queue_name
$$;

create function pgmq.metrics(queue_name text) returns pgmq.metrics_result
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  result pgmq.metrics_result;
begin
  execute format('select $1, count(*), extract(epoch from clock_timestamp() - max(enqueued_at))::integer,
    extract(epoch from clock_timestamp() - min(enqueued_at))::integer,
    coalesce(pg_catalog.pg_sequence_last_value(pg_catalog.pg_get_serial_sequence($2, ''msg_id'')::regclass), 0),
    clock_timestamp(), count(*) filter (where vt <= clock_timestamp()) from pgmq.%I', pgmq.format_table_name(queue_name, 'q'))
    into result using queue_name, format('pgmq.%I', pgmq.format_table_name(queue_name, 'q'));
  return result;
end $$;
create function pgmq.metrics_all() returns setof pgmq.metrics_result
language sql set search_path = pg_catalog, pg_temp as $$ select (pgmq.metrics(queue_name)).* from pgmq.meta $$;

-- The project's owner makes queues and owns their tables. Others get rights from it.
grant all on schema pgmq to postgres with grant option;
grant all on pgmq.meta to postgres with grant option;
revoke all on all functions in schema pgmq from public;
grant execute on all functions in schema pgmq to postgres with grant option;
