-- Notifications of changes to accounts for the hook send_email (auth.md 3.20): a queue of jobs (basalt_pg::jobs). `input` is what the
-- hook gets: the account after the change, and no code.

create table basalt.hook_mails (
  id bigint generated always as identity primary key,
  user_id uuid not null references auth.users (id) on delete cascade,
  kind text not null,
  ip_address text not null,
  input jsonb not null,
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  -- Null: given up.
  next_attempt_at timestamptz default now(),
  last_error text
);

create index hook_mails_due on basalt.hook_mails (next_attempt_at) where next_attempt_at is not null;
create index hook_mails_user on basalt.hook_mails (user_id);

grant select, insert, update, delete on basalt.hook_mails to supabase_auth_admin;
