-- Messages sent from the database, and what may be said about them in policies (realtime.md 4).

create schema if not exists realtime authorization supabase_realtime_admin;

-- Users add their tables to it: `alter publication` asks for its owner.
do $$
begin
  if not exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    create publication supabase_realtime;
    execute format('alter publication supabase_realtime owner to %I', basalt.project_owner());
  end if;
end $$;

set local role supabase_realtime_admin;

grant usage on schema realtime to postgres, anon, authenticated, service_role;

create function realtime.topic() returns text
language sql stable parallel safe
return nullif(current_setting('realtime.topic', true), '');

-- Times without zone are UTC, whatever the session's time zone: partitions are UTC days.
create table realtime.messages (
  topic text not null,
  extension text not null,
  payload jsonb,
  event text,
  private boolean default false,
  updated_at timestamp not null default (now() at time zone 'utc'),
  inserted_at timestamp not null default (now() at time zone 'utc'),
  id uuid not null default gen_random_uuid(),
  binary_payload bytea,
  -- Stored by a client's `persist`, which has been broadcast already.
  skip_broadcast boolean not null default false,
  primary key (id, inserted_at),
  constraint messages_one_payload check (payload is null or binary_payload is null)
) partition by range (inserted_at);
create index messages_inserted_at_topic_index on realtime.messages (inserted_at desc, topic)
  where extension = 'broadcast' and private is true;

-- No policy: nobody joins a private channel until the project says who.
alter table realtime.messages enable row level security;
grant select, insert, update on realtime.messages to anon, authenticated, service_role;
grant all on realtime.messages to postgres;

-- One partition for each UTC day from yesterday to three days ahead; days whose newest row is older than 72 hours go.
-- A row whose day has no partition is lost, so the server calls this at its start and every hour. Definer: the
-- partitions belong to the parent's owner, whoever calls.
create function realtime.maintain_partitions() returns void
language plpgsql security definer set search_path = '' as $$
declare
  today date := (now() at time zone 'utc')::date;
  day date;
  partition text;
begin
  -- Two servers at once: the second waits, then finds everything done.
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('realtime.maintain_partitions', 0));
  for offset_days in -1..3 loop
    day := today + offset_days;
    partition := format('messages_%s', to_char(day, 'YYYY_MM_DD'));
    if to_regclass(format('realtime.%I', partition)) is null then
      execute format('create table realtime.%I partition of realtime.messages for values from (%L) to (%L)',
        partition, day, day + 1);
      -- Rows are read through the parent, whose policies hold then. Nobody may go round it.
      execute format('alter table realtime.%I enable row level security', partition);
    end if;
  end loop;
  for partition in
    select child.relname
    from pg_catalog.pg_inherits i
    join pg_catalog.pg_class child on child.oid = i.inhrelid
    where i.inhparent = 'realtime.messages'::regclass
      and child.relname ~ '^messages_\d{4}_\d{2}_\d{2}$'
      and to_date(right(child.relname, 10), 'YYYY_MM_DD') + 1 <= (now() at time zone 'utc') - interval '72 hours'
  loop
    execute format('drop table realtime.%I', partition);
  end loop;
end $$;
revoke execute on function realtime.maintain_partitions() from public;
select realtime.maintain_partitions();

-- The server's own stream of messages. Made before any replication slot: a publication that is younger than the slot's
-- start position is unknown to it.
set local role none;
create publication supabase_realtime_messages_publication for table realtime.messages
  with (publish = 'insert', publish_via_partition_root = true);
