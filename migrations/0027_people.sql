-- People: their names and pictures, and members who are responsible for tasks.

-- The name that a person gave, else one made from the address. It is shown to others: one line, no control characters.
create function app_private.person_name(metadata jsonb, address text) returns text
language sql immutable set search_path = '' as $$
  select left(coalesce(
    nullif(btrim(regexp_replace(coalesce(metadata ->> 'name', ''), '[[:cntrl:][:space:]]+', ' ', 'g')), ''),
    nullif(upper(left(split_part(address, '@', 1), 1)) || substr(split_part(address, '@', 1), 2), ''),
    'A member'
  ), 80)
$$;
-- Only pictures that this server stores: with another address, a member could see who opens the plan.
create function app_private.person_picture(person uuid, metadata jsonb) returns text
language sql immutable set search_path = '' as $$
  select substring(metadata ->> 'avatar_url' from '/storage/v1/object/public/avatars/' || person || '/[A-Za-z0-9._-]{1,200}')
$$;

-- Members are stored beside the names, which may also be of people without an account.
alter table public.tasks
  add column responsible_ids uuid[] not null default '{}',
  add constraint tasks_responsible_ids_at_most_50 check (
    cardinality(responsible_ids) <= 50 and array_position(responsible_ids, null) is null
  );
comment on column public.tasks.responsible_ids is 'Members among the responsible party, by user id; a trigger drops the ids of others.';
create index tasks_responsible_ids on public.tasks using gin (responsible_ids) where responsible_ids <> '{}';
create index tasks_open_due_date on public.tasks (due_date) where not is_completed and due_date is not null;

create function app_private.keep_responsible_members() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.responsible_ids := coalesce(array(
    select m.user_id
    from public.plan_members m
    where m.plan_id = new.plan_id and m.invite_accepted and m.user_id = any (new.responsible_ids)
    order by array_position(new.responsible_ids, m.user_id)
  ), '{}');
  return new;
end $$;
-- After set_task_plan, by name. The bounds are checked before: a list of a million ids is refused, not filtered.
create trigger set_task_responsible_on_insert before insert on public.tasks
  for each row when (cardinality(new.responsible_ids) between 1 and 50) execute function app_private.keep_responsible_members();
create trigger set_task_responsible_on_update before update of responsible_ids, priority_id on public.tasks
  for each row when (cardinality(new.responsible_ids) between 1 and 50) execute function app_private.keep_responsible_members();

-- Who leaves the plan is no longer responsible by id; the name stays.
create function app_private.release_tasks() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  update public.tasks t
  set responsible_ids = array_remove(t.responsible_ids, old.user_id)
  where t.plan_id = old.plan_id and t.responsible_ids @> array[old.user_id];
  return null;
end $$;
create trigger release_tasks after delete on public.plan_members
  for each row when (old.user_id is not null) execute function app_private.release_tasks();
revoke execute on function app_private.keep_responsible_members(), app_private.release_tasks() from public;
