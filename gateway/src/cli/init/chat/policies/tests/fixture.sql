-- The rows that the cases are about. `basalt policies test` rolls everything back.

insert into auth.users (instance_id, id, aud, role, email, created_at, updated_at) values
  ('00000000-0000-0000-0000-000000000000', 'ada00000-0000-4000-8000-000000000001', 'authenticated', 'authenticated', 'ada@test.local', now(), now()),
  ('00000000-0000-0000-0000-000000000000', 'b0b00000-0000-4000-8000-000000000002', 'authenticated', 'authenticated', 'bob@test.local', now(), now());

insert into public.messages (user_id, author, body) values ('ada00000-0000-4000-8000-000000000001', 'Ada', 'hello');
