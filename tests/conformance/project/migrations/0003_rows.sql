-- The rows that tests name. Kept in a migration, not in seed.sql: they belong to every copy of this project, in production mode too.

insert into clients (id, name) values (1, 'Acme'), (2, 'Globex'), (3, 'Umbrella');

insert into people (id, name, manager_id) values
  (1, 'Ada', null), (2, 'Bob', 1), (3, 'Cleo', 1), (4, 'Dan', 2);

insert into profiles (person_id, bio) values (1, 'Founder'), (2, 'Engineer');

insert into projects (id, name, client_id, budget, starts_on, owner_id, reviewer_id) values
  (1, 'Website', 1, 1000.50, '2026-01-05', 1, 2),
  (2, 'App', 1, 2500, '2026-02-01', 2, 1),
  (3, 'Audit', 2, null, null, 3, null),
  (4, 'Internal', null, 0, '2025-12-31', null, null);

insert into tasks (id, project_id, title, done, priority, due_on) values
  (1, 1, 'Design', true, 1, '2026-01-10'),
  (2, 1, 'Build', false, 2, '2026-01-20'),
  (3, 1, 'Launch', false, 3, null),
  (4, 2, 'Sketch', true, 1, '2026-02-03'),
  (5, 2, 'Code', false, null, '2026-02-20'),
  (6, 3, 'Review', false, 2, '2026-03-01');

insert into tags (id, name) values (1, 'urgent'), (2, 'blue'), (3, 'unused');
insert into task_tags (task_id, tag_id) values (1, 1), (1, 2), (2, 1), (6, 2);

insert into samples
  (id, label, number, big, amount, ratio, flag, mood, data, written, languages, numbers, span, days, happened_at, local_at, bytes, location, body,
   "First Name", "odd,name")
values
  (1, 'alpha', 10, 9007199254740993, 12.50, 0.5, true, 'happy', '{"a": {"b": 1}, "list": [10, 20], "s": "x"}', '{"z": 1, "a": 2}', '{en,de}',
   '{1,2,3}', '[1,10)', '[2026-01-01,2026-02-01)', '2026-01-02 03:04:05.600+00', '2026-01-02 03:04:05', '\x00ff', row(1.5, 2.5),
   'The quick brown fox jumps', 'Ann', 'comma'),
  (2, 'beta', 20, 2, 100, 1.25, false, 'ok', '{"a": {"b": 2}, "list": [30], "s": "y"}', '[1, 2]', '{en}', '{3,4}', '[5,15)',
   '[2026-03-01,2026-04-01)', '2026-06-01 00:00:00+00', '2026-06-01 00:00:00', null, row(0, 0), 'Lazy dogs sleep', 'Ben', null),
  (3, 'Alphabet', 30, 3, 0.001, -1, null, 'sad', '{}', null, '{}', '{}', '[20,30)', null, null, null, null, null, 'A cat, and a fox',
   'Cy', null),
  (4, 'with, comma (and) "quotes"', 40, null, null, null, true, null, null, null, null, null, null, null, null, null, null, null, null, null, null),
  (5, 'null', null, null, null, null, false, null, '{"a": null}', null, null, null, null, null, null, null, null, null, null, null, null);
