//! Rows a subscriber may not see have no effect on what it receives: no message, no frame, no delay.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use basalt_core::random;
use basalt_realtime::changes::{Binding, EventKind};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::harness::{Listener, Server, filtered, table, until};
use crate::types::{KINDS, Kind, TYPES, quoted};
use crate::visibility::{Dice, POLICY_SOURCES, USERS, numbers};

const TABLES: &str = "
    create table plans (id int primary key, owner text, title text);
    alter table plans enable row level security;
    create policy own on plans for select using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
    grant select on plans to anon, authenticated;
    alter publication supabase_realtime add table plans;";

/// Raises an error for titles that continue after `secret`.
const RAISES: &str = "title=like.secret\\";
/// Takes seconds on a long run of one letter.
const SLOW: &str = "title=match.^(.*)(.*)(.*)(.*)(.*)\\5\\4\\3\\2\\1z$";
const LONG_TITLE: &str = "repeat('a', 401) || 'z'";

fn ids(listener: &Listener) -> Vec<i64> {
    listener.heard().iter().map(|change| change["record"]["id"].as_i64().unwrap()).collect()
}

#[tokio::test]
async fn filters_are_not_evaluated_for_hidden_rows() {
    let server = Server::start_with(TABLES).await;
    let stranger = server.listen("stranger", vec![filtered("plans", RAISES)]).await;
    let plain = server.listen("stranger", vec![table("plans")]).await;
    server.sql("insert into plans values (1, 'victim', 'secret plan'); insert into plans values (2, 'stranger', 'other')").await;
    assert_eq!(plain.until(1).await[0]["record"]["id"], 2);
    // An error may quote the subscriber's own row.
    server.sql("insert into plans values (3, 'stranger', 'secret of mine'); insert into plans values (4, 'stranger', 'end')").await;
    until("the failure", || !stranger.failures().is_empty()).await;
    let failures = stranger.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].contains("LIKE pattern must not end with escape character"), "{failures:?}");
    let _heard = plain.until(3).await;
    assert!(ids(&stranger).is_empty() && plain.failures().is_empty());
}

#[tokio::test]
async fn slow_filter_delays_its_own_account_only() {
    let server = Server::start_with(TABLES).await;
    let mut slow = Vec::new();
    for _ in 0..10 {
        slow.push(server.listen("heavy", vec![filtered("plans", SLOW)]).await);
    }
    let light = server.listen("light", vec![filtered("plans", "title=like.a%")]).await;
    let plain = server.listen("light", vec![table("plans")]).await;
    // Six changes that waited for the slow filter's limit of 2 s would take 12 s.
    let began = Instant::now();
    for id in 1..7 {
        server
            .sql(&format!(
                "insert into plans values ({id}, 'heavy', {LONG_TITLE}); insert into plans values ({id} + 10, 'light', 'ab')"
            ))
            .await;
        let count = usize::try_from(id).unwrap();
        let _heard = (light.until(count).await, plain.until(count).await);
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    until("the failure", || slow.iter().any(|listener| !listener.failures().is_empty())).await;
    let text = slow.iter().flat_map(Listener::failures).collect::<Vec<_>>();
    assert!(
        text.iter().all(|text| text.starts_with("Changes of public.plans could not be evaluated: ")),
        "{text:?}"
    );
}

#[tokio::test]
async fn delete_under_policies_reads_and_sends_the_key_only() {
    let server = Server::start_with(TABLES).await;
    server
        .sql(
            "alter table plans replica identity full; alter table plans add code text not null default 'c';
             create unique index plans_code on plans (code);
             insert into plans values (1, 'victim', 'secret', 'x'), (2, 'victim', 'other', 'y')",
        )
        .await;
    let deletes = |filter: &str| Binding { event: EventKind::Delete, ..filtered("plans", filter) };
    let by_title = server.listen("stranger", vec![deletes("title=eq.secret")]).await;
    let by_pattern = server.listen("stranger", vec![deletes("title=like.%x%")]).await;
    let by_null = server.listen("stranger", vec![deletes("title=not.is.null")]).await;
    let by_key = server.listen("stranger", vec![deletes("id=eq.1")]).await;
    let all = server.listen("stranger", vec![deletes("")]).await;
    server.sql("delete from plans where id = 1").await;
    let old = |change: &Value| change["old_record"].clone();
    assert_eq!(old(&all.until(1).await[0]), json!({"id": 1}));
    // A replica identity other than the primary key sends nothing of the row.
    server
        .sql("alter table plans replica identity using index plans_code; delete from plans where id = 2")
        .await;
    assert_eq!(old(&all.until(2).await[1]), json!({}));
    assert_eq!(by_key.until(1).await.len(), 1);
    for listener in [&by_title, &by_pattern, &by_null] {
        assert!(listener.heard().is_empty());
    }
}

#[tokio::test]
async fn error_frames_do_not_reveal_filter_results() {
    let server = Server::start_with(
        "create table keyless (id int, title text); alter table keyless enable row level security;
         create table partly (id int primary key, title text); alter table partly enable row level security;
         create policy no_row on partly using (false);
         grant select on keyless to authenticated; grant select (title) on partly to authenticated;
         alter publication supabase_realtime add table keyless, partly;",
    )
    .await;
    let right = server.listen("me", vec![filtered("keyless", "title=eq.secret")]).await;
    let wrong = server.listen("me", vec![filtered("keyless", "title=eq.guess")]).await;
    let filter = server.listen("me", vec![filtered("partly", "title=eq.secret")]).await;
    let plain = server.listen("me", vec![table("partly")]).await;
    server.sql("insert into keyless values (1, 'secret'); insert into partly values (1, 'secret')").await;
    let _errors = plain.until(1).await;
    let heard = (right.until(1).await, wrong.until(1).await);
    assert_eq!(heard.0[0]["errors"], json!(["Error 400: Bad Request, no primary key"]));
    assert_eq!(heard.0[0]["record"], heard.1[0]["record"]);
    assert!(filter.heard().is_empty());
}

/// Distance of two samples in standard deviations of the Mann-Whitney statistic.
fn distance(left: &[Duration], right: &[Duration]) -> f64 {
    let count = |length: usize| f64::from(u32::try_from(length).unwrap());
    let (n, m) = (count(left.len()), count(right.len()));
    let above = left.iter().map(|x| right.iter().filter(|y| x > *y).count()).sum::<usize>();
    let same = left.iter().map(|x| right.iter().filter(|y| x == *y).count()).sum::<usize>();
    ((count(above) + count(same) / 2.0 - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()).abs()
}

/// Delivery times of a stranger's own rows, each written right after a hidden row that does or does not pass
/// its filter.
async fn compare_delivery_times(samples: usize) {
    let server = Server::start_with(TABLES).await;
    let (writer, connection) = server.database.config().connect(tokio_postgres::NoTls).await.unwrap();
    let _driver = tokio::spawn(connection);
    let mut dice = Dice(u64::from_be_bytes(random::bytes::<8>()));
    for (filter, passing, other) in [
        ("title=eq.secret", "'secret'", "'public'"),
        (RAISES, "'secret plan'", "'public'"),
        (SLOW, LONG_TITLE, "'a'"),
    ] {
        writer.batch_execute("truncate plans").await.unwrap();
        let filtered = server.listen("stranger", vec![crate::harness::filtered("plans", filter)]).await;
        let plain = server.listen("stranger", vec![table("plans")]).await;
        let mut times: [Vec<Duration>; 2] = Default::default();
        for sample in 0..samples {
            let class = usize::try_from(dice.below(2)).unwrap();
            let title = [passing, other][class];
            let hidden = format!("insert into plans values ({}, 'victim', {title})", 2 * sample);
            writer.batch_execute(&hidden).await.unwrap();
            let began = Instant::now();
            let own = format!("insert into plans values ({}, 'stranger', 'mine')", 2 * sample + 1);
            writer.batch_execute(&own).await.unwrap();
            let _heard = plain.until(sample + 1).await;
            times[class].push(plain.arrivals()[sample] - began);
        }
        let [passing, other] = &times;
        let distance = distance(passing, other);
        // Exceeded by chance in one of 16,000 runs.
        assert!(distance < 4.0, "{filter}: {distance:.2} apart: {passing:?} {other:?}");
        assert!(filtered.heard().is_empty() && filtered.failures().is_empty(), "{filter}");
    }
}

#[tokio::test]
async fn delivery_times_do_not_depend_on_hidden_rows() {
    compare_delivery_times(40).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 samples of each filter"]
async fn delivery_times_of_many_samples_do_not_depend_on_hidden_rows() {
    compare_delivery_times(200).await;
}

impl Dice {
    fn kind(&mut self) -> &'static Kind {
        &KINDS[usize::try_from(self.below(KINDS.len() as u64)).unwrap()]
    }
}

/// A table with random types, and its rows.
struct Drawn {
    name: String,
    key: Vec<&'static Kind>,
    value: &'static Kind,
    /// Literals of the keys; a row's number is its index.
    rows: Vec<Vec<String>>,
}

impl Drawn {
    fn new(dice: &mut Dice, round: u32) -> Self {
        let key = if dice.below(2) == 0 { vec![dice.kind()] } else { vec![dice.kind(), dice.kind()] };
        let mut rows = vec![Vec::new()];
        for kind in &key {
            let with = |row: &Vec<String>, value: &&str| [row.as_slice(), &[quoted(value)]].concat();
            let longer = rows.iter().flat_map(|row| kind.values.iter().map(move |value| with(row, value)));
            rows = longer.collect();
        }
        Self { name: format!("rows_{round}"), key, value: dice.kind(), rows }
    }

    fn create(&self, dice: &mut Dice) -> String {
        let Self { name, .. } = self;
        let (mut columns, mut names) = (String::new(), Vec::new());
        for (number, kind) in self.key.iter().enumerate() {
            let _written = write!(columns, "k{number} {}, ", kind.sql);
            names.push(format!("k{number}"));
        }
        let policies =
            [dice.policy(2), dice.policy(1)].map(|policy| policy.replace("rows.", &format!("{name}.")));
        let [first, second] = policies;
        format!(
            "create table {name} ({columns} n int, owner text, team int, score int, word text, value {}, primary key ({}));
             alter table {name} enable row level security;
             create policy one on {name} for select to authenticated using ({first});
             create policy two on {name} as {} for select to authenticated using ({second});
             alter table {name} replica identity {};
             grant select on {name} to authenticated;
             alter publication supabase_realtime add table {name};",
            self.value.sql,
            names.join(", "),
            dice.pick(&["permissive", "restrictive"]),
            dice.pick(&["full", "default"]),
        )
    }

    fn insert(&self, dice: &mut Dice, n: usize) -> String {
        format!("insert into {} values ({}, {n}, {});", self.name, self.rows[n].join(", "), self.others(dice))
    }

    fn update(&self, dice: &mut Dice, n: usize) -> String {
        let columns = "owner, team, score, word, value";
        format!("update {} set ({columns}) = row({}) where n = {n};", self.name, self.others(dice))
    }

    /// Columns other than the key and the number.
    fn others(&self, dice: &mut Dice) -> String {
        let value = match dice.below(6) {
            0 => "null".to_owned(),
            _ => quoted(dice.pick(self.value.values)),
        };
        let word = dice.pick(&["secret", "secret plan", "public"]);
        format!("'u{}', {}, {}, '{word}', {value}", dice.below(6), dice.below(4), dice.below(9))
    }

    /// A filter on the value or a part of the key, the same condition in SQL, and whether it is on the key.
    fn filter(&self, dice: &mut Dice) -> (String, String, bool) {
        let column = usize::try_from(dice.below(self.key.len() as u64 + 1)).unwrap();
        let (kind, name) = match self.key.get(column) {
            Some(kind) => (*kind, format!("k{column}")),
            None => (self.value, "value".to_owned()),
        };
        let filters = [kind.filters(&name), kind.orderings(&name)].concat();
        let place = usize::try_from(dice.below(filters.len() as u64)).unwrap();
        let (filter, condition) = filters[place].clone();
        (filter, condition, column < self.key.len())
    }

    /// A record's key as text.
    fn key_of(&self, record: &Value) -> String {
        (0..self.key.len())
            .map(|number| record[format!("k{number}")].to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// What a listener received for a table: numbers of new rows, and of deleted ones by their keys.
fn received_from(listener: &Listener, drawn: &Drawn, numbers: &HashMap<String, i64>) -> (Vec<i64>, Vec<i64>) {
    let (mut new, mut deleted) = (Vec::new(), Vec::new());
    for change in listener.heard().iter().filter(|change| change["table"] == *drawn.name) {
        if change["type"] == "DELETE" {
            let old = &change["old_record"];
            assert_eq!(old.as_object().unwrap().len(), drawn.key.len(), "{change}");
            deleted.push(numbers[&drawn.key_of(old)]);
        } else {
            new.push(change["record"]["n"].as_i64().unwrap());
        }
    }
    new.sort_unstable();
    deleted.sort_unstable();
    (new, deleted)
}

/// Random types, policies, filters, changes and identities: each listener receives what a SELECT shows,
/// independent of other rows.
async fn compare_with_select(rounds: u32) {
    let server = Server::start_with(&format!(
        "{TYPES} {POLICY_SOURCES}
         create table ends (round int primary key); grant select on ends to authenticated, service_role;
         alter publication supabase_realtime add table ends;"
    ))
    .await;
    let seed = u64::from_be_bytes(random::bytes::<8>());
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let drawn = Drawn::new(&mut dice, round);
        let Drawn { name, .. } = &drawn;
        let create = drawn.create(&mut dice);
        let (filter, condition, is_on_key) = drawn.filter(&mut dice);
        let context = format!("seed {seed}, round {round}: {create} {filter}");
        server.sql(&format!("{create} grant select on {name} to service_role")).await;
        let with_end = |binding: Binding| vec![binding, Binding { id: 2, ..table("ends") }];
        // It receives all keys in record format.
        let observer =
            server.listen_as(json!({"role": "service_role"}), with_end(table(name))).await.unwrap();
        let (mut upserted, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        let mut before = String::from("begin;");
        let mut statements = String::from("begin;");
        for n in 0..drawn.rows.len() {
            let number = i64::try_from(n).unwrap();
            let is_new = dice.below(3) == 0;
            if !is_new {
                before += &drawn.insert(&mut dice, n);
            }
            match dice.below(4) {
                _ if is_new => {
                    statements += &drawn.insert(&mut dice, n);
                    upserted.insert(number);
                }
                0 => {
                    let _written = write!(statements, "delete from {name} where n = {n};");
                    deleted.insert(number);
                }
                1 | 2 => {
                    statements += &drawn.update(&mut dice, n);
                    upserted.insert(number);
                }
                _ => {}
            }
        }
        server.sql(&format!("{before} commit")).await;
        // Before any of them is deleted.
        let inserted = before.matches("insert into").count();
        until(&context, || observer.heard().len() >= inserted).await;
        let literals = "set search_path = public, ext; set timezone = 'UTC';";
        let select = |condition: &str| {
            format!("select coalesce(string_agg(n::text, ','), '') from {name} where {condition}")
        };
        let passing_keys = if is_on_key {
            numbers(&server.database.value(&format!("{literals} {}", select(&condition))).await)
        } else {
            BTreeSet::new()
        };
        let mut listeners = Vec::new();
        for (number, user) in USERS.iter().enumerate() {
            let claims = json!({"role": "authenticated", "sub": user, "team": (number % 3).to_string()});
            let mut all = Vec::new();
            for binding in [table(name), filtered(name, &filter), filtered(name, "word=like.secret\\")] {
                all.push(server.listen_as(claims.clone(), with_end(binding)).await.expect(&context));
            }
            listeners.push((claims, all));
        }
        server.sql(&format!("{statements} insert into ends values ({round}); commit")).await;
        let has_ended = |listener: &Listener| listener.heard().iter().any(|change| change["table"] == "ends");
        until(&context, || has_ended(&observer)).await;
        let records = observer.heard().into_iter().filter(|change| change["record"]["n"].is_number());
        let keys: HashMap<String, i64> = records
            .map(|change| (drawn.key_of(&change["record"]), change["record"]["n"].as_i64().unwrap()))
            .collect();
        assert_eq!(keys.len(), drawn.rows.len(), "{context}");
        for (claims, all) in &listeners {
            let context = format!("{claims}, {context}");
            let seen = |condition: &str| {
                let look = format!(
                    "{literals} select set_config('request.jwt.claims', '{claims}', false); set role authenticated; {}",
                    select(condition)
                );
                let (database, upserted) = (&server.database, &upserted);
                async move {
                    let seen = numbers(&database.value(&look).await);
                    seen.intersection(upserted).copied().collect::<Vec<_>>()
                }
            };
            let [whole, part, raising] = all.as_slice() else { panic!("{}", all.len()) };
            until(&context, || all.iter().all(has_ended)).await;
            let all_deleted: Vec<i64> = deleted.iter().copied().collect();
            assert_eq!(received_from(whole, &drawn, &keys), (seen("true").await, all_deleted), "{context}");
            let passing: Vec<i64> = deleted.intersection(&passing_keys).copied().collect();
            assert_eq!(received_from(part, &drawn, &keys), (seen(&condition).await, passing), "{context}");
            assert!(whole.failures().is_empty() && part.failures().is_empty(), "{context}");
            // Its filter fails for one word, and only where the row is visible.
            let fails = !seen("word = 'secret plan'").await.is_empty();
            until(&context, || fails != raising.failures().is_empty()).await;
            assert_eq!(received_from(raising, &drawn, &keys), (Vec::new(), Vec::new()), "{context}");
            assert!(all.iter().all(|listener| listener.gaps() == 0), "{context}");
        }
    }
}

#[tokio::test]
async fn random_types_reach_only_permitted_subscribers() {
    compare_with_select(6).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 tables of random types"]
async fn many_random_types_reach_only_permitted_subscribers() {
    compare_with_select(200).await;
}
