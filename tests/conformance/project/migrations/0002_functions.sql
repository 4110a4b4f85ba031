-- One function for every shape an answer can have. EXECUTE is granted here, beside each function: there is no policy file for functions.

create function add(a int, b int default 10) returns int language sql immutable as 'select a + b';

create function greet(name text default 'world') returns text language sql stable as $$ select 'hello ' || name $$;

create function nothing() returns void language plpgsql volatile as $$ begin end $$;

create function null_text() returns text language sql stable as 'select null::text';

create function current_mood() returns mood language sql stable as $$ select 'happy'::mood $$;

create function numbers_up_to(upto int) returns int[] language sql immutable as
  'select array_agg(n) from generate_series(1, upto) n';

create function each_number(upto int) returns setof int language sql immutable as
  'select generate_series(1, upto)';

create function echo(payload jsonb) returns jsonb language sql immutable as 'select payload';

create function sum_of(numbers int[]) returns bigint language sql immutable as
  'select sum(n) from unnest(numbers) n';

create function project_by_id(wanted int) returns projects language sql stable as
  'select * from projects where id = wanted';

create function projects_of(client int) returns setof projects language sql stable as
  'select * from projects where client_id = client';

create function task_totals() returns table (project_id int, total bigint) language sql stable as
  'select project_id, count(*) from tasks group by project_id';

create function project_names() returns table (name text) language sql stable as
  'select name from projects order by id';

create function split_number(n int, out doubled int, out squared int) language sql immutable as
  'select n * 2, n * n';

create function pair() returns record language sql immutable as $$ select 1 as a, 'x'::text as b $$;

create function who_am_i() returns jsonb language sql stable as $$
  select jsonb_build_object(
    'uid', auth.uid(), 'role', auth.role(), 'email', auth.email(), 'claims', auth.jwt(),
    'current_user', current_user, 'method', current_setting('request.method', true), 'path', current_setting('request.path', true),
    'has_apikey', (current_setting('request.headers', true)::jsonb) ? 'apikey')
$$;

create function add_setting(scope text, key text) returns int language sql volatile as
  'insert into settings (scope, key) values (scope, key) returning revision';

-- Declared stable, so the transaction is read only; what it calls may not write then, though volatile itself.
create function writes_though_stable() returns int language sql stable as $$ select add_setting('never', 'never') $$;

create function fail(message text) returns void language plpgsql as $$
begin
  raise exception '%', message using detail = 'the detail', hint = 'the hint';
end $$;

create function fail_with_status() returns void language plpgsql as $$
begin
  raise sqlstate 'PT402' using message = 'Payment Required', detail = 'Quota exceeded', hint = 'Upgrade';
end $$;

create function sleep(seconds float8) returns void language sql volatile as 'select pg_sleep(seconds)';

create function for_members_only() returns text language sql stable as $$ select 'welcome'::text $$;

grant execute on function
  add, greet, nothing, null_text, current_mood, numbers_up_to, each_number, echo, sum_of, project_by_id, projects_of, task_totals, project_names,
  split_number, pair, who_am_i, add_setting, writes_though_stable, fail, fail_with_status, sleep
  to anon, authenticated, service_role;
grant execute on function for_members_only to authenticated, service_role;
