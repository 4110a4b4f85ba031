-- The rows that the cases are about. `basalt policies test` rolls everything back.

insert into auth.users (instance_id, id, aud, role, email, created_at, updated_at) values
  ('00000000-0000-0000-0000-000000000000', 'ada00000-0000-4000-8000-000000000001', 'authenticated', 'authenticated', 'ada@test.local', now(), now()),
  ('00000000-0000-0000-0000-000000000000', 'b0b00000-0000-4000-8000-000000000002', 'authenticated', 'authenticated', 'bob@test.local', now(), now());

insert into public.todos (id, user_id, title) values
  ('70d00000-0000-4000-8000-000000000001', 'ada00000-0000-4000-8000-000000000001', 'of Ada');

insert into storage.objects (bucket_id, name) values
  ('attachments', 'ada00000-0000-4000-8000-000000000001/a.txt');
