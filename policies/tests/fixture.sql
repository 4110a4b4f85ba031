-- The rows that the cases are about. Everything happens in a transaction that is rolled back.

insert into auth.users (instance_id, id, aud, role, email, email_confirmed_at, created_at, updated_at)
select '00000000-0000-0000-0000-000000000000', person.id::uuid, 'authenticated', 'authenticated', person.email, now(), now(), now()
from (values
  ('7e570000-0000-4000-8000-000000000001', 'stranger@test.local'),
  ('7e570000-0000-4000-8000-000000000002', 'viewer@test.local'),
  ('7e570000-0000-4000-8000-000000000003', 'manager@test.local'),
  ('7e570000-0000-4000-8000-000000000004', 'owner@test.local'),
  ('7e570000-0000-4000-8000-000000000005', 'admin@test.local'),
  ('7e570000-0000-4000-8000-000000000006', 'second.owner@test.local'),
  ('7e570000-0000-4000-8000-000000000007', 'second.admin@test.local')
) as person (id, email);

insert into public.user_roles (user_id, role) values
  ('7e570000-0000-4000-8000-000000000005', 'admin'),
  ('7e570000-0000-4000-8000-000000000007', 'admin');

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
  ('7e572000-0000-4000-8000-000000000004', '7e571000-0000-4000-8000-000000000001', null, 'third.owner@test.local', 'owner', false, '7e573000-0000-4000-8000-000000000002'),
  ('7e572000-0000-4000-8000-000000000005', '7e571000-0000-4000-8000-000000000002', null, 'guest@test.local', 'viewer', false, '7e573000-0000-4000-8000-000000000003');

-- What is in the two plans.
insert into public.priorities (id, plan_id, title) values
  ('7e574000-0000-4000-8000-000000000001', '7e571000-0000-4000-8000-000000000001', 'The priority'),
  ('7e574000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000002', 'Another priority');
insert into public.tasks (id, priority_id, title) values
  ('7e575000-0000-4000-8000-000000000001', '7e574000-0000-4000-8000-000000000001', 'The task'),
  ('7e575000-0000-4000-8000-000000000002', '7e574000-0000-4000-8000-000000000002', 'Another task');
insert into public.plan_attachments (id, plan_id, title, file_url) values
  ('7e576000-0000-4000-8000-000000000001', '7e571000-0000-4000-8000-000000000001', 'The file', '7e571000-0000-4000-8000-000000000001/a_1.pdf'),
  ('7e576000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000002', 'Another file', '7e571000-0000-4000-8000-000000000002/b_1.pdf');
insert into public.plans (id, user_id, title) values
  ('7e571000-0000-4000-8000-000000000003', '7e570000-0000-4000-8000-000000000004', 'A plan without an organisation');
insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token) values
  ('7e571000-0000-4000-8000-000000000003', '7e570000-0000-4000-8000-000000000003', 'manager@test.local', 'manager', true, null),
  ('7e571000-0000-4000-8000-000000000003', '7e570000-0000-4000-8000-000000000002', 'viewer@test.local', 'viewer', true, null);
insert into public.organizations (id, plan_id, name) values
  ('7e577000-0000-4000-8000-000000000001', '7e571000-0000-4000-8000-000000000001', 'The organisation'),
  ('7e577000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000002', 'Another organisation');

-- Plans for sale, subscriptions and events.
insert into public.subscription_plans (id, name, price, stripe_price_id, active) values
  ('7e578000-0000-4000-8000-000000000001', 'For sale', 20, 'price_test_active', true),
  ('7e578000-0000-4000-8000-000000000002', 'No longer', 10, 'price_test_inactive', false);
insert into public.stripe_customers (user_id, livemode, stripe_customer_id) values
  ('7e570000-0000-4000-8000-000000000004', false, 'cus_test_owner');
insert into public.user_subscriptions (id, user_id, stripe_subscription_id, stripe_customer_id, status, state_as_of) values
  ('7e579000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000004', 'sub_test_owner', 'cus_test_owner', 'active', now());
insert into public.webhook_events (id, event_type, payload) values ('evt_test', 'checkout.session.completed', '{}');

-- Of the site.
insert into public.app_settings (key, value) values
  ('test_setting', '{"a": 1}'),
  ('site_operator', '{"name": "The trust", "address": "1 High Street", "email": " ", "note": "for administrators"}');
insert into public.audit_log (action, subject, subject_id) values ('test', 'fixture', 'audit');

-- A word on the channel of each.
insert into realtime.messages (topic, extension) values
  ('plan:7e571000-0000-4000-8000-000000000001', 'presence'),
  ('plan:7e571000-0000-4000-8000-000000000002', 'presence');

-- Files of both plans, a logo of each, and a logo of the site.
insert into storage.objects (bucket_id, name) values
  ('plan_files', '7e571000-0000-4000-8000-000000000001/a_1.pdf'),
  ('plan_files', '7e571000-0000-4000-8000-000000000002/b_1.pdf'),
  ('org_logos', '7e571000-0000-4000-8000-000000000001/logo.png'),
  ('org_logos', '7e571000-0000-4000-8000-000000000002/logo.png'),
  ('public', 'logos/test.png');

-- The mails of the open invitations, which were refused. The stranger's has the token 7e573000-…-9 in its link.
insert into app_private.invitation_mails (member_id, token_hash, created_at, refusal) values
  ('7e572000-0000-4000-8000-000000000003', sha256('7e573000-0000-4000-8000-000000000009'), now() - interval '1 hour', 'refused'),
  ('7e572000-0000-4000-8000-000000000004', sha256('third'), now() - interval '1 hour', 'refused'),
  ('7e572000-0000-4000-8000-000000000005', sha256('guest'), now() - interval '1 hour', 'refused');

-- The owner of the other plan has a second factor.
insert into auth.mfa_factors (id, user_id, friendly_name, factor_type, status, created_at, updated_at) values
  ('7e57a000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000006', 'Phone', 'totp', 'verified', now(), now());

-- A picture of a user.
insert into storage.objects (bucket_id, name) values ('avatars', '7e570000-0000-4000-8000-000000000002/a.png');

-- A plan of a user without a subscription, which has more people and files than the Free plan includes.
insert into auth.users (instance_id, id, aud, role, email, email_confirmed_at, created_at, updated_at) values
  ('00000000-0000-0000-0000-000000000000', '7e570000-0000-4000-8000-000000000008', 'authenticated', 'authenticated', 'free.owner@test.local', now(), now(), now());
insert into public.plans (id, user_id, title) values
  ('7e571000-0000-4000-8000-000000000004', '7e570000-0000-4000-8000-000000000008', 'A full plan');
insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token) values
  ('7e571000-0000-4000-8000-000000000004', '7e570000-0000-4000-8000-000000000004', 'owner@test.local', 'owner', true, null),
  ('7e571000-0000-4000-8000-000000000004', '7e570000-0000-4000-8000-000000000003', 'manager@test.local', 'manager', true, null),
  ('7e571000-0000-4000-8000-000000000004', '7e570000-0000-4000-8000-000000000002', 'viewer@test.local', 'viewer', true, null);
insert into storage.objects (bucket_id, name, metadata) values
  ('plan_files', '7e571000-0000-4000-8000-000000000004/big.pdf', '{"size": 104857601}');
-- The user with the second factor pays, too.
insert into public.user_subscriptions (user_id, stripe_subscription_id, stripe_customer_id, status, state_as_of) values
  ('7e570000-0000-4000-8000-000000000006', 'sub_test_second', 'cus_test_second', 'active', now());
update public.subscription_plans set active = true where is_free;

-- A plan in the bin, with a task that a manager is responsible for.
insert into public.plans (id, user_id, title) values
  ('7e571000-0000-4000-8000-000000000005', '7e570000-0000-4000-8000-000000000004', 'A deleted plan');
insert into public.plan_members (plan_id, user_id, email, role, invite_accepted, invite_token) values
  ('7e571000-0000-4000-8000-000000000005', '7e570000-0000-4000-8000-000000000003', 'manager@test.local', 'manager', true, null),
  ('7e571000-0000-4000-8000-000000000005', null, 'stranger@test.local', 'viewer', false, '7e573000-0000-4000-8000-000000000005');
insert into public.priorities (id, plan_id, title) values
  ('7e574000-0000-4000-8000-000000000005', '7e571000-0000-4000-8000-000000000005', 'A deleted priority');
insert into public.tasks (id, priority_id, title) values
  ('7e575000-0000-4000-8000-000000000005', '7e574000-0000-4000-8000-000000000005', 'A deleted task');
insert into storage.objects (bucket_id, name) values ('plan_files', '7e571000-0000-4000-8000-000000000005/a_1.pdf');
update public.plans set deleted_at = now() - interval '1 day' where id = '7e571000-0000-4000-8000-000000000005';

-- Comments of the manager and of the owner, and one in the other plan. What happened is noted by triggers.
insert into public.task_comments (id, task_id, author_id, body) values
  ('7e57b000-0000-4000-8000-000000000001', '7e575000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000003', 'The manager''s comment'),
  ('7e57b000-0000-4000-8000-000000000002', '7e575000-0000-4000-8000-000000000001', '7e570000-0000-4000-8000-000000000004', 'The owner''s comment'),
  ('7e57b000-0000-4000-8000-000000000003', '7e575000-0000-4000-8000-000000000002', '7e570000-0000-4000-8000-000000000006', 'Another comment');
insert into public.plan_activity (plan_id, action, subject, title, created_at) values
  ('7e571000-0000-4000-8000-000000000001', 'edited', 'plan', 'Long ago', now() - interval '91 days');

-- What the viewer has set.
insert into public.person_settings (user_id, time_zone) values ('7e570000-0000-4000-8000-000000000002', 'Pacific/Kiritimati');
insert into public.plan_mail_settings (user_id, plan_id, digest) values
  ('7e570000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000001', false);

insert into public.plans (id, user_id, title) values
  ('7e571000-0000-4000-8000-000000000006', '7e570000-0000-4000-8000-000000000006', 'Another plan without a report');
-- Reports of three plans with links: one that works and one that has expired, one of another plan, one of a plan in the bin.
insert into public.plan_reports (plan_id, first_day, last_day, comment) values
  ('7e571000-0000-4000-8000-000000000001', '2026-01-01', '2026-12-31', 'The comment'),
  ('7e571000-0000-4000-8000-000000000002', '2026-01-01', '2026-12-31', 'Another comment'),
  ('7e571000-0000-4000-8000-000000000005', '2026-01-01', '2026-12-31', 'A deleted comment');
insert into public.plan_report_links (id, plan_id, token, valid_days, created_by) values
  ('7e57c000-0000-4000-8000-000000000001', '7e571000-0000-4000-8000-000000000001', 'test-token', 30, '7e570000-0000-4000-8000-000000000004'),
  ('7e57c000-0000-4000-8000-000000000002', '7e571000-0000-4000-8000-000000000001', 'test-token-expired', 30, null),
  ('7e57c000-0000-4000-8000-000000000003', '7e571000-0000-4000-8000-000000000002', 'test-token-another', null, null),
  ('7e57c000-0000-4000-8000-000000000004', '7e571000-0000-4000-8000-000000000005', 'test-token-deleted', null, null);
update public.plan_report_links set expires_at = now() - interval '1 second' where token = 'test-token-expired';

-- A priority with a task, and a task, in the bin of the plan; and a task in the bin of the other plan.
insert into public.priorities (id, plan_id, title) values
  ('7e574000-0000-4000-8000-000000000007', '7e571000-0000-4000-8000-000000000001', 'A priority in the bin');
insert into public.tasks (id, priority_id, title) values
  ('7e575000-0000-4000-8000-000000000006', '7e574000-0000-4000-8000-000000000007', 'A task of a priority in the bin'),
  ('7e575000-0000-4000-8000-000000000007', '7e574000-0000-4000-8000-000000000001', 'A task in the bin'),
  ('7e575000-0000-4000-8000-000000000008', '7e574000-0000-4000-8000-000000000002', 'A task in another bin'),
  ('7e575000-0000-4000-8000-00000000000a', '7e574000-0000-4000-8000-000000000005', 'A task in the bin of a deleted plan');
delete from public.tasks where id in (
  '7e575000-0000-4000-8000-000000000007', '7e575000-0000-4000-8000-000000000008', '7e575000-0000-4000-8000-00000000000a'
);
delete from public.priorities where id = '7e574000-0000-4000-8000-000000000007';
