-- Everything that a project's SQL can make, one row each: kind, name, definition. Objects of extensions and of the server's own schemas are left
-- out, but policies and triggers on the services' tables are included: projects make those too.
with
  own_schemas as (
    select n.oid, n.nspname from pg_catalog.pg_namespace n
    where n.nspname !~ '^pg_' and n.nspname <> all (array['information_schema', 'auth', 'storage', 'realtime', 'functions',
      'basalt', 'extensions', 'supabase_migrations', 'vault', 'cron', 'net', 'pgmq', 'graphql', 'graphql_public', 'pgsodium'])
    and not exists (select from pg_catalog.pg_depend d
      where d.classid = 'pg_catalog.pg_namespace'::regclass and d.objid = n.oid and d.deptype = 'e')
  ),
  relations as (
    select c.*, n.nspname, pg_catalog.format('%I.%I', n.nspname, c.relname) as name
    from pg_catalog.pg_class c join own_schemas n on n.oid = c.relnamespace
    where not exists (select from pg_catalog.pg_depend d
      where d.classid = 'pg_catalog.pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  ),
  tables as (
    select c.oid, pg_catalog.format('%I.%I', n.nspname, c.relname) as name
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'basalt')
  )
select 'schema' as kind, nspname::text as name, '' as definition from own_schemas
union all
select case relkind when 'v' then 'view' when 'm' then 'materialized view' when 'f' then 'foreign table' else 'table' end, name,
  case when relkind in ('v', 'm') then pg_catalog.pg_get_viewdef(oid) || coalesce(pg_catalog.array_to_string(reloptions, ', '), '')
    else 'row security ' || case when relforcerowsecurity then 'forced' when relrowsecurity then 'on' else 'off' end end
from relations where relkind in ('r', 'p', 'v', 'm', 'f')
union all
select 'grants on', name, coalesce(
  (select string_agg(acl::text, ' ' order by acl::text) from pg_catalog.unnest(relacl) as acl), 'the owner''s')
from relations where relkind in ('r', 'p', 'v', 'm', 'f', 'S')
union all
select 'column', r.name || '.' || pg_catalog.quote_ident(a.attname),
  pg_catalog.concat_ws(' ', pg_catalog.format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' end,
    case when a.attidentity <> '' then 'identity' end,
    case when a.attgenerated <> '' then 'generated' when d.adbin is not null then 'default' end,
    pg_catalog.pg_get_expr(d.adbin, d.adrelid))
from relations r
join pg_catalog.pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where r.relkind in ('r', 'p', 'f')
union all
select 'constraint', r.name || '.' || pg_catalog.quote_ident(c.conname), pg_catalog.pg_get_constraintdef(c.oid)
from pg_catalog.pg_constraint c join relations r on r.oid = c.conrelid where c.contype not in ('t', 'n')
union all
select 'index', r.name, pg_catalog.pg_get_indexdef(r.oid)
from relations r
where r.relkind in ('i', 'I') and not exists (select from pg_catalog.pg_constraint c where c.conindid = r.oid)
union all
select 'function', pg_catalog.format('%I.%I(%s)', n.nspname, p.proname, pg_catalog.pg_get_function_identity_arguments(p.oid)),
  case when p.prokind in ('f', 'p') then pg_catalog.pg_get_functiondef(p.oid) else p.prokind::text end
from pg_catalog.pg_proc p join own_schemas n on n.oid = p.pronamespace
where not exists (select from pg_catalog.pg_depend d
  where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
union all
select 'type', pg_catalog.format('%I.%I', n.nspname, t.typname),
  coalesce((select string_agg(pg_catalog.quote_literal(e.enumlabel), ', ' order by e.enumsortorder)
    from pg_catalog.pg_enum e where e.enumtypid = t.oid), t.typtype::text)
from pg_catalog.pg_type t join own_schemas n on n.oid = t.typnamespace
where (t.typtype in ('e', 'd', 'r') or (t.typtype = 'c' and exists (
    select from pg_catalog.pg_class c where c.oid = t.typrelid and c.relkind = 'c')))
  and not exists (select from pg_catalog.pg_depend d
    where d.classid = 'pg_catalog.pg_type'::regclass and d.objid = t.oid and d.deptype = 'e')
union all
select 'policy', t.name || '.' || pg_catalog.quote_ident(p.polname),
  pg_catalog.concat_ws(' ', p.polcmd::text, case when not p.polpermissive then 'restrictive' end, p.polroles::regrole[]::text,
    'using', pg_catalog.pg_get_expr(p.polqual, p.polrelid), 'check', pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
from pg_catalog.pg_policy p join tables t on t.oid = p.polrelid
union all
select 'trigger', tables.name || '.' || pg_catalog.quote_ident(t.tgname), pg_catalog.pg_get_triggerdef(t.oid)
from pg_catalog.pg_trigger t join tables on tables.oid = t.tgrelid where not t.tgisinternal
union all
select 'extension', e.extname::text, n.nspname::text
from pg_catalog.pg_extension e join pg_catalog.pg_namespace n on n.oid = e.extnamespace
union all
select 'published table', p.pubname || ': ' || pg_catalog.format('%I.%I', t.schemaname, t.tablename), ''
from pg_catalog.pg_publication p join pg_catalog.pg_publication_tables t on t.pubname = p.pubname
order by 1, 2
