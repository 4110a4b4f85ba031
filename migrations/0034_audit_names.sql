-- As in 0013, with the name that the acting account has; the search covers it too.
drop function public.admin_list_audit_log(text, integer, integer);
create function public.admin_list_audit_log(
  search_text text default null, page_size integer default 50, page_offset integer default 0
)
returns table (
  id bigint, created_at timestamptz, actor_id uuid, actor_email text, actor_name text, action text, subject text,
  subject_id text, details jsonb, total bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := lower(coalesce(search_text, ''));
begin
  perform app_private.require_admin();
  return query
  select l.id, l.created_at, l.actor_id, u.email::text, n.name, l.action, l.subject, l.subject_id, l.details, count(*) over ()
  from public.audit_log l
  left join auth.users u on u.id = l.actor_id
  cross join lateral (
    -- One line, as 0027 shows it to the team; null where the account has none.
    select left(nullif(btrim(regexp_replace(u.raw_user_meta_data ->> 'name', '[[:cntrl:][:space:]]+', ' ', 'g')), ''), 80) as name
  ) n
  where wanted = '' or strpos(lower(l.action), wanted) > 0 or strpos(lower(l.subject), wanted) > 0
    or strpos(lower(l.subject_id), wanted) > 0 or strpos(lower(u.email), wanted) > 0 or strpos(lower(n.name), wanted) > 0
  order by l.created_at desc, l.id desc
  limit least(greatest(page_size, 0), 200) offset greatest(page_offset, 0);
end $$;
revoke execute on function public.admin_list_audit_log(text, integer, integer) from public;
grant execute on function public.admin_list_audit_log(text, integer, integer) to authenticated;
