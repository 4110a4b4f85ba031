-- Columns, one row each in order, as plain cells: JSON of them would cost more than all the rest of the load.
select
  a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull,
  -- Always generated: nobody can write it, so its type's default does not count either.
  a.attidentity = 'a' or a.attgenerated <> '',
  case
    when a.attidentity = 'd' then (
      select format('nextval(%L)', seq.objid::regclass::text)
      from pg_catalog.pg_depend seq
      join pg_catalog.pg_class sc on sc.oid = seq.objid and sc.relkind = 'S'
      where seq.classid = 'pg_catalog.pg_class'::regclass and seq.refclassid = 'pg_catalog.pg_class'::regclass
        and seq.refobjid = a.attrelid and seq.refobjsubid = a.attnum and seq.deptype = 'i'
      limit 1)
    when a.attidentity = '' and a.attgenerated = '' and ad.oid is not null then pg_get_expr(ad.adbin, ad.adrelid)
  end,
  d.description
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
left join pg_catalog.pg_attrdef ad on ad.adrelid = a.attrelid and ad.adnum = a.attnum
left join pg_catalog.pg_description d
  on d.objoid = a.attrelid and d.objsubid = a.attnum and d.classoid = 'pg_catalog.pg_class'::regclass
where c.relkind in ('r', 'v', 'm', 'f', 'p')
  and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
  and c.relpersistence <> 't'
order by a.attrelid, a.attnum
