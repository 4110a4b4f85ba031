-- Default expressions, by relation and column. The relation is not given to pg_get_expr, which would open and lock it;
-- it is needed for columns in an expression, and only those of generated columns have such.
select d.adrelid, d.adnum, pg_get_expr(d.adbin, 0)
from pg_catalog.pg_attrdef d
where strpos(d.adbin::text, '{VAR ') = 0
union all
-- What an identity column takes when nothing is given. A regclass is printed with its schema: the search path is empty.
select d.refobjid, d.refobjsubid, 'nextval(' || quote_literal(d.objid::regclass) || ')'
from pg_catalog.pg_depend d
join pg_catalog.pg_sequence s on s.seqrelid = d.objid
where d.classid = 'pg_catalog.pg_class'::regclass and d.refclassid = 'pg_catalog.pg_class'::regclass
  and d.refobjsubid > 0 and d.deptype = 'i'
