-- What the tests of reads ask for beyond 0001: names that need quotes, one column of each type, and a relationship of
-- each kind. Nothing here depends on the time of day or on chance.

-- names ------------------------------------------------------------------------------------------------------------

create table "Odd Names" (
  "The Id" int primary key, "a.b" text, "c,d" text, "e(f)" text, "g:h" text, "say ""hi""" text, "back\slash" text,
  "$cost" int, "dash-ed" text, "größe" int, "名前" text, "a->b" text, "select" text, "order" text, "limit" int,
  "not" text, "null" text, "it's" text, "x.or" text
);
create table "Odd.Child" (
  id int primary key, "Parent,Id" int constraint "odd:fk" references "Odd Names", "label(s)" text
);

-- paths into values ------------------------------------------------------------------------------------------------

create type point3 as (x int, y int, label text);
create table papers (
  id int primary key, data jsonb, raw json, spot point3, spots point3[], nums int[], grid int[][], hist jsonb[]
);

-- types ------------------------------------------------------------------------------------------------------------

create domain rating as int check (value between 0 and 10);
create domain ratings_doc as jsonb;
create domain searchable as tsvector;
create table kinds (
  id int primary key, small smallint, big bigint, num numeric, real8 double precision, txt text, vc varchar(10),
  ch char(4), flag boolean, day date, clock time, stamp timestamp, stamptz timestamptz, span interval, uid uuid,
  js json, jsb jsonb, ints int[], texts text[], ir int4range, nr numrange, dr daterange, mr int4multirange,
  mood mood, rating rating, doc tsvector, sdoc searchable, jdoc ratings_doc, raw bytea, cash money, addr inet
);

-- relationships ----------------------------------------------------------------------------------------------------

-- Two columns in one key, in another order than in the table.
create table sites (country text, code text, label text, primary key (country, code));
create table visits (
  id int primary key, site_code text, site_country text, day date, note text,
  constraint visits_site_fk foreign key (site_country, site_code) references sites (country, code)
);
-- One to one by a unique constraint over two columns, in either order.
create table permits (
  id int primary key, country text, code text, number text, unique (code, country),
  constraint permits_site_fk foreign key (country, code) references sites (country, code)
);

-- Junctions: a wide primary key, one with three ends, one whose keys are no primary key, and two between one pair.
create table people (id int primary key, name text not null, boss_id int references people);
create table teams (id int primary key, name text, lead_id int constraint teams_lead_fk references people);
create table roles (id int primary key, label text);
create table members (
  team_id int references teams, person_id int references people, role_id int references roles, since date,
  primary key (team_id, person_id, role_id)
);
create table fans (
  id int primary key, team_id int references teams, person_id int references people, unique (team_id, person_id)
);
create table friends (a_id int references people, b_id int references people, primary key (a_id, b_id));
create table likes (
  person_id int constraint likes_person_fk references people, paper_id int constraint likes_paper_fk references papers,
  primary key (person_id, paper_id)
);
create table reviews (
  person_id int constraint reviews_person_fk references people,
  paper_id int constraint reviews_paper_fk references papers, stars int, primary key (paper_id, person_id)
);
-- The hint `inner_fk` begins as a join type does.
create table parcels (
  id int primary key, from_id int constraint inner_fk references people, to_id int constraint left_fk references people
);
-- A person has one badge, and points at it.
create table badges (id int primary key, person_id int unique references people, code text);

-- Partitions are parts of their table.
create table events (
  id int, day date, person_id int references people, kind text, primary key (id, day)
) partition by range (day);
create table events_2024 partition of events for values from ('2024-01-01') to ('2025-01-01');
create table events_2025 partition of events for values from ('2025-01-01') to ('2026-01-01');
create table event_notes (
  id int primary key, event_id int, event_day date, text text, foreign key (event_id, event_day) references events
);

-- Views: renamed columns, a view on a view, a key shown twice, an expression, a materialized one.
create view team_list with (security_invoker = on) as select id as team_id, name as title, lead_id as head from teams;
create view team_titles with (security_invoker = on) as select team_id as tid, title, head from team_list;
create view team_twice with (security_invoker = on) as select id, lead_id as first_head, lead_id as second_head from teams;
create view team_loud with (security_invoker = on) as select id + 0 as id, upper(name) as title, lead_id + 0 as lead_id from teams;
create view member_list with (security_invoker = on) as select team_id, person_id, role_id, since from members;
create view people_cte with (security_invoker = on) as
  with grown as (select id, name, boss_id from people) select g.id, g.name, g.boss_id from grown g;
create view people_union with (security_invoker = on) as
  select id, name from people where id < 3 union all select id, name from people where id >= 3;
create materialized view team_sizes as
  select t.id, t.name, count(m.person_id) as size from teams t left join members m on m.team_id = t.id group by t.id;

-- Computed columns and relationships.
create function loud_name(people) returns text language sql immutable as $$ select upper($1.name) $$;
create function is_boss(people) returns boolean language sql stable as
  $$ select exists (select from people p where p.boss_id = $1.id) $$;
create function size(teams) returns bigint language sql stable as
  $$ select count(*) from members m where m.team_id = $1.id $$;
create function led_teams(people) returns setof teams language sql stable as
  $$ select * from teams where lead_id = $1.id order by id $$;
create function first_team(people) returns setof teams rows 1 language sql stable as
  $$ select * from teams where lead_id = $1.id order by id limit 1 $$;
create function lead_of(teams) returns people language sql stable as $$ select p.* from people p where p.id = $1.lead_id $$;
create function reports(people) returns setof people language sql stable as
  $$ select * from people where boss_id = $1.id order by id $$;
-- Overrides what the foreign key from fans to roles' namesake would say: only those with an even id.
create function events(people) returns setof events language sql stable as
  $$ select * from events e where e.person_id = $1.id and e.id % 2 = 0 $$;

-- Grants of single columns.
create table secrets (id int primary key, title text, body text, person_id int references people, rank int);

-- Another schema, for those who expose it.
create schema archive;
create table archive.boxes (id int primary key, label text, person_id int constraint boxes_person_fk references public.people);
create table archive.people (id int primary key, name text);
create table archive.scans (id int primary key, box_id int references archive.boxes, page int);
create view archive.box_list with (security_invoker = on) as select id, label, person_id from archive.boxes;
-- Not exposed by any test.
create schema cellar;
create table cellar.jars (id int primary key, person_id int references public.people, label text);
create view public.jars as select id, person_id, label from cellar.jars;
create table cellar.shelf (
  person_id int references public.people, role_id int references public.roles, primary key (person_id, role_id)
);

-- rows -------------------------------------------------------------------------------------------------------------

insert into "Odd Names" values
  (1, 'dot', 'comma', 'paren', 'colon', 'quote', 'slash', 5, 'dash', 7, '花', 'arrow', 'sel', 'ord', 1, 'n', 'nul', 'apo', 'xor'),
  (2, null, 'x,y', '()', null, '"', '\', 6, '-', 8, null, null, null, 'z', 2, null, null, '''', null);
insert into "Odd.Child" values (10, 1, 'first'), (11, 1, 'second'), (12, 2, null);

insert into papers values
  (1, '{"a": {"b": "x", "n": 5}, "list": [10, 20, {"k": "v"}], "a-b": 1, "a.b": 2, "say \"hi\"": 3, "1": "one", "with space": 4, "ключ": "да", "t": true, "nul": null}',
   '{"z": 1, "a": [1, 2], "z": 2}', (1, 2, 'spot'), array[(1, 1, 'p'), (2, 2, 'q')]::point3[], '{7,8,9}', '{{1,2},{3,4}}', array['{"v": 1}', '{"v": 2}']::jsonb[]),
  (2, '{"a": {"b": "y", "n": 7}, "list": []}', '[1, {"k": 2}]', (3, null, null), null, '{}', null, null),
  (3, '"text"', 'null', null, null, null, null, null),
  (4, null, null, null, null, null, null, null);

insert into kinds values
  (1, 1, 9007199254740993, 1.50, 0.1, 'The quick brown fox', 'abc', 'xy', true, '2024-02-29', '12:34:56', '2024-01-02 03:04:05.6',
   '2024-01-02 03:04:05.6+00', '1 day 2 hours', '6f1b9a1e-0000-4000-8000-000000000001', '{"a": 1}', '{"a": 1, "b": [1, 2]}', '{1,2,3}', '{a,b,"c d"}',
   '[1,5)', '[1.5,2.5]', '[2024-01-01,2024-02-01)', '{[1,3),[7,9)}', 'ok', 5, to_tsvector('english', 'The quick brown foxes'), to_tsvector('english', 'lazy dogs'), '{"k": 1}', '\x00ff', 12.5, '10.0.0.1'),
  (2, -1, 2, 2, -0.5, 'jumps over the lazy dog', 'ABC', 'z', false, '2023-12-31', '00:00:00', '2023-01-01', '2023-01-01+00', '3 mons', null, '[]', '{}', '{}', '{}',
   'empty', '(,)', '(,2024-01-01)', '{}', 'sad', 0, '', '', 'null', '', 0, '::1'),
  (3, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null);

insert into sites values ('de', 'a', 'Aachen'), ('de', 'b', 'Bonn'), ('fr', 'a', 'Arles');
insert into visits values (1, 'a', 'de', '2024-01-01', 'x'), (2, 'a', 'de', '2024-01-02', null), (3, 'a', 'fr', '2024-01-03', 'y'), (4, 'b', null, null, null);
insert into permits values (1, 'de', 'a', 'P1'), (2, 'fr', 'a', 'P2'), (3, null, null, 'P3');

insert into people values (1, 'Ann', null), (2, 'Ben', 1), (3, 'Cat', 1), (4, 'Dan', 2), (5, 'Eve', null);
insert into teams values (1, 'Red', 1), (2, 'Blue', 2), (3, 'Green', 1), (4, 'Gray', null);
insert into roles values (1, 'dev'), (2, 'ops');
insert into members values (1, 1, 1, '2024-01-01'), (1, 2, 1, '2024-01-02'), (1, 2, 2, '2024-01-03'), (2, 2, 2, '2024-01-04'), (2, 3, 1, null);
insert into fans values (1, 1, 3), (2, 1, 4), (3, 3, 4);
insert into friends values (1, 2), (1, 3), (2, 3);
insert into likes values (1, 1), (1, 2), (2, 1);
insert into reviews values (1, 1, 5), (3, 1, 2), (3, 2, null);
insert into parcels values (1, 1, 2), (2, 2, 1), (3, 3, null);
insert into badges values (1, 1, 'A1'), (2, 3, 'C3'), (3, null, 'none');
insert into events values (1, '2024-03-01', 1, 'start'), (2, '2024-04-01', 1, 'stop'), (3, '2025-01-01', 2, 'start'), (4, '2025-02-01', 2, 'stop');
insert into event_notes values (1, 1, '2024-03-01', 'one'), (2, 3, '2025-01-01', 'three');
insert into secrets values (1, 'open', 'hidden', 1, 3), (2, 'also', 'hidden too', 2, 1);
insert into archive.boxes values (1, 'Box 1', 1), (2, 'Box 2', 2);
insert into archive.people values (1, 'Archived');
insert into archive.scans values (1, 1, 1), (2, 1, 2);
insert into cellar.jars values (1, 1, 'jam');
insert into cellar.shelf values (1, 1);
refresh materialized view team_sizes;

-- rights -----------------------------------------------------------------------------------------------------------

grant usage on schema archive to anon, authenticated, service_role;
grant select, insert, update, delete on all tables in schema public, archive to anon, authenticated, service_role;
revoke all on inbox from anon, authenticated;
grant insert on inbox to anon, authenticated;
revoke all on notes from anon;
revoke all on secrets from anon;
grant select (id, title, person_id) on secrets to anon;
grant execute on all functions in schema public to anon, authenticated, service_role;
