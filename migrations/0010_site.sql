-- What administrators edit: texts and logos of the public pages, the upgrade prompt, settings; and the log of their edits.

create table public.marketing_content (
  id uuid primary key default gen_random_uuid(),
  section text not null,
  title text,
  subtitle text,
  description text,
  primarybuttontext text,
  secondarybuttontext text,
  imageurl text,
  visible boolean not null default true,
  hide_for_subscribed boolean not null default false,
  -- Sanitised where it is shown.
  htmlcontent text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint marketing_content_section_once unique (section),
  constraint marketing_content_section_known check (
    section in ('homepage', 'hero', 'features', 'nonprofits', 'pricing', 'footer')
  ),
  constraint marketing_content_texts_bounded check (
    char_length(title) <= 500 and char_length(subtitle) <= 1000 and char_length(description) <= 20000
    and char_length(primarybuttontext) <= 200 and char_length(secondarybuttontext) <= 200
    and char_length(imageurl) <= 2000 and char_length(htmlcontent) <= 200000
  )
);
comment on table public.marketing_content is 'Texts of the public pages, one row for each section.';

create table public.brand_assets (
  id uuid primary key default gen_random_uuid(),
  asset_type text not null default 'logo',
  asset_size text not null,
  asset_url text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint brand_assets_once unique (asset_type, asset_size),
  constraint brand_assets_type_known check (asset_type in ('logo')),
  constraint brand_assets_size_known check (asset_size in ('regular', 'small', 'favicon')),
  constraint brand_assets_url_at_most_2000 check (char_length(asset_url) between 1 and 2000)
);
comment on table public.brand_assets is 'Logos.';

create table public.subscription_prompt (
  id uuid primary key default gen_random_uuid(),
  title text not null default 'Upgrade Your Plan',
  subtitle text,
  image_url text,
  features jsonb not null default '[]',
  primary_button_text text not null default 'View Plans',
  secondary_button_text text not null default 'Maybe Later',
  delay_seconds integer not null default 15,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint subscription_prompt_texts_bounded check (
    char_length(title) <= 500 and char_length(subtitle) <= 2000 and char_length(image_url) <= 2000
    and char_length(primary_button_text) <= 200 and char_length(secondary_button_text) <= 200
  ),
  -- A list, or a list as text: both are in use (specification 2, section 3).
  constraint subscription_prompt_features_are_texts check (
    octet_length(features::text) <= 20000
    and (
      jsonb_typeof(features) = 'string'
      or (jsonb_typeof(features) = 'array' and not jsonb_path_exists(features, '$[*] ? (@.type() != "string")'))
    )
  ),
  constraint subscription_prompt_delay_0_to_300 check (delay_seconds between 0 and 300)
);
comment on table public.subscription_prompt is 'The upgrade prompt: one row.';
create unique index subscription_prompt_one_row on public.subscription_prompt ((true));

create table public.app_settings (
  id uuid primary key default gen_random_uuid(),
  key text not null,
  value jsonb not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint app_settings_key_once unique (key),
  constraint app_settings_key_1_to_100 check (char_length(key) between 1 and 100),
  constraint app_settings_value_at_most_100000 check (octet_length(value::text) <= 100000),
  constraint app_settings_email_resend_shape check (
    key <> 'email_resend'
    or (
      jsonb_typeof(value) = 'object'
      and coalesce(jsonb_typeof(value -> 'apiKey'), 'null') in ('string', 'null')
      and coalesce(jsonb_typeof(value -> 'fromEmail'), 'null') in ('string', 'null')
      and coalesce(jsonb_typeof(value -> 'fromName'), 'null') in ('string', 'null')
    )
  ),
  constraint app_settings_invite_email_template_shape check (
    key <> 'invite_email_template'
    or (
      jsonb_typeof(value) = 'object'
      and coalesce(jsonb_typeof(value -> 'subject'), 'null') = 'string'
      and coalesce(jsonb_typeof(value -> 'body'), 'null') = 'string'
    )
  )
);
comment on table public.app_settings is 'Settings of the site. The API key for e-mail is masked here; app_private.secrets holds it.';

-- Secrets that administrators write and browsers never read: no API role has a grant. The server's mail code reads it
-- through its own login.
create table app_private.secrets (
  name text primary key,
  secret text not null,
  updated_at timestamptz not null default now(),
  constraint secrets_secret_at_most_1000 check (char_length(secret) between 1 and 1000)
);
revoke all on app_private.secrets from public;
comment on table app_private.secrets is 'Secrets that administrators set. `email_resend`: the key of Resend.';

-- A mask shows that a key is set, and its last four characters where the key is long enough to spare them.
create function app_private.mask(secret text) returns text
language sql immutable strict set search_path = '' as $$
  select '••••••••' || case when char_length(secret) >= 20 then right(secret, 4) else '' end
$$;

-- Moves `apiKey` of setting `email_resend` to app_private.secrets and leaves a mask. A mask that comes back, or no `apiKey`
-- at all, keeps the stored key; an empty one removes it. A value of the wrong shape is left to the check constraint.
create function app_private.keep_api_key() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  given text := new.value ->> 'apiKey';
  known text := (select s.secret from app_private.secrets s where s.name = new.key);
begin
  if jsonb_typeof(new.value) <> 'object' or jsonb_typeof(new.value -> 'apiKey') not in ('string', 'null') then
    return new;
  end if;
  if new.value ? 'apiKey' and coalesce(given, '') = '' then
    delete from app_private.secrets s where s.name = new.key;
    known := null;
  elsif not starts_with(given, '••••••••') then
    insert into app_private.secrets as s (name, secret) values (new.key, given)
    on conflict (name) do update set secret = excluded.secret, updated_at = now();
    known := given;
  end if;
  new.value := new.value - 'apiKey' || jsonb_strip_nulls(jsonb_build_object('apiKey', app_private.mask(known)));
  return new;
end $$;
create trigger keep_api_key before insert or update on public.app_settings
  for each row when (new.key = 'email_resend') execute function app_private.keep_api_key();

-- The key goes with its setting.
create function app_private.forget_api_key() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  delete from app_private.secrets s where s.name = old.key;
  return null;
end $$;
create trigger forget_api_key_on_delete after delete on public.app_settings
  for each row when (old.key = 'email_resend') execute function app_private.forget_api_key();
create trigger forget_api_key_on_rename after update of key on public.app_settings
  for each row when (old.key = 'email_resend' and new.key <> old.key) execute function app_private.forget_api_key();

-- Who changed what about the site. Triggers and the server write it; no API role may change or delete a row.
create table public.audit_log (
  id bigint generated always as identity primary key,
  created_at timestamptz not null default now(),
  -- Null: the server, or an account that was deleted since.
  actor_id uuid references auth.users (id) on delete set null,
  action text not null,
  -- The table, and which row of it.
  subject text not null,
  subject_id text,
  details jsonb not null default '{}',
  constraint audit_log_action_1_to_100 check (char_length(action) between 1 and 100)
);
comment on table public.audit_log is 'Changes that administrators and the server made.';
create index audit_log_newest on public.audit_log (created_at desc, id desc);
create index audit_log_actor_id on public.audit_log (actor_id);

-- For settings it records the names of the changed columns only: their values may be secret.
create function app_private.audit() returns trigger
language plpgsql security definer set search_path = '' as $$
declare
  before jsonb := case when tg_op = 'INSERT' then '{}'::jsonb else to_jsonb(old) end;
  after jsonb := case when tg_op = 'DELETE' then '{}'::jsonb else to_jsonb(new) end;
  present jsonb := case when tg_op = 'DELETE' then before else after end;
  changed jsonb;
begin
  select coalesce(
    case when tg_table_name = 'app_settings' then to_jsonb(array_agg(c.name order by c.name))
    else jsonb_object_agg(c.name, jsonb_build_array(before -> c.name, after -> c.name)) end, '{}')
  into changed
  from jsonb_object_keys(before || after) as c (name)
  where c.name not in ('id', 'created_at', 'updated_at') and before -> c.name is distinct from after -> c.name;

  if tg_op <> 'UPDATE' or changed <> '{}' then
    insert into public.audit_log (actor_id, action, subject, subject_id, details)
    select
      (select u.id from auth.users u where u.id = (select auth.uid())), lower(tg_op), tg_table_name,
      coalesce(present ->> 'key', present ->> 'section', present ->> 'id', present ->> 'user_id'),
      jsonb_build_object('changed', changed);
  end if;
  return null;
end $$;

create trigger audit after insert or update or delete on public.subscription_plans
  for each row execute function app_private.audit();
create trigger audit after insert or update or delete on public.marketing_content
  for each row execute function app_private.audit();
create trigger audit after insert or update or delete on public.brand_assets
  for each row execute function app_private.audit();
create trigger audit after insert or update or delete on public.subscription_prompt
  for each row execute function app_private.audit();
create trigger audit after insert or update or delete on public.app_settings
  for each row execute function app_private.audit();
create trigger audit after insert or update or delete on public.user_roles
  for each row execute function app_private.audit();

create trigger set_updated_at before update on public.marketing_content
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.brand_assets
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.subscription_prompt
  for each row execute function app_private.set_updated_at();
create trigger set_updated_at before update on public.app_settings
  for each row execute function app_private.set_updated_at();

revoke execute on function
  app_private.keep_api_key(), app_private.mask(text), app_private.forget_api_key(), app_private.audit() from public;

-- The landing page and the logo subscribe to updates (specification 1, section 7).
do $$
begin
  if exists (select from pg_catalog.pg_publication where pubname = 'supabase_realtime') then
    alter publication supabase_realtime add table public.marketing_content, public.brand_assets;
  end if;
end $$;
