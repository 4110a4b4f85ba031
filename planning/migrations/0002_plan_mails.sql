-- Mails about plans: one row per person, plan and occasion, which makes each of them happen once. The app's functions fill the table, the
-- server's worker renders the mails.

create table functions.plan_mails (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('digest', 'reminder', 'mention')),
  user_id uuid not null,
  plan_id uuid not null,
  -- The digest's Monday, the reminder's due date, the mention's comment.
  occasion text not null,
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  next_attempt_at timestamptz default now(),
  -- When the mail was queued, in the same transaction. An attempt that ended before its row was marked as done sends nothing again.
  queued_at timestamptz,
  done_at timestamptz,
  outcome text,
  error_message text,
  constraint plan_mails_once unique (kind, user_id, plan_id, occasion)
);
comment on table functions.plan_mails is 'Digests, reminders and mentions: each is sent once.';
create index plan_mails_due on functions.plan_mails (next_attempt_at) where done_at is null and next_attempt_at is not null;
create index plan_mails_done on functions.plan_mails (done_at) where done_at is not null;
create index plan_mails_plan on functions.plan_mails (plan_id, user_id, created_at);
alter table functions.plan_mails enable row level security;
-- The app's functions run as this role.
grant select, insert on functions.plan_mails to postgres;

-- Keys that sign links in mails; each server of the database reads them.
create table functions.link_keys (
  purpose text primary key,
  key bytea not null check (octet_length(key) >= 32)
);
comment on table functions.link_keys is 'Keys that sign links in mails.';
alter table functions.link_keys enable row level security;
insert into functions.link_keys (purpose, key) values (
  'stop plan mails',
  sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8'))
);
