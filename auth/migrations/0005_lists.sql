-- Ours: what the lists of the admin API and the clean-up read by (auth.md 3.13, 3.23).

set local role supabase_auth_admin;

-- The order of the user list, with rows that a seed left without a time at its end; a cursor points into it.
create index if not exists users_listed_idx
  on auth.users ((coalesce(created_at, '-infinity'::timestamptz)) desc, id desc);
create index if not exists audit_log_entries_created_at_idx on auth.audit_log_entries (created_at desc, id);

-- `filter` of the user list is a LIKE with wildcards at both ends, which trigrams answer from an index. The extension
-- is not installed for that: a project's own `create extension pg_trgm` would fail. Where it is there already, it is used.
do $$
declare
  place text := (select n.nspname from pg_catalog.pg_extension e
                 join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm');
begin
  if place is not null and has_schema_privilege(place, 'usage') then
    execute format(
      'create index if not exists users_email_trgm_idx on auth.users using gin (email %I.gin_trgm_ops)', place);
    execute format(
      'create index if not exists users_full_name_trgm_idx on auth.users
         using gin ((raw_user_meta_data ->> ''full_name'') %I.gin_trgm_ops)', place);
  end if;
end
$$;

set local role none;
