-- Deleted priorities and tasks stay in their plan's bin for 30 days, from where owners and managers restore them. DELETE is unchanged for
-- clients: triggers copy the rows to tables that only the functions below read.

create table app_private.deleted_items (
  entry_id bigint generated always as identity primary key,
  plan_id uuid not null references public.plans (id) on delete cascade,
  kind text not null check (kind in ('priority', 'task')),
  -- The id of the deleted row, which it gets back.
  id uuid not null,
  -- The priority of a task.
  priority_id uuid,
  title text not null,
  tasks integer not null default 0,
  comments integer not null default 0,
  bytes bigint not null default 0,
  -- Not now(): the order within a transaction decides which entries go first.
  deleted_at timestamptz not null default clock_timestamp(),
  -- Null: the server, or an account that was deleted.
  deleted_by uuid references auth.users (id) on delete set null,
  constraint deleted_items_once_per_plan unique (id, plan_id)
);
comment on table app_private.deleted_items is 'Priorities and tasks in the bin of their plan.';
create index deleted_items_plan_id on app_private.deleted_items (plan_id, deleted_at desc, entry_id desc);
create index deleted_items_deleted_at on app_private.deleted_items (deleted_at);
create index deleted_items_deleted_by on app_private.deleted_items (deleted_by);

-- One row for each deleted row: as one JSON value, a priority with thousands of tasks and comments could exceed PostgreSQL's limits.
create table app_private.deleted_rows (
  entry_id bigint not null references app_private.deleted_items (entry_id) on delete cascade,
  source text not null check (source in ('priorities', 'tasks', 'task_comments')),
  row_id uuid not null,
  content jsonb not null,
  primary key (entry_id, source, row_id)
);
comment on table app_private.deleted_rows is 'The rows of entries in deleted_items.';

-- The locks make the copy complete: a task or comment that another transaction is writing is copied as committed.
create function app_private.keep_deleted() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  entry bigint;
begin
  -- Of an id that was inserted again by hand, the bin has the last row.
  delete from app_private.deleted_items d where d.id = old.id and d.plan_id = old.plan_id;
  insert into app_private.deleted_items (plan_id, kind, id, priority_id, title, deleted_by)
  values (old.plan_id, tg_argv[0], old.id, (to_jsonb(old) ->> 'priority_id')::uuid, old.title,
    (select u.id from auth.users u where u.id = (select auth.uid())))
  returning entry_id into entry;
  insert into app_private.deleted_rows (entry_id, source, row_id, content) values (entry, tg_table_name, old.id, to_jsonb(old));
  if tg_argv[0] = 'priority' then
    insert into app_private.deleted_rows (entry_id, source, row_id, content)
    select entry, 'tasks', t.id, to_jsonb(t) from public.tasks t where t.priority_id = old.id for update of t;
  end if;
  insert into app_private.deleted_rows (entry_id, source, row_id, content)
  select entry, 'task_comments', c.id, to_jsonb(c)
  from app_private.deleted_rows r
  join public.task_comments c on c.task_id = r.row_id
  where r.entry_id = entry and r.source = 'tasks'
  for update of c;
  update app_private.deleted_items d
  set tasks = k.tasks, comments = k.comments, bytes = k.bytes
  from (
    select count(*) filter (where r.source = 'tasks') as tasks, count(*) filter (where r.source = 'task_comments') as comments,
      sum(pg_catalog.pg_column_size(r.content)) as bytes
    from app_private.deleted_rows r
    where r.entry_id = entry
  ) k
  where d.entry_id = entry;
  return old;
end $$;
-- What goes with something else, a priority's tasks or all of a plan, has no entry.
create trigger keep_deleted before delete on public.priorities
  for each row when (pg_catalog.pg_trigger_depth() = 0) execute function app_private.keep_deleted('priority');
create trigger keep_deleted before delete on public.tasks
  for each row when (pg_catalog.pg_trigger_depth() = 0) execute function app_private.keep_deleted('task');

-- As 0028 means it: the condition is evaluated where the row is deleted, but the function runs after the priority's statement, where its
-- own check of the depth passes for the priority's tasks, too.
drop trigger note_deleted on public.tasks;
create trigger note_deleted after delete on public.tasks
  for each row when (pg_catalog.pg_trigger_depth() = 0) execute function app_private.note_deleted('task');

-- The oldest entries make room. The newest one stays whatever its size: it is not larger than the plan was.
create function app_private.limit_bin() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  max_entries constant integer := 500;
  max_bytes constant bigint := 50 * 1024 * 1024;
  plan uuid;
begin
  for plan in select distinct r.plan_id from removed r order by 1 loop
    delete from app_private.deleted_items d
    where d.entry_id in (
      select l.entry_id
      from app_private.deleted_items l
      where l.entry_id in (
        select o.entry_id
        from (
          select i.entry_id, row_number() over newest as place, sum(i.bytes) over newest as total
          from app_private.deleted_items i
          where i.plan_id = plan
          window newest as (order by i.deleted_at desc, i.entry_id desc)
        ) o
        where o.place > max_entries or (o.total > max_bytes and o.place > 1)
      )
      for update skip locked
    );
  end loop;
  return null;
end $$;
create trigger limit_bin after delete on public.priorities
  referencing old table as removed for each statement when (pg_catalog.pg_trigger_depth() = 0) execute function app_private.limit_bin();
create trigger limit_bin after delete on public.tasks
  referencing old table as removed for each statement when (pg_catalog.pg_trigger_depth() = 0) execute function app_private.limit_bin();

-- A restored row keeps its position and completion date, and is not an addition of today: no activity, no mail to those mentioned.
-- restore_plan_item() sets `app_private.restoring`.
drop trigger set_position on public.priorities;
create trigger set_position before insert on public.priorities
  for each row when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.set_priority_position();
drop trigger set_position_on_insert on public.tasks;
create trigger set_position_on_insert before insert on public.tasks
  for each row when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.set_task_position();
drop trigger set_completed_at_on_insert on public.tasks;
create trigger set_completed_at_on_insert before insert on public.tasks
  for each row when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.set_completed_at();
drop trigger note_added on public.priorities;
create trigger note_added after insert on public.priorities
  referencing new table as added for each statement when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.note_added('priority');
drop trigger note_added on public.tasks;
create trigger note_added after insert on public.tasks
  referencing new table as added for each statement when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.note_added('task');
drop trigger note_comment on public.task_comments;
create trigger note_comment after insert on public.task_comments
  for each row when (pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.note_comment();
drop trigger mail_mentions on public.task_comments;
create trigger mail_mentions after insert or update of mentions on public.task_comments
  for each row when (new.mentions <> '{}' and pg_catalog.current_setting('app_private.restoring', true) is distinct from 'on')
  execute function app_private.mail_mentions();

-- Inserts an entry's rows of one table. Columns that were added since get their defaults, those that were dropped are left out.
create function app_private.restore_rows(entry bigint, source text) returns void
language plpgsql set search_path = '' as $$
#variable_conflict use_variable
declare
  names text[];
begin
  select array_agg(pg_catalog.quote_ident(a.attname) order by a.attnum) into names
  from pg_catalog.pg_attribute a
  where a.attrelid = ('public.' || source)::pg_catalog.regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    and (select r.content from app_private.deleted_rows r where r.entry_id = entry and r.source = restore_rows.source limit 1)
      ? a.attname::text;
  if names is null then return; end if;
  execute pg_catalog.format(
    'insert into public.%1$I (%2$s) select %3$s from app_private.deleted_rows d'
    ' cross join lateral pg_catalog.jsonb_populate_record(null::public.%1$I, d.content) v where d.entry_id = $1 and d.source = %1$L',
    source, array_to_string(names, ', '), 'v.' || array_to_string(names, ', v.')
  ) using entry;
end $$;

create function public.restore_plan_item(item uuid) returns setof uuid
language plpgsql security definer set search_path = '' as $$
declare
  entry app_private.deleted_items;
begin
  -- Of two calls at once, the second finds no entry.
  select d.* into entry
  from app_private.deleted_items d
  where d.id = item and d.plan_id = any (array(select app_private.my_plans('{owner,manager}')))
  order by d.deleted_at desc
  limit 1
  for update;
  if not found then return; end if;
  if entry.kind = 'task' then
    -- The lock waits for a deletion of the priority that has begun.
    perform from public.priorities p where p.id = entry.priority_id and p.plan_id = entry.plan_id for key share;
    if not found then
      raise exception using errcode = 'PT409', message = 'The priority of this task was deleted'
        || case
          when exists (select from app_private.deleted_items d where d.id = entry.priority_id and d.plan_id = entry.plan_id)
            then '. Restore the priority first.'
          else ', and can no longer be restored.'
        end;
    end if;
  end if;
  -- Comments of accounts that were deleted since have no author, as elsewhere.
  update app_private.deleted_rows r
  set content = r.content || '{"author_id": null}'
  where r.entry_id = entry.entry_id and r.source = 'task_comments' and r.content ->> 'author_id' is not null
    and not exists (select from auth.users u where u.id = (r.content ->> 'author_id')::uuid);
  begin
    -- Rows that are inserted later in this transaction are additions again.
    perform pg_catalog.set_config('app_private.restoring', 'on', true);
    perform app_private.restore_rows(entry.entry_id, 'priorities');
    perform app_private.restore_rows(entry.entry_id, 'tasks');
    perform app_private.restore_rows(entry.entry_id, 'task_comments');
    perform pg_catalog.set_config('app_private.restoring', '', true);
  exception when unique_violation then
    raise exception using
      errcode = 'PT409', message = pg_catalog.format('This %s cannot be restored: the id of one of its rows is in use again.', entry.kind);
  end;
  delete from app_private.deleted_items d where d.entry_id = entry.entry_id;
  perform app_private.note_activity(entry.plan_id, 'restored', entry.kind, entry.id, entry.title);
  return next entry.id;
end $$;
comment on function public.restore_plan_item is
  'Restores a deleted priority, with its tasks, or a deleted task by its id; no row if it is not in the bin of a plan that the caller edits.';

create function public.delete_plan_item_for_good(item uuid) returns setof uuid
language sql security definer set search_path = '' as $$
  delete from app_private.deleted_items d
  where d.id = item and d.plan_id = any (array(select app_private.my_plans('{owner,manager}')))
  returning d.id
$$;
comment on function public.delete_plan_item_for_good is 'Deletes a priority or a task from the bin of a plan that the caller edits.';

create function public.get_deleted_plan_items(plan uuid)
returns table (
  id uuid, kind text, title text, tasks integer, comments integer, priority_id uuid, is_restorable boolean,
  deleted_at timestamptz, deleted_for_good_at timestamptz, deleted_by uuid
)
language sql stable security definer set search_path = '' as $$
  select d.id, d.kind, d.title, d.tasks - (d.kind = 'task')::integer, d.comments, d.priority_id,
    d.kind = 'priority' or exists (select from public.priorities p where p.id = d.priority_id and p.plan_id = d.plan_id),
    d.deleted_at, d.deleted_at + interval '30 days', d.deleted_by
  from app_private.deleted_items d
  where d.plan_id = plan and d.plan_id = any (array(select app_private.my_plans('{owner,manager}')))
  order by d.deleted_at desc, d.entry_id desc
  limit 500
$$;
comment on function public.get_deleted_plan_items is 'Deleted priorities and tasks of a plan that the caller edits, the newest first.';

-- For the server's job; a part at a time, so that no transaction gets long.
create function app_private.purge_deleted_items() returns bigint
language sql security definer set search_path = '' as $$
  with purged as (
    delete from app_private.deleted_items d
    where d.entry_id in (
      select o.entry_id
      from app_private.deleted_items o
      where o.deleted_at < now() - interval '30 days'
      order by o.deleted_at
      limit 20
      for update skip locked
    )
    returning d.entry_id
  )
  select count(*) from purged
$$;
revoke execute on function app_private.keep_deleted(), app_private.limit_bin(), app_private.restore_rows(bigint, text),
  app_private.purge_deleted_items() from public;
revoke execute on function public.restore_plan_item(uuid), public.delete_plan_item_for_good(uuid), public.get_deleted_plan_items(uuid)
  from public, anon;
grant execute on function public.restore_plan_item(uuid), public.delete_plan_item_for_good(uuid), public.get_deleted_plan_items(uuid)
  to authenticated;
