-- demo: sign in as demo@example.org with the password demo-password
-- Rows for development. Runs once, on a new database; a production server does not run it.

insert into auth.users (instance_id, id, aud, role, email, encrypted_password, email_confirmed_at, raw_app_meta_data, raw_user_meta_data,
  created_at, updated_at, confirmation_token, recovery_token, email_change, email_change_token_new)
values ('00000000-0000-0000-0000-000000000000', 'de300000-0000-4000-8000-000000000001', 'authenticated', 'authenticated', 'demo@example.org',
  extensions.crypt('demo-password', extensions.gen_salt('bf')), now(), '{"provider": "email", "providers": ["email"]}',
  '{"name": "Demo"}', now(), now(), '', '', '', '');
insert into auth.identities (id, provider_id, user_id, identity_data, provider, last_sign_in_at, created_at, updated_at)
select gen_random_uuid(), id::text, id, jsonb_build_object('sub', id, 'email', email, 'email_verified', true), 'email', now(), now(), now()
from auth.users where email = 'demo@example.org';

insert into public.todos (user_id, title, is_done) values
  ('de300000-0000-4000-8000-000000000001', 'Read migrations/0001_todos.sql', true),
  ('de300000-0000-4000-8000-000000000001', 'Change public/app.js and reload', false),
  ('de300000-0000-4000-8000-000000000001', 'Run basalt policies test', false);
