-- Secrets that an administrator sets while the server runs (functions.md 4.1): ciphertext under a key that is not in
-- the database, the name as associated data. Only the server's own login comes here: no grants to anybody.

create schema if not exists functions;

create table functions.runtime_secrets (
  name text primary key,
  ciphertext bytea not null,
  nonce bytea not null,
  updated_at timestamptz not null default now(),
  updated_by uuid
);
alter table functions.runtime_secrets enable row level security;
