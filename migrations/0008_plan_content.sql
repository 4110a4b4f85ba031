-- What a plan consists of: priorities, their tasks, files, and the organisation that the plan is for.

-- A title fits a card, rich text fits a page. `not valid`: existing rows are not checked.
alter table public.plans
  add constraint plans_title_at_most_200 check (char_length(title) <= 200) not valid,
  add constraint plans_description_at_most_100000 check (char_length(description) <= 100000) not valid;

create table public.priorities (
  id uuid primary key default gen_random_uuid(),
  plan_id uuid not null references public.plans (id) on delete cascade,
  title text not null,
  -- Rich text as HTML, sanitised where it is shown.
  description text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint priorities_title_3_to_200 check (char_length(title) between 3 and 200),
  constraint priorities_description_at_most_100000 check (char_length(description) <= 100000),
  -- The foreign key of tasks needs it, and it is the replica identity.
  constraint priorities_id_plan_id unique (id, plan_id)
);
comment on table public.priorities is 'Priorities of plans.';
-- The list shows the newest first.
create index priorities_plan_id on public.priorities (plan_id, created_at desc);

create table public.tasks (
  id uuid primary key default gen_random_uuid(),
  priority_id uuid not null,
  -- The priority's plan, written by a trigger, so that policies and counts need no join. The trigger always replaces the
  -- default, which only makes the column optional in the generated types: clients may not write it.
  plan_id uuid not null default '00000000-0000-0000-0000-000000000000' references public.plans (id) on delete cascade,
  title text not null,
  description text,
  measure_success text,
  due_date date,
  responsible_party text[] not null default '{}',
  is_completed boolean not null default false,
  -- When it was last completed; null while it is open.
  completed_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint tasks_title_3_to_200 check (char_length(title) between 3 and 200),
  constraint tasks_description_at_most_100000 check (char_length(description) <= 100000),
  constraint tasks_measure_success_at_most_10000 check (char_length(measure_success) <= 10000),
  constraint tasks_responsible_party_at_most_50 check (
    cardinality(responsible_party) <= 50
    and array_position(responsible_party, null) is null
    and char_length(array_to_string(responsible_party, '')) <= 5000
  ),
  constraint tasks_priority foreign key (priority_id, plan_id)
    references public.priorities (id, plan_id) on delete cascade on update cascade
);
comment on table public.tasks is 'Tasks of priorities.';
create index tasks_priority_id on public.tasks (priority_id, plan_id, created_at desc);
create index tasks_plan_id on public.tasks (plan_id, is_completed);
create unique index tasks_replica_identity on public.tasks (id, priority_id, plan_id);

-- Security definer: it finds priorities that the caller may not read, too, and the policy on `plan_id` then refuses the
-- task. An unknown priority is left to the foreign key.
create function app_private.set_task_plan() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  new.plan_id := coalesce((select p.plan_id from public.priorities p where p.id = new.priority_id), new.plan_id);
  return new;
end $$;
create trigger set_task_plan before insert or update of priority_id on public.tasks
  for each row execute function app_private.set_task_plan();

create function app_private.set_completed_at() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.completed_at := case when new.is_completed then now() end;
  return new;
end $$;
create trigger set_completed_at_on_insert before insert on public.tasks
  for each row execute function app_private.set_completed_at();
create trigger set_completed_at_on_update before update on public.tasks
  for each row when (new.is_completed <> old.is_completed) execute function app_private.set_completed_at();

create table public.plan_attachments (
  id uuid primary key default gen_random_uuid(),
  plan_id uuid not null references public.plans (id) on delete cascade,
  title text not null,
  -- The object's name in bucket plan_files, which begins with the plan's id.
  file_url text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint plan_attachments_title_1_to_200 check (char_length(title) <= 200 and title ~ '[^[:space:]]'),
  constraint plan_attachments_file_url_at_most_2000 check (char_length(file_url) between 1 and 2000)
);
comment on table public.plan_attachments is 'Files of plans.';
create index plan_attachments_plan_id on public.plan_attachments (plan_id, created_at desc);
create unique index plan_attachments_replica_identity on public.plan_attachments (id, plan_id);

create table public.organizations (
  id uuid primary key default gen_random_uuid(),
  plan_id uuid not null references public.plans (id) on delete cascade,
  name text,
  ein text,
  mission text,
  vision text,
  "values" text,
  logo_url text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint organizations_once_per_plan unique (plan_id),
  constraint organizations_name_at_most_200 check (char_length(name) <= 200),
  constraint organizations_ein_at_most_50 check (char_length(ein) <= 50),
  constraint organizations_texts_at_most_20000 check (
    char_length(mission) <= 20000 and char_length(vision) <= 20000 and char_length("values") <= 20000
  ),
  constraint organizations_logo_url_at_most_2000 check (char_length(logo_url) <= 2000)
);
comment on table public.organizations is 'The organisation that a plan is for.';
create unique index organizations_replica_identity on public.organizations (id, plan_id);

create trigger set_updated_at before update on public.priorities
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.tasks
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.plan_attachments
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.organizations
  for each row execute function app_private.set_updated_at();

-- The files of a deleted plan: this deletes their rows, storage later their bytes. Storage refuses deletions without the
-- setting, which must not outlive this one.
create function app_private.delete_plan_files() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  perform set_config('storage.allow_delete_query', 'true', true);
  delete from storage.objects o
  where o.bucket_id in ('plan_files', 'org_logos') and o.name like old.id::text || '/%';
  perform set_config('storage.allow_delete_query', '', true);
  return null;
end $$;
create trigger delete_plan_files after delete on public.plans
  for each row execute function app_private.delete_plan_files();

revoke execute on function app_private.set_task_plan(), app_private.set_completed_at(), app_private.delete_plan_files()
  from public;

-- Live lists (specification 2, section 7). A subscription filters by plan_id, priority_id or user_id, on DELETE too, so
-- these columns are part of the replica identity. A plan's `user_id` may be null, and an identity index cannot hold null.
alter table public.plans replica identity full;
alter table public.priorities replica identity using index priorities_id_plan_id;
alter table public.tasks replica identity using index tasks_replica_identity;
alter table public.plan_attachments replica identity using index plan_attachments_replica_identity;
alter table public.organizations replica identity using index organizations_replica_identity;
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table
      public.priorities, public.tasks, public.plan_attachments, public.organizations;
  end if;
end $$;
