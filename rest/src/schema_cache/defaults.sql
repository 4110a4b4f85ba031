-- Default expressions by relation and column. pg_get_expr gets no relation, because it would open and lock it; it
-- needs one only for column references, which occur only in generated columns.
select d.adrelid, d.adnum, pg_get_expr(d.adbin, 0)
from pg_catalog.pg_attrdef d
where strpos(d.adbin::text, '{VAR ') = 0
union all
-- Default of an identity column. The search path is empty, so the regclass is printed with its schema.
select d.refobjid, d.refobjsubid, 'nextval(' || quote_literal(d.objid::regclass) || ')'
from pg_catalog.pg_depend d
join pg_catalog.pg_sequence s on s.seqrelid = d.objid
where d.classid = 'pg_catalog.pg_class'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
  and d.refobjsubid > 0 and d.deptype = 'i'
