-- An account that is gone is not found (404); `P0002` would be a fault of the server.
create or replace function public.admin_set_user_disabled(user_id uuid, disabled boolean) returns void
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  is_changed boolean;
begin
  perform app_private.require_admin();
  if admin_set_user_disabled.user_id = (select auth.uid()) then
    raise exception 'You cannot disable your own account' using errcode = '23514';
  end if;
  perform app_private.lock_administrators();

  update auth.users u
  -- A century: the auth service reads no infinity.
  set banned_until = case when disabled then now() + interval '100 years' end
  where u.id = admin_set_user_disabled.user_id and u.deleted_at is null
    and coalesce(u.banned_until > now(), false) is distinct from disabled
  returning true into is_changed;
  if is_changed is null then
    if not exists (select from auth.users u where u.id = admin_set_user_disabled.user_id and u.deleted_at is null) then
      raise exception 'This account no longer exists' using errcode = 'PT404';
    end if;
    return;
  end if;

  if disabled then
    delete from auth.sessions s where s.user_id = admin_set_user_disabled.user_id;
  end if;
  insert into public.audit_log (actor_id, action, subject, subject_id)
  values ((select auth.uid()), case when disabled then 'disable' else 'enable' end, 'users', admin_set_user_disabled.user_id);
end $$;

-- Prices change on the pages that show them.
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.subscription_plans;
  end if;
end $$;
