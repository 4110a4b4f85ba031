-- Comments on relations (attribute number 0) and their columns.
select d.objoid, d.objsubid, d.description
from pg_catalog.pg_description d
where d.classoid = 'pg_catalog.pg_class'::regclass
