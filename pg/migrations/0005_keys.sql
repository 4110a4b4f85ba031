-- Keys that are made, rotated and revoked while the server runs (docs/decisions/0012). Whoever writes here sends
-- `notify basalt_keys`: every server reads both tables at once.

-- Nothing has written this table before. What is sealed brings its nonce along.
alter table basalt.api_keys
  drop column nonce,
  add column description text not null default '',
  -- The database role that the key's requests have.
  add column role text not null,
  add column expires_at timestamptz,
  -- To about a minute.
  add column last_used_at timestamptz,
  add constraint api_keys_name check (name <> '');

create table basalt.signing_keys (
  -- Its name in tokens.
  kid text primary key check (kid <> ''),
  algorithm text not null,
  status text not null check (status in ('standby', 'in_use', 'previously_used', 'revoked')),
  -- The private JWK, sealed under `server.master_key`.
  ciphertext bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index signing_keys_in_use on basalt.signing_keys (status) where status = 'in_use';
