-- A plan's report for boards and funders: what it covers, and links with which people without an account read it.

-- Up to three years, so that the months fit on a page.
create function app_private.is_report_period(first_day date, last_day date) returns boolean
language sql immutable set search_path = '' as $$
  select coalesce(first_day >= '1900-01-01' and last_day <= '2199-12-31' and last_day - first_day between 0 and 1096, false)
$$;
revoke execute on function app_private.is_report_period(date, date) from public;
grant execute on function app_private.is_report_period(date, date) to authenticated, service_role;

create table public.plan_reports (
  plan_id uuid primary key references public.plans (id) on delete cascade,
  first_day date not null,
  last_day date not null,
  -- Of the person who chose the period: decides on which day a task was completed.
  time_zone text not null default 'UTC',
  -- Priorities that are left out; those added later are included.
  excluded_priorities uuid[] not null default '{}',
  -- Rich text as HTML, sanitised where it is shown.
  comment text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint plan_reports_period check (app_private.is_report_period(first_day, last_day)),
  constraint plan_reports_time_zone_exists check (char_length(time_zone) <= 64 and app_private.is_time_zone(time_zone)),
  constraint plan_reports_excluded_at_most_1000 check (
    cardinality(excluded_priorities) <= 1000 and array_position(excluded_priorities, null) is null
  ),
  constraint plan_reports_comment_at_most_20000 check (char_length(comment) <= 20000)
);
comment on table public.plan_reports is 'What the report of a plan covers, with a comment.';
create trigger set_updated_at before update on public.plan_reports
  for each row execute function app_private.set_updated_at();

create table public.plan_report_links (
  id uuid primary key default gen_random_uuid(),
  plan_id uuid not null references public.plan_reports (plan_id) on delete cascade,
  -- The secret in the link: 244 random bits. Readable by those who may make links, so that they can copy it again.
  token text not null default replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''),
  -- Null once the account is deleted.
  created_by uuid default auth.uid() references auth.users (id) on delete set null,
  -- For how long it works; null: until it is revoked, which deletes the row.
  valid_days integer,
  expires_at timestamptz,
  last_used_at timestamptz,
  created_at timestamptz not null default now(),
  constraint plan_report_links_valid_days_30_or_365 check (valid_days in (30, 365))
);
comment on table public.plan_report_links is 'Links with which people without an account read a plan''s report.';
create unique index plan_report_links_token on public.plan_report_links (token);
create index plan_report_links_plan_id on public.plan_report_links (plan_id, created_at desc);
create index plan_report_links_created_by on public.plan_report_links (created_by);

create function app_private.set_report_link_expiry() returns trigger
language plpgsql set search_path = '' as $$
begin
  new.expires_at := now() + new.valid_days * interval '1 day';
  return new;
end $$;
create trigger set_expiry before insert on public.plan_report_links
  for each row execute function app_private.set_report_link_expiry();

-- After the statement, so that a stranger gets the policy's refusal. The lock lets two tabs at once see each other.
create function app_private.limit_report_links() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  plan uuid;
begin
  for plan in select distinct a.plan_id from added a order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('limit of report links ' || plan::text, 0));
    if (select count(*) from public.plan_report_links l where l.plan_id = plan) > 20 then
      raise exception using
        errcode = 'check_violation', constraint = 'limit_of_report_links',
        message = 'A plan has at most 20 report links.', hint = 'Revoke a link that is no longer needed.';
    end if;
  end loop;
  return null;
end $$;
create trigger limit_report_links after insert on public.plan_report_links
  referencing new table as added for each statement execute function app_private.limit_report_links();

-- The report, as it is today or, for a period that is over, as it was on its last day. Without people: names of responsible
-- parties, members and addresses are not part of it. Lists hold 200 tasks and the number of all; what comes next is due
-- within 90 days.
create function app_private.report_of(plan uuid, first_day date, last_day date, zone text, excluded uuid[]) returns jsonb
language sql stable set search_path = '' as $$
  with days as (
    select least(d.today, last_day) as as_of,
      -- The first day that is not over.
      least(d.today, last_day + 1) as next_day
    from (select (now() at time zone zone)::date as today) d
  ),
  priorities as materialized (
    select p.id, p.title, row_number() over (order by p.position, p.created_at desc, p.id) - 1 as place
    from public.priorities p
    where p.plan_id = plan and p.id <> all (array_remove(excluded, null))
  ),
  tasks as materialized (
    select t.id, t.title, t.due_date, p.place, t.done_on, coalesce(t.done_on <= d.as_of, false) as is_done
    from days d
    cross join (
      select t.*, (t.completed_at at time zone zone)::date as done_on from public.tasks t where t.plan_id = plan
    ) t
    join priorities p on p.id = t.priority_id
  ),
  listed as (
    select t.*, case
        when t.is_done and t.done_on >= first_day then 'done'
        when not t.is_done and t.due_date < d.next_day then 'late'
        when not t.is_done and t.due_date <= d.as_of + 90 then 'next'
        when not t.is_done and t.due_date is not null then 'later'
        when not t.is_done then 'undated'
      end as list
    from days d
    cross join tasks t
  ),
  ranked as (
    select l.*, row_number() over (
      partition by l.list order by case when l.list = 'done' then l.done_on else l.due_date end, l.place, l.title, l.id
    ) as rank
    from listed l
    where l.list is not null
  ),
  lists as (
    select r.list, jsonb_build_object('total', count(*), 'tasks', coalesce(
      jsonb_agg(jsonb_build_object('title', r.title, 'priority', r.place, 'due', r.due_date, 'done', r.done_on) order by r.rank)
        filter (where r.rank <= 200 and r.list in ('done', 'late', 'next')),
      '[]'
    )) as content
    from ranked r
    group by r.list
  )
  select jsonb_build_object(
    'title', p.title,
    'organization', (
      select jsonb_build_object('name', o.name, 'logo_url', o.logo_url) from public.organizations o where o.plan_id = plan
    ),
    'first_day', first_day, 'last_day', last_day, 'as_of', d.as_of,
    'priorities', coalesce((
      select jsonb_agg(jsonb_build_object('title', x.title, 'completed', x.completed, 'total', x.total) order by x.place)
      from (
        select y.place, y.title, count(t.id) filter (where t.is_done) as completed, count(t.id) as total
        from priorities y
        left join tasks t on t.place = y.place
        group by y.place, y.title
      ) x
    ), '[]'),
    'months', (
      select jsonb_agg(jsonb_build_object('month', m.month::date, 'completed', coalesce(c.completed, 0)) order by m.month)
      from generate_series(date_trunc('month', first_day::timestamp), last_day::timestamp, interval '1 month') as m (month)
      left join (
        select date_trunc('month', t.done_on::timestamp) as month, count(*) as completed
        from tasks t
        where t.is_done and t.done_on >= first_day
        group by 1
      ) c using (month)
    ),
    'lists', coalesce((select jsonb_object_agg(l.list, l.content) from lists l), '{}')
  )
  from public.plans p
  cross join days d
  where p.id = plan and p.deleted_at is null
$$;

create function public.get_plan_report(plan uuid, first_day date, last_day date, time_zone text, excluded uuid[]) returns jsonb
language plpgsql stable security definer set search_path = '' as $$
begin
  if plan is null or plan <> all (array(select app_private.my_plans())) then return null; end if;
  if not app_private.is_report_period(first_day, last_day) then
    raise exception 'The period of a report is up to three years' using errcode = '22023',
      hint = 'Choose a last day that is not before the first one, and at most three years after it.';
  end if;
  if time_zone is null or not app_private.is_time_zone(time_zone) then
    raise exception 'This time zone is not known' using errcode = '22023', hint = 'Use a name such as Europe/Paris.';
  end if;
  return app_private.report_of(plan, first_day, last_day, time_zone, coalesce(excluded, '{}'));
end $$;
comment on function public.get_plan_report is 'The report of a plan of the caller for a period; null if the caller is not a member.';

-- A wrong, an expired and a revoked token, and a plan in the bin, give the same answer.
create function public.get_shared_report(token text) returns jsonb
language plpgsql security definer set search_path = '' as $$
declare
  link public.plan_report_links;
  report public.plan_reports;
begin
  select l.* into link
  from public.plan_report_links l
  where l.token = get_shared_report.token and (l.expires_at is null or l.expires_at > now());
  if not found then return null; end if;
  select r.* into report from public.plan_reports r where r.plan_id = link.plan_id;
  -- Once an hour, and a visitor does not wait for another one.
  if link.last_used_at is null or link.last_used_at < now() - interval '1 hour' then
    update public.plan_report_links l set last_used_at = now()
    where l.id = (select s.id from public.plan_report_links s where s.id = link.id for update skip locked);
  end if;
  return app_private.report_of(report.plan_id, report.first_day, report.last_day, report.time_zone, report.excluded_priorities)
    || jsonb_build_object('comment', report.comment);
end $$;
comment on function public.get_shared_report is 'What a report link shows; null if there is no such link, or not any more.';

revoke execute on function app_private.set_report_link_expiry(), app_private.limit_report_links(),
  app_private.report_of(uuid, date, date, text, uuid[]) from public;
revoke execute on function public.get_plan_report(uuid, date, date, text, uuid[]) from public, anon;
grant execute on function public.get_plan_report(uuid, date, date, text, uuid[]) to authenticated;
revoke execute on function public.get_shared_report(text) from public;
grant execute on function public.get_shared_report(text) to anon, authenticated;
