-- Implicit casts by a function between a domain and json or text.
select json_build_object(
  'domain', format_type(case when s.typtype = 'd' then s.oid else t.oid end, null),
  'direction', case
    when s.typtype = 'd' then 'to_json'
    when s.oid = 'pg_catalog.json'::regtype then 'from_json'
    else 'from_text'
  end,
  'function', json_build_object('schema', n.nspname, 'name', p.proname)
)::text
from pg_catalog.pg_cast c
join pg_catalog.pg_type s on s.oid = c.castsource
join pg_catalog.pg_type t on t.oid = c.casttarget
join pg_catalog.pg_proc p on p.oid = c.castfunc
join pg_catalog.pg_namespace n on n.oid = p.pronamespace
where c.castcontext = 'i' and c.castmethod = 'f'
  and ((s.typtype = 'd' and t.oid = 'pg_catalog.json'::regtype)
    or (t.typtype = 'd' and s.oid in ('pg_catalog.json'::regtype, 'pg_catalog.text'::regtype)))
