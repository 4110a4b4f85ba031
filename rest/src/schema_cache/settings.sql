-- Settings stored in the database for the login role; those specific to this database come last and take precedence.
select coalesce(json_agg(json_build_array(substr(kv.name, 7), kv.value) order by s.setdatabase, kv.position), '[]')::text
from pg_catalog.pg_db_role_setting s
cross join lateral (
  select split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value, position
  from unnest(s.setconfig) with ordinality as e(entry, position)
) kv
where s.setrole = (select oid from pg_catalog.pg_roles where rolname = session_user)
  and s.setdatabase in (0, (select oid from pg_catalog.pg_database where datname = current_database()))
  and kv.name like 'pgrst.%'
