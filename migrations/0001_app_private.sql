-- A schema for what policies and triggers need and nobody may call by name: no USAGE for the API roles. A policy finds
-- its functions without it; they only need EXECUTE.
create schema app_private;
comment on schema app_private is 'Helpers of policies and triggers. Not exposed.';

-- Whatever the client sends, `updated_at` is when the row was last written, by the server's clock.
create function app_private.set_updated_at() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.updated_at := now();
  return new;
end $$;
