-- The types and functions of the extension http. The server sends the request and returns the response over a socket of its
-- own (extensions/src/net/calls.rs).

create domain @extschema@.http_method as text;
create domain @extschema@.content_type as text check (value ~ '^\S+\/\S+');
create type @extschema@.http_header as (field varchar, value varchar);
create type @extschema@.http_request as (
  method @extschema@.http_method, uri varchar, headers @extschema@.http_header[], content_type varchar, content varchar
);
create type @extschema@.http_response as (
  status integer, content_type varchar, headers @extschema@.http_header[], content varchar
);

create function @extschema@.http_header(field varchar, value varchar) returns @extschema@.http_header
language sql immutable parallel safe as $$ select $1, $2 $$;

-- dblink without its extension. Only functions of the superuser may call it.
do $$
begin
  create function @extschema@.basalt_connect(name text, connection text) returns text
  language c strict as '$libdir/dblink', 'dblink_connect';
  create function @extschema@.basalt_send(name text, request text) returns integer
  language c strict as '$libdir/dblink', 'dblink_send_query';
  create function @extschema@.basalt_is_busy(name text) returns integer
  language c strict as '$libdir/dblink', 'dblink_is_busy';
  create function @extschema@.basalt_result(name text) returns setof record
  language c strict as '$libdir/dblink', 'dblink_get_result';
  create function @extschema@.basalt_disconnect(name text) returns text
  language c strict as '$libdir/dblink', 'dblink_disconnect';
  revoke all on function @extschema@.basalt_connect(text, text), @extschema@.basalt_send(text, text),
    @extschema@.basalt_is_busy(text), @extschema@.basalt_result(text), @extschema@.basalt_disconnect(text) from public;
exception when undefined_file then
  raise warning 'http cannot send requests: the library dblink of PostgreSQL is not installed';
end $$;

-- `pg_temp` is last, so that the caller's temporary types are not used.
create function @extschema@.http(request @extschema@.http_request) returns @extschema@.http_response
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  -- Only a superuser can change the setting, so that the caller cannot choose the socket.
  folder text := btrim(current_setting('unix_socket_directories'), '"')
    || '/http.' || (select oid from pg_catalog.pg_database where datname = current_database());
  -- One socket for each server of this database.
  target text := format('host=''%1$s,%1$s,%1$s,%1$s'' port=1,2,3,4 dbname=http user=http connect_timeout=10', folder);
  headers jsonb := (
    select jsonb_agg(jsonb_build_array(field, coalesce(value, ''))) from unnest(request.headers) where field is not null);
  timeout_ms integer := coalesce(
    nullif(current_setting('http.curlopt_timeout_ms', true), ''), nullif(current_setting('http.timeout_msec', true), ''), '5000')::integer;
  -- The server ends a call after its timeout, or after this one if there is none.
  ends_at timestamptz := clock_timestamp()
    + make_interval(secs => case when timeout_ms between 1 and 60000 then timeout_ms / 1000.0 else 60 end) + interval '60 s';
  pause double precision := 0.001;
  answer record;
begin
  if request.uri is null then
    raise exception 'the URL of an HTTP request is null' using
      errcode = '22004', hint = 'Check the setting or secret that holds it.';
  end if;
  headers := coalesce(headers, '[]');
  if request.content is not null and request.content_type is not null then
    headers := headers || jsonb_build_array(jsonb_build_array('Content-Type', request.content_type));
  end if;
  if octet_length(request.uri) > 8192 or octet_length(headers::text) > 65536 or octet_length(request.content) > 10485760 then
    raise exception 'the HTTP request is too large' using
      errcode = '54000', hint = 'The URL may have 8 kB, the headers 64 kB, the content 10 MB.';
  end if;
  begin
    begin
      perform @extschema@.basalt_connect('basalt_http', target);
    exception
      -- Left by a call that was cancelled twice.
      when duplicate_object then
        perform @extschema@.basalt_disconnect('basalt_http');
        perform @extschema@.basalt_connect('basalt_http', target);
      when undefined_function or sqlclient_unable_to_establish_sqlconnection then
        raise exception 'http: no server of this database can send a request within a transaction' using
          errcode = '0A000',
          hint = 'Use net.http_post() or net.http_get() of the extension pg_net, which send after the commit, or call the API in an Edge Function.';
    end;
    perform @extschema@.basalt_send('basalt_http', jsonb_build_object(
      'method', coalesce(request.method, 'GET'), 'url', request.uri, 'headers', headers,
      -- 0 means no limit.
      'timeout_ms', case when timeout_ms > 0 then timeout_ms end)::text || chr(10) || coalesce(request.content, ''));
    -- dblink's own wait would delay a cancel request until the response arrives.
    while @extschema@.basalt_is_busy('basalt_http') = 1 loop
      if clock_timestamp() > ends_at then
        raise exception 'the server did not respond to the function http' using errcode = 'XX000';
      end if;
      perform pg_sleep(pause);
      pause := least(pause * 2, 0.02);
    end loop;
    select * into answer from @extschema@.basalt_result('basalt_http')
      as reply (status integer, content_type text, headers jsonb, content text, code text, message text);
    perform @extschema@.basalt_disconnect('basalt_http');
  exception when query_canceled or others then
    begin
      perform @extschema@.basalt_disconnect('basalt_http');
    exception when others then
      -- It was not connected.
      null;
    end;
    if sqlstate = '08006' then
      raise exception 'the server stopped while the request was being sent; its response is unknown' using errcode = 'XX000';
    end if;
    raise;
  end;
  if answer.code = '53400' then
    raise exception '%', answer.message using
      errcode = '53400', hint = 'extensions.http_concurrency limits them. net.http_post() of the extension pg_net does not wait.';
  elsif answer.code is not null then
    raise exception '%', answer.message using errcode = answer.code;
  end if;
  return (
    answer.status, answer.content_type,
    array(
      select (header ->> 0, header ->> 1)::@extschema@.http_header
      from jsonb_array_elements(answer.headers) with ordinality as list (header, place) order by place),
    answer.content
  )::@extschema@.http_response;
end $$;
-- A call holds a connection until the response arrives, and the schema may be exposed.
revoke all on function @extschema@.http(@extschema@.http_request) from public;
grant execute on function @extschema@.http(@extschema@.http_request) to postgres with grant option;
grant execute on function @extschema@.http(@extschema@.http_request) to service_role;

create function @extschema@.http_get(uri varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('GET', $1, null, null, null)::@extschema@.http_request) $$;
create function @extschema@.http_get(uri varchar, data jsonb) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('GET', $1 || '?' || @extschema@.urlencode($2), null, null, null)::@extschema@.http_request) $$;
create function @extschema@.http_head(uri varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('HEAD', $1, null, null, null)::@extschema@.http_request) $$;
create function @extschema@.http_post(uri varchar, content varchar, content_type varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('POST', $1, null, $3, $2)::@extschema@.http_request) $$;
create function @extschema@.http_post(uri varchar, data jsonb) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('POST', $1, null, 'application/x-www-form-urlencoded', @extschema@.urlencode($2))::@extschema@.http_request) $$;
create function @extschema@.http_put(uri varchar, content varchar, content_type varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('PUT', $1, null, $3, $2)::@extschema@.http_request) $$;
create function @extschema@.http_patch(uri varchar, content varchar, content_type varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('PATCH', $1, null, $3, $2)::@extschema@.http_request) $$;
create function @extschema@.http_delete(uri varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('DELETE', $1, null, null, null)::@extschema@.http_request) $$;
create function @extschema@.http_delete(uri varchar, content varchar, content_type varchar) returns @extschema@.http_response
language sql as $$ select @extschema@.http(('DELETE', $1, null, $3, $2)::@extschema@.http_request) $$;

create function @extschema@.urlencode(string varchar) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select coalesce(string_agg(
    case when letter ~ '^[A-Za-z0-9_.~-]$' then letter
      else regexp_replace(upper(encode(convert_to(letter, 'UTF8'), 'hex')), '(..)', '%\1', 'g') end,
    '' order by place), '')
  from regexp_split_to_table(string, '') with ordinality as letters (letter, place)
$$;
create function @extschema@.urlencode(data jsonb) returns text
language sql immutable strict parallel safe as $$
  select string_agg(@extschema@.urlencode(key::varchar) || '=' || @extschema@.urlencode(value::varchar), '&') from jsonb_each_text(data)
$$;

-- Timeouts are the only options with an effect.
create function @extschema@.http_set_curlopt(curlopt varchar, value varchar) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if upper(curlopt) = 'CURLOPT_TIMEOUT_MS' then
    perform set_config('http.curlopt_timeout_ms', value::integer::text, false);
  elsif upper(curlopt) = 'CURLOPT_TIMEOUT' then
    perform set_config('http.curlopt_timeout_ms', (value::integer * 1000)::text, false);
  end if;
  return true;
end $$;
create function @extschema@.http_reset_curlopt() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform set_config('http.curlopt_timeout_ms', '', false);
  return true;
end $$;
