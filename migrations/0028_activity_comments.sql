-- Comments on tasks, and what happened in a plan.

create table public.task_comments (
  id uuid primary key default gen_random_uuid(),
  task_id uuid not null,
  -- The task's plan, written by a trigger, so that policies need no join.
  plan_id uuid not null default '00000000-0000-0000-0000-000000000000' references public.plans (id) on delete cascade,
  -- Null once the account is deleted.
  author_id uuid default auth.uid() references auth.users (id) on delete set null,
  body text not null,
  -- Members who are mentioned and get a mail.
  mentions uuid[] not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint task_comments_body_1_to_5000 check (char_length(body) <= 5000 and body ~ '[^[:space:]]'),
  constraint task_comments_mentions_at_most_20 check (cardinality(mentions) <= 20 and array_position(mentions, null) is null)
);
comment on table public.task_comments is 'Comments on tasks.';
-- A task takes its comments along to a priority of another plan.
alter table public.tasks add constraint tasks_id_plan_id unique (id, plan_id);
alter table public.task_comments
  add constraint task_comments_task foreign key (task_id, plan_id)
    references public.tasks (id, plan_id) on delete cascade on update cascade;
create index task_comments_task_id on public.task_comments (task_id, created_at desc, id desc);
create index task_comments_plan_id on public.task_comments (plan_id, task_id);
create index task_comments_author_id on public.task_comments (author_id);
create unique index task_comments_replica_identity on public.task_comments (id, task_id, plan_id);
alter table public.task_comments replica identity using index task_comments_replica_identity;
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.task_comments;
  end if;
end $$;

create function app_private.set_comment_plan() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    new.plan_id := coalesce((select t.plan_id from public.tasks t where t.id = new.task_id), new.plan_id);
  end if;
  if cardinality(new.mentions) between 1 and 20 then
    new.mentions := coalesce(array(
      select m.user_id
      from public.plan_members m
      where m.plan_id = new.plan_id and m.invite_accepted and m.user_id = any (new.mentions)
      order by array_position(new.mentions, m.user_id)
    ), '{}');
  end if;
  return new;
end $$;
create trigger set_comment_plan before insert or update of mentions on public.task_comments
  for each row execute function app_private.set_comment_plan();
create trigger set_updated_at before update of body on public.task_comments
  for each row execute function app_private.set_updated_at();

-- How many comments each task of a plan has.
create function public.get_comment_counts(plan uuid) returns table (task_id uuid, comments bigint)
language sql stable set search_path = '' as $$
  select c.task_id, count(*) from public.task_comments c where c.plan_id = plan group by c.task_id
$$;
revoke execute on function public.get_comment_counts(uuid) from public, anon;
grant execute on function public.get_comment_counts(uuid) to authenticated, service_role;

-- Who did what. Written by triggers alone, shown for 90 days.
create table public.plan_activity (
  id bigint generated always as identity primary key,
  plan_id uuid not null references public.plans (id) on delete cascade,
  -- Null: the server, or an account that was deleted.
  actor_id uuid references auth.users (id) on delete set null,
  action text not null check (action in (
    'created', 'edited', 'deleted', 'restored', 'completed', 'reopened', 'joined', 'left', 'removed', 'invited', 'role_changed', 'commented'
  )),
  subject text not null check (subject in ('plan', 'priority', 'task', 'file', 'member', 'organization')),
  -- Null where several were added at once: `detail` is their number then.
  subject_id uuid,
  -- As it was called then.
  title text check (char_length(title) <= 400),
  detail text check (char_length(detail) <= 100),
  created_at timestamptz not null default now()
);
comment on table public.plan_activity is 'What happened in plans, newest last; kept for 90 days.';
create index plan_activity_plan_id on public.plan_activity (plan_id, id desc);
create index plan_activity_created_at on public.plan_activity (created_at);
create index plan_activity_actor_id on public.plan_activity (actor_id);

-- Changes of one thing by one person within ten minutes are one entry.
create function app_private.note_activity(plan uuid, action text, subject text, subject_id uuid, title text, detail text default null)
returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_variable
declare
  actor uuid := (select u.id from auth.users u where u.id = (select auth.uid()));
begin
  if not exists (select from public.plans p where p.id = plan) then return; end if;
  if action = 'edited' and exists (
    select from public.plan_activity a
    where a.plan_id = plan and a.created_at > now() - interval '10 minutes' and a.action = 'edited' and a.subject = subject
      and a.subject_id is not distinct from subject_id and a.actor_id is not distinct from actor
  ) then
    return;
  end if;
  insert into public.plan_activity (plan_id, actor_id, action, subject, subject_id, title, detail)
  values (plan, actor, action, subject, subject_id, left(title, 400), left(detail, 100));
end $$;

-- An import is one entry.
create function app_private.note_added() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  one record;
begin
  for one in
    select a.plan_id, count(*) as number, min(a.id::text)::uuid as id, min(a.title) as title from added a group by a.plan_id
  loop
    if one.number = 1 then
      perform app_private.note_activity(one.plan_id, 'created', tg_argv[0], one.id, one.title);
    else
      perform app_private.note_activity(one.plan_id, 'created', tg_argv[0], null, null, one.number::text);
    end if;
  end loop;
  return null;
end $$;
create trigger note_added after insert on public.priorities
  referencing new table as added for each statement execute function app_private.note_added('priority');
create trigger note_added after insert on public.tasks
  referencing new table as added for each statement execute function app_private.note_added('task');
create trigger note_added after insert on public.plan_attachments
  referencing new table as added for each statement execute function app_private.note_added('file');

-- What goes with something else, a priority's tasks, is not noted.
create function app_private.note_deleted() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if pg_catalog.pg_trigger_depth() = 1 then
    perform app_private.note_activity(old.plan_id, 'deleted', tg_argv[0], old.id, old.title);
  end if;
  return null;
end $$;
create trigger note_deleted after delete on public.priorities for each row execute function app_private.note_deleted('priority');
create trigger note_deleted after delete on public.tasks for each row execute function app_private.note_deleted('task');
create trigger note_deleted after delete on public.plan_attachments for each row execute function app_private.note_deleted('file');

create function app_private.note_plan() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform app_private.note_activity(new.id,
    case
      when tg_op = 'INSERT' then 'created'
      when old.deleted_at is null and new.deleted_at is not null then 'deleted'
      when old.deleted_at is not null and new.deleted_at is null then 'restored'
      else 'edited'
    end, 'plan', new.id, new.title);
  return null;
end $$;
create trigger note_created after insert on public.plans for each row execute function app_private.note_plan();
create trigger note_edited after update on public.plans
  for each row when (
    (old.title, old.description, old.start_date, old.estimated_end_date, old.deleted_at)
      is distinct from (new.title, new.description, new.start_date, new.estimated_end_date, new.deleted_at)
  ) execute function app_private.note_plan();

create function app_private.note_priority() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform app_private.note_activity(new.plan_id, 'edited', 'priority', new.id, new.title);
  return null;
end $$;
create trigger note_edited after update on public.priorities
  for each row when ((old.title, old.description) is distinct from (new.title, new.description))
  execute function app_private.note_priority();

create function app_private.note_task() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform app_private.note_activity(new.plan_id,
    case when old.is_completed = new.is_completed then 'edited' when new.is_completed then 'completed' else 'reopened' end,
    'task', new.id, new.title);
  return null;
end $$;
create trigger note_edited after update on public.tasks
  for each row when (
    (old.title, old.description, old.measure_success, old.due_date, old.responsible_party, old.is_completed)
      is distinct from (new.title, new.description, new.measure_success, new.due_date, new.responsible_party, new.is_completed)
  ) execute function app_private.note_task();

create function app_private.note_organization() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform app_private.note_activity(new.plan_id, 'edited', 'organization', new.id, new.name);
  return null;
end $$;
create trigger note_edited after insert or update on public.organizations
  for each row execute function app_private.note_organization();

-- Addresses of open invitations are not for everyone who reads the list. Who goes with a deleted account is not noted.
create function app_private.note_member() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if pg_catalog.pg_trigger_depth() > 1 then return null; end if;
  if tg_op = 'INSERT' then
    if not new.invite_accepted then
      perform app_private.note_activity(new.plan_id, 'invited', 'member', new.id, null, new.role);
    end if;
  elsif tg_op = 'DELETE' then
    if old.invite_accepted then
      perform app_private.note_activity(old.plan_id,
        case when old.user_id = (select auth.uid()) then 'left' else 'removed' end, 'member', old.id,
        (select app_private.person_name(u.raw_user_meta_data, u.email) from auth.users u where u.id = old.user_id), old.role);
    end if;
  elsif new.invite_accepted and not old.invite_accepted then
    perform app_private.note_activity(new.plan_id, 'joined', 'member', new.id, null, new.role);
  elsif new.invite_accepted and new.role <> old.role then
    perform app_private.note_activity(new.plan_id, 'role_changed', 'member', new.id,
      (select app_private.person_name(u.raw_user_meta_data, u.email) from auth.users u where u.id = new.user_id), new.role);
  end if;
  return null;
end $$;
create trigger note_member after insert or update or delete on public.plan_members
  for each row execute function app_private.note_member();

create function app_private.note_comment() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform app_private.note_activity(new.plan_id, 'commented', 'task', new.task_id, (select t.title from public.tasks t where t.id = new.task_id));
  return null;
end $$;
create trigger note_comment after insert on public.task_comments for each row execute function app_private.note_comment();

-- For the server's job.
create function app_private.purge_activity() returns bigint
language sql security definer set search_path = '' as $$
  with purged as (
    delete from public.plan_activity a
    where a.id in (select d.id from public.plan_activity d where d.created_at < now() - interval '90 days' order by d.created_at limit 5000)
    returning a.id
  )
  select count(*) from purged
$$;

-- The people of a plan, for names and pictures: its members, and those who left but are named in comments or the list.
create function public.get_plan_people(plan uuid)
returns table (user_id uuid, name text, picture text, email text, role text)
language sql stable security definer set search_path = '' as $$
  select u.id, app_private.person_name(u.raw_user_meta_data, u.email), app_private.person_picture(u.id, u.raw_user_meta_data),
    m.email, m.role
  from auth.users u
  left join public.plan_members m on m.plan_id = plan and m.user_id = u.id and m.invite_accepted
  where plan = any (array(select app_private.my_plans()))
    and u.id in (
      select o.user_id from public.plan_members o where o.plan_id = plan and o.invite_accepted
      union
      select c.author_id from public.task_comments c where c.plan_id = plan
      union
      select a.actor_id from public.plan_activity a where a.plan_id = plan
    )
  order by m.role is null, 2, u.id
  limit 1000
$$;
comment on function public.get_plan_people is 'Names and pictures of a plan''s people; without address and role for those who left.';
revoke execute on function public.get_plan_people(uuid) from public, anon;
grant execute on function public.get_plan_people(uuid) to authenticated;

revoke execute on function app_private.set_comment_plan(), app_private.note_activity(uuid, text, text, uuid, text, text),
  app_private.note_added(), app_private.note_deleted(), app_private.note_plan(), app_private.note_priority(), app_private.note_task(),
  app_private.note_organization(), app_private.note_member(), app_private.note_comment(), app_private.purge_activity(),
  app_private.person_name(jsonb, text), app_private.person_picture(uuid, jsonb) from public;
