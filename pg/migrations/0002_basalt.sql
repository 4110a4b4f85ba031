-- The server's own memory: private, no grants to anybody (DESIGN section 12). `system_migrations` is there already.

-- One row: which server this database belongs to. A server with other secrets refuses to start on it.
create table basalt.instance (
  is_only boolean primary key default true check (is_only),
  -- Of the signing secrets and the master key; a fingerprint, never the secrets.
  fingerprint text,
  created_at timestamptz not null default now()
);
insert into basalt.instance default values;

-- What was applied of the project's own files.
create table basalt.project_files (
  -- Relative to the project folder, with forward slashes: `migrations/0001_plans.sql`.
  path text primary key,
  kind text not null check (kind in ('migration', 'policy', 'seed')),
  -- NULL: a seed that is still to run on this new database.
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  applied_at timestamptz not null default now()
);

-- `sb_…` keys made or rotated after the first start. The two first ones live in the secrets folder.
create table basalt.api_keys (
  id uuid primary key default gen_random_uuid(),
  kind text not null check (kind in ('publishable', 'secret')),
  name text not null,
  -- SHA-256 of the whole key: how a request finds its row.
  hash bytea not null unique check (octet_length(hash) = 32),
  -- Under `server.master_key`, because functions are handed the keys in clear.
  ciphertext bytea not null,
  nonce bytea not null,
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);

-- Mail to be sent after the transaction that asked for it has committed.
create table basalt.mail_outbox (
  id bigint generated always as identity primary key,
  kind text not null,
  recipient text not null,
  subject text not null,
  html_body text,
  text_body text,
  headers jsonb not null default '{}' check (jsonb_typeof(headers) = 'object'),
  created_at timestamptz not null default now(),
  attempts integer not null default 0,
  -- When to try (again). A worker that takes a row moves this ahead: its lease.
  next_attempt_at timestamptz default now(),
  sent_at timestamptz,
  last_error text
);
create index mail_outbox_due on basalt.mail_outbox (next_attempt_at) where sent_at is null;

-- The role that owns the project's objects: `postgres`, unless the login can neither be nor become it.
create function basalt.project_owner() returns name
language sql stable set search_path = '' as $$
  select case
    when me.rolsuper or pg_catalog.pg_has_role(me.oid, owner.oid, 'member') then owner.rolname
    else me.rolname
  end
  from pg_catalog.pg_roles me, pg_catalog.pg_roles owner
  where me.rolname = current_user and owner.rolname = 'postgres'
$$;
revoke all on all functions in schema basalt from public;
