-- Backups and verifications: what ran, when, and how it ended. Readable by the server's own login only.
create table basalt.backup_runs (
  id uuid primary key,
  kind text not null check (kind in ('backup', 'verify')),
  -- The set in the target, once it is known.
  set_id text,
  started_at timestamptz not null default now(),
  -- Null while it runs, or if its server was stopped.
  finished_at timestamptz,
  bytes bigint,
  error text
);
create index backup_runs_finished_at on basalt.backup_runs (kind, finished_at desc);

-- When the next one is due: jobs of `pg::jobs`.
create table basalt.backup_jobs (
  kind text primary key check (kind in ('backup', 'verify')),
  schedule text not null,
  due_at timestamptz not null,
  -- Null: to be planned again.
  next_attempt_at timestamptz,
  attempts integer not null default 0,
  last_error text,
  created_at timestamptz not null default now()
);

alter table basalt.backup_runs enable row level security;
alter table basalt.backup_jobs enable row level security;
revoke all on basalt.backup_runs, basalt.backup_jobs from public, anon, authenticated, service_role;
