-- Who logs in and who they become, and what the test itself needs; comes before either schema.

create schema hold;                                   -- in nobody's list

-- Roles belong to the cluster, which other tests may share.
do $$
declare
  name text;
begin
  foreach name in array array['anon', 'authenticated', 'service_role', 'harbour_master', 'harbour_stranger'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin noinherit', name);
    end if;
  end loop;
  if not exists (select from pg_roles where rolname = 'harbour_authenticator') then
    create role harbour_authenticator login noinherit password 'differential';
  end if;
end $$;
grant anon, authenticated, service_role, harbour_master to harbour_authenticator;
alter role harbour_master set statement_timeout = '7s';
alter role harbour_master set default_transaction_isolation = 'repeatable read';

-- Sequences are the one thing a rollback leaves behind, so that each server's turn at a write starts from here.
create function hold.rewind() returns void language plpgsql as $$
declare
  sequence record;
begin
  for sequence in select c.oid::regclass as name from pg_class c where c.relkind = 'S' and c.relnamespace <> 'pg_catalog'::regnamespace loop
    perform setval(sequence.name, 1000);
  end loop;
end $$;

-- What all tables hold, and a way to put that into another database: after a write the two servers must have left the same.
create function hold.columns(relation oid) returns text language sql stable as $$
  select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
  where attrelid = relation and attnum > 0 and not attisdropped and attgenerated = ''
$$;
create function hold.contents() returns jsonb language plpgsql as $$
declare
  relation oid;
  rows jsonb;
  contents jsonb := '{}';
begin
  for relation in select c.oid from pg_class c where c.relkind = 'r' and c.relnamespace in (select oid from pg_namespace where nspname !~ '^(pg_|information_schema)') loop
    execute format('select coalesce(jsonb_agg(hold_row::text order by hold_row::text), ''[]'') from only %s hold_row', relation::regclass) into rows;
    contents := contents || jsonb_build_object(relation::regclass::text, rows);
  end loop;
  return contents;
end $$;
create function hold.restore(contents jsonb) returns void language plpgsql as $$
declare
  relation text;
  columns text;
begin
  set local session_replication_role = replica;
  for relation in select jsonb_object_keys(contents) loop
    execute format('delete from only %s', relation);
    columns := hold.columns(relation::regclass);
    if columns is null then
      execute format('insert into %s select from jsonb_array_elements_text($1)', relation) using contents -> relation;
    else
      execute format('insert into %s (%s) overriding system value select %s from (select (hold_row::%1$s).* from jsonb_array_elements_text($1) hold_row) hold_rows', relation, columns, columns) using contents -> relation;
    end if;
  end loop;
end $$;
create function hold.forward(number bigint) returns void language plpgsql as $$
declare
  sequence record;
begin
  for sequence in select c.oid::regclass as name from pg_class c where c.relkind = 'S' and c.relnamespace <> 'pg_catalog'::regnamespace loop
    perform setval(sequence.name, number);
  end loop;
end $$;
