-- The types and functions of the extension http. A request would hold a transaction open while it waits, and needs a
-- library that this server does not have: the functions raise an error that names the alternatives.

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

create function @extschema@.http(request @extschema@.http_request) returns @extschema@.http_response
language plpgsql set search_path = '' as $$
begin
  raise exception 'http: this server cannot send a request within a transaction' using
    errcode = '0A000',
    hint = 'Use net.http_post() or net.http_get() of the extension pg_net, which send after the commit, or call the API in an Edge Function.';
end $$;

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
language sql immutable strict parallel safe set search_path = '' as $$
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

-- Options have no effect, because nothing is sent.
create function @extschema@.http_set_curlopt(curlopt varchar, value varchar) returns boolean
language sql as $$ select true $$;
create function @extschema@.http_reset_curlopt() returns boolean
language sql as $$ select true $$;
