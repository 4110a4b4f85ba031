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
  now() - person.days * interval '1 day', now(), '', '', '', ''
from (values
  ('5eed0000-0000-4000-8000-000000000001'::uuid, 'demo@basalt.local', 'Dana Demo', 130),
  ('5eed0000-0000-4000-8000-000000000002'::uuid, 'maya@basalt.local', 'Maya Fischer', 121),
  ('5eed0000-0000-4000-8000-000000000003'::uuid, 'tom@basalt.local', 'Tom Okafor', 40)
) as person (id, email, name, days);

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
   '<p>Grow the weekly food share from one parish hall to <strong>four neighborhood hubs</strong>, and turn emergency parcels into lasting support.</p><ul><li>A hub within 15 minutes'' walk for every family</li><li>Fresh produce in every parcel</li><li>Cooking and budgeting courses that people ask for</li></ul>',
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

insert into public.organizations (plan_id, name, ein, mission, vision, "values") values
  ('5eed1000-0000-4000-8000-000000000001', 'Riverside Community Trust', '12-3456789',
   'Nobody in Riverside goes hungry, and nobody has to ask twice.',
   'A neighborhood where good food is as near as the next bus stop.',
   'Dignity first. Fresh before tinned. Done with people, not for them.'),
  ('5eed1000-0000-4000-8000-000000000002', 'Riverside Community Trust', '12-3456789',
   'Every child reads with confidence by the end of year four.', null, null);

-- Newest first in every list, so the times go backwards.
insert into public.priorities (id, plan_id, title, description, created_at) values
  ('5eed2000-0000-4000-8000-000000000001', '5eed1000-0000-4000-8000-000000000001', 'Open four neighborhood hubs',
   '<p>Halls within 15 minutes'' walk, with a fridge, a kitchen and someone who has the key.</p>', now() - interval '118 days'),
  ('5eed2000-0000-4000-8000-000000000002', '5eed1000-0000-4000-8000-000000000001', 'Fresh produce in every parcel',
   '<p>Agreements with growers and shops, collected twice a week.</p>', now() - interval '117 days'),
  ('5eed2000-0000-4000-8000-000000000003', '5eed1000-0000-4000-8000-000000000001', 'Courses that people ask for',
   '<p>Cooking on a small budget, money, and English over lunch.</p>', now() - interval '90 days'),
  ('5eed2000-0000-4000-8000-000000000004', '5eed1000-0000-4000-8000-000000000001', 'Funding for three years',
   '<p>Two foundations, the council, and 300 monthly donors.</p>', now() - interval '60 days'),
  ('5eed2000-0000-4000-8000-000000000005', '5eed1000-0000-4000-8000-000000000002', 'Recruit 120 mentors',
   '<p>Parents, students and pensioners, checked and trained before half-term.</p>', now() - interval '29 days'),
  ('5eed2000-0000-4000-8000-000000000006', '5eed1000-0000-4000-8000-000000000002', 'Measure what changes',
   '<p>A reading age for every child at the start and at the end.</p>', now() - interval '28 days');

insert into public.tasks (priority_id, title, description, measure_success, due_date, responsible_party, is_completed, created_at) values
  ('5eed2000-0000-4000-8000-000000000001', 'Sign the lease for St Mark''s hall', '<p>Ask for two evenings a week and the kitchen.</p>', 'Lease signed', current_date - 80, '{Dana Demo}', true, now() - interval '110 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Fridge and shelving for the first hub', null, 'Passed the food hygiene visit', current_date - 40, '{Tom Okafor}', true, now() - interval '100 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Find a hall in Eastfield', '<p>The school and the library have been asked.</p>', 'Two written offers', current_date + 10, '{Maya Fischer,Dana Demo}', false, now() - interval '50 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Key holders for every hub', null, 'Two people for each hub', current_date + 45, '{Tom Okafor}', false, now() - interval '30 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'Agreement with Hill Farm', '<p>Vegetables that are too large for shops.</p>', '200 kg a week', current_date - 60, '{Maya Fischer}', true, now() - interval '115 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'Tuesday and Friday collections', null, 'No missed run for a month', current_date - 5, '{Tom Okafor}', true, now() - interval '70 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'A van of our own', '<p>Compare a lease with a grant from the council.</p>', 'Decision by the board', current_date + 30, '{Dana Demo}', false, now() - interval '20 days'),
  ('5eed2000-0000-4000-8000-000000000003', 'Ask 100 families what they want to learn', null, '100 answers', current_date - 20, '{Maya Fischer}', true, now() - interval '85 days'),
  ('5eed2000-0000-4000-8000-000000000003', 'Pilot: cooking for two pounds', '<p>Six evenings at St Mark''s.</p>', '12 people stay to the end', current_date + 20, '{Maya Fischer}', false, now() - interval '40 days'),
  ('5eed2000-0000-4000-8000-000000000004', 'Application to the Harbour Foundation', null, 'Sent with three years of accounts', current_date - 2, '{Dana Demo}', false, now() - interval '55 days'),
  ('5eed2000-0000-4000-8000-000000000004', 'Monthly giving page', null, '50 donors by the summer', current_date + 60, '{}', false, now() - interval '10 days'),
  ('5eed2000-0000-4000-8000-000000000005', 'Stand at the volunteers'' fair', null, '60 names', current_date - 10, '{Dana Demo,Maya Fischer}', true, now() - interval '27 days'),
  ('5eed2000-0000-4000-8000-000000000005', 'Background checks', '<p>Ask the council for a group rate.</p>', null, current_date + 21, '{Maya Fischer}', false, now() - interval '25 days'),
  ('5eed2000-0000-4000-8000-000000000005', 'Two training evenings', null, '80 mentors trained', current_date + 35, '{}', false, now() - interval '24 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Visit six halls with the families'' committee', null, null, current_date - 84, '{Maya Fischer,Tom Okafor}', true, now() - interval '112 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Insurance for volunteers and stock', null, null, current_date - 66, '{Dana Demo}', true, now() - interval '104 days'),
  ('5eed2000-0000-4000-8000-000000000001', 'Volunteers for the Wednesday opening', null, null, current_date - 33, '{Tom Okafor}', true, now() - interval '75 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'Cool boxes and a second scale', null, null, current_date - 52, '{Tom Okafor}', true, now() - interval '92 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'Surplus from the market, every Saturday', null, null, current_date - 24, '{Maya Fischer}', true, now() - interval '61 days'),
  ('5eed2000-0000-4000-8000-000000000002', 'Recipe cards for what is in season', null, null, current_date - 12, '{Maya Fischer}', true, now() - interval '44 days'),
  ('5eed2000-0000-4000-8000-000000000003', 'Ask three cooks to teach', null, null, current_date - 30, '{Maya Fischer}', true, now() - interval '58 days'),
  ('5eed2000-0000-4000-8000-000000000004', 'Accounts of three years, audited', null, null, current_date - 21, '{Dana Demo}', true, now() - interval '52 days'),
  ('5eed2000-0000-4000-8000-000000000004', 'Visit by two councillors', null, null, current_date - 9, '{Dana Demo,Tom Okafor}', true, now() - interval '33 days'),
  ('5eed2000-0000-4000-8000-000000000005', 'Posters in libraries and surgeries', null, null, current_date - 14, '{Maya Fischer}', true, now() - interval '28 days'),
  ('5eed2000-0000-4000-8000-000000000005', 'Call everybody who signed up', null, null, current_date - 4, '{Dana Demo}', true, now() - interval '16 days'),
  ('5eed2000-0000-4000-8000-000000000006', 'Consent form for parents', null, null, current_date - 6, '{Dana Demo}', true, now() - interval '19 days'),
  ('5eed2000-0000-4000-8000-000000000006', 'Choose a reading test', null, 'Agreed with six head teachers', current_date + 14, '{Dana Demo}', false, now() - interval '20 days');

-- A trigger says that all of them were completed just now: they were, about when they were due.
update public.tasks
set completed_at = due_date + time '15:30' + (ascii(right(title, 1)) % 3 - 1) * interval '2 days'
where is_completed;

-- Three plans for sale, with prices of the built-in stand-in for the card provider.
insert into public.subscription_plans (name, description, price, "interval", stripe_price_id, features) values
  ('Starter', 'For one small team', 19, 'month', 'price_basalt_starter_monthly',
   '["3 strategic plans", "5 team members per plan", "1 GB of files", "E-mail support"]'),
  ('Growth', 'For an organisation that plans together', 49, 'month', 'price_basalt_growth_monthly',
   '["Unlimited strategic plans", "Unlimited team members", "20 GB of files", "Progress reports for funders", "Priority support"]'),
  ('Growth, yearly', 'Two months for nothing', 490, 'year', 'price_basalt_growth_yearly',
   '["Everything in Growth", "One invoice a year", "A planning workshop"]');
