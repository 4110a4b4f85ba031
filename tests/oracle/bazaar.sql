-- What the harbour has not: odd names everywhere, every type, every way two relations may be tied together, and
-- functions of every shape. The generator reads this schema from the catalog; nothing in it is named elsewhere.
--
-- Whatever is read comes back in one order only when it is sorted by its key, so that each relation has one: a primary
-- key, or a column `id`.

create schema bazaar;
create schema annex;
create schema tools;

-- types ----------------------------------------------------------------------------------------------------------------

create type bazaar.mood as enum ('sad', 'so so', 'Happy', 'comma,', '"quoted"');
create type bazaar."Odd Type" as enum ('a', 'B');
create type bazaar.spot as (x numeric, y numeric);
create type bazaar.stall as (label text, at bazaar.spot, tags text[]);
create type bazaar.float_range as range (subtype = float8, subtype_diff = float8mi);
create domain bazaar.positive as int check (value > 0);
create domain bazaar.tiny as bazaar.positive check (value < 100);
create domain bazaar.words as text[];
create domain bazaar.mood_d as bazaar.mood default 'Happy';
create domain bazaar.stall_d as bazaar.stall;
create domain bazaar.window_d as daterange;
create domain bazaar.doc_d as jsonb check (jsonb_typeof(value) = 'object');
create domain bazaar.title as varchar(12) not null default 'untitled';
create domain bazaar.cents as numeric(12, 2);

create table bazaar.everything (
  id int primary key,
  i2 int2, i4 int4, i8 int8, n numeric, n_fixed numeric(8, 3), f4 float4, f8 float8, cash money,
  t text, v varchar, v5 varchar(5), c1 char, c5 char(5), nm name, one "char",
  yes boolean, bits bit(4), vbits varbit,
  d date, tm time, tmz timetz, ts timestamp, ts0 timestamp(0), tsz timestamptz, span interval, span_d interval day to second,
  u uuid, j json, jb jsonb, x xml, raw bytea,
  ip inet, net cidr, mac macaddr, mac8 macaddr8,
  pt point, ln line, seg lseg, bx box, pth path, poly polygon, circ circle,
  tsv tsvector, tsq tsquery, o oid, cls regclass, typ regtype, snap pg_snapshot, lsn pg_lsn, jp jsonpath,
  a_i int[], a_i8 bigint[], a_t text[], a_tt text[][], a_v varchar(4)[], a_b boolean[], a_d date[], a_ts timestamptz[], a_u uuid[],
  a_j json[], a_jb jsonb[], a_n numeric[], a_by bytea[],
  r_i int4range, r_i8 int8range, r_n numrange, r_d daterange, r_ts tsrange, r_tz tstzrange, r_f bazaar.float_range,
  m_i int4multirange, m_d datemultirange, m_n nummultirange, a_r int4range[],
  e bazaar.mood, a_e bazaar.mood[], e_odd bazaar."Odd Type", s bazaar.spot, st bazaar.stall, a_st bazaar.stall[],
  dp bazaar.positive, dt bazaar.tiny, dw bazaar.words, dm bazaar.mood_d, ds bazaar.stall_d, dwin bazaar.window_d, dd bazaar.doc_d,
  dc bazaar.cents, a_dp bazaar.positive[]
);

insert into bazaar.everything values
  (1, 1, 1, 1, 1, 1, 1, 1, 1, 'a', 'a', 'a', 'a', 'a', 'a', 'a', true, b'1010', b'1',
   '2024-02-29', '23:59:59.999999', '12:00:00+05:30', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789+00', '1 mon -3 days', '2 days 03:00',
   '6ba7b810-9dad-11d1-80b4-00c04fd430c8', '{"b": 1, "a": {"c": [1, 2, {"d": "x"}]}, "b": 2}', '{"b": 1, "a": {"c": [1, 2, {"d": "x"}]}, "n": null, "s": "te\"xt", "a b": 1}',
   '<r a="1">x&amp;y</r>', '\x0001fe', '10.0.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
   '(1,2)', '{1,2,3}', '[(0,0),(1,1)]', '(1,1),(0,0)', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(0,0),1>',
   'a:1 fat:2,4 cat:3A', 'fat & !rat', 1, 'pg_class', 'int4', '10:20:10,14', '16/B374D848', '$.a[*] ? (@ > 1)',
   '{1,2,3}', '{9007199254740993}', '{a,"b c","d,e","f\"g",NULL}', '{{a,b},{c,d}}', '{abcd}', '{t,f,NULL}', '{2024-01-01,infinity}', '{"2024-01-01 00:00+00"}',
   '{6ba7b810-9dad-11d1-80b4-00c04fd430c8}', array['{"a":1}', '[1,  2]']::json[], array['{"a":1}', '"x"']::jsonb[], '{1.10,NaN,2e3}', array['\x00'::bytea, '\xff'],
   '[1,5)', '[1,5)', '(1.5,2.5]', '[2024-01-01,2024-02-01)', '[2024-01-01 00:00,2024-01-02 00:00)', '[2024-01-01 00:00+00,)', '[1.5,2.5)',
   '{[1,3),[5,8)}', '{[2024-01-01,2024-01-03)}', '{(0,1),(2,3]}', '{"[1,2)",empty}',
   'Happy', '{sad,"so so","comma,"}', 'B', '(1.5,-2)', '("north, by east","(1,2)","{x,y}")', array['("a","(1,2)","{}")', '(,,)']::bazaar.stall[],
   7, 9, '{w,x}', 'sad', '(s,"(0,0)",{})', '[2024-01-01,2024-01-05)', '{"k": "v"}', 12.50, '{1,2}'),
  (2, -32768, -2147483648, -9223372036854775808, 'NaN', -99999.999, '-Infinity', '1e-300', -92233720368547758.08, '', '', '', '', '', '', '', false, b'0000', b'',
   '-infinity', '00:00', '00:00+00', '-infinity', 'infinity', 'infinity', '-1 years -2 mons +3 days -04:05:06.789', '-1 days',
   '00000000-0000-0000-0000-000000000000', 'null', 'null', '', '\x', '::1/128', '::/0', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff',
   '(NaN,Infinity)', '{0,1,0}', '[(1,1),(1,1)]', '(0,0),(0,0)', '((0,0))', '((0,0))', '<(1,-1),0>',
   '', '', 0, null, null, null, '0/0', null,
   '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}',
   'empty', '(,)', 'empty', '(,)', 'empty', '(,infinity)', 'empty', '{}', '{}', '{}', '{}',
   'sad', '{}', 'a', '(,)', '(,,)', '{}', 1, 1, '{}', 'Happy', null, 'empty', '{}', -0.01, '{}'),
  (4, 32767, 2147483647, 9223372036854775807, 123456789012345678901234567890.123456789, 99999.999, 3.4e38, 'NaN', 0.005, E'tab\tnew\nline "q" \\ back ,.:()*%', 'ß→ü', 'ÄÖÜ😀x', 'é', 'pad', 'Name', 'z', null, b'1111', b'10101010101',
   '0001-01-01 BC', '12:00', '23:59:59-15:59', '0001-01-01 00:00:00 BC', '1999-12-31 23:59:59.5', '1900-01-01 00:00:00+00', '00:00:00.000001', null,
   'ffffffff-ffff-ffff-ffff-ffffffffffff', '["x", 1e2, -0, 1.0]', '[0, "x", [1, [2]], {"a": [true, null]}]', '<!-- c --><a/>', '\xdeadbeef', '192.168.1.5/24', '2001:db8::/32', '01:02:03:04:05:06', '01:02:03:ff:fe:04:05:06',
   '(1e10,-1e-10)', '{1,-1,0}', '[(0,0),(3,4)]', '(3,4),(1,2)', '((0,0),(1,0))', '((0,0),(1,0),(1,1))', '<(0,0),2.5>',
   'wolf lazy', 'a <-> b', 4294967295, 'bazaar.everything', 'text[]', '1:1:', 'FFFFFFFF/FFFFFFFF', 'strict $."a b"',
   '[2:4]={5,6,7}', '{1,null}', '{"",null,"null","{}","\\\\"}', '{{"x,y",null}}', '{NULL}', '{NULL}', '{NULL}', '{infinity,-infinity}', '{NULL}', null, null, '{NULL}', null,
   '[5,)', '(,5)', '[0,0]', '[2024-02-29,2024-02-29]', '(,)', 'empty', '(,2.5)', '{(,1),[3,)}', '{[2024-01-01,)}', '{[1,1]}', null,
   '"quoted"', '{"\"quoted\"",NULL}', null, '(NaN,0)', '("","(,)","{NULL,\"\"}")', null, 2147483647, 99, '{NULL}', 'comma,', '("x",,)', '[2024-01-01,)', '{"z": [1]}', 9999999999.99, null);
insert into bazaar.everything (id, dm) values (3, null);

-- Types of extensions, where they lie beside PostgreSQL.
do $$
begin
  create extension hstore with schema tools;
  create extension citext with schema tools;
  create table bazaar.extended (id int primary key, h tools.hstore, c tools.citext, a_c tools.citext[]);
  insert into bazaar.extended values (1, 'a=>1,"b c"=>NULL', 'MiXed', '{A,b}'), (2, '', '', '{}'), (3, null, null, null);
exception when undefined_file or feature_not_supported then
  null;
end $$;

-- names ------------------------------------------------------------------------------------------------------------------

create table bazaar."Blank Table" (
  "The Key" int primary key, "with.dot" text, "with,comma" int, "(paren)" text, "colon:ed" text, "a->b" text, "a->>b" text,
  "quo""te" text, "back\slash" text, "single'quote" text, "star*" text, "plus+" text, "per%cent" text, "amp&" text, "equal=" text,
  "semi;" text, "hash#" text, "quest?" text, "sla/sh" text, "at@" text, "ex!cl" text, "bra[ck]et" text, "br{ac}e" text, "pi|pe" text,
  "ünï" text, "漢字" text, "emo😀ji" text, "UPPER" text, "Mixed Case" text, "-dash" text, "da-sh" text, "dash-" text, "1digit" int, "_under" text, "$dollar" text,
  " lead" text, "trail " text, "tab	ed" text, "a" text, "A" text
);
insert into bazaar."Blank Table" ("The Key", "with.dot", "with,comma", "(paren)", "quo""te", "UPPER", "漢字", " lead", "trail ", "a", "A") values
  (1, 'dot', 1, 'p', 'q"q', 'up', '字', 'l', 't', 'small', 'LARGE'), (2, 'a.b', 2, '(x)', '"', 'UP', null, ' ', ' ', null, null), (3, null, null, null, null, null, null, null, null, '', '');
create table bazaar.words_kept (
  id int primary key, "select" text, "order" text, "limit" int, "offset" int, "and" text, "or" text, "not" text, "columns" text, "on_conflict" text,
  "null" text, "is" text, "in" text, "eq" int, "any" text, "all" text, "asc" text, "desc" text, "inner" text, "left" text, "count" int, "sum" int,
  "user" text, "table" text, "from" text, "where" text, "group" text, "true" boolean, "default" text, body text, total_result_set text, pgrst_source text, json_data jsonb
);
insert into bazaar.words_kept values (1, 's', 'o', 1, 2, 'a', 'o', 'n', 'c', 'oc', 'nu', 'i', 'in', 5, 'an', 'al', 'as', 'de', 'inn', 'le', 3, 4, 'u', 't', 'f', 'w', 'g', true, 'd', 'b', 'trs', 'ps', '{"a": 1}');
insert into bazaar.words_kept values (2);
create table bazaar."dot.ted" (id int primary key, "blank key" int references bazaar."Blank Table" ("The Key"), note text);
create table bazaar."com,ma" (id int primary key, d int constraint "odd, fk (1)" references bazaar."dot.ted", "1digit" int);
create table bazaar."par(en)" (id int primary key, c int references bazaar."com,ma", "c!c" int constraint "ex!cl" references bazaar."com,ma");
create table bazaar."UPPER" (id int primary key, "Ref" int references bazaar."par(en)", "UPPER" text);
create table bazaar."quo""te" (id int primary key, "q""r" int references bazaar."UPPER", val text);
create table bazaar."select" (id int primary key, "order" int references bazaar."quo""te", "limit" int);
create table bazaar."名簿" (id int primary key, "選択" int references bazaar."select", "名" text);
create table bazaar."per%20cent" (id int primary key, t text);
create table bazaar."plus+sign" (id int primary key, t text);
create table bazaar."rpc" (id int primary key, t text);
create table bazaar."$cost" (id int primary key, "ünï" int references bazaar."名簿");
insert into bazaar."dot.ted" values (1, 1, 'x'), (2, 1, null), (3, null, 'y');
insert into bazaar."com,ma" values (1, 1, 5), (2, 2, null), (3, null, 7);
insert into bazaar."par(en)" values (1, 1, 2), (2, 1, 1), (3, null, null);
insert into bazaar."UPPER" values (1, 1, 'u'), (2, 3, null);
insert into bazaar."quo""te" values (1, 1, 'v'), (2, 1, 'w'), (3, 2, null);
insert into bazaar."select" values (1, 1, 5), (2, 3, null);
insert into bazaar."名簿" values (1, 1, '一'), (2, null, '二');
insert into bazaar."per%20cent" values (1, 'p');
insert into bazaar."plus+sign" values (1, 'p');
insert into bazaar."rpc" values (1, 'r');
insert into bazaar."$cost" values (1, 1), (2, 2);

-- ties ---------------------------------------------------------------------------------------------------------------------

create table bazaar.regions (country char(2), code text, name text not null, area numeric, primary key (country, code));
create table bazaar.towns (
  id int generated always as identity primary key, name text not null, country char(2) not null, region text, twin int references bazaar.towns,
  mood bazaar.mood, founded date, population bigint, info jsonb default '{}', motto text[], place bazaar.spot,
  constraint towns_region_fk foreign key (country, region) references bazaar.regions
);
create table bazaar.streets (
  town int references bazaar.towns on delete cascade, name text, length numeric, next_town int, next_name text, primary key (town, name),
  constraint next_street foreign key (next_town, next_name) references bazaar.streets
);
create table bazaar.houses (
  town int, street text, number int, owner int, built date, primary key (town, street, number),
  foreign key (town, street) references bazaar.streets, foreign key (town) references bazaar.towns
);
create table bazaar.people (
  id int generated by default as identity (start with 100) primary key, name text not null, boss int references bazaar.people, born_in int references bazaar.towns,
  lives_in int constraint people_home references bazaar.towns, email text unique, wage bazaar.cents, joined timestamptz, active boolean default true, prefs jsonb, mood bazaar.mood_d
);
alter table bazaar.houses add foreign key (owner) references bazaar.people;
create table bazaar.passports (person int primary key references bazaar.people, number text unique, issued date);
create table bazaar.lockers (id int primary key, person int unique references bazaar.people, colour text);
create table bazaar.house_keys (town int, street text, number int, code text, primary key (town, street, number), foreign key (town, street, number) references bazaar.houses);
create table bazaar.friendships (a int references bazaar.people, b int references bazaar.people, since date, primary key (a, b));
create table bazaar.clubs (id int primary key, name text, leader int unique references bazaar.people);
create table bazaar.memberships (person int references bazaar.people, club int references bazaar.clubs, year int, role text, primary key (person, club, year));
create table bazaar.fans (id int primary key, person int references bazaar.people, club int references bazaar.clubs, unique (person, club));
create table bazaar.visits (person int, town int, "when" date, primary key (person, town), foreign key (person) references bazaar.people, foreign key (town) references bazaar.towns);
-- A column named as a table, and a table named as a column elsewhere.
create table bazaar.owner (id int primary key, people int references bazaar.people, towns text);
create table bazaar.nodes (id int primary key, parent int references bazaar.nodes, other int constraint nodes_other references bazaar.nodes, label text);

insert into bazaar.regions values ('DE', 'by', 'Bayern', 70550), ('DE', 'bw', 'Württemberg', null), ('FR', 'br', 'Bretagne', 27208.5);
insert into bazaar.towns (name, country, region, twin, mood, founded, population, info, motto, place) values
  ('Ulm', 'DE', 'bw', null, 'Happy', '0854-07-22', 126000, '{"river": "Donau", "spires": [161, 10], "x": {"y": null}}', '{high,"old town"}', '(48.4,9.98)'),
  ('Augsburg', 'DE', 'by', 1, 'so so', null, 300000, '{"river": "Lech"}', '{}', null), ('Brest', 'FR', 'br', 1, null, '0300-01-01', null, 'null', null, '(48.39,)'),
  ('Nirgends', 'XX', null, null, 'comma,', null, 0, '[]', '{NULL}', '(0,0)');
insert into bazaar.streets values (1, 'Gasse', 100, null, null), (1, 'Markt, am', 20.5, 1, 'Gasse'), (2, 'Gasse', 50, 1, 'Markt, am'), (3, 'Rue "x"', null, null, null);
insert into bazaar.people (id, name, boss, born_in, lives_in, email, wage, joined, active, prefs, mood) values
  (1, 'Anna', null, 1, 2, 'a@x.test', 1000, '2020-01-01 10:00+00', true, '{"lang": "de", "n": 1}', 'Happy'), (2, 'Ben', 1, 1, 1, 'b@x.test', 500.5, '2021-02-03 04:05:06.7+00', false, '{"lang": "fr"}', 'sad'),
  (3, 'Çelik, D.', 1, 3, null, null, null, null, null, null, null), (4, 'Dora "D"', 2, null, 3, 'd@x.test', 0, 'infinity', true, '[]', 'so so');
insert into bazaar.houses values (1, 'Gasse', 1, 1, '1500-01-01'), (1, 'Gasse', 2, 1, null), (2, 'Gasse', 1, 2, '2000-06-06'), (3, 'Rue "x"', 7, null, null);
insert into bazaar.passports values (1, 'P1', '2020-01-01'), (3, 'P3', null);
insert into bazaar.lockers values (1, 1, 'red'), (2, null, 'blue'), (3, 2, null);
insert into bazaar.house_keys values (1, 'Gasse', 1, 'k1'), (2, 'Gasse', 1, 'k2');
insert into bazaar.friendships values (1, 2, '2020-01-01'), (2, 1, null), (1, 3, '2022-02-02'), (3, 3, null);
insert into bazaar.clubs values (1, 'Chess', 1), (2, 'Go', 2), (3, 'Empty', null);
insert into bazaar.memberships values (1, 1, 2020, 'x'), (1, 1, 2021, 'y'), (2, 1, 2020, null), (2, 2, 2021, 'x'), (4, 2, 2022, 'z');
insert into bazaar.fans values (1, 3, 1), (2, 4, 1), (3, 4, 2);
insert into bazaar.visits values (1, 3, '2020-01-01'), (2, 3, null), (2, 2, '2023-03-03');
insert into bazaar.owner values (1, 1, 't'), (2, null, null);
insert into bazaar.nodes values (1, null, null, 'root'), (2, 1, 1, 'x'), (3, 1, 2, null), (4, 3, 4, 'leaf');

-- partitions, inheritance, nothing at all ---------------------------------------------------------------------------------

create table bazaar.sales (id int, day date, town int references bazaar.towns, buyer int references bazaar.people, amount numeric, primary key (id, day)) partition by range (day);
create table bazaar.sales_23 partition of bazaar.sales for values from ('2023-01-01') to ('2024-01-01') partition by list (id);
create table bazaar.sales_23_first partition of bazaar.sales_23 for values in (1);
create table bazaar.sales_23_rest partition of bazaar.sales_23 default;
create table bazaar.sales_rest partition of bazaar.sales default;
create table bazaar.refunds (id int primary key, sale int, day date, reason text, foreign key (sale, day) references bazaar.sales);
insert into bazaar.sales values (1, '2023-03-03', 1, 1, 10), (2, '2023-04-04', 2, 1, 20.5), (3, '2024-01-01', 1, 2, null);
insert into bazaar.refunds values (1, 1, '2023-03-03', 'broken'), (2, null, null, null);
create table bazaar.goods (id int primary key, name text, price numeric);
create table bazaar.fruits (ripe boolean, primary key (id)) inherits (bazaar.goods);
insert into bazaar.goods values (1, 'bolt', 0.1), (2, 'nut', 0.2);
insert into bazaar.fruits values (10, 'fig', 3, true), (11, 'kiwi', null, false);
create table bazaar.no_columns ();
insert into bazaar.no_columns default values;
insert into bazaar.no_columns default values;
create table bazaar.no_key (id int, t text);
insert into bazaar.no_key values (1, 'x'), (2, 'y'), (3, null);
create unlogged table bazaar.empty (id int primary key, t text);

-- what writes meet -----------------------------------------------------------------------------------------------------------

create table bazaar.shelf (
  id bigint generated always as identity primary key, code text unique, amount int not null default 5 check (amount >= 0), twice int generated always as (amount * 2) stored,
  kind bazaar.mood not null default 'so so', title bazaar.title, tag bazaar.tiny default 7, seen timestamptz default '2020-01-01 00:00+00', meta jsonb default '{"d": true}', parts int[] default '{1}',
  at bazaar.spot default '(1,1)', unique (kind, amount)
);
insert into bazaar.shelf (code, amount, kind, meta) values ('a', 1, 'sad', null), ('b', 2, 'Happy', '[1]'), (null, 3, 'so so', '{"k": 1}');
create table bazaar.registry (grp text, num int, val text default 'none', hits int default 0, primary key (grp, num), exclude using btree (val with =) where (val = 'only'));
insert into bazaar.registry values ('a', 1, 'x', 1), ('a', 2, 'y', 2), ('b,c', 1, null, 0);
create table bazaar.later (id int primary key, ref int references bazaar.later deferrable initially deferred, u int unique deferrable initially deferred);
insert into bazaar.later values (1, null, 1), (2, 1, 2);
create table bazaar.touchy (id int primary key, what text, n int default 0, log text);
insert into bazaar.touchy values (1, 'ok', 0, null), (2, 'fine', 1, null);
create function bazaar.touchy_check() returns trigger language plpgsql as $$
declare v bazaar.touchy := case when tg_op = 'DELETE' then old else new end;
begin
  if v.what = 'raise' then raise exception 'refused % %', tg_op, v.id; end if;
  if v.what = 'pt' then raise sqlstate 'PT418' using message = 'teapot', detail = 'short', hint = 'stout'; end if;
  if v.what = 'pgrst' then raise sqlstate 'PGRST' using message = '{"code":"T1","message":"told","details":"d","hint":"h"}', detail = '{"status":422,"headers":{"X-T":"1"}}'; end if;
  if v.what = 'skip' then return null; end if;
  if v.what = 'headers' then perform set_config('response.headers', '[{"X-Touch": "1"}, {"Content-Type": "text/odd"}]', true); end if;
  if v.what = 'status' then perform set_config('response.status', '299', true); end if;
  if tg_op = 'DELETE' then return old; end if;
  new.log := coalesce(new.log, '') || left(tg_op, 1);
  return new;
end $$;
create trigger touchy_check before insert or update or delete on bazaar.touchy for each row execute function bazaar.touchy_check();

-- views ------------------------------------------------------------------------------------------------------------------------

create view bazaar.town_view as select id, name as label, country, region as reg, twin, population / 1000 as thousands from bazaar.towns;
create view bazaar.town_view_view as select id as key, label, twin as twinned, country as c, reg as r from bazaar.town_view;
create view bazaar.people_view as select id, name, boss, born_in as birthplace, lives_in, mood from bazaar.people;
create view bazaar.people_towns as select p.id, p.name, t.id as town, t.name as town_name from bazaar.people p left join bazaar.towns t on t.id = p.born_in;
create view bazaar.people_twice as select id, born_in as b1, born_in as b2, name from bazaar.people;
create view bazaar.membership_view as select person, club, year from bazaar.memberships;
create view bazaar.street_view as select town, name as street, length, next_town, next_name from bazaar.streets;
create view bazaar.street_part as select name, length, town || name as id from bazaar.streets;
create view bazaar.rich as select * from bazaar.people where wage > 100 with local check option;
create view bazaar.clubs_counted as select c.id, c.name, count(m.*) as members from bazaar.clubs c left join bazaar.memberships m on m.club = c.id group by c.id;
create view bazaar.all_names as select id, name from bazaar.people union all select id + 1000, name from bazaar.clubs;
create view bazaar.with_cte as with b as (select id, name, lives_in from bazaar.people) select b.id, b.name, b.lives_in from b;
create view bazaar.with_sub as select s.id, s.boss from (select id, boss from bazaar.people) s;
create view bazaar."View, Odd" as select "The Key" as "Key.Dot", "with,comma" as "c,c" from bazaar."Blank Table";
create view bazaar.everything_view as select id, j, jb, a_t, a_tt, s, st, e, r_i, tsv, dd, dw, tsz, span, raw, n from bazaar.everything;
create materialized view bazaar.town_stats as select t.id, t.name, t.twin, (select count(*) from bazaar.people p where p.lives_in = t.id) as residents from bazaar.towns t;
create materialized view bazaar.club_stats as select * from bazaar.clubs_counted;
create view bazaar.sales_view as select id, day, town, amount from bazaar.sales;
create view bazaar.desk as select id, name, lives_in from bazaar.people;
create function bazaar.desk_write() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then insert into bazaar.people (name, lives_in) values (new.name, new.lives_in) returning id into new.id; return new; end if;
  if tg_op = 'UPDATE' then update bazaar.people set name = new.name where id = old.id; return new; end if;
  update bazaar.people set active = false where id = old.id; return old;
end $$;
create trigger desk_write instead of insert or update or delete on bazaar.desk for each row execute function bazaar.desk_write();

-- computed -------------------------------------------------------------------------------------------------------------------

create function bazaar.loud(bazaar.people) returns text immutable language sql as $$ select upper($1.name) $$;
create function bazaar.initials(bazaar.people) returns text[] immutable language sql as $$ select string_to_array($1.name, 'n') $$;
create function bazaar.card(bazaar.people) returns jsonb immutable language sql as $$ select jsonb_build_object('n', $1.name, 'w', $1.wage) $$;
create function bazaar.spot_of(bazaar.towns) returns bazaar.spot immutable language sql as $$ select $1.place $$;
create function bazaar."odd, name"(bazaar.towns) returns int immutable language sql as $$ select length($1.name) $$;
create function bazaar.short(bazaar.town_view) returns text immutable language sql as $$ select left($1.label, 2) $$;
create function bazaar.residents(bazaar.towns) returns setof bazaar.people stable language sql as $$ select * from bazaar.people where lives_in = $1.id $$;
create function bazaar.mayor(bazaar.towns) returns setof bazaar.people stable rows 1 language sql as $$ select * from bazaar.people where lives_in = $1.id order by id limit 1 $$;
create function bazaar.hometown(bazaar.people) returns bazaar.towns stable language sql as $$ select t.* from bazaar.towns t where t.id = $1.born_in $$;
create function bazaar.colleagues(bazaar.people) returns setof bazaar.people_view stable language sql as $$ select * from bazaar.people_view where boss = $1.boss $$;
-- Takes the place of the detected one.
create function bazaar.lockers(bazaar.people) returns setof bazaar.lockers stable rows 1 language sql as $$ select * from bazaar.lockers where person = $1.id $$;
create function bazaar.ancestors(bazaar.nodes) returns setof bazaar.nodes stable language sql as
  $$ with recursive up as (select n.* from bazaar.nodes n where n.id = $1.parent union all select n.* from bazaar.nodes n join up on n.id = up.parent) select * from up $$;

-- representations, media types ---------------------------------------------------------------------------------------------------

create domain bazaar.masked as bigint;
create function bazaar.json(bazaar.masked) returns json immutable language sql as $$ select to_json('#' || $1::text) $$;
create function bazaar.masked(json) returns bazaar.masked immutable language sql as $$ select ltrim($1 #>> '{}', '#')::bigint::bazaar.masked $$;
create function bazaar.masked(text) returns bazaar.masked immutable language sql as $$ select ltrim($1, '#')::bigint::bazaar.masked $$;
create cast (bazaar.masked as json) with function bazaar.json(bazaar.masked) as implicit;
create cast (json as bazaar.masked) with function bazaar.masked(json) as implicit;
create cast (text as bazaar.masked) with function bazaar.masked(text) as implicit;
create domain bazaar.unix_time as timestamptz;
create function bazaar.json(bazaar.unix_time) returns json immutable language sql as $$ select to_json(extract(epoch from $1::timestamptz)::bigint) $$;
create cast (bazaar.unix_time as json) with function bazaar.json(bazaar.unix_time) as implicit;
create table bazaar.masks (id int primary key, m bazaar.masked, at bazaar.unix_time, plain text, town int references bazaar.towns);
insert into bazaar.masks values (1, 10, '2024-01-01 00:00+00', 'x', 1), (2, 20, null, null, 2), (3, null, '1970-01-01 00:00+00', 'z', null);
create view bazaar.masks_view as select id, m as mm, at, town from bazaar.masks;

create domain bazaar."text/plain" as text;
create domain bazaar."application/x-lines" as text;
create domain bazaar."image/gif" as bytea;
create function bazaar.lines_step(state bazaar."application/x-lines", item anyelement) returns bazaar."application/x-lines" immutable language sql as
  $$ select (state || item::text || E'\n')::bazaar."application/x-lines" $$;
create aggregate bazaar.lines(anyelement) (sfunc = bazaar.lines_step, stype = bazaar."application/x-lines", initcond = '');
create function bazaar.clubs_step(state bazaar."text/plain", item bazaar.clubs) returns bazaar."text/plain" immutable language sql as $$ select (state || coalesce(item.name, '-') || ';')::bazaar."text/plain" $$;
create aggregate bazaar.clubs_text(bazaar.clubs) (sfunc = bazaar.clubs_step, stype = bazaar."text/plain", initcond = '');
create function bazaar.get_gif() returns bazaar."image/gif" immutable language sql as $$ select '\x474946'::bazaar."image/gif" $$;
create function bazaar.get_plain(v text default 'x') returns bazaar."text/plain" immutable language sql as $$ select ('plain ' || v)::bazaar."text/plain" $$;

-- functions: one for each type taken and given back, and the odd shapes ------------------------------------------------------------------

do $$
declare
  t text;
  number int := 0;
begin
  foreach t in array array['int2', 'int4', 'int8', 'numeric', 'numeric(8,3)', 'float4', 'float8', 'money', 'text', 'varchar', 'varchar(3)', 'char', 'char(5)', 'name', '"char"', 'boolean', 'bit(4)', 'bit', 'varbit',
    'date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval', 'uuid', 'json', 'jsonb', 'xml', 'bytea', 'inet', 'cidr', 'macaddr', 'point', 'box', 'circle', 'tsvector', 'tsquery', 'oid', 'regclass',
    'int[]', 'text[]', 'jsonb[]', 'date[]', 'int4range', 'tstzrange', 'int4multirange', 'bazaar.mood', 'bazaar.mood[]', 'bazaar."Odd Type"', 'bazaar.spot', 'bazaar.stall', 'bazaar.stall[]', 'bazaar.positive',
    'bazaar.tiny', 'bazaar.words', 'bazaar.mood_d', 'bazaar.stall_d', 'bazaar.doc_d', 'bazaar.cents', 'bazaar.masked', 'bazaar.unix_time', 'bazaar.towns', 'bazaar.clubs'] loop
    number := number + 1;
    execute format('create function bazaar.echo_%s(v %s) returns %s immutable language sql as $f$ select $1 $f$', number, t, t);
    execute format('create function bazaar.show_%s(v %s default null, w text default ''w'') returns text stable language sql as $f$ select coalesce(v::text, ''null'') || w $f$', number, t);
    execute format('create function bazaar.set_%s(v %s) returns setof %s immutable language sql as $f$ select $1 union all select null $f$', number, t, t);
    execute format('create function bazaar.tab_%s(v %s) returns table (v1 %s, n int) immutable language sql as $f$ select $1, 1 union all select null, 2 $f$', number, t, t);
  end loop;
end $$;
create function bazaar.town(key int) returns bazaar.towns stable language sql as $$ select * from bazaar.towns where id = key $$;
create function bazaar.some_towns(lowest bigint default 0) returns setof bazaar.towns stable language sql as $$ select * from bazaar.towns where population >= lowest order by id $$;
create function bazaar.some_people() returns setof bazaar.people stable language sql as $$ select * from bazaar.people $$;
create function bazaar.town_views() returns setof bazaar.town_view stable language sql as $$ select * from bazaar.town_view $$;
create function bazaar.spots() returns setof bazaar.spot stable language sql as $$ select place from bazaar.towns order by id $$;
create function bazaar.stalls() returns setof bazaar.stall immutable language sql as $$ select ('a', (1, 2)::bazaar.spot, '{x}')::bazaar.stall $$;
create function bazaar.outs(a int, out b int, out "C d" text) immutable language sql as $$ select a + 1, 'x' $$;
create function bazaar.outs_set(a int, out b int, out c text) returns setof record immutable language sql as $$ select a + g, 'x' || g from generate_series(1, 3) g $$;
create function bazaar.one_out(out v jsonb) immutable language sql as $$ select '{"a": [1]}'::jsonb $$;
create function bazaar.in_and_out(inout a int, inout b text default 'b', c boolean default null) immutable language sql as $$ select a, b || coalesce(c::text, '') $$;
create function bazaar.any_el(v anyelement) returns anyelement immutable language sql as $$ select v $$;
create function bazaar.many(v text, variadic rest text[] default '{}') returns text immutable language sql as $$ select v || array_to_string(rest, '|', '~') $$;
create function bazaar.many_int(variadic v int[]) returns int[] immutable language sql as $$ select v $$;
create function bazaar.many_json(variadic v jsonb[]) returns jsonb immutable language sql as $$ select to_jsonb(v) $$;
create function bazaar.many_set(variadic v int[]) returns setof int immutable language sql as $$ select unnest(v) $$;
create function bazaar.over() returns text immutable language sql as $$ select 'none' $$;
create function bazaar.over(a int) returns text immutable language sql as $$ select 'a' $$;
create function bazaar.over(a int, b text) returns text immutable language sql as $$ select 'ab' $$;
create function bazaar.over(b text) returns text immutable language sql as $$ select 'b' $$;
create function bazaar.over(a int, c int default 1, d int default 2) returns text immutable language sql as $$ select 'acd' $$;
create function bazaar.over_rows(id int) returns setof bazaar.clubs stable language sql as $$ select * from bazaar.clubs c where c.id = $1 $$;
create function bazaar.over_rows(name text) returns setof bazaar.people stable language sql as $$ select * from bazaar.people p where p.name = $1 $$;
create function bazaar.raw(json) returns json immutable language sql as $$ select $1 $$;
create function bazaar.raw(text) returns text immutable language sql as $$ select 'text ' || $1 $$;
create function bazaar.raw(bytea) returns int immutable language sql as $$ select length($1) $$;
create function bazaar.raw(xml) returns text immutable language sql as $$ select 'xml ' || $1::text $$;
create function bazaar.raw_set(jsonb) returns setof jsonb immutable language sql as $$ select jsonb_array_elements($1) $$;
create function bazaar.raw_default(jsonb default '{"d": 1}') returns jsonb immutable language sql as $$ select $1 $$;
create function bazaar."Odd, Func.tion"("A rg" int, "b.c" text default 'x', "d""q" int default 3) returns text immutable language sql as $$ select $1 || $2 || $3 $$;
create function bazaar."select"("select" int default 1, "order" text default 'o') returns text immutable language sql as $$ select $1 || $2 $$;
create function bazaar.limited("limit" int, "offset" int default 2) returns int immutable language sql as $$ select $1 + $2 $$;
create function bazaar.count_up(n int) returns table (i int, sq int) immutable language sql as $$ select g, g * g from generate_series(1, n) g $$;
create function bazaar.add_club(id int, name text) returns bazaar.clubs language sql as $$ insert into bazaar.clubs (id, name) values ($1, $2) returning * $$;
create function bazaar.add_clubs(names text[]) returns setof bazaar.clubs language sql as $$ insert into bazaar.clubs (id, name) select 50 + ordinality, n from unnest(names) with ordinality t(n) returning * $$;
create function bazaar.rename_all(prefix text) returns setof bazaar.people language sql as $$ update bazaar.people set name = prefix || name returning * $$;
create function bazaar.delete_fans(lowest int) returns int language sql as $$ with d as (delete from bazaar.fans where id >= lowest returning 1) select count(*)::int from d $$;
create function bazaar.void_write(v text) returns void language sql as $$ insert into bazaar.touchy (id, what) values (77, v) $$;
create function bazaar.records(n int) returns setof record immutable language sql as $$ select g, 'x' || g from generate_series(1, n) g $$;
create function bazaar.a_record() returns record immutable language sql as $$ select 1, null::text $$;
create function bazaar.definer() returns text stable security definer language sql as $$ select current_user::text $$;
create function bazaar.paths() returns text stable language sql as $$ select current_setting('search_path') $$;
create function bazaar.slow(seconds float8) returns int language sql set statement_timeout = '80ms' as $$ select 1 from pg_sleep(seconds) $$;
create function bazaar.crash(code text, message text default 'm', detail text default null, hint text default null) returns int language plpgsql as
  $$ begin raise exception using errcode = code, message = message, detail = coalesce(detail, ''), hint = coalesce(hint, ''); end $$;
create function bazaar.reply(status text default null, headers text default null, body text default 'b') returns text volatile language sql as
  $$ select set_config('response.status', coalesce(status, ''), true), set_config('response.headers', coalesce(headers, ''), true); select body $$;

-- roles -----------------------------------------------------------------------------------------------------------------------------------

create table bazaar.secrets (id int primary key, owner text, body text, level int);
alter table bazaar.secrets enable row level security;
create policy own on bazaar.secrets to authenticated using (owner = nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub')
  with check (level < 5);
create policy low on bazaar.secrets for select to anon using (level = 0);
insert into bazaar.secrets values (1, 'ines', 'mine', 1), (2, 'jon', 'his', 2), (3, 'ines', 'open', 0), (4, null, 'nobody', 9);
create table bazaar.halves (id int primary key, seen text, hidden text, town int references bazaar.towns);
insert into bazaar.halves values (1, 'a', 'b', 1), (2, 'c', 'd', null);

create table annex.towns (id int primary key, town int references bazaar.towns, other text);
create table annex.only (id int primary key, annex_town int references annex.towns, person int references bazaar.people, v text);
create view annex.people as select * from bazaar.people;
create function annex.echo_2(v int) returns int immutable language sql as $$ select v * 1000 $$;
create function annex.here(annex.towns) returns text immutable language sql as $$ select $1.other || '!' $$;
insert into annex.towns values (1, 1, 'one'), (2, 3, null);
insert into annex.only values (1, 1, 1, 'v'), (2, null, 2, null);

create function tools.nearby(bazaar.towns) returns int immutable language sql as $$ select $1.id * 11 $$;
create function tools.outside(v int) returns int immutable language sql as $$ select v $$;

refresh materialized view bazaar.town_stats;
refresh materialized view bazaar.club_stats;
grant usage on schema bazaar, annex, tools to anon, authenticated, service_role, harbour_master;
grant all on all tables in schema bazaar, annex to anon, authenticated, service_role, harbour_master;
grant all on all sequences in schema bazaar, annex to anon, authenticated, service_role, harbour_master;
revoke all on bazaar.halves from anon, authenticated;
grant select (id, seen, town), insert (id, seen), update (seen) on bazaar.halves to anon;
grant select, delete on bazaar.halves to authenticated;
alter role service_role bypassrls;
analyze;
