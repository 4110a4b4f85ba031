-- pg_net's functions and responses. The queue is basalt.http_requests; the server sends it (extensions/src/net.rs).

do $$
begin
  if to_regnamespace('net') is null then
    create schema net;
  end if;
end $$;

create table net._http_response (
  id bigint primary key,
  status_code integer,
  content_type text,
  headers jsonb,
  content text,
  timed_out boolean,
  error_msg text,
  created timestamptz not null default now()
);
create index _http_response_created_idx on net._http_response (created);
alter table net._http_response enable row level security;

create view net.http_request_queue as
  select id, method, url, headers, body, timeout_milliseconds from basalt.http_requests;

create function net._urlencode_string(string text) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select coalesce(string_agg(
    case when letter ~ '^[A-Za-z0-9_.~-]$' then letter
      else regexp_replace(upper(encode(convert_to(letter, 'UTF8'), 'hex')), '(..)', '%\1', 'g') end,
    '' order by place), '')
  from regexp_split_to_table(string, '') with ordinality as letters (letter, place)
$$;

create function net.basalt_url_with_params(url text, params jsonb) returns text
language sql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
  select url || coalesce(
    case when position('?' in url) > 0 then '&' else '?' end
      || string_agg(net._urlencode_string(key) || '=' || net._urlencode_string(value), '&'),
    '')
  from jsonb_each_text(params)
$$;

create function net.http_get(
  url text,
  params jsonb default '{}',
  headers jsonb default '{}',
  timeout_milliseconds integer default 5000
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select basalt.enqueue_http_request('GET', net.basalt_url_with_params(url, params), headers, null, timeout_milliseconds)
$$;

create function net.http_post(
  url text,
  body jsonb default '{}',
  params jsonb default '{}',
  headers jsonb default '{"Content-Type": "application/json"}',
  timeout_milliseconds integer default 5000
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  content_type text;
begin
  select value into content_type from jsonb_each_text(headers) where lower(key) = 'content-type' limit 1;
  if content_type is null then
    headers := coalesce(headers, '{}') || '{"Content-Type": "application/json"}';
  elsif content_type not ilike 'application/json%' then
    raise exception 'Content-Type header must be "application/json"' using errcode = '22023';
  end if;
  return basalt.enqueue_http_request(
    'POST', net.basalt_url_with_params(url, params), headers, convert_to(body::text, 'UTF8'), timeout_milliseconds);
end $$;

create function net.http_delete(
  url text,
  params jsonb default '{}',
  headers jsonb default '{}',
  timeout_milliseconds integer default 5000,
  body jsonb default null
) returns bigint
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select basalt.enqueue_http_request(
    'DELETE', net.basalt_url_with_params(url, params), headers, convert_to(body::text, 'UTF8'), timeout_milliseconds)
$$;

revoke all on all functions in schema net from public;
grant usage on schema net to postgres, anon, authenticated, service_role;
grant execute on function
  net.http_get(text, jsonb, jsonb, integer),
  net.http_post(text, jsonb, jsonb, jsonb, integer),
  net.http_delete(text, jsonb, jsonb, integer, jsonb)
  to postgres, anon, authenticated, service_role;
grant select, delete, truncate on net._http_response to postgres;
grant select, delete on net._http_response to service_role;
grant select on net.http_request_queue to postgres, service_role;
