-- Primary keys, unique constraints and foreign keys by attribute number; foreign keys inherited by partitions are
-- omitted.
select c.conrelid, c.xmin, c.contype, c.conname, c.conkey, c.confrelid, c.confkey
from pg_catalog.pg_constraint c
where c.contype in ('p', 'u', 'f') and (c.contype <> 'f' or c.conparentid = 0) and c.conrelid <> 0
