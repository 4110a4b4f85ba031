//! Every type as a key on a table with policies and as a filtered column: what arrives equals what a SELECT
//! returns.

use std::fmt::Write as _;

use serde_json::json;

use crate::harness::{Listener, Server, filtered, table, until};

/// A type with values; neighbours are equal once truncated or rounded to a shorter type.
pub(crate) struct Kind {
    pub(crate) sql: &'static str,
    pub(crate) values: &'static [&'static str],
    /// Further filter operands, longer or more precise than the column.
    probes: &'static [&'static str],
    /// Whether `like` accepts the type.
    is_text: bool,
}

impl Kind {
    /// Ordering and NULL filters, each with the same condition in SQL.
    pub(crate) fn orderings(&self, column: &str) -> Vec<(String, String)> {
        let mut filters = vec![
            (format!("{column}=is.null"), format!("{column} is null")),
            (format!("{column}=not.is.null"), format!("{column} is not null")),
        ];
        for probe in self.values.iter().chain(self.probes) {
            let (written, literal) = (json!(probe).to_string(), self.literal(probe));
            filters.push((format!("{column}=gt.{written}"), format!("{column} > {literal}")));
            filters.push((format!("{column}=lte.{written}"), format!("{column} <= {literal}")));
        }
        filters
    }

    /// A literal; only for row types PostgreSQL cannot infer its type.
    fn literal(&self, value: &str) -> String {
        format!("{}{}", quoted(value), if self.sql == "pair" { "::pair" } else { "" })
    }

    /// Filters that compare with values, each with the same condition in SQL.
    pub(crate) fn filters(&self, column: &str) -> Vec<(String, String)> {
        let mut filters = Vec::new();
        for probe in self.values.iter().chain(self.probes) {
            let (written, literal) = (json!(probe).to_string(), self.literal(probe));
            let mut add = |operator: &str, condition: String| {
                filters.push((format!("{column}={operator}.{written}"), condition));
            };
            add("eq", format!("{column} = {literal}"));
            add("not.eq", format!("not {column} = {literal}"));
            add("isdistinct", format!("{column} is distinct from {literal}"));
            if self.is_text {
                add("like", format!("{column} like {literal}"));
            }
        }
        let is_array = self.sql.ends_with("[]") || self.sql == "tags";
        if !is_array {
            let items: Vec<String> =
                self.values.iter().skip(1).chain(self.probes).map(|item| json!(item).to_string()).collect();
            let items = items.join(",");
            let cast = if self.sql == "pair" { "::pair[]" } else { "" };
            filters.push((
                format!("{column}=in.({items})"),
                format!("{column} = any ({}{cast})", quoted(&format!("{{{items}}}"))),
            ));
        }
        filters
    }
}

const fn kind(sql: &'static str, values: &'static [&'static str], probes: &'static [&'static str]) -> Kind {
    Kind { sql, values, probes, is_text: false }
}

const fn text(sql: &'static str, values: &'static [&'static str], probes: &'static [&'static str]) -> Kind {
    Kind { sql, values, probes, is_text: true }
}

pub(crate) const TYPES: &str = "
    create schema ext; grant usage on schema ext to authenticated, service_role; create extension citext schema ext;
    create type mood as enum ('sad', 'happy', 'sadder');
    create type pair as (a char(3), b int);
    create domain country as char(3);
    create domain big_country as country check (value <> 'XXX');
    create domain flags as bit(3);
    create domain price as numeric(6, 2);
    create domain tags as text[];";

pub(crate) const KINDS: &[Kind] = &[
    text("char(3)", &["D", "DEU", "DEN", "FRA"], &["DEUX", "DE"]),
    text("bpchar", &["D", "DEU", "DEN"], &["DEUX"]),
    text("varchar(4)", &["D", "DEU", "DEUX"], &["DEUXX"]),
    text("text", &["a", "ab", "a'b\"c", "a,b"], &[]),
    text("name", &["a", "ab"], &[]),
    text("ext.citext", &["a", "AB", "abc"], &["ab", "ABC"]),
    kind("\"char\"", &["a", "b"], &[]),
    kind("bit(3)", &["101", "100", "111"], &["1", "1011"]),
    kind("varbit(5)", &["1", "10", "101"], &["1011"]),
    kind("bit varying", &["1", "10"], &["0"]),
    kind("bytea", &["\\x01", "\\x0102", "\\x"], &[]),
    kind("numeric(6,2)", &["1.55", "1.56", "-1"], &["1.551", "1.550"]),
    kind("numeric", &["1.55", "1.551", "NaN"], &["1.550"]),
    kind("float4", &["1.5", "1.25", "NaN"], &[]),
    kind("float8", &["0.1", "0.10000000000000002", "-0"], &["0"]),
    kind("int2", &["1", "-1"], &[]),
    kind("int8", &["1", "9007199254740993", "9007199254740992"], &[]),
    kind("oid", &["1", "4000000000"], &[]),
    kind("money", &["1.50", "1.51"], &[]),
    kind("date", &["2024-02-03", "0044-03-15 BC", "infinity"], &[]),
    kind("timestamp(0)", &["2024-02-03 04:05:06", "2024-02-03 04:05:07"], &["2024-02-03 04:05:06.4"]),
    kind("timestamp", &["2024-02-03 04:05:06.4", "2024-02-03 04:05:06"], &[]),
    kind(
        "timestamptz(3)",
        &["2024-02-03 04:05:06.789+02", "2024-02-03 04:05:06.788+02"],
        &["2024-02-03 04:05:06.7891+02"],
    ),
    kind("time(0)", &["04:05:06", "04:05:07"], &["04:05:06.4"]),
    kind("timetz", &["04:05:06+02", "04:05:06+01", "02:05:06+00"], &[]),
    kind("interval", &["1 day -02:03:04", "-1 day +02:03:04", "1 day"], &["24:00:00"]),
    kind("interval year to month", &["1 year", "1 year 1 mon"], &["1 year 1 day"]),
    kind("interval second(0)", &["00:00:01", "00:00:02"], &["00:00:01.4"]),
    kind("uuid", &["6f1f9a3e-0b3a-4b1c-9d55-2d3c6a0a7f11", "6f1f9a3e-0b3a-4b1c-9d55-2d3c6a0a7f12"], &[]),
    kind("inet", &["10.0.0.1/8", "10.0.0.1"], &[]),
    kind("cidr", &["10.0.0.0/8", "10.0.0.0/16"], &[]),
    kind("macaddr", &["08:00:2b:01:02:03", "08:00:2b:01:02:04"], &[]),
    kind("pg_lsn", &["0/1", "0/2"], &[]),
    kind("tsvector", &["a b", "a"], &[]),
    kind("jsonb", &["{\"a\": 1}", "[1]", "1"], &["{\"a\":1}"]),
    kind("mood", &["sad", "happy"], &["sadder"]),
    kind("bool", &["true", "false"], &[]),
    text("country", &["D", "DEU", "DEN"], &["DEUX"]),
    text("big_country", &["D", "DEU", "DEN"], &["DEUX"]),
    kind("flags", &["101", "100"], &["1011"]),
    kind("price", &["1.55", "1.56"], &["1.551"]),
    kind("tags", &["{a,b}", "{a}"], &[]),
    kind("int[]", &["{1,2}", "{1}", "{{1,2},{3,4}}"], &["{1,3}"]),
    kind("char(3)[]", &["{DEU,FRA}", "{D,F}", "{DEN}"], &["{DEUX,FRA}"]),
    kind("pair", &["(DEU,1)", "(D,1)", "(DEU,2)"], &[]),
    kind("pair[]", &["{\"(DEU,1)\"}", "{\"(D,1)\",\"(DEU,2)\"}"], &[]),
    kind("int4range", &["[1,5)", "[1,6)"], &["[1,4]"]),
    kind(
        "tstzrange",
        &["[2024-02-03 04:05:06+00,)", "[2024-02-03 04:05:07+00,)"],
        &["[2024-02-03 06:05:06+02,)"],
    ),
    kind("int4multirange", &["{[1,5)}", "{[1,5),[7,9)}"], &[]),
];

pub(crate) fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[tokio::test]
async fn keys_of_every_type_select_their_row() {
    let mut sql = TYPES.to_owned();
    let mut changes = String::from("begin;");
    for (number, kind) in KINDS.iter().enumerate() {
        let _written = write!(
            sql,
            "create table keyed_{number} (id {} primary key, owner text, note int default 0);
             alter table keyed_{number} enable row level security;
             create policy own on keyed_{number} using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
             grant select on keyed_{number} to authenticated;
             alter publication supabase_realtime add table keyed_{number};",
            kind.sql
        );
        for (place, value) in kind.values.iter().enumerate() {
            let owner = if place % 2 == 0 { "even" } else { "odd" };
            let _written =
                write!(changes, "insert into keyed_{number} values ({}, '{owner}');", quoted(value));
        }
        let _written = write!(changes, "update keyed_{number} set note = 1;");
    }
    // A composite key of array and composite columns.
    sql += "create table wide (a int[], b pair, owner text, primary key (a, b)); grant select on wide to authenticated;
        alter table wide enable row level security; alter publication supabase_realtime add table wide;
        create policy own on wide using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
        create table wide_child () inherits (wide);
        insert into wide_child values ('{1,2}', '(DEU,1)', 'odd');";
    changes += "insert into wide values ('{1,2}', '(DEU,1)', 'even'), ('{1}', '(DEU,1)', 'odd'); commit";
    // This style parses the signs of an interval differently.
    sql += "do $$ begin execute format('alter database %I set intervalstyle = sql_standard', current_database()); end $$;";
    let server = Server::start_with(&sql).await;
    let mut listeners = Vec::new();
    for number in 0..KINDS.len() {
        let name = format!("keyed_{number}");
        listeners.push((
            server.listen("even", vec![table(&name)]).await,
            server.listen("odd", vec![table(&name)]).await,
        ));
    }
    let wide =
        (server.listen("even", vec![table("wide")]).await, server.listen("odd", vec![table("wide")]).await);
    server.sql(&changes).await;
    let of = |listener: &Listener, owner: &str| {
        listener.heard().iter().all(|change| change["record"]["owner"] == owner && change["errors"].is_null())
    };
    for (kind, (even, odd)) in KINDS.iter().zip(&listeners) {
        let (evens, odds) = (kind.values.len().div_ceil(2), kind.values.len() / 2);
        let whole = || even.heard().len() >= 2 * evens && odd.heard().len() >= 2 * odds;
        until(&format!("every own row of a key of type {}", kind.sql), whole).await;
        assert!(of(even, "even") && of(odd, "odd"), "{}", kind.sql);
        assert_eq!((even.heard().len(), odd.heard().len()), (2 * evens, 2 * odds), "{}", kind.sql);
        assert!(even.failures().is_empty() && odd.failures().is_empty(), "{}", kind.sql);
    }
    assert_eq!((wide.0.until(1).await.len(), wide.1.until(1).await.len()), (1, 1));
    assert!(of(&wide.0, "even") && of(&wide.1, "odd"));
}

#[tokio::test]
async fn filters_on_every_type_pass_what_where_passes() {
    let mut sql = TYPES.to_owned();
    let mut changes = String::from("begin;");
    for (number, kind) in KINDS.iter().enumerate() {
        let _written = write!(
            sql,
            "create table filtered_{number} (id int primary key, value {});
             grant select on filtered_{number} to authenticated;
             alter publication supabase_realtime add table filtered_{number};",
            kind.sql
        );
        for (id, value) in kind.values.iter().enumerate() {
            let _written = write!(changes, "insert into filtered_{number} values ({id}, {});", quoted(value));
        }
        let _written = write!(changes, "insert into filtered_{number} values (99, null);");
    }
    let server = Server::start_with(&sql).await;
    let mut cases = Vec::new();
    for (number, kind) in KINDS.iter().enumerate() {
        let table = format!("filtered_{number}");
        cases.extend(
            kind.filters("value").into_iter().map(|(filter, condition)| (table.clone(), filter, condition)),
        );
    }
    let mut listeners = Vec::new();
    for (table, filter, _) in &cases {
        listeners.push(server.listen("me", vec![filtered(table, filter)]).await);
    }
    let end = server.listen("me", vec![filtered(&format!("filtered_{}", KINDS.len() - 1), "id=eq.99")]).await;
    server.sql(&format!("{changes} commit")).await;
    let _end = end.until(1).await;
    for ((table, filter, condition), listener) in cases.iter().zip(&listeners) {
        let look = format!(
            "set search_path = public, ext; set timezone = 'UTC';
             select coalesce(string_agg(id::text, ',' order by id), '') from {table} where {condition}"
        );
        let wanted = server.database.value(&look).await;
        let count = if wanted.is_empty() { 0 } else { wanted.split(',').count() };
        until(&format!("{wanted} of {table}: {filter}"), || listener.heard().len() >= count).await;
        let heard: Vec<String> =
            listener.heard().iter().map(|change| change["record"]["id"].to_string()).collect();
        assert_eq!(heard.join(","), wanted, "{filter} on {table}");
    }
}
