//! Rows that we write as JSON ourselves, against what PostgreSQL's `json_agg` makes of the same rows: to the byte, for
//! every type that is known here, under every setting that has a say in the text of a value.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::database::Database;
use basalt_core::pool::PoolConfig;
use basalt_core::session::{Access, Isolation, Scope, Sessions, Statement};
use basalt_core::sql::Param;
use basalt_rest::rows::types::TextTypes;
use basalt_rest::rows::{Frame, to_json};
use basalt_rest::statement::array_literal;
use basalt_testkit::TestDatabase;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// Random values of each type, besides those with a name.
const RANDOM: usize = 200;

/// Where the text of a value comes from.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Any text but NUL, rich in what JSON and arrays have to escape.
    fn text(&mut self) -> String {
        let length = self.below(24);
        (0..length)
            .map(|_| match self.below(6) {
                0 => char::from(u8::try_from(1 + self.below(0x1f)).unwrap()),
                1 => char::from(*self.one_of(&[&b'"', &b'\\', &b',', &b'{', &b'}', &b' ', &b'\x7f', &b'\'', &b'/'])),
                2 => *self.one_of(&[&'é', &'\u{80}', &'\u{2028}', &'😀', &'\u{10ffff}', &'\u{feff}', &'ß', &'日']),
                _ => char::from(u8::try_from(0x20 + self.below(0x5f)).unwrap()),
            })
            .collect()
    }

    fn digits(&mut self, count: u64) -> String {
        (0..count).map(|_| char::from(u8::try_from(0x30 + self.below(10)).unwrap())).collect()
    }

    fn sign(&mut self) -> &'static str {
        self.one_of(&["", "-"])
    }

    fn float(&mut self) -> String {
        let float = match self.below(3) {
            0 => f64::from_bits(self.next()),
            1 => f64::from(f32::from_bits(u32::try_from(self.next() >> 32).unwrap())),
            _ => return format!("{}{}.{}", self.sign(), self.below(100_000), self.below(1000)),
        };
        float.to_string().replace("inf", "Infinity")
    }

    /// Within what `real` can hold.
    fn small_float(&mut self) -> String {
        let float = f32::from_bits(u32::try_from(self.next() >> 32).unwrap());
        if float.is_normal() || float.is_infinite() { float.to_string().replace("inf", "Infinity") } else { "NaN".into() }
    }

    fn date(&mut self, last: u64) -> String {
        let (year, era) = match self.below(4) {
            0 => (1 + self.below(last), ""),
            1 => (1 + self.below(4700), " BC"),
            2 => (1 + self.below(999), ""),
            _ => (1900 + self.below(200), ""),
        };
        format!("{year:04}-{:02}-{:02}{era}", 1 + self.below(12), 1 + self.below(28))
    }

    fn clock(&mut self) -> String {
        let (hour, minute, second) = (self.below(24), self.below(60), self.below(60));
        let count = self.below(7);
        let fraction = self.digits(count);
        let dot = if fraction.is_empty() { "" } else { "." };
        format!("{hour:02}:{minute:02}:{second:02}{dot}{fraction}")
    }

    fn timestamp(&mut self, zone: bool) -> String {
        let date = self.date(294_000);
        let (date, era) = date.split_once(' ').unwrap_or((&date, ""));
        let zone = if zone { self.one_of(&["+00", "-03:30", "+12:45", "+05:53:28"]) } else { "" };
        format!("{date} {}{zone} {era}", self.clock())
    }

    fn interval(&mut self) -> String {
        let mut text = String::new();
        for unit in ["years", "mons", "days", "hours", "mins"] {
            if self.below(2) == 0 {
                write!(text, "{}{} {unit} ", self.sign(), self.below(500)).unwrap();
            }
        }
        let count = 1 + self.below(6);
        format!("{text}{}{}.{} secs", self.sign(), self.below(90), self.digits(count))
    }

    fn bits(&mut self, count: u64) -> String {
        (0..count).map(|_| self.one_of(&["0", "1"])).collect()
    }

    fn point(&mut self) -> String {
        format!("({},{})", self.float(), self.float())
    }

    fn points(&mut self) -> String {
        let points: Vec<String> = (0..1 + self.below(4)).map(|_| self.point()).collect();
        points.join(",")
    }

    fn range(&mut self, mut bound: impl FnMut(&mut Self) -> String) -> String {
        let (low, high) = (bound(self), bound(self));
        match self.below(5) {
            0 => format!("(,{high}]"),
            1 => format!("[{low},)"),
            2 => "empty".to_owned(),
            _ => format!("[{low},{low}]"),
        }
    }
}

/// A type, an expression that makes a value of the text `x`, the values that have a name, and random ones.
struct Case {
    name: &'static str,
    made: &'static str,
    named: Vec<String>,
    random: fn(&mut Dice) -> String,
}

fn case(name: &'static str, named: &[&str], random: fn(&mut Dice) -> String) -> Case {
    Case { name, made: "", named: named.iter().map(|&text| text.to_owned()).collect(), random }
}

fn made(name: &'static str, made: &'static str, random: fn(&mut Dice) -> String) -> Case {
    Case { name, made, named: Vec::new(), random }
}

/// Types with nothing but a handful of values worth a look.
fn fixed(name: &'static str, named: &[&str]) -> Case {
    case(name, named, |_| String::new())
}

const SPECIAL: [&str; 3] = ["NaN", "Infinity", "-Infinity"];
const ENDLESS: [&str; 2] = ["infinity", "-infinity"];

fn cases() -> Vec<Case> {
    let texts = ["", "NULL", "null", "\"", "\\", "{}", "{a,\"b\"}", "[0:1]={1}", " a ", "a\u{1}\u{1f}\n\r\t\u{8}\u{c}\u{7f}"];
    let ranges = |name, random| case(name, &["empty", "(,)"], random);
    let multi = |name, random| case(name, &["{}", "{(,)}"], random);
    vec![
        case("boolean", &["t", "f"], |dice| dice.one_of(&["t", "f"]).to_owned()),
        case("smallint", &["0", "-32768", "32767"], |dice| (dice.next() as i16).to_string()),
        case("integer", &["0", "-2147483648"], |dice| (dice.next() as i32).to_string()),
        case("bigint", &["0", "-9223372036854775808", "9007199254740993"], |dice| (dice.next() as i64).to_string()),
        Case {
            named: SPECIAL.iter().map(|&text| text.to_owned()).chain(["-0".into(), "1e37".into(), "1e-37".into()]).collect(),
            ..case("real", &[], Dice::small_float)
        },
        Case {
            named: ["-0", "1e300", "5e-324", "1e15", "1e16", "123456789.123456789"]
                .iter()
                .chain(&SPECIAL)
                .map(|&text| text.to_owned())
                .collect(),
            ..case("double precision", &[], Dice::float)
        },
        Case {
            named: SPECIAL
                .iter()
                .map(|&text| text.to_owned())
                .chain([format!("-{}.{}", "9".repeat(2000), "1".repeat(900)), "1e-1000".into(), "-0.00".into()])
                .collect(),
            ..case("numeric", &[], |dice| {
                let (before, behind) = (1 + dice.below(60), dice.below(40));
                format!("{}{}.{}", dice.sign(), dice.digits(before), dice.digits(behind))
            })
        },
        case("text", &texts, Dice::text),
        case("character varying", &texts, Dice::text),
        Case { made: "x::character(40)", ..case("character", &texts, Dice::text) },
        case("name", &["", "NULL"], Dice::text),
        case("\"char\"", &["", "a", "\"", "\\", "\u{1}", "é"], |dice| dice.text().chars().take(1).collect()),
        case("refcursor", &texts, Dice::text),
        case("json", &["null", " {\"a\" : [1, 2] ,\n\"a\":1e400}", "\"\\u0000\"", "[]"], |dice| {
            format!("{{{} : [{}, null, \"\\u00e9\"]}}", serde_json::Value::from(dice.text()), dice.below(9))
        }),
        case("jsonb", &["null", "{\"b\":1,\"a\":1.50}", "[]"], |dice| serde_json::json!({"k": dice.text()}).to_string()),
        made("jsonpath", "('$.' || to_json(x))::jsonpath", Dice::text),
        made("xml", "xmlelement(name a, regexp_replace(x, '[[:cntrl:]\u{feff}\u{10ffff}]', '', 'g'))", Dice::text),
        case("date", &ENDLESS, |dice| dice.date(5_000_000)),
        case("timestamp without time zone", &ENDLESS, |dice| dice.timestamp(false)),
        case("timestamp with time zone", &ENDLESS, |dice| dice.timestamp(true)),
        case("time without time zone", &["24:00:00"], Dice::clock),
        case("time with time zone", &["24:00:00+00"], |dice| {
            format!("{}{}", dice.clock(), dice.one_of(&["+00", "-03:30", "+12:45:01"]))
        }),
        case("interval", &["0", "-178000000 years"], Dice::interval),
        made("uuid", "x::uuid", |dice| format!("{:016x}{:016x}", dice.next(), dice.next())),
        made("bytea", "convert_to(x, 'UTF8')", Dice::text),
        case("money", &["0", "-92233720368547758.08"], |dice| format!("{}{}.{}", dice.sign(), dice.below(1 << 40), 10 + dice.below(89))),
        Case { made: "x::bit(9)", ..case("bit", &[], |dice| dice.bits(9)) },
        case("bit varying", &[""], |dice| {
            let count = dice.below(20);
            dice.bits(count)
        }),
        case("inet", &["::1", "::ffff:1.2.3.4/128"], |dice| format!("10.{}.0.1/{}", dice.below(256), dice.below(33))),
        case("cidr", &["::/0"], |dice| format!("10.{}.0.0/16", dice.below(256))),
        case("macaddr", &[], |dice| format!("{:012x}", dice.next() >> 16)),
        case("macaddr8", &[], |dice| format!("{:016x}", dice.next())),
        case("point", &["(NaN,Infinity)"], Dice::point),
        case("lseg", &[], |dice| format!("[{},{}]", dice.point(), dice.point())),
        case("box", &[], |dice| format!("{},{}", dice.point(), dice.point())),
        case("path", &[], |dice| if dice.below(2) == 0 { format!("[{}]", dice.points()) } else { format!("({})", dice.points()) }),
        case("polygon", &[], |dice| format!("({})", dice.points())),
        case("line", &[], |dice| format!("{{{},{},1}}", dice.below(99), dice.below(99))),
        case("circle", &[], |dice| format!("<(1,{}.5),{}>", dice.below(99), dice.below(99))),
        made("tsvector", "to_tsvector('simple', x)", Dice::text),
        made("tsquery", "phraseto_tsquery('simple', x)", Dice::text),
        case("pg_lsn", &["0/0"], |dice| format!("{:X}/{:X}", dice.next() >> 32, dice.next() >> 32)),
        case("oid", &["0", "4294967295"], |dice| (dice.next() >> 32).to_string()),
        case("xid", &[], |dice| (dice.next() >> 32).to_string()),
        case("cid", &[], |dice| (dice.next() >> 32).to_string()),
        case("xid8", &[], |dice| dice.next().to_string()),
        case("tid", &[], |dice| format!("({},{})", dice.next() >> 32, dice.below(60_000))),
        fixed("txid_snapshot", &["10:20:10,14,15"]),
        fixed("pg_snapshot", &["10:20:10,14,15"]),
        Case { made: "makeaclitem(10, 10, 'SELECT', x = 'a')", ..fixed("aclitem", &["a", "b"]) },
        fixed("regproc", &["now"]),
        fixed("regprocedure", &["lower(text)", "sum(integer)"]),
        fixed("regoper", &["||/"]),
        fixed("regoperator", &["+(integer,integer)"]),
        fixed("regclass", &["pg_class", "\"Strange \"\"name\""]),
        fixed("regtype", &["integer", "text[]"]),
        fixed("regconfig", &["english"]),
        fixed("regdictionary", &["simple"]),
        fixed("regnamespace", &["public"]),
        fixed("regrole", &["pg_monitor"]),
        fixed("regcollation", &["\"C\""]),
        ranges("int4range", |dice| dice.range(|dice| (dice.below(1000)).to_string())),
        ranges("int8range", |dice| dice.range(|dice| (dice.next() >> 2).to_string())),
        ranges("numrange", |dice| dice.range(|dice| format!("{}.{}", dice.below(99), dice.below(99)))),
        ranges("daterange", |dice| dice.range(|dice| dice.date(9000))),
        ranges("tsrange", |dice| dice.range(|dice| format!("\"{}\"", dice.timestamp(false)))),
        ranges("tstzrange", |dice| dice.range(|dice| format!("\"{}\"", dice.timestamp(true)))),
        multi("int4multirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("int8multirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("nummultirange", |dice| format!("{{{}}}", dice.range(|dice| dice.below(1000).to_string()))),
        multi("datemultirange", |dice| format!("{{{}}}", dice.range(|dice| dice.date(9000)))),
        multi("tsmultirange", |dice| format!("{{{}}}", dice.range(|dice| format!("\"{}\"", dice.timestamp(false))))),
        multi("tstzmultirange", |dice| format!("{{{}}}", dice.range(|dice| format!("\"{}\"", dice.timestamp(true))))),
        // Of the database's own.
        case("public.mood", &["sad", "so \"so\"", "a,b"], |dice| dice.one_of(&["sad", "so \"so\""]).to_owned()),
        case("public.known_mood", &["sad"], |dice| dice.one_of(&["sad", "so \"so\""]).to_owned()),
        case("public.shoe_size", &["47"], |dice| dice.below(99).to_string()),
        case("public.birthday", &ENDLESS, |dice| dice.date(9000)),
        made("public.note", "jsonb_build_object('a', x)::public.note", Dice::text),
        made("public.words", "array[x, null]::public.words", Dice::text),
        case("public.float_range", &["empty"], |dice| dice.range(|dice| dice.below(9).to_string())),
        made("public.citext", "x::public.citext", Dice::text),
    ]
}

const TYPES: &str = "
    create extension if not exists citext with schema public;
    create type mood as enum ('sad', 'so \"so\"', 'a,b');
    create domain known_mood as mood not null;
    create domain shoe_size as int4 check (value < 100);
    create domain birthday as date;
    create domain note as jsonb;
    create domain words as text[];
    create type float_range as range (subtype = float8);
    create table \"Strange \"\"name\" (id int);
    create type pair as (a int, b text);
    create type shown as enum ('x');
    create function shown_json(shown) returns json language sql as $$ select '1'::json $$;
    create cast (shown as json) with function shown_json;
    create table samples (at int, v text);";

struct Fixture {
    database: TestDatabase,
    sessions: Sessions,
    types: TextTypes,
}

async fn fixture() -> Fixture {
    let database = TestDatabase::create().await;
    database.admin_sql(TYPES).await;
    let pool = PoolConfig::new("rows", 1);
    let sessions = Sessions::new(Database::new(database.config()), pool, TaskTracker::new());
    let mut fixture = Fixture { database, sessions, types: TextTypes::default() };
    // What the load of the schema cache says of these types is found out through a table of them.
    let columns = ["mood", "known_mood", "float_range", "citext", "pair", "shown", "mood[]", "words"];
    let columns: Vec<String> = columns.iter().enumerate().map(|(at, name)| format!("c{at} public.{name}")).collect();
    fixture.database.admin_sql(&format!("create table own_types ({})", columns.join(", "))).await;
    let load = include_str!("../../../rest/src/schema_cache/types.sql");
    let loaded = fixture.ask(&[], &[(load.to_owned(), Vec::new())]).await.remove(0);
    let loaded = loaded.iter().map(|row| serde_json::from_str::<serde_json::Value>(row.text(0).unwrap()).unwrap());
    fixture.types = loaded
        .filter(|kind| kind["is_text"] == true)
        .map(|kind| u32::try_from(kind["base_oid"].as_u64().unwrap()).unwrap())
        .collect();
    fixture
}

type Rows = Vec<basalt_core::session::Row>;

impl Fixture {
    async fn ask(&self, settings: &[(&'static str, &str)], steps: &[(String, Vec<Param>)]) -> Vec<Rows> {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())).collect();
        let scope = Scope {
            access: Access::ReadWrite,
            isolation: Isolation::ReadCommitted,
            settings,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let steps = steps.iter().map(|(text, params)| Statement { text: Arc::from(&**text), params: params.clone() });
        self.sessions.run(scope, steps.collect()).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What PostgreSQL makes of a query's rows, and what we do.
    async fn both(&self, settings: &[(&'static str, &str)], query: &str) -> (String, Option<String>) {
        let aggregate = format!("select coalesce(json_agg(r), '[]')::text from ({query}) as r");
        let mut answers = self.ask(settings, &[(aggregate, Vec::new()), (query.to_owned(), Vec::new())]).await;
        let theirs = answers[0][0].text(0).unwrap().to_owned();
        let ours = to_json(answers.swap_remove(1), &self.types, Frame::Array);
        (theirs, ours.map(|json| String::from_utf8(json.to_vec()).unwrap()))
    }

    async fn is_known(&self, type_name: &str) -> bool {
        let oid = format!("select (case t.typtype when 'd' then t.typbasetype else t.oid end)::int8 from pg_type t where oid = '{type_name}'::regtype");
        let rows = self.ask(&[], &[(oid, Vec::new())]).await;
        self.types.is_known(u32::try_from(rows[0][0].number(0).unwrap()).unwrap())
    }
}

/// All that shape the text of a value, each away from its default at least once.
const SETTINGS: [&[(&str, &str)]; 4] = [
    &[],
    &[("TimeZone", "America/St_Johns"), ("IntervalStyle", "iso_8601"), ("extra_float_digits", "-3"), ("bytea_output", "escape")],
    &[("TimeZone", "Asia/Kathmandu"), ("IntervalStyle", "sql_standard"), ("extra_float_digits", "3"), ("DateStyle", "ISO, DMY")],
    &[("TimeZone", "Africa/Monrovia"), ("IntervalStyle", "postgres_verbose"), ("lc_monetary", "C"), ("xmlbinary", "hex")],
];

#[tokio::test]
async fn every_type_is_written_as_postgresql_writes_it() {
    let fixture = fixture().await;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut tested = BTreeSet::new();
    for Case { name, made, named, random } in cases() {
        let mut values = named;
        if random(&mut dice) != String::new() || random(&mut dice) != String::new() {
            values.extend((0..RANDOM).map(|_| random(&mut dice)));
        }
        let made = if made.is_empty() { format!("x::{name}") } else { made.to_owned() };
        let table = "drop table if exists sample";
        let create = format!(
            "create table sample as select at, {made} as v from unnest($1::text[]) with ordinality as u(x, at)"
        );
        let list = Param::from(array_literal(&values));
        // `create table as` takes no parameters.
        let samples = "insert into samples select at, x from unnest($1::text[]) with ordinality as u(x, at)";
        let steps = [("delete from samples".to_owned(), Vec::new()), (samples.to_owned(), vec![list]), (table.to_owned(), Vec::new())];
        fixture.ask(&[], &steps).await;
        let create = create.replace("unnest($1::text[]) with ordinality as u(x, at)", "(select at, v as x from samples) as u");
        fixture.ask(&[], &[(create, Vec::new())]).await;

        let is_domain = name.starts_with("public.");
        let has_array = !is_domain && fixture.is_known(&format!("{name}[]")).await;
        let mut columns = String::from("v");
        if name == "bytea" {
            // Alone it comes in binary; to_json is asked for it.
            columns = "to_json(v) as v".to_owned();
        } else {
            assert!(fixture.is_known(name).await, "{name}");
            tested.insert(name.to_owned());
        }
        if has_array {
            tested.insert(format!("{name}[]"));
            write!(
                columns,
                ", array[v, null, v] as a, array[[v, v], [null, v]] as b, '{{}}'::{name}[] as c, \
                 ('[0:1]=' || array[v, v]::text)::{name}[] as d, null::{name}[] as e"
            )
            .unwrap();
        }
        let query = format!("select at, {columns}, null::int as \"a \"\"key\"\"\\ \n é\" from sample order by at");
        for settings in SETTINGS {
            let (theirs, ours) = fixture.both(settings, &query).await;
            let Some(ours) = ours else { panic!("{name} was not written under {settings:?}: {theirs:.400}") };
            if theirs != ours {
                let differing = theirs.split("\n ").zip(ours.split("\n ")).find(|(theirs, ours)| theirs != ours);
                panic!("{name} under {settings:?}: {differing:?}");
            }
        }
    }
    // Nothing is known that was not looked at.
    let oids = fixture.ask(&[], &[("select oid::int8, format_type(oid, null) from pg_type where oid < 16384".to_owned(), Vec::new())]).await;
    let known = oids[0].iter().filter(|row| fixture.types.is_known(u32::try_from(row.number(0).unwrap()).unwrap()));
    let untested: Vec<&str> = known.filter_map(|row| row.text(1)).filter(|name| !tested.contains(*name)).collect();
    assert_eq!(untested, Vec::<&str>::new());
}

#[tokio::test]
async fn dates_in_another_style_are_left_to_postgresql() {
    let fixture = fixture().await;
    for style in ["SQL, MDY", "Postgres, DMY", "German"] {
        for value in ["date '1997-12-17'", "timestamp '1997-12-17 07:37:16'", "timestamptz '1997-12-17 07:37:16 BC'", "array[date '1997-12-17']"] {
            let (theirs, ours) = fixture.both(&[("DateStyle", style)], &format!("select {value} as v")).await;
            assert!(theirs.contains("1997-12-1"), "{theirs}");
            assert_eq!(ours, None, "{value} in {style}");
        }
        let (theirs, ours) = fixture.both(&[("DateStyle", style)], "select daterange('1997-12-17', null) as v, 'infinity'::date as w").await;
        assert_eq!(Some(theirs), ours, "a range is its text in any style");
    }
}

#[tokio::test]
async fn what_only_postgresql_can_write_is_not_known() {
    let fixture = fixture().await;
    for name in ["pair", "shown", "mood[]", "int2vector", "oidvector", "box[]", "pg_class", "pair[]"] {
        assert!(!fixture.is_known(name).await, "{name}");
    }
    for value in ["row(1, 2)", "(1, 'a')::pair", "'x'::shown", "'1 2'::int2vector"] {
        let (_, ours) = fixture.both(&[], &format!("select {value} as v")).await;
        assert_eq!(ours, None, "{value}");
        let (theirs, ours) = fixture.both(&[], &format!("select to_json({value}) as v, to_json(null::pair) as n")).await;
        assert_eq!(Some(theirs), ours, "{value}");
    }
}

#[tokio::test]
async fn rows_without_columns_and_no_rows() {
    let fixture = fixture().await;
    for query in ["select from generate_series(1, 3)", "select 1 as a where false", "select 1 as a, 2 as a"] {
        let (theirs, ours) = fixture.both(&[], query).await;
        assert_eq!(Some(theirs), ours, "{query}");
    }
}
