-- What administrators look at and do beyond editing rows: events in pages, users, the log with names, figures.

-- Every function below begins with this.
create function app_private.require_admin() returns void
language plpgsql stable security definer set search_path = '' as $$
begin
  if not public.is_admin() then
    raise exception 'Administrators only' using errcode = '42501';
  end if;
end $$;
revoke execute on function app_private.require_admin() from public;

-- With a search and pages; called as before it answers as before. The search is for the text itself: % and _ mean nothing.
drop function public.get_webhook_events(text);
create function public.get_webhook_events(
  source_filter text default null, search_text text default null, page_size integer default 200, page_offset integer default 0
)
returns table (
  id text, source text, event_type text, status text, payload jsonb, error_message text, created_at timestamptz,
  processed_at timestamptz
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := lower(coalesce(search_text, ''));
begin
  perform app_private.require_admin();
  return query
  select e.id, e.source, e.event_type, e.status, e.payload, e.error_message, e.created_at, e.processed_at
  from public.webhook_events e
  where (coalesce(source_filter, '') in ('', 'all') or e.source = lower(source_filter))
    and (
      wanted = '' or strpos(lower(e.event_type), wanted) > 0 or strpos(lower(e.id), wanted) > 0
      or strpos(lower(e.error_message), wanted) > 0
    )
  order by e.created_at desc, e.id
  limit least(greatest(page_size, 0), 200) offset greatest(page_offset, 0);
end $$;
revoke execute on function public.get_webhook_events(text, text, integer, integer) from public;
grant execute on function public.get_webhook_events(text, text, integer, integer) to authenticated, service_role;

-- Accounts, the newest first. `total` is how many the search finds.
create function public.admin_list_users(
  search_text text default null, page_size integer default 50, page_offset integer default 0
)
returns table (
  id uuid, email text, name text, organization text, created_at timestamptz, last_sign_in_at timestamptz,
  is_confirmed boolean, is_disabled boolean, is_admin boolean, subscription_status text, total bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := lower(coalesce(search_text, ''));
begin
  perform app_private.require_admin();
  return query
  with found as (
    select u.*, count(*) over () as found_total
    from auth.users u
    where u.deleted_at is null
      and (
        wanted = '' or strpos(lower(u.email), wanted) > 0 or u.id::text = wanted
        or strpos(lower(u.raw_user_meta_data ->> 'name'), wanted) > 0
        or strpos(lower(u.raw_user_meta_data ->> 'organization_name'), wanted) > 0
      )
    order by u.created_at desc, u.id
    limit least(greatest(page_size, 0), 200) offset greatest(page_offset, 0)
  )
  select f.id, f.email::text, left(f.raw_user_meta_data ->> 'name', 200),
    left(f.raw_user_meta_data ->> 'organization_name', 200), f.created_at, f.last_sign_in_at,
    f.email_confirmed_at is not null, coalesce(f.banned_until > now(), false),
    exists (select from public.user_roles r where r.user_id = f.id and r.role = 'admin'),
    (
      select s.status
      from public.user_subscriptions s
      where s.user_id = f.id and s.status <> 'incomplete_expired'
      order by
        array_position(array['active', 'trialing', 'past_due', 'unpaid', 'paused', 'incomplete', 'canceled'], s.status),
        s.created_at desc
      limit 1
    ),
    f.found_total
  from found f
  order by f.created_at desc, f.id;
end $$;
revoke execute on function public.admin_list_users(text, integer, integer) from public;
grant execute on function public.admin_list_users(text, integer, integer) to authenticated;

-- Who dismisses or disables administrators waits for others who do: each then counts what the other has left.
create function app_private.lock_administrators() returns void
language sql security definer set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended('public.user_roles', 0))
$$;

-- A disabled account cannot sign in or renew its session. A token that it has is good for as long as tokens last.
create function public.admin_set_user_disabled(user_id uuid, disabled boolean) returns void
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
      raise exception 'This account no longer exists' using errcode = 'P0002';
    end if;
    return;
  end if;

  if disabled then
    delete from auth.sessions s where s.user_id = admin_set_user_disabled.user_id;
  end if;
  insert into public.audit_log (actor_id, action, subject, subject_id)
  values ((select auth.uid()), case when disabled then 'disable' else 'enable' end, 'users', admin_set_user_disabled.user_id);
end $$;
revoke execute on function public.admin_set_user_disabled(uuid, boolean) from public;
grant execute on function public.admin_set_user_disabled(uuid, boolean) to authenticated;

-- Signed-in people cannot leave the site without an administrator; the server and its operator may. Accounts that are
-- deleted take their roles along.
create function app_private.keep_an_administrator() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  if (select auth.uid()) is null or not exists (select from auth.users u where u.id = old.user_id) then
    return null;
  end if;
  perform app_private.lock_administrators();
  if not exists (
    select from public.user_roles r
    join auth.users u on u.id = r.user_id
    where r.role = 'admin' and u.deleted_at is null and coalesce(u.banned_until <= now(), true)
  ) then
    raise exception 'Cannot remove the last administrator. Appoint another one first'
      using errcode = 'check_violation', constraint = 'an_administrator_stays', table = 'user_roles', schema = 'public';
  end if;
  return null;
end $$;
create constraint trigger an_administrator_stays after delete or update on public.user_roles
  deferrable initially immediate
  for each row when (old.role = 'admin')
  execute function app_private.keep_an_administrator();

-- The log with the names of those who acted. `total` is how many lines the search finds.
create function public.admin_list_audit_log(
  search_text text default null, page_size integer default 50, page_offset integer default 0
)
returns table (
  id bigint, created_at timestamptz, actor_id uuid, actor_email text, action text, subject text, subject_id text,
  details jsonb, total bigint
)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  wanted text := lower(coalesce(search_text, ''));
begin
  perform app_private.require_admin();
  return query
  select l.id, l.created_at, l.actor_id, u.email::text, l.action, l.subject, l.subject_id, l.details, count(*) over ()
  from public.audit_log l
  left join auth.users u on u.id = l.actor_id
  where wanted = '' or strpos(lower(l.action), wanted) > 0 or strpos(lower(l.subject), wanted) > 0
    or strpos(lower(l.subject_id), wanted) > 0 or strpos(lower(u.email), wanted) > 0
  order by l.created_at desc, l.id desc
  limit least(greatest(page_size, 0), 200) offset greatest(page_offset, 0);
end $$;
revoke execute on function public.admin_list_audit_log(text, integer, integer) from public;
grant execute on function public.admin_list_audit_log(text, integer, integer) to authenticated;

-- How the server's inbox and stores are: one object, so that a later figure changes no signature.
create function public.admin_health() returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  perform app_private.require_admin();
  return jsonb_build_object(
    'webhooks', (
      select jsonb_build_object(
        'processed', count(*) filter (where e.status = 'processed'),
        'pending', count(*) filter (where e.status = 'pending'),
        'failed', count(*) filter (where e.status = 'failed'),
        'oldest_pending', min(e.created_at) filter (where e.status = 'pending'),
        'newest', max(e.created_at)
      )
      from public.webhook_events e
    ),
    'storage', (
      select coalesce(jsonb_agg(
        jsonb_build_object('bucket', b.name, 'files', coalesce(o.files, 0), 'bytes', coalesce(o.bytes, 0)) order by b.name
      ), '[]')
      from storage.buckets b
      left join (
        select o.bucket_id, count(*) as files, sum((o.metadata ->> 'size')::bigint) as bytes
        from storage.objects o
        group by o.bucket_id
      ) o on o.bucket_id = b.id
    ),
    'accounts', (
      select jsonb_build_object(
        'all', count(*),
        'disabled', count(*) filter (where u.banned_until > now()),
        'unconfirmed', count(*) filter (where u.email_confirmed_at is null)
      )
      from auth.users u
      where u.deleted_at is null
    ),
    'mail_configured', exists (select from app_private.secrets s where s.name = 'email_resend'),
    'database_bytes', pg_database_size(current_database()),
    'versions', jsonb_build_object(
      'postgresql', current_setting('server_version'),
      'app_migration', (select max(m.version) from supabase_migrations.schema_migrations m)
    ),
    'server_time', now()
  );
end $$;
revoke execute on function public.admin_health() from public;
grant execute on function public.admin_health() to authenticated;

-- One row for each of the last days, today included: accounts made that day, and at its end subscriptions in force and
-- what they bring in a month at the prices of today.
create function public.admin_growth(days integer default 90)
returns table (day date, sign_ups bigint, active_subscriptions bigint, monthly_revenue numeric)
language plpgsql stable security definer set search_path = '' as $$
#variable_conflict use_column
declare
  first_day date := current_date - (least(greatest(days, 1), 366) - 1);
begin
  perform app_private.require_admin();
  return query
  with terms as (
    select s.created_at::date as began,
      -- `canceled` without a time: when the server was told.
      case when s.status = 'canceled' then coalesce(s.ended_at, s.updated_at)::date end as ended,
      coalesce(
        p.price * case p."interval" when 'day' then 365.25 / 12 when 'week' then 365.25 / 84 when 'year' then 1.0 / 12 else 1 end,
        0
      ) as monthly
    from public.user_subscriptions s
    left join public.subscription_plans p on p.stripe_price_id = s.stripe_price_id
    where s.status not in ('incomplete', 'incomplete_expired')
  ),
  joined as (
    select u.created_at::date as joined_on, count(*) as people
    from auth.users u
    where u.deleted_at is null and u.created_at >= first_day
    group by 1
  )
  select d.day::date, coalesce(j.people, 0), count(t.began), coalesce(round(sum(t.monthly), 2), 0)
  from generate_series(first_day, current_date, interval '1 day') as d (day)
  left join joined j on j.joined_on = d.day::date
  left join terms t on t.began <= d.day::date and (t.ended is null or t.ended > d.day::date)
  group by d.day, j.people
  order by d.day;
end $$;
revoke execute on function public.admin_growth(integer) from public;
grant execute on function public.admin_growth(integer) to authenticated;

revoke execute on function app_private.lock_administrators(), app_private.keep_an_administrator() from public;
