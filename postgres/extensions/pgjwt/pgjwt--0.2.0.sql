-- pgjwt's functions over pgcrypto's hmac.

create function @extschema@.url_encode(data bytea) returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select rtrim(translate(replace(encode(data, 'base64'), e'\n', ''), '+/', '-_'), '=')
$$;

create function @extschema@.url_decode(data text) returns bytea
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select decode(rpad(translate(data, '-_', '+/'), ((length(data) + 3) / 4) * 4, '='), 'base64')
$$;

create function @extschema@.algorithm_sign(signables text, secret text, algorithm text) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
declare
  hash constant text := case algorithm when 'HS256' then 'sha256' when 'HS384' then 'sha384' when 'HS512' then 'sha512' end;
begin
  if hash is null then
    raise exception 'JWT algorithm "%" is not supported: use HS256, HS384 or HS512', algorithm using errcode = '22023';
  end if;
  return @extschema@.url_encode(extensions.hmac(signables, secret, hash));
end $$;

create function @extschema@.try_cast_double(inp text) returns double precision
language plpgsql immutable parallel safe set search_path = pg_catalog, pg_temp as $$
begin
  return inp::double precision;
exception when invalid_text_representation or numeric_value_out_of_range then
  return null;
end $$;

create function @extschema@.sign(payload json, secret text, algorithm text default 'HS256') returns text
language sql immutable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select signables || '.' || @extschema@.algorithm_sign(signables, secret, algorithm)
  from (
    select @extschema@.url_encode(convert_to(format('{"alg":"%s","typ":"JWT"}', algorithm), 'utf8')) || '.'
      || @extschema@.url_encode(convert_to(payload::text, 'utf8')) as signables
  ) as message
$$;

create function @extschema@.verify(token text, secret text, algorithm text default 'HS256')
returns table (header json, payload json, valid boolean)
language sql stable strict parallel safe set search_path = pg_catalog, pg_temp as $$
  select jwt.header, jwt.payload,
    jwt.is_signed and now() >= coalesce(to_timestamp(@extschema@.try_cast_double(jwt.payload ->> 'nbf')), '-infinity')
      and now() < coalesce(to_timestamp(@extschema@.try_cast_double(jwt.payload ->> 'exp')), 'infinity')
  from (
    select convert_from(@extschema@.url_decode(parts[1]), 'utf8')::json as header,
      convert_from(@extschema@.url_decode(parts[2]), 'utf8')::json as payload,
      parts[3] = @extschema@.algorithm_sign(parts[1] || '.' || parts[2], secret, algorithm) as is_signed
    from (select string_to_array(token, '.')) as split (parts)
  ) as jwt
$$;
