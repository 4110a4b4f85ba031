-- Strategic plans. `user_id` is the plan's first owner: who made it, or who took over (0004). It is null only for plans
-- that the server itself made for nobody.
create table public.plans (
  id uuid primary key default gen_random_uuid(),
  user_id uuid default auth.uid() references auth.users (id) on delete set null,
  title text not null check (char_length(title) >= 3),
  -- Rich text as HTML, sanitised where it is shown.
  description text,
  start_date date,
  estimated_end_date date,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table public.plans is 'Strategic plans.';
create index plans_user_id on public.plans (user_id);
-- The list shows the newest first.
create index plans_created_at on public.plans (created_at desc);

create trigger set_updated_at before update on public.plans
  for each row execute function app_private.set_updated_at();

-- Lists refresh when a plan changes.
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.plans;
  end if;
end $$;
