-- The order of priorities and tasks, and how many priorities a plan holds.

-- A list is sorted by `position`, then newest first. A trigger always replaces the default, which only makes the column
-- optional in the generated types.
alter table public.priorities
  add column position double precision not null default 0,
  add constraint priorities_position_is_finite check (position between -1e12 and 1e12);
alter table public.tasks
  add column position double precision not null default 0,
  add constraint tasks_position_is_finite check (position between -1e12 and 1e12);
comment on column public.priorities.position is 'Place in its plan, smallest first; written by move_priority.';
comment on column public.tasks.position is 'Place in its priority, smallest first; written by move_task.';

-- What exists keeps its order, newest first, and its version.
alter table public.priorities disable trigger set_updated_at;
update public.priorities p set position = o.place
from (select id, row_number() over (partition by plan_id order by created_at desc, id) as place from public.priorities) o
where o.id = p.id;
alter table public.priorities enable trigger set_updated_at;
alter table public.tasks disable trigger set_updated_at;
update public.tasks t set position = o.place
from (select id, row_number() over (partition by priority_id order by created_at desc, id) as place from public.tasks) o
where o.id = t.id;
alter table public.tasks enable trigger set_updated_at;

create index priorities_position on public.priorities (plan_id, position);
create index tasks_position on public.tasks (priority_id, position);

-- A new row comes first. Rows of one transaction, an import's, keep the order in which they were inserted: the trigger
-- sees those before. 2^-20 leaves room for a million of them, and for moves in between.
create function app_private.set_priority_position() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.position := coalesce(
    (select max(p.position) from public.priorities p where p.plan_id = new.plan_id and p.created_at = now()) + 2.0 ^ -20,
    (select floor(min(p.position)) from public.priorities p where p.plan_id = new.plan_id) - 1,
    0);
  return new;
end $$;
create trigger set_position before insert on public.priorities
  for each row execute function app_private.set_priority_position();

create function app_private.set_task_position() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.position := coalesce(
    (select max(t.position) from public.tasks t where t.priority_id = new.priority_id and t.created_at = now()) + 2.0 ^ -20,
    (select floor(min(t.position)) from public.tasks t where t.priority_id = new.priority_id) - 1,
    0);
  return new;
end $$;
create trigger set_position_on_insert before insert on public.tasks
  for each row execute function app_private.set_task_position();
-- A task that goes to another priority comes first there.
create trigger set_position_on_update before update of priority_id on public.tasks
  for each row when (new.priority_id <> old.priority_id) execute function app_private.set_task_position();

-- Moves one row, so that one change is sent to those who look on. Policies decide who may: without the right nothing is
-- updated and no row returned. Moves within a list wait for each other; each is relative to where the other row is by then.
create function public.move_priority(priority_id uuid, before_id uuid default null) returns setof public.priorities
language plpgsql set search_path = '' as $$
declare
  plan uuid := (select p.plan_id from public.priorities p where p.id = move_priority.priority_id);
  upper double precision;
  lower double precision;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('order of priorities ' || plan::text, 0));
  -- Rows added at the same moment share a position, and halving ends where a number has no more digits.
  if exists (
    select from (select position - lag(position) over (order by position) as gap from public.priorities where plan_id = plan) g
    where gap < 1e-9
  ) then
    update public.priorities p set position = o.place
    from (
      select id, row_number() over (order by position, created_at desc, id) as place from public.priorities where plan_id = plan
    ) o
    where o.id = p.id;
  end if;
  lower := (
    select p.position from public.priorities p
    where p.id = before_id and p.plan_id = plan and p.id <> move_priority.priority_id
  );
  if before_id is not null and lower is null then return; end if;
  upper := (
    select max(p.position) from public.priorities p
    where p.plan_id = plan and p.id <> move_priority.priority_id and (lower is null or p.position < lower)
  );
  return query
    update public.priorities p set position = coalesce((upper + lower) / 2, upper + 1, lower - 1, p.position)
    where p.id = move_priority.priority_id
    returning p.*;
end $$;
comment on function public.move_priority is 'Puts a priority before another one of its plan, or last.';

create function public.move_task(task_id uuid, before_id uuid default null) returns setof public.tasks
language plpgsql set search_path = '' as $$
declare
  list uuid := (select t.priority_id from public.tasks t where t.id = move_task.task_id);
  upper double precision;
  lower double precision;
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('order of tasks ' || list::text, 0));
  if exists (
    select from (select position - lag(position) over (order by position) as gap from public.tasks where priority_id = list) g
    where gap < 1e-9
  ) then
    update public.tasks t set position = o.place
    from (
      select id, row_number() over (order by position, created_at desc, id) as place from public.tasks where priority_id = list
    ) o
    where o.id = t.id;
  end if;
  lower := (
    select t.position from public.tasks t where t.id = before_id and t.priority_id = list and t.id <> move_task.task_id
  );
  if before_id is not null and lower is null then return; end if;
  upper := (
    select max(t.position) from public.tasks t
    where t.priority_id = list and t.id <> move_task.task_id and (lower is null or t.position < lower)
  );
  return query
    update public.tasks t set position = coalesce((upper + lower) / 2, upper + 1, lower - 1, t.position)
    where t.id = move_task.task_id
    returning t.*;
end $$;
comment on function public.move_task is 'Puts a task before another one of its priority, or last.';

revoke execute on function public.move_priority, public.move_task from public, anon;
grant execute on function public.move_priority, public.move_task to authenticated, service_role;

-- After the statement: a stranger gets the policy's refusal and learns nothing of the plan. The lock lets two imports at
-- once see each other. Plans that held more before keep what they have.
create function app_private.limit_priorities() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  most constant integer := 500;
  plan uuid;
begin
  for plan in select distinct a.plan_id from added a order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of priorities ' || plan::text, 0));
    if (select count(*) from public.priorities p where p.plan_id = plan) > most then
      raise exception using
        errcode = 'check_violation',
        constraint = 'priorities_at_most_500_per_plan',
        message = pg_catalog.format('A plan can have at most %s priorities.', most),
        hint = 'Delete some of its priorities, or begin another plan.';
    end if;
  end loop;
  return null;
end $$;
create trigger limit_priorities after insert on public.priorities
  referencing new table as added for each statement execute function app_private.limit_priorities();

revoke execute on function app_private.set_priority_position(), app_private.set_task_position(), app_private.limit_priorities()
  from public;
