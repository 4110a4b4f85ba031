-- A plan that is put aside, for all of its members: the dashboard shows it below the others.
alter table public.plans add column archived_at timestamptz;
comment on column public.plans.archived_at is 'When the plan was archived; null while it is in use.';

-- A copy of a plan for the caller, who need only be able to read it: its priorities, and its tasks as open ones. Neither members nor
-- files are copied. Policies and limits decide as for any insert by the caller.
create function public.duplicate_plan(plan_id uuid) returns uuid
language plpgsql set search_path = '' as $$
declare
  source public.plans;
  copy_id uuid;
begin
  select p.* into source from public.plans p where p.id = duplicate_plan.plan_id;
  if not found then
    raise exception 'Could not find the specified plan. It may have been deleted.' using errcode = 'PT404';
  end if;
  insert into public.plans (user_id, title, description, start_date, estimated_end_date)
  values (auth.uid(), left('Copy of ' || source.title, 200), source.description, source.start_date, source.estimated_end_date)
  returning id into copy_id;
  insert into public.priorities (plan_id, title, description)
  select copy_id, p.title, p.description
  from public.priorities p
  where p.plan_id = source.id
  order by p.position, p.created_at desc, p.id;
  with originals as (
    select p.id, row_number() over (order by p.position, p.created_at desc, p.id) as place
    from public.priorities p
    where p.plan_id = source.id
  ), copies as (
    select p.id, row_number() over (order by p.position) as place from public.priorities p where p.plan_id = copy_id
  )
  -- Of `responsible_ids` (0027), a trigger keeps the caller alone.
  insert into public.tasks (
    priority_id, title, description, measure_success, due_date, responsible_party, responsible_ids, is_completed
  )
  select c.id, t.title, t.description, t.measure_success, t.due_date, t.responsible_party, t.responsible_ids, false
  from originals o
  join copies c using (place)
  join public.tasks t on t.priority_id = o.id
  order by o.place, t.position, t.created_at desc, t.id;
  return copy_id;
end $$;
comment on function public.duplicate_plan is 'Copies a plan with its priorities and, as open ones, its tasks; answers the id of the copy.';
revoke execute on function public.duplicate_plan from public, anon;
grant execute on function public.duplicate_plan to authenticated, service_role;
