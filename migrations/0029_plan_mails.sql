-- Mails that bring people back: a digest on Mondays, a reminder three days before a due date, and a mail for those who are mentioned. Per
-- person and plan, in the person's time zone, and each can be stopped.

-- Whether PostgreSQL has this time zone.
create function app_private.is_time_zone(name text) returns boolean
language plpgsql immutable set search_path = '' as $$
begin
  perform timestamptz '2000-01-01' at time zone name;
  return name ~ '^[A-Za-z]';
exception when invalid_parameter_value then
  return false;
end $$;
revoke execute on function app_private.is_time_zone(text) from public;
grant execute on function app_private.is_time_zone(text) to authenticated, service_role;

create table public.person_settings (
  user_id uuid primary key default auth.uid() references auth.users (id) on delete cascade,
  time_zone text not null,
  updated_at timestamptz not null default now(),
  constraint person_settings_time_zone_exists check (char_length(time_zone) <= 64 and app_private.is_time_zone(time_zone))
);
comment on table public.person_settings is 'What a person has set for all plans.';
create trigger set_updated_at before update on public.person_settings
  for each row execute function app_private.set_updated_at();

create table public.plan_mail_settings (
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  plan_id uuid not null references public.plans (id) on delete cascade,
  digest boolean not null default true,
  reminders boolean not null default true,
  mentions boolean not null default true,
  updated_at timestamptz not null default now(),
  primary key (user_id, plan_id)
);
comment on table public.plan_mail_settings is 'Which mails about a plan a person gets; without a row, all of them.';
create index plan_mail_settings_plan_id on public.plan_mail_settings (plan_id);
create trigger set_updated_at before update on public.plan_mail_settings
  for each row execute function app_private.set_updated_at();

-- Those who get mails about plans, with their local time at a moment. Without a setting the time zone is UTC.
create function app_private.mail_recipients(moment timestamptz)
returns table (user_id uuid, plan_id uuid, role text, time_zone text, local_time timestamp, digest boolean, reminders boolean)
language sql stable set search_path = '' as $$
  with zones as materialized (
    select z.time_zone, moment at time zone z.time_zone as local_time
    from (select distinct s.time_zone from public.person_settings s union select 'UTC') z
  )
  select m.user_id, m.plan_id, m.role, z.time_zone, z.local_time, coalesce(w.digest, true), coalesce(w.reminders, true)
  from public.plan_members m
  join public.plans p on p.id = m.plan_id and p.deleted_at is null
  left join public.person_settings s on s.user_id = m.user_id
  join zones z on z.time_zone = coalesce(s.time_zone, 'UTC')
  left join public.plan_mail_settings w on w.user_id = m.user_id and w.plan_id = m.plan_id
  where m.invite_accepted
$$;

-- The people who are reminded of a task: its members, or the owners where it has none.
create function app_private.is_reminded(responsible uuid[], person uuid, role text) returns boolean
language sql immutable set search_path = '' as $$
  select case when responsible = '{}' then role = 'owner' else person = any (responsible) end
$$;

-- Adds the mails that are due at a moment; those that were added before stay. A digest is due on Monday at eight, for a day; a reminder on the
-- third day before the due date at eight, for two days. What a stopped server missed for longer is not sent any more.
create function app_private.schedule_plan_mails(moment timestamptz default now()) returns bigint
language sql security definer set search_path = '' as $$
  with recipients as materialized (
    select r.* from app_private.mail_recipients(moment) r
  ),
  digests as (
    select 'digest' as kind, r.user_id, r.plan_id, (r.local_time - interval '8 hours')::date::text as occasion
    from recipients r
    where r.digest and extract(isodow from r.local_time - interval '8 hours') = 1
      -- Somebody who joined, and a plan that was made, since that morning get the next one.
      and exists (
        select from public.plan_members m
        where m.plan_id = r.plan_id and m.user_id = r.user_id
          and m.created_at < ((r.local_time - interval '8 hours')::date + time '08:00') at time zone r.time_zone
      )
  ),
  reminders as (
    select distinct 'reminder' as kind, r.user_id, r.plan_id, t.due_date::text as occasion
    from public.tasks t
    join recipients r on r.plan_id = t.plan_id
    where not t.is_completed
      -- Local dates differ from that of UTC by one day at most.
      and t.due_date between (moment at time zone 'UTC')::date + 1 and (moment at time zone 'UTC')::date + 4
      and r.reminders and app_private.is_reminded(t.responsible_ids, r.user_id, r.role)
      and r.local_time >= t.due_date - 3 + time '08:00' and r.local_time < t.due_date - 1 + time '08:00'
      -- A task that was made later than that needs no reminder.
      and t.created_at < (t.due_date - 3 + time '08:00') at time zone r.time_zone
  ),
  added as (
    insert into functions.plan_mails (kind, user_id, plan_id, occasion)
    select d.kind, d.user_id, d.plan_id, d.occasion from digests d
    union all
    select n.kind, n.user_id, n.plan_id, n.occasion from reminders n
    on conflict on constraint plan_mails_once do nothing
    returning id
  )
  select count(*) from added
$$;

-- A mention is mailed once per comment; of one author, a person gets at most twenty mails an hour about a plan.
create function app_private.mail_mentions() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into functions.plan_mails (kind, user_id, plan_id, occasion)
  select 'mention', m.user_id, new.plan_id, new.id::text
  from public.plan_members m
  left join public.plan_mail_settings w on w.user_id = m.user_id and w.plan_id = m.plan_id
  where m.plan_id = new.plan_id and m.invite_accepted and m.user_id = any (new.mentions)
    and m.user_id is distinct from new.author_id and coalesce(w.mentions, true)
    and (
      select count(*)
      from functions.plan_mails q
      where q.plan_id = new.plan_id and q.user_id = m.user_id and q.kind = 'mention' and q.created_at > now() - interval '1 hour'
    ) < 20
  on conflict on constraint plan_mails_once do nothing;
  return null;
end $$;
create trigger mail_mentions after insert or update of mentions on public.task_comments
  for each row when (new.mentions <> '{}') execute function app_private.mail_mentions();

-- What a mail says, as it is when the mail is written; null if there is nothing to say any more, or the person does not want it.
create function app_private.plan_mail(mail_id bigint) returns jsonb
language sql stable security definer set search_path = '' as $$
  with mail as (
    select q.kind, q.occasion, q.user_id, q.plan_id, m.role, p.title as plan_title, u.email as recipient,
      app_private.person_name(u.raw_user_meta_data, u.email) as name
    from functions.plan_mails q
    join public.plan_members m on m.plan_id = q.plan_id and m.user_id = q.user_id and m.invite_accepted
    join public.plans p on p.id = q.plan_id and p.deleted_at is null
    join auth.users u on u.id = q.user_id
    left join public.plan_mail_settings w on w.user_id = q.user_id and w.plan_id = q.plan_id
    where q.id = mail_id and q.created_at > now() - interval '2 days'
      and u.email <> '' and u.email_confirmed_at is not null and u.deleted_at is null
      and (u.banned_until is null or u.banned_until < now())
      and coalesce(case q.kind when 'digest' then w.digest when 'reminder' then w.reminders else w.mentions end, true)
  ),
  tasks as (
    select t.id, t.title, t.due_date, t.is_completed, t.completed_at, t.responsible_ids, m.kind,
      case m.kind when 'mention' then null else m.occasion::date end as day,
      app_private.is_reminded(t.responsible_ids, m.user_id, m.role) as is_mine
    from mail m
    join public.tasks t on t.plan_id = m.plan_id
  ),
  chosen as (
    select t.*, case
      when t.kind = 'reminder' and t.due_date = t.day and t.is_mine and not t.is_completed then 'due'
      when t.kind = 'digest' and t.due_date < t.day and not t.is_completed then 'overdue'
      when t.kind = 'digest' and t.due_date < t.day + 7 and not t.is_completed then 'week'
      when t.kind = 'digest' and t.completed_at >= t.day - 7 then 'done'
    end as part
    from tasks t
  ),
  parts as (
    select jsonb_object_agg(c.part, c.content) as content
    from (
      select c.part, jsonb_build_object('count', count(*), 'tasks', (
        jsonb_agg(jsonb_build_object('id', c.id, 'title', c.title, 'due', c.due_date, 'mine', c.is_mine) order by c.due_date, c.title, c.id)
          filter (where c.place <= 10)
      )) as content
      from (
        select c.*, row_number() over (partition by c.part order by c.due_date, c.title, c.id) as place
        from chosen c
        where c.part is not null
      ) c
      group by c.part
    ) c
  ),
  comment as (
    select c.body, c.task_id, t.title,
      coalesce((select app_private.person_name(u.raw_user_meta_data, u.email) from auth.users u where u.id = c.author_id), 'A former member') as author
    from mail m
    join public.task_comments c on c.id::text = m.occasion and c.plan_id = m.plan_id and m.user_id = any (c.mentions)
    join public.tasks t on t.id = c.task_id
    where m.kind = 'mention'
  )
  select jsonb_build_object(
    'kind', m.kind, 'user', m.user_id, 'plan', m.plan_id, 'occasion', m.occasion, 'plan_title', m.plan_title,
    'recipient', m.recipient, 'name', m.name,
    'parts', p.content, 'comment', (select to_jsonb(c) from comment c),
    'total', (select count(*) from tasks), 'completed', (select count(*) from tasks t where t.is_completed)
  )
  from mail m
  cross join parts p
  where p.content is not null or exists (select from comment)
$$;

-- One click in a mail, whose signature the server has checked.
create function app_private.set_plan_mail(person uuid, plan uuid, mail_kind text, wanted boolean) returns text
language plpgsql security definer set search_path = '' as $$
declare
  title text := (
    select p.title
    from public.plans p
    join public.plan_members m on m.plan_id = p.id and m.user_id = person and m.invite_accepted
    where p.id = plan and p.deleted_at is null
  );
begin
  if title is null then return null; end if;
  insert into public.plan_mail_settings as s (user_id, plan_id, digest, reminders, mentions)
  values (person, plan, mail_kind <> 'digest' or wanted, mail_kind <> 'reminder' or wanted, mail_kind <> 'mention' or wanted)
  on conflict (user_id, plan_id) do update set
    digest = case mail_kind when 'digest' then wanted else s.digest end,
    reminders = case mail_kind when 'reminder' then wanted else s.reminders end,
    mentions = case mail_kind when 'mention' then wanted else s.mentions end;
  return title;
end $$;

revoke execute on function app_private.mail_recipients(timestamptz), app_private.is_reminded(uuid[], uuid, text),
  app_private.schedule_plan_mails(timestamptz), app_private.mail_mentions(), app_private.plan_mail(bigint),
  app_private.set_plan_mail(uuid, uuid, text, boolean) from public;
