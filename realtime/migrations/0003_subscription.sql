-- `realtime.subscription` as upstream shows it. Ours keeps subscriptions in memory; the table is there, empty, for SQL
-- that names it.

set local role supabase_realtime_admin;

create type realtime.equality_op as enum ('eq', 'neq', 'lt', 'lte', 'gt', 'gte', 'in');
create type realtime.user_defined_filter as (column_name text, op realtime.equality_op, value text);

-- Called immutable, which it is while roles keep their names, because a generated column asks for it.
create function realtime.to_regrole(role_name text) returns regrole
language sql immutable
return role_name::regrole;

create table realtime.subscription (
  id bigint generated always as identity primary key,
  subscription_id uuid not null,
  entity regclass not null,
  filters realtime.user_defined_filter[] not null default '{}',
  claims jsonb not null,
  claims_role regrole not null generated always as (realtime.to_regrole(claims ->> 'role')) stored,
  created_at timestamp not null default (now() at time zone 'utc'),
  action_filter text default '*' check (action_filter in ('*', 'INSERT', 'UPDATE', 'DELETE')),
  selected_columns text[]
);
create index ix_realtime_subscription_entity on realtime.subscription (entity);
alter table realtime.subscription enable row level security;
grant select on realtime.subscription to anon, authenticated, service_role;
grant all on realtime.subscription to postgres;
