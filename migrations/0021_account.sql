-- The account page: a second factor that policies enforce, avatars, and deleting one's own account.

-- A user with a verified factor must have used it in this session. Without the check, a stolen password would be enough for
-- every call that does not go through the app.
create function app_private.has_required_factor() returns boolean
language sql stable security definer set search_path = '' as $$
  select coalesce((select auth.jwt()) ->> 'aal', 'aal1') = 'aal2'
    or not exists (
      select from auth.mfa_factors f where f.user_id = (select auth.uid()) and f.status = 'verified'
    )
$$;
revoke execute on function app_private.has_required_factor() from public;
grant execute on function app_private.has_required_factor() to authenticated, service_role;

create or replace function app_private.my_plans(roles text[] default '{owner,manager,viewer}') returns setof uuid
language sql stable security definer set search_path = '' rows 20 as $$
  select m.plan_id
  from public.plan_members m
  where m.user_id = (select auth.uid()) and m.invite_accepted and m.role = any (roles)
    and (select app_private.has_required_factor())
$$;

create or replace function public.is_admin() returns boolean
language sql stable security definer set search_path = '' as $$
  select exists (
    select from public.user_roles r where r.user_id = (select auth.uid()) and r.role = 'admin'
  ) and app_private.has_required_factor()
$$;

-- Everyone on a plan's team sees the pictures: they are read by URL, whose last part cannot be guessed.
insert into storage.buckets (id, name, public, file_size_limit, allowed_mime_types) values
  ('avatars', 'avatars', true, 1048576, array['image/png', 'image/jpeg', 'image/webp'])
on conflict (id) do nothing;

-- Deletes the caller's account. Triggers do the rest: plans without another owner are deleted, the others pass to one
-- (0004), and the card provider ends the subscription (0015). The last administrator stays: the site would have none.
-- With `only_check` nothing is deleted: the app asks before it removes the files of plans that go.
create function public.delete_my_account(only_check boolean default false) returns void
language plpgsql security definer set search_path = '' as $$
declare
  caller uuid := (select auth.uid());
begin
  if caller is null then
    raise exception 'Sign in to delete your account' using errcode = '42501';
  end if;
  if not app_private.has_required_factor() then
    raise exception 'Enter the code of your authenticator app first' using errcode = '42501';
  end if;
  -- Two administrators who leave at the same moment must not both succeed.
  perform from public.user_roles r where r.role = 'admin' order by r.user_id for update;
  if exists (select from public.user_roles r where r.user_id = caller and r.role = 'admin')
    and not exists (select from public.user_roles r where r.user_id <> caller and r.role = 'admin')
  then
    raise exception 'You are the only administrator. Make another user an administrator first'
      using errcode = 'check_violation';
  end if;
  if not only_check then
    delete from auth.users u where u.id = caller;
  end if;
end $$;
comment on function public.delete_my_account is 'Deletes the caller''s account, and the plans that no one else owns.';
revoke execute on function public.delete_my_account(boolean) from public, anon;
grant execute on function public.delete_my_account(boolean) to authenticated;
