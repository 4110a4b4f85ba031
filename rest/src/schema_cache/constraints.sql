-- Primary keys, unique constraints and foreign keys by numbers; foreign keys that partitions inherit are left out.
select c.conrelid, c.xmin, c.contype, c.conname, c.conkey, c.confrelid, c.confkey
from pg_catalog.pg_constraint c
where c.contype in ('p', 'u', 'f') and (c.contype <> 'f' or c.conparentid = 0) and c.conrelid <> 0
