-- The rows that the cases are about. Everything happens in a transaction that is rolled back.

insert into auth.users (instance_id, id, aud, role, email, email_confirmed_at, created_at, updated_at)
select '00000000-0000-0000-0000-000000000000', person.id::uuid, 'authenticated', 'authenticated', person.email, now(), now(), now()
from (values
  ('7e570000-0000-4000-8000-000000000001', 'stranger@test.local'),
  ('7e570000-0000-4000-8000-000000000002', 'viewer@test.local'),
  ('7e570000-0000-4000-8000-000000000003', 'manager@test.local'),
  ('7e570000-0000-4000-8000-000000000004', 'owner@test.local'),
  ('7e570000-0000-4000-8000-000000000005', 'admin@test.local'),
  ('7e570000-0000-4000-8000-000000000006', 'second.owner@test.local')
) as person (id, email);

insert into public.user_roles (user_id, role) values ('7e570000-0000-4000-8000-000000000005', 'admin');

-- Their addresses were proven, as a code in a mail would.
insert into auth.identities (id, provider_id, user_id, identity_data, provider, created_at, updated_at)
select gen_random_uuid(), u.id::text, u.id, jsonb_build_object('sub', u.id, 'email', u.email, 'email_verified', true), 'email', now(), now()
from auth.users u where u.email like '%@test.local';

-- The plan of `owner`, with a manager, a viewer, and two open invitations; and a plan that none of them may see.
insert into public.plans (id, user_id, title) values
  ('7e571000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000004', 'The plan'),
  ('7e571000-0000-4000-8000-000000000002', '7e570000-0000-4000-8000-000000000006', 'Another plan');
insert into public.plan_members (id, plan_id, user_id, email, role, invite_accepted, invite_token) values
  ('7e572000-0000-4000-8000-000000000001', '7e571000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000003', 'manager@test.local', 'manager', true, null),
  ('7e572000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000002', 'viewer@test.local', 'viewer', true, null),
  ('7e572000-0000-4000-8000-000000000003', '7e571000-0000-4000-8000-000000000001', null, 'Stranger@Test.local', 'manager', false, '7e573000-0000-4000-8000-000000000001'),
  ('7e572000-0000-4000-8000-000000000004', '7e571000-0000-4000-8000-000000000001', null, 'third.owner@test.local', 'owner', false, '7e573000-0000-4000-8000-000000000002');
