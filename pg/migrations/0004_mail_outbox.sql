-- The outbox as it is used, in place of a first sketch that nothing ever wrote to.
drop table basalt.mail_outbox;

create table basalt.mail_outbox (
  id bigint generated always as identity primary key,
  -- `recovery`, `invite`, …: for metrics and the list.
  kind text not null,
  recipient text not null,
  -- Subject and bodies under `server.master_key`: they hold links and codes, which are stored nowhere else
  -- but hashed. NULL from the moment the mail is sent.
  sealed bytea,
  -- Names that key without telling it. Servers of other projects on this database have others, and leave these rows be.
  sealed_by text not null,
  -- `mailbox`: in development, to be looked at instead of sent. `dead`: given up.
  state text not null default 'queued' check (state in ('queued', 'sent', 'dead', 'mailbox')),
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  -- When to try (again). A worker that takes a row moves this ahead: its lease.
  next_attempt_at timestamptz not null default now(),
  -- When it was sent or given up.
  finished_at timestamptz,
  last_error text,
  check (sealed is not null or state in ('sent', 'dead'))
);
create index mail_outbox_due on basalt.mail_outbox (next_attempt_at) where state = 'queued';
create index mail_outbox_finished on basalt.mail_outbox (finished_at) where state in ('sent', 'dead');
create index mail_outbox_mailbox on basalt.mail_outbox (id) where state = 'mailbox';

-- Auth asks for mails in its own transactions. It may put them in, and neither read nor change one.
grant usage on schema basalt to supabase_auth_admin;
grant insert (kind, recipient, sealed, sealed_by, state) on basalt.mail_outbox to supabase_auth_admin;
