-- Settings of the roles that the login may assume, limited to those that an unprivileged user may set, because the
-- login sets them.
select coalesce(json_object_agg(r.rolname, json_build_object('isolation', kv.isolation, 'settings', kv.settings)), '{}')::text
from pg_catalog.pg_roles r
cross join lateral (
  select max(value) filter (where name = 'default_transaction_isolation') as isolation,
         coalesce(json_agg(json_build_array(name, value)) filter (where name <> 'default_transaction_isolation'), '[]') as settings
  from (
    select split_part(entry, '=', 1) as name, substr(entry, strpos(entry, '=') + 1) as value
    from unnest(r.rolconfig) as e(entry)
  ) entries
  join pg_catalog.pg_settings known using (name)
  where known.context = 'user' or has_parameter_privilege(current_user, name, 'set')
) kv
where r.rolconfig is not null and pg_has_role(current_user, r.oid, 'member')
