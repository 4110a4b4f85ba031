-- What the built-in functions need of accounts, and no more. They work as `service_role`, which may not read `auth.users`.

-- `core::seal` keeps the nonce with the text.
alter table functions.runtime_secrets drop column nonce;

grant usage on schema functions to service_role;

-- The tables are those of auth, whose migrations come before these.
create function functions.account(id uuid)
returns table (email text, is_confirmed boolean, is_banned boolean, name text)
language sql stable security definer set search_path = '' as $$
  select u.email::text, u.email_confirmed_at is not null, coalesce(u.banned_until > now(), false),
    coalesce(nullif(u.raw_user_meta_data ->> 'organization_name', ''), nullif(u.raw_user_meta_data ->> 'name', ''))
  from auth.users u
  where u.id = account.id and u.deleted_at is null
$$;
comment on function functions.account(uuid) is 'An account by its id; no row when there is none.';

-- Two accounts may have one address where one of them signs in through an identity provider: then neither is meant.
create function functions.account_of_confirmed_email(address text) returns uuid
language sql stable security definer set search_path = '' as $$
  select case when count(*) = 1 then (array_agg(u.id))[1] end
  from auth.users u
  where lower(u.email) = lower(address) and u.email_confirmed_at is not null and u.deleted_at is null
$$;

revoke execute on function functions.account(uuid), functions.account_of_confirmed_email(text) from public;
grant execute on function functions.account(uuid), functions.account_of_confirmed_email(text) to service_role;
