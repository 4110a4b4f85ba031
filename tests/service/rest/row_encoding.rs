//! Our JSON encoding of rows against PostgreSQL's `json_agg`: byte-identical for every supported type, under every setting
//! that affects the text of a value.

mod cases;
mod dice;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use basalt_core::identity::Identity;
use basalt_pg::database::Database;
use basalt_pg::pool::PoolConfig;
use basalt_pg::session::{Access, Isolation, Scope, Sessions, Statement};
use basalt_pg::sql::Param;
use basalt_rest::rows::types::TextTypes;
use basalt_rest::rows::{Frame, to_json};
use basalt_rest::statement::array_literal;
use basalt_testkit::TestDatabase;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use cases::{Case, cases};
use dice::Dice;

/// The number of random values of each type, besides the listed ones.
const RANDOM: usize = 200;

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
    create table texts (at int, x text);";

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
    // The schema cache load is queried through a table with these types.
    let columns = ["mood", "known_mood", "float_range", "citext", "pair", "shown", "mood[]", "words"];
    let columns: Vec<String> =
        columns.iter().enumerate().map(|(at, name)| format!("c{at} public.{name}")).collect();
    fixture.database.admin_sql(&format!("create table own_types ({})", columns.join(", "))).await;
    let load = include_str!("../../../rest/src/schema_cache/types.sql");
    let loaded = fixture.ask(&[], &[(load.to_owned(), Vec::new())]).await.remove(0);
    let loaded =
        loaded.iter().map(|row| serde_json::from_str::<serde_json::Value>(row.text(0).unwrap()).unwrap());
    fixture.types = loaded
        .filter(|kind| kind["is_text"] == true)
        .map(|kind| u32::try_from(kind["base_oid"].as_u64().unwrap()).unwrap())
        .collect();
    fixture
}

type Rows = Vec<basalt_pg::session::Row>;

impl Fixture {
    async fn ask(&self, settings: &[(&'static str, &str)], steps: &[(String, Vec<Param>)]) -> Vec<Rows> {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).to_owned())).collect();
        let scope = Scope {
            identity: Identity::SERVER,
            access: Access::ReadWrite,
            isolation: Isolation::ReadCommitted,
            settings,
            may_prepare: false,
            savepoints: false,
            room_for_values: false,
            deadline: Instant::now() + Duration::from_secs(60),
        };
        let steps =
            steps.iter().map(|(text, params)| Statement { text: Arc::from(&**text), params: params.clone() });
        self.sessions.run(scope, steps.collect()).await.unwrap()
    }

    /// PostgreSQL's and our encoding of a query's rows.
    async fn both(&self, settings: &[(&'static str, &str)], query: &str) -> (String, Option<String>) {
        let aggregate = format!("select coalesce(json_agg(r), '[]')::text from ({query}) as r");
        let mut results =
            self.ask(settings, &[(aggregate, Vec::new()), (query.to_owned(), Vec::new())]).await;
        let theirs = results[0][0].text(0).unwrap().to_owned();
        let ours = to_json(results.swap_remove(1), &self.types, Frame::Array);
        (theirs, ours.map(|json| String::from_utf8(json.to_vec()).unwrap()))
    }

    async fn is_known(&self, type_name: &str) -> bool {
        let oid = format!(
            "select (case t.typtype when 'd' then t.typbasetype else t.oid end)::int8 from pg_type t where oid = '{type_name}'::regtype"
        );
        let rows = self.ask(&[], &[(oid, Vec::new())]).await;
        self.types.is_known(u32::try_from(rows[0][0].number(0).unwrap()).unwrap())
    }
}

/// All settings that affect the text of a value, each with a non-default value at least once.
const SETTINGS: [&[(&str, &str)]; 4] = [
    &[],
    &[
        ("TimeZone", "America/St_Johns"),
        ("IntervalStyle", "iso_8601"),
        ("extra_float_digits", "-3"),
        ("bytea_output", "escape"),
    ],
    &[
        ("TimeZone", "Asia/Kathmandu"),
        ("IntervalStyle", "sql_standard"),
        ("extra_float_digits", "3"),
        ("DateStyle", "ISO, DMY"),
    ],
    &[
        ("TimeZone", "Africa/Monrovia"),
        ("IntervalStyle", "postgres_verbose"),
        ("lc_monetary", "C"),
        ("xmlbinary", "hex"),
    ],
];

#[tokio::test]
async fn every_type_matches_postgresqls_json() {
    let fixture = fixture().await;
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut tested = BTreeSet::new();
    for Case { name, made, named, random } in cases() {
        let mut values = named;
        if random(&mut dice) != String::new() || random(&mut dice) != String::new() {
            values.extend((0..RANDOM).map(|_| random(&mut dice)));
        }
        let made = if made.is_empty() { format!("x::{name}") } else { made.to_owned() };
        // `create table as` takes no parameters.
        let texts = "insert into texts select at, x from unnest($1::text[]) with ordinality as u(x, at)";
        let steps = [
            ("truncate texts".to_owned(), Vec::new()),
            (texts.to_owned(), vec![Param::from(array_literal(&values))]),
            ("drop table if exists sample".to_owned(), Vec::new()),
            (format!("create table sample as select at, {made} as v from texts"), Vec::new()),
        ];
        fixture.ask(&[], &steps).await;

        let is_domain = name.starts_with("public.");
        let has_array = !is_domain && fixture.is_known(&format!("{name}[]")).await;
        let mut columns = String::from("v");
        if name == "bytea" {
            // Selected alone the value arrives in binary; `to_json` formats it.
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
        let query =
            format!("select at, {columns}, null::int as \"a \"\"key\"\"\\ \n é\" from sample order by at");
        for settings in SETTINGS {
            let (theirs, ours) = fixture.both(settings, &query).await;
            let Some(ours) = ours else { panic!("{name} was not written under {settings:?}: {theirs:.400}") };
            if theirs != ours {
                let differing =
                    theirs.split("\n ").zip(ours.split("\n ")).find(|(theirs, ours)| theirs != ours);
                panic!("{name} under {settings:?}: {differing:?}");
            }
        }
    }
    // Every supported type was tested.
    let oids = fixture
        .ask(
            &[],
            &[(
                "select oid::int8, format_type(oid, null) from pg_type where oid < 16384".to_owned(),
                Vec::new(),
            )],
        )
        .await;
    let known =
        oids[0].iter().filter(|row| fixture.types.is_known(u32::try_from(row.number(0).unwrap()).unwrap()));
    let untested: Vec<&str> =
        known.filter_map(|row| row.text(1)).filter(|name| !tested.contains(*name)).collect();
    assert_eq!(untested, Vec::<&str>::new());
}

#[tokio::test]
async fn non_iso_dates_are_left_to_postgresql() {
    let fixture = fixture().await;
    for style in ["SQL, MDY", "Postgres, DMY", "German"] {
        for value in [
            "date '1997-12-17'",
            "timestamp '1997-12-17 07:37:16'",
            "timestamptz '1997-12-17 07:37:16 BC'",
            "array[date '1997-12-17']",
        ] {
            let (theirs, ours) = fixture.both(&[("DateStyle", style)], &format!("select {value} as v")).await;
            assert!(theirs.contains("1997-12-1"), "{theirs}");
            assert_eq!(ours, None, "{value} in {style}");
        }
        let (theirs, ours) = fixture
            .both(&[("DateStyle", style)], "select daterange('1997-12-17', null) as v, 'infinity'::date as w")
            .await;
        assert_eq!(Some(theirs), ours, "a range is text in any style");
    }
}

#[tokio::test]
async fn unsupported_types_are_left_to_postgresql() {
    let fixture = fixture().await;
    for name in ["pair", "shown", "mood[]", "int2vector", "oidvector", "box[]", "pg_class", "pair[]"] {
        assert!(!fixture.is_known(name).await, "{name}");
    }
    for value in ["row(1, 2)", "(1, 'a')::pair", "'x'::shown", "'1 2'::int2vector"] {
        let (_, ours) = fixture.both(&[], &format!("select {value} as v")).await;
        assert_eq!(ours, None, "{value}");
        let (theirs, ours) =
            fixture.both(&[], &format!("select to_json({value}) as v, to_json(null::pair) as n")).await;
        assert_eq!(Some(theirs), ours, "{value}");
    }
}

#[tokio::test]
async fn handles_zero_columns_and_zero_rows() {
    let fixture = fixture().await;
    for query in ["select from generate_series(1, 3)", "select 1 as a where false", "select 1 as a, 2 as a"] {
        let (theirs, ours) = fixture.both(&[], query).await;
        assert_eq!(Some(theirs), ours, "{query}");
    }
}
