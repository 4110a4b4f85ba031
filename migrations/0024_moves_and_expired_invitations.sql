-- Moving a row is not an edit: `updated_at` is the version that an open form replaces, so a move by another member would be reported as
-- a conflict. As in 0008, but an update that changes nothing else keeps it.
drop trigger set_updated_at on public.priorities;
create trigger set_updated_at before update on public.priorities
  for each row when (to_jsonb(old) - 'position' is distinct from to_jsonb(new) - 'position')
  execute function app_private.set_updated_at();
drop trigger set_updated_at on public.tasks;
create trigger set_updated_at before update on public.tasks
  for each row when (to_jsonb(old) - 'position' is distinct from to_jsonb(new) - 'position')
  execute function app_private.set_updated_at();

-- As in 0017, and an expired invitation begins again: new tokens, and 14 days from now. Its former links must not work again.
create or replace function public.begin_invitation_mail(member_id uuid)
returns table (attempt_id bigint, token uuid, expires_at timestamptz)
language plpgsql security definer set search_path = '' as $$
#variable_conflict use_column
declare
  made uuid := gen_random_uuid();
  made_id bigint;
begin
  -- Of two mails at once, the second finds the invitation renewed.
  update public.plan_members m
  set created_at = now(), invite_token = gen_random_uuid()
  where m.id = begin_invitation_mail.member_id and not m.invite_accepted and m.created_at <= now() - interval '14 days';
  if found then
    delete from app_private.invitation_mails s where s.member_id = begin_invitation_mail.member_id;
  end if;
  insert into app_private.invitation_mails (member_id, token_hash)
  select m.id, app_private.invitation_token_hash(made::text)
  from public.plan_members m
  where m.id = begin_invitation_mail.member_id and not m.invite_accepted
  returning id into made_id;
  if made_id is null then
    return;
  end if;
  delete from app_private.invitation_mails s
  where s.member_id = begin_invitation_mail.member_id and s.id <= (
    select t.id
    from app_private.invitation_mails t
    where t.member_id = begin_invitation_mail.member_id
    order by t.id desc
    offset 10 limit 1
  );
  return query
  select made_id, made, m.created_at + interval '14 days'
  from public.plan_members m
  where m.id = begin_invitation_mail.member_id;
end $$;
