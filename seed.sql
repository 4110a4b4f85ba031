-- demo: sign in as demo@basalt.local with the password basalt-demo
-- Demo data for development: three charity plans, three people. Runs once, on a new database. Sign in as
-- demo@basalt.local with the password "basalt-demo"; that account is an administrator. The colleagues' accounts have
-- the same password. A production start names these accounts if it finds them.

insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, raw_app_meta_data,
  raw_user_meta_data, created_at, updated_at, confirmation_token, recovery_token, email_change, email_change_token_new)
select '00000000-0000-0000-0000-000000000000', person.id, 'authenticated', 'authenticated', person.email,
  extensions.crypt('basalt-demo', extensions.gen_salt('bf')), now(),
  '{"provider": "email", "providers": ["email"]}',
  jsonb_build_object('name', person.name, 'organization_name', 'Riverside Community Trust', 'sub', person.id,
    'email', person.email, 'email_verified', true, 'phone_verified', false),
  now(), now(), '', '', '', ''
from (values
  ('5eed0000-0000-4000-8000-000000000001'::uuid, 'demo@basalt.local', 'Dana Demo'),
  ('5eed0000-0000-4000-8000-000000000002'::uuid, 'maya@basalt.local', 'Maya Fischer'),
  ('5eed0000-0000-4000-8000-000000000003'::uuid, 'tom@basalt.local', 'Tom Okafor')
) as person (id, email, name);

insert into auth.identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
select gen_random_uuid(), u.id::text, u.id,
  jsonb_build_object('sub', u.id, 'email', u.email, 'email_verified', true, 'phone_verified', false),
  'email', now(), now(), now()
from auth.users u
where u.email like '%@basalt.local';

insert into public.user_roles (user_id, role) values ('5eed0000-0000-4000-8000-000000000001', 'admin');

insert into public.plans (id, user_id, title, description, start_date, estimated_end_date, created_at) values
  ('5eed1000-0000-4000-8000-000000000001', '5eed0000-0000-4000-8000-000000000001',
   'Food security for 500 families',
   '<p>Grow the weekly food share from one parish hall to <strong>four neighbourhood hubs</strong>, and turn emergency parcels into lasting support.</p><ul><li>A hub within 15 minutes'' walk for every family</li><li>Fresh produce in every parcel</li><li>Cooking and budgeting courses that people ask for</li></ul>',
   current_date - 120, current_date + 245, now() - interval '120 days'),
  ('5eed1000-0000-4000-8000-000000000002', '5eed0000-0000-4000-8000-000000000001',
   'Reading mentors in every primary school',
   '<p>Recruit, train and keep <strong>120 volunteer mentors</strong> so that no child in the district leaves year four without reading with confidence.</p>',
   current_date - 30, current_date + 335, now() - interval '30 days'),
  ('5eed1000-0000-4000-8000-000000000003', '5eed0000-0000-4000-8000-000000000002',
   'A river people swim in again',
   '<p>Measure, clean up and tell the story: water quality at six sites every week, two clean-up days a season, and a public dashboard.</p>',
   current_date + 14, current_date + 744, now() - interval '3 days');

-- The creators are owners already, by trigger.
insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token) values
  ('5eed1000-0000-4000-8000-000000000001', '5eed0000-0000-4000-8000-000000000002', 'maya@basalt.local', 'manager', true, null),
  ('5eed1000-0000-4000-8000-000000000001', '5eed0000-0000-4000-8000-000000000003', 'tom@basalt.local', 'viewer', true, null),
  ('5eed1000-0000-4000-8000-000000000003', '5eed0000-0000-4000-8000-000000000001', 'demo@basalt.local', 'manager', true, null);
insert into public.plan_members (plan_id, email, role) values
  ('5eed1000-0000-4000-8000-000000000002', 'headteacher@school.example', 'viewer');
