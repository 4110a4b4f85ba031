-- Roles at the level of the site. The first administrator comes from `basalt user create --admin` or the demo seed,
-- never from the order of sign-ups.
create table public.user_roles (
  user_id uuid not null references auth.users (id) on delete cascade,
  role text not null check (role in ('admin')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (user_id, role)
);
comment on table public.user_roles is 'Who administers the site.';

create trigger set_updated_at before update on public.user_roles
  for each row execute function app_private.set_updated_at();

-- Definer, so that a policy on user_roles itself can ask. False for visitors.
create function public.is_admin() returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select from public.user_roles r where r.user_id = (select auth.uid()) and r.role = 'admin'
  )
$$;
revoke execute on function public.is_admin() from public;
grant execute on function public.is_admin() to anon, authenticated, service_role;

-- One's own address, and any for administrators; else null, so that nobody learns which ids exist.
create function public.get_user_email_by_id(user_id_to_search uuid) returns text
language sql stable security definer set search_path = '' as $$
  select u.email::text
  from auth.users u
  where u.id = user_id_to_search and (u.id = (select auth.uid()) or public.is_admin())
$$;
revoke execute on function public.get_user_email_by_id(uuid) from public;
grant execute on function public.get_user_email_by_id(uuid) to authenticated, service_role;
