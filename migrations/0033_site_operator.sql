-- Who runs the site. The terms and the privacy policy show it to everyone.

alter table public.app_settings
  add constraint app_settings_site_operator_shape check (
    key <> 'site_operator'
    or (
      jsonb_typeof(value) = 'object'
      and coalesce(jsonb_typeof(value -> 'name'), 'null') in ('string', 'null')
      and coalesce(jsonb_typeof(value -> 'address'), 'null') in ('string', 'null')
      and coalesce(jsonb_typeof(value -> 'email'), 'null') in ('string', 'null')
      and char_length(value ->> 'name') <= 200 and char_length(value ->> 'address') <= 500
      and char_length(value ->> 'email') <= 254
    )
  );

-- These three texts of this one setting: the others are for administrators. No row while nothing is set.
create function public.get_site_operator() returns table (name text, address text, email text)
language sql stable security definer set search_path = '' as $$
  select o.*
  from public.app_settings s
  cross join lateral (
    select nullif(btrim(s.value ->> 'name'), '') as name, nullif(btrim(s.value ->> 'address'), '') as address,
      nullif(btrim(s.value ->> 'email'), '') as email
  ) o
  where s.key = 'site_operator' and coalesce(o.name, o.address, o.email) is not null
$$;
comment on function public.get_site_operator is 'Name, address and e-mail of the site''s operator; no row while nothing is set.';
revoke execute on function public.get_site_operator() from public;
grant execute on function public.get_site_operator() to anon, authenticated, service_role;
