-- For what only the client does: another schema, and answers that it asks for again.

create schema other;
grant usage on schema other to anon, authenticated, service_role;

create table other.items (
  id int primary key,
  name text not null
);
insert into other.items (id, name) values (1, 'elsewhere');
alter table other.items enable row level security;
grant select on other.items to anon, authenticated, service_role;
create policy "everybody reads" on other.items for select to anon, authenticated using (true);

create function other.place() returns text language sql stable as $$ select 'other'::text $$;

-- Is busy until the client has come back so many times.
create function busy_until(retries int) returns int language plpgsql stable as $$
declare
  retried int := coalesce((current_setting('request.headers')::json ->> 'x-retry-count')::int, 0);
begin
  if retried < retries then
    raise sqlstate 'PT503' using message = 'Busy';
  end if;
  return retried;
end $$;

create function header_of(name text) returns text language sql stable as
  $$ select current_setting('request.headers', true)::json ->> name $$;

create function rename_settings(of_scope text) returns setof settings language sql volatile as
  $$ update settings set value = '"renamed"' where scope = of_scope returning * $$;

grant execute on function other.place, busy_until, header_of to anon, authenticated, service_role;
grant execute on function rename_settings to authenticated, service_role;
