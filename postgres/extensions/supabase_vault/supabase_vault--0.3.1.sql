-- Vault over pgcrypto. The key is in a file that only PostgreSQL and the server can read (postgres/src/extensions.rs).

do $$
begin
  if to_regnamespace('vault') is null then
    create schema vault;
  end if;
end $$;

create table vault.secrets (
  id uuid primary key default gen_random_uuid(),
  name text,
  description text not null default '',
  -- OpenPGP, as base64.
  secret text not null,
  key_id uuid,
  nonce bytea,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index secrets_name_idx on vault.secrets (name) where name is not null;
alter table vault.secrets enable row level security;
select pg_catalog.pg_extension_config_dump('vault.secrets', '');

create function vault.basalt_key() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- Only a superuser can change the setting, so that the caller cannot choose the file.
  folder text := replace(btrim(current_setting('unix_socket_directories'), '"'), '""', '"');
  key text := pg_catalog.pg_read_file(folder || '/vault.key', true);
begin
  if key is null then
    raise exception 'vault has no key on this server' using
      errcode = '55000', hint = 'The embedded PostgreSQL of Basalt has one; start the database with the server.';
  end if;
  return key;
end $$;

create function vault.basalt_encrypt(secret text) returns text
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  -- The key is random, so hashing it repeatedly would only cost time.
  select encode(extensions.pgp_sym_encrypt(secret, vault.basalt_key(), 'cipher-algo=aes256, s2k-mode=0'), 'base64')
$$;

create function vault.basalt_decrypt(secret text) returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  return extensions.pgp_sym_decrypt(decode(secret, 'base64'), vault.basalt_key());
exception when external_routine_invocation_exception or invalid_parameter_value then
  raise warning 'a vault secret was encrypted under another master key; set it again with vault.update_secret()';
  return null;
end $$;

create view vault.decrypted_secrets as
  select id, name, description, secret, vault.basalt_decrypt(secret) as decrypted_secret, key_id, nonce, created_at, updated_at
  from vault.secrets;

create function vault.create_secret(
  new_secret text, new_name text default null, new_description text default '', new_key_id uuid default null
) returns uuid
language sql security definer set search_path = pg_catalog, pg_temp as $$
  insert into vault.secrets (secret, name, description, key_id)
  values (vault.basalt_encrypt(new_secret), new_name, new_description, new_key_id)
  returning id
$$;

create function vault.update_secret(
  secret_id uuid, new_secret text default null, new_name text default null, new_description text default null,
  new_key_id uuid default null
) returns void
language sql security definer set search_path = pg_catalog, pg_temp as $$
  update vault.secrets
  set secret = case when new_secret is null then secret else vault.basalt_encrypt(new_secret) end,
    name = coalesce(new_name, name), description = coalesce(new_description, description),
    key_id = coalesce(new_key_id, key_id), updated_at = now()
  where id = secret_id
$$;

revoke all on all functions in schema vault from public;
grant usage on schema vault to postgres, service_role;
grant select, delete, truncate on vault.secrets to postgres;
grant select, delete on vault.secrets to service_role;
grant select on vault.decrypted_secrets to postgres, service_role;
grant execute on function
  vault.basalt_decrypt(text),
  vault.create_secret(text, text, text, uuid),
  vault.update_secret(uuid, text, text, text, uuid)
  to postgres, service_role;
