-- Schema auth, its enums, and the functions that policies call (auth.md 4.1, 4.2).
--
-- Runs as supabase_admin, or on an external server as the role of database.url, which may hold no more
-- than CREATEROLE and CREATEDB. Everything is made as supabase_auth_admin, so that it owns what it serves.

-- A superuser may become anybody; another role has to be a member first. PostgreSQL 16 gives the creator
-- of a role ADMIN but not SET on it, so the grant is made even where a membership shows already.
do $$
begin
  if not (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
    execute format('grant supabase_auth_admin to %I', current_user);
  end if;
end
$$;

create schema if not exists auth authorization supabase_auth_admin;

set local role supabase_auth_admin;

do $$
declare
  wanted record;
begin
  for wanted in
    select *
    from (values
      ('aal_level', array['aal1', 'aal2', 'aal3']),
      ('code_challenge_method', array['s256', 'plain']),
      ('factor_type', array['totp', 'webauthn', 'phone']),
      ('factor_status', array['unverified', 'verified']),
      ('one_time_token_type', array['confirmation_token', 'reauthentication_token', 'recovery_token',
                                    'email_change_token_new', 'email_change_token_current', 'phone_change_token']),
      ('oauth_registration_type', array['dynamic', 'manual']),
      ('oauth_authorization_status', array['pending', 'approved', 'denied', 'expired']),
      ('oauth_response_type', array['code']),
      ('oauth_client_type', array['public', 'confidential'])
    ) as enums (name, labels)
  loop
    if to_regtype('auth.' || wanted.name) is null then
      execute format(
        'create type auth.%I as enum (%s)',
        wanted.name,
        (select string_agg(quote_literal(label), ', ' order by ord)
         from unnest(wanted.labels) with ordinality as l (label, ord))
      );
    end if;
  end loop;
end
$$;

-- The settings read '' once a connection has held them in an earlier transaction, hence every nullif.
-- No SET clause on these functions: it would keep the planner from inlining them into policies.
create or replace function auth.uid() returns uuid
language sql stable parallel safe
as $$
  select nullif(
    coalesce(
      nullif(current_setting('request.jwt.claim.sub', true), ''),
      nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
    ),
    ''
  )::uuid
$$;

create or replace function auth.role() returns text
language sql stable parallel safe
as $$
  select nullif(
    coalesce(
      nullif(current_setting('request.jwt.claim.role', true), ''),
      nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role'
    ),
    ''
  )::text
$$;

create or replace function auth.email() returns text
language sql stable parallel safe
as $$
  select nullif(
    coalesce(
      nullif(current_setting('request.jwt.claim.email', true), ''),
      nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email'
    ),
    ''
  )::text
$$;

create or replace function auth.jwt() returns jsonb
language sql stable parallel safe
as $$
  select coalesce(
    nullif(current_setting('request.jwt.claim', true), ''),
    nullif(current_setting('request.jwt.claims', true), '')
  )::jsonb
$$;

comment on function auth.uid() is 'Id of the signed-in user, or null. In policies write (select auth.uid()): it then runs once per statement.';
comment on function auth.role() is 'Role claim of the request. Deprecated: name the role in the policy (to authenticated) instead.';
comment on function auth.email() is 'E-mail claim of the request. Deprecated: use (select auth.jwt()) ->> ''email''.';
comment on function auth.jwt() is 'All claims of the request, or null. In policies write (select auth.jwt()).';

grant execute on function auth.uid(), auth.role(), auth.email(), auth.jwt() to public;

set local role none;
