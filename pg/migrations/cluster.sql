-- What lies outside the database: roles, memberships, their settings, rights on the database itself. Safe to run at
-- any time and by anybody with CREATEROLE; what the login may not do is left out with a warning, and `doctor` says
-- what that costs. A role that is a superuser is never changed: on an external server `postgres` may be one.

-- Roles are shared by all databases of the cluster, and advisory locks are not: two databases prepared at the same
-- moment meet here. Only a superuser may take this lock; others lose the race with an error and are tried again.
do $$
begin
  lock table pg_catalog.pg_authid in share row exclusive mode;
exception when insufficient_privilege then null;
end $$;

-- Roles. Attributes that a plain CREATEROLE login may not give are tried one by one.
do $$
declare
  wanted record;
  attribute text;
  has boolean;
begin
  for wanted in
    select * from (values
      ('anon', 'nologin noinherit', '{}'::text[]),
      ('authenticated', 'nologin noinherit', '{}'),
      ('service_role', 'nologin noinherit', '{bypassrls}'),
      ('authenticator', 'login noinherit', '{}'),
      ('supabase_admin', 'nologin inherit', '{}'),
      ('supabase_auth_admin', 'login noinherit', '{createrole}'),
      ('supabase_storage_admin', 'nologin noinherit', '{}'),
      ('supabase_realtime_admin', 'nologin noinherit', '{}'),
      ('dashboard_user', 'nologin inherit', '{createdb,createrole,replication}'),
      ('postgres', 'login inherit', '{createdb,createrole,replication,bypassrls}')
    ) as roles (name, base, attributes)
  loop
    if not exists (select from pg_catalog.pg_roles where rolname = wanted.name) then
      execute format('create role %I %s', wanted.name, wanted.base);
    end if;
    continue when exists (select from pg_catalog.pg_roles
      where rolname = wanted.name and (rolsuper or rolname = current_user));
    foreach attribute in array wanted.attributes loop
      select case attribute
          when 'bypassrls' then r.rolbypassrls
          when 'createrole' then r.rolcreaterole
          when 'createdb' then r.rolcreatedb
          when 'replication' then r.rolreplication
        end into has
        from pg_catalog.pg_roles r where r.rolname = wanted.name;
      continue when has;
      begin
        execute format('alter role %I %s', wanted.name, attribute);
      exception when insufficient_privilege then
        raise warning 'role % is without %: %', wanted.name, attribute, sqlerrm;
      end;
    end loop;
  end loop;

  -- An elevation for one project file that was not taken back. Only where `postgres` is ours (not the role that made
  -- the cluster, oid 10, nor a superuser of somebody else's server).
  if current_user = 'supabase_admin'
    and exists (select from pg_catalog.pg_roles where rolname = 'postgres' and rolsuper and oid <> 10)
  then
    alter role postgres nosuperuser;
  end if;
end $$;

-- Memberships, and the settings of each role. PostgreSQL 16 gave ADMIN OPTION to whoever creates a role, but not the
-- right to become it: the login grants itself that, because system migrations hand their objects to these roles.
do $$
declare
  statement text;
  server integer := current_setting('server_version_num')::integer;
  is_super boolean := (select rolsuper from pg_catalog.pg_roles where rolname = current_user);
begin
  for statement in
    select format('grant %I to %I', granted, member)
    from (values
      ('anon', 'authenticator'), ('authenticated', 'authenticator'), ('service_role', 'authenticator'),
      ('anon', 'supabase_realtime_admin'), ('authenticated', 'supabase_realtime_admin'),
      ('service_role', 'supabase_realtime_admin'),
      ('anon', 'postgres'), ('authenticated', 'postgres'), ('service_role', 'postgres'),
      ('supabase_storage_admin', 'postgres'), ('supabase_realtime_admin', 'postgres')
    ) as memberships (granted, member)
    where not exists (
      select from pg_catalog.pg_auth_members m
      where m.roleid = granted::regrole and m.member = memberships.member::regrole
    )
    -- A superuser is everything already; and its memberships are not ours to change.
    and not exists (select from pg_catalog.pg_roles where rolname = memberships.member and rolsuper)
    union all
    -- The project's owner gives these roles settings and makes other roles members of them. Until PostgreSQL 15
    -- CREATEROLE is enough for both.
    select format('grant %I to postgres with admin true', granted)
      || case granted when 'authenticator' then ', inherit false, set false' else '' end
    from (values ('anon'), ('authenticated'), ('service_role'), ('authenticator')) as administered (granted)
    where server >= 160000
      and not exists (
        select from pg_catalog.pg_auth_members m
        where m.roleid = granted::regrole and m.member = 'postgres'::regrole and m.admin_option
      )
      and not exists (
        select from pg_catalog.pg_roles where rolname = 'postgres' and (rolsuper or rolname = current_user)
      )
    union all
    -- What Supabase's `postgres` may do although it is no superuser: watch and end sessions.
    select format('grant %I to postgres with admin option', granted)
    from (values ('pg_monitor'), ('pg_signal_backend')) as predefined (granted)
    where (is_super or server < 160000)
      and not exists (
        select from pg_catalog.pg_auth_members m
        where m.roleid = granted::regrole and m.member = 'postgres'::regrole and m.admin_option
      )
      and not exists (
        select from pg_catalog.pg_roles where rolname = 'postgres' and (rolsuper or rolname = current_user)
      )
    union all
    -- Without BYPASSRLS the project's SQL would see no row of auth.users, and so would its security definer functions.
    -- A member of the tables' owner does.
    select 'grant supabase_auth_admin to postgres'
    where exists (select from pg_catalog.pg_roles where rolname = 'postgres' and not rolbypassrls and not rolsuper)
    union all
    select format('grant %I to current_user', name)
      || case when server >= 160000 then ' with inherit true, set true' else '' end
    from (values ('postgres'), ('supabase_auth_admin'), ('supabase_storage_admin'), ('supabase_realtime_admin'),
      ('anon'), ('authenticated'), ('service_role')) as owners (name)
    where not is_super and name <> current_user
      and not exists (select from pg_catalog.pg_roles where rolname = name and rolsuper)
    union all
    -- Limits for requests (rest.md 4.1, auth.md 4.3). PostgreSQL reads those of anon and authenticated at login
    -- only, and nobody logs in as them: whoever sets the role applies them.
    select format('alter role %I set %s', name, setting)
    from (values
      ('anon', $s$statement_timeout = '3s'$s$),
      ('authenticated', $s$statement_timeout = '8s'$s$),
      ('authenticator', $s$statement_timeout = '8s'$s$),
      ('authenticator', $s$lock_timeout = '8s'$s$),
      ('supabase_auth_admin', 'search_path = auth'),
      ('supabase_auth_admin', $s$idle_in_transaction_session_timeout = '60s'$s$),
      ('postgres', 'search_path = "$user", public, extensions')
    ) as settings (name, setting)
    where name <> current_user
      and not exists (select from pg_catalog.pg_roles where rolname = name and rolsuper)
  loop
    begin
      execute statement;
    exception when insufficient_privilege then
      raise warning '%: %', statement, sqlerrm;
    end;
  end loop;
end $$;

-- Settings that only a superuser may set, unless they are granted by name. Those that /rest/v1 reads from its login
-- (rest.md 4.5), which the project's owner stores with `alter role authenticator set pgrst.…`; and those that Supabase's
-- `postgres` may set.
do $$
declare
  name text;
begin
  if current_setting('server_version_num')::integer < 150000
    or not (select rolsuper from pg_catalog.pg_roles where rolname = current_user)
    or (select rolsuper from pg_catalog.pg_roles where rolname = 'postgres')
  then
    return;
  end if;
  foreach name in array array[
    'db_schemas', 'db_extra_search_path', 'db_max_rows', 'db_anon_role', 'db_pre_request', 'db_root_spec',
    'db_aggregates_enabled', 'db_plan_enabled', 'db_tx_end', 'db_hoisted_tx_settings', 'jwt_aud',
    'jwt_role_claim_key', 'jwt_secret', 'jwt_secret_is_base64', 'server_cors_allowed_origins',
    'server_timing_enabled', 'server_trace_header', 'openapi_mode', 'openapi_server_proxy_uri',
    'openapi_security_active', 'url_use_legacy_target_names', 'client_error_verbosity'
  ] loop
    if not exists (select from pg_catalog.pg_parameter_acl where parname = 'pgrst.' || name) then
      execute format('grant set on parameter pgrst.%I to postgres', name);
    end if;
  end loop;
  -- Settings of PostgreSQL that Supabase's `postgres` may set.
  foreach name in array array[
    'session_replication_role', 'log_min_messages', 'log_min_duration_statement', 'track_io_timing', 'track_functions'
  ] loop
    if not exists (select from pg_catalog.pg_parameter_acl where parname = name) then
      execute format('grant set on parameter %I to postgres', name);
    end if;
  end loop;
end $$;

-- Rights on this database. A copy of a template has none of them, so they are looked at on every start.
do $$
declare
  statement text;
  is_ours boolean := (select pg_catalog.pg_get_userbyid(d.datdba) = current_user
    from pg_catalog.pg_database d where d.datname = current_database());
begin
  for statement in
    -- As the owner `postgres` may give the database settings of PostgreSQL's own; only in a cluster of ours.
    select format('alter database %I owner to postgres', current_database())
      where is_ours and current_user = 'supabase_admin'
    union all
    select format('grant all on database %I to postgres, dashboard_user', current_database())
  loop
    begin
      execute statement;
    exception when insufficient_privilege then
      raise warning '%: %', statement, sqlerrm;
    end;
  end loop;
end $$;
