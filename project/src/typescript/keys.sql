-- Foreign keys of the schemas $1, with their columns in the key's order.
select k.conname::text as name, k.conrelid as relation, k.confrelid as referenced,
  k.conkey::int4[] as columns, k.confkey::int4[] as referenced_columns,
  exists (
    select from pg_catalog.pg_constraint u
    where u.conrelid = k.conrelid and u.contype in ('p', 'u') and u.conkey @> k.conkey and u.conkey <@ k.conkey
  ) as is_one_to_one
from pg_catalog.pg_constraint k
join pg_catalog.pg_namespace n on n.oid = k.connamespace
where k.contype = 'f' and k.conparentid = 0 and n.nspname = any ($1)
