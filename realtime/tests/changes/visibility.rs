//! Changes are delivered exactly to those to whom a SELECT shows the row (realtime.md 3.8).

use std::collections::BTreeSet;

use basalt_core::random;
use serde_json::json;

use crate::harness::{Listener, Server, filtered, table, until};

/// Random numbers from a seed, which a failure prints.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        let count = u64::try_from(items.len()).unwrap();
        items[usize::try_from(self.below(count)).unwrap()]
    }

    /// A policy on a row of table `rows`, the claims and another table.
    pub(crate) fn policy(&mut self, depth: u32) -> String {
        if depth > 0 && self.below(3) > 0 {
            let (left, right) = (self.policy(depth - 1), self.policy(depth - 1));
            return format!("({left} {} {right})", self.pick(&["and", "or"]));
        }
        self.pick(&[
            "owner = (select c.claims ->> 'sub' from c)",
            "owner = auth_claim('sub')",
            "team::text = auth_claim('team')",
            "exists (select from members m where m.who = auth_claim('sub') and m.team = rows.team)",
            "score > 5",
            "not auth_claim('sub') = 'u1'",
            "owner in (select m.who from members m where m.team = 2)",
            "(select auth_claim('team')) = '1'",
            "false",
            "owner is null",
        ])
        .to_owned()
    }
}

/// Tables and functions that the policies of [`Dice::policy`] read.
pub(crate) const POLICY_SOURCES: &str = "
    create function auth_claim(name text) returns text language sql stable
      return current_setting('request.jwt.claims', true)::jsonb ->> name;
    create view c as select current_setting('request.jwt.claims', true)::jsonb as claims;
    create table members (who text, team int);
    insert into members values ('u1', 1), ('u2', 2), ('u3', 1), ('u3', 2);
    grant select on members, c to authenticated;";

impl Dice {
    /// A filter, evaluated by this server or by PostgreSQL, and the same condition in SQL.
    fn filter(&mut self) -> (String, String) {
        let n = self.below(9);
        match self.below(7) {
            0 => (format!("score=gt.{n}"), format!("score > {n}")),
            1 => (format!("score=lte.{n}"), format!("score <= {n}")),
            2 => (format!("score=neq.{n}"), format!("score <> {n}")),
            3 => (format!("owner=like.%{n}"), format!("owner like '%{n}'")),
            4 => (format!("owner=match.[{n}-9],score=gt.2"), format!("owner ~ '[{n}-9]' and score > 2")),
            5 => (format!("owner=not.ilike.U{n}"), format!("not owner ilike 'U{n}'")),
            _ => (format!("owner=gt.u{n}"), format!("owner > 'u{n}'")),
        }
    }
}

/// What a run has compared.
#[derive(Debug, Default)]
struct Counts {
    answers: usize,
    changes: usize,
    new_ids: usize,
    hidden: usize,
}

#[expect(clippy::disallowed_methods, reason = "tests read their number of rounds from the environment")]
fn rounds() -> u32 {
    std::env::var("BASALT_TEST_VISIBILITY_ROUNDS").map_or(25, |text| text.parse().unwrap())
}

pub(crate) const USERS: [&str; 5] = ["u0", "u1", "u2", "u3", "u4"];

#[tokio::test]
async fn delivers_exactly_what_a_select_shows() {
    let server = Server::start_with(&format!(
        "{POLICY_SOURCES}
         create table rows (id int primary key, owner text, team int, score int);
         alter table rows enable row level security;
         grant select on rows to authenticated;
         alter publication supabase_realtime add table rows;"
    ))
    .await;
    let seed = u64::from_be_bytes(random::bytes::<8>());
    let mut dice = Dice(seed);
    let mut counts = Counts::default();
    for round in 0..rounds() {
        let identity = dice.pick(&["full", "default"]);
        let (first, second) = (dice.policy(2), dice.policy(1));
        server
            .sql(&format!(
                "drop policy if exists one on rows; drop policy if exists two on rows;
                 create policy one on rows for select to authenticated using ({first});
                 create policy two on rows as {} for select to authenticated using ({second});
                 alter table rows replica identity {identity};
                 truncate rows;
                 insert into rows select n, 'u' || n % 5, n % 3, n from generate_series(1, 8) n;
                 insert into rows values (100, null, null, null)",
                dice.pick(&["permissive", "restrictive"])
            ))
            .await;
        // Changes committed before they subscribed are not delivered.
        let (filter, condition) = dice.filter();
        let mut listeners: Vec<(&str, Listener, Listener)> = Vec::new();
        for (number, user) in USERS.iter().enumerate() {
            let claims = json!({"role": "authenticated", "sub": user, "team": (number % 3).to_string()});
            let whole = server.listen_as(claims.clone(), vec![table("rows")]).await.unwrap();
            let part = server.listen_as(claims, vec![filtered("rows", &filter)]).await.unwrap();
            listeners.push((user, whole, part));
        }
        // One transaction with at most one change per row, then a DELETE that everyone receives.
        let mut statements = String::from("begin;");
        let (mut upserted, mut deleted) = (BTreeSet::new(), BTreeSet::new());
        for id in 1..=12 {
            let values = format!("'u{}', {}, {}", dice.below(6), dice.below(4), dice.below(9));
            match dice.below(4) {
                0 if id <= 8 => {
                    deleted.insert(id);
                    statements += &format!("delete from rows where id = {id};");
                }
                1 | 2 if id <= 8 => {
                    upserted.insert(id);
                    statements +=
                        &format!("update rows set (owner, team, score) = row({values}) where id = {id};");
                }
                3 if id > 8 => {
                    upserted.insert(id);
                    statements += &format!("insert into rows values ({id}, {values});");
                }
                _ => {}
            }
        }
        server.sql(&format!("{statements} delete from rows where id = 100; commit")).await;
        for (number, (user, whole, part)) in listeners.iter().enumerate() {
            let context = format!("seed {seed}, round {round}, {user}: {first} / {second}, {filter}");
            let end =
                |listener: &Listener| listener.heard().iter().any(|change| change["old_record"]["id"] == 100);
            until(&context, || end(whole)).await;
            let claims = json!({"role": "authenticated", "sub": user, "team": (number % 3).to_string()});
            let seen = |condition: &str| {
                let look = format!(
                    "select set_config('request.jwt.claims', '{claims}', false); set role authenticated;
                     select coalesce(string_agg(id::text, ','), '') from rows where {condition}"
                );
                let database = &server.database;
                async move { numbers(&database.value(&look).await) }
            };
            let expected: BTreeSet<i64> = seen("true").await.intersection(&upserted).copied().collect();
            counts.answers += 1;
            counts.changes += upserted.len() + deleted.len();
            counts.new_ids += expected.len() + deleted.len();
            counts.hidden += upserted.len() - expected.len();
            assert_eq!(new_ids(whole), expected, "{context}");
            let expected: BTreeSet<i64> = seen(&condition).await.intersection(&upserted).copied().collect();
            // Filters evaluated by PostgreSQL may take longer than the other channel's last row.
            until(&context, || new_ids(part).len() >= expected.len()).await;
            assert_eq!(new_ids(part), expected, "{context}");
            // A DELETE goes to everyone and carries only the key.
            let gone =
                |change: &serde_json::Value| change["type"] == "DELETE" && change["old_record"]["id"] != 100;
            let heard: Vec<_> = whole.heard().into_iter().filter(|change| gone(change)).collect();
            let ids: BTreeSet<i64> =
                heard.iter().map(|change| change["old_record"]["id"].as_i64().unwrap()).collect();
            assert_eq!(ids, deleted, "{context}");
            // A filter on a non-key column would reveal values of a row the subscriber may not be allowed to
            // see.
            let filtered: Vec<_> = part.heard().into_iter().filter(|change| gone(change)).collect();
            let ids: BTreeSet<i64> =
                filtered.iter().map(|change| change["old_record"]["id"].as_i64().unwrap()).collect();
            assert_eq!(ids, BTreeSet::new(), "{context}");
            assert!(whole.failures().is_empty() && part.failures().is_empty(), "{context}");
            let is_key_alone =
                |change: &serde_json::Value| change["old_record"].as_object().unwrap().len() == 1;
            assert!(heard.iter().chain(&filtered).all(is_key_alone), "{context}");
        }
    }
    println!("{} rounds: {counts:?}", rounds());
}

pub(crate) fn numbers(text: &str) -> BTreeSet<i64> {
    text.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().unwrap()).collect()
}

/// Ids of new rows; each must have arrived once.
fn new_ids(listener: &Listener) -> BTreeSet<i64> {
    let heard = listener.heard();
    let ids: Vec<i64> = heard
        .iter()
        .filter(|change| change["type"] != "DELETE")
        .map(|change| change["record"]["id"].as_i64().unwrap())
        .collect();
    let set: BTreeSet<i64> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "twice: {ids:?}");
    set
}

/// A change is received before its transaction is visible: none may be lost because of that, and order is
/// preserved.
#[tokio::test]
async fn evaluates_changes_only_after_their_commit_is_visible() {
    let server = Server::start_with(
        "create table busy (id int primary key, owner text);
         alter table busy enable row level security;
         create policy own on busy for select using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
         grant select on busy to authenticated;
         alter publication supabase_realtime add table busy;
         create procedure fill(first int, last int) language plpgsql as $$
           begin for n in first..last loop insert into busy values (n, 'me'); commit; end loop; end $$;",
    )
    .await;
    let me = server.listen("me", vec![table("busy")]).await;
    let you = server.listen("you", vec![table("busy")]).await;
    tokio::join!(server.sql("call fill(1, 500)"), server.sql("call fill(1001, 1500)"));
    let heard = me.until(1000).await;
    let ids: Vec<i64> = heard.iter().map(|change| change["record"]["id"].as_i64().unwrap()).collect();
    for half in [|id: &i64| *id < 1000, |id: &i64| *id > 1000] {
        let part: Vec<i64> = ids.iter().copied().filter(half).collect();
        assert!(part.is_sorted() && part.len() == 500, "{part:?}");
    }
    assert!(you.heard().is_empty());
}

#[tokio::test]
async fn new_claims_apply_to_later_changes() {
    let server = Server::start_with(
        "create table mine (id int primary key, owner text);
         alter table mine enable row level security;
         create policy own on mine for select using (owner = current_setting('request.jwt.claims', true)::jsonb ->> 'sub');
         grant select on mine to anon, authenticated;
         alter publication supabase_realtime add table mine;",
    )
    .await;
    let listener = server.listen("a", vec![table("mine")]).await;
    server.sql("insert into mine values (1, 'a'), (2, 'b')").await;
    let _first = listener.until(1).await;
    let claims = crate::harness::claims(&json!({"role": "authenticated", "sub": "b"}));
    listener.subscription.set_claims(&claims);
    server.sql("insert into mine values (3, 'a'), (4, 'b')").await;
    let heard = listener.until(2).await;
    let ids: Vec<_> = heard.iter().map(|change| change["record"]["id"].as_i64().unwrap()).collect();
    assert_eq!(ids, [1, 4]);
}

/// Policies that cache results in a setting until the transaction ends, which elsewhere is the end of a
/// request.
#[tokio::test]
async fn policy_settings_do_not_leak_between_subscribers() {
    let server = Server::start_with(
        "create function my_team() returns text language plpgsql stable as $$
           begin
             if coalesce(current_setting('app.team', true), '') = '' then
               perform set_config('app.team', current_setting('request.jwt.claims')::jsonb ->> 'team', true);
             end if;
             return current_setting('app.team');
           end $$;
         create table plays (id int primary key, team text);
         alter table plays enable row level security;
         create policy own on plays for select using (team = (select my_team()));
         grant select on plays to authenticated;
         alter publication supabase_realtime add table plays;",
    )
    .await;
    let mut listeners = Vec::new();
    for (user, team) in [("a", "red"), ("b", "blue"), ("c", "red"), ("d", "blue")] {
        let claims = json!({"role": "authenticated", "sub": user, "team": team});
        listeners.push((team, server.listen_as(claims, vec![table("plays")]).await.unwrap()));
    }
    server.sql("insert into plays values (1, 'red'), (2, 'blue'), (3, 'red')").await;
    server.sql("delete from plays where id = 3").await;
    for (team, listener) in &listeners {
        let is_over = || listener.heard().iter().any(|change| change["type"] == "DELETE");
        until("the end is reported", is_over).await;
        let mut new_ids = new_ids(listener);
        // The row may have been deleted before it was evaluated.
        new_ids.remove(&3);
        assert_eq!(new_ids, BTreeSet::from([if *team == "red" { 1 } else { 2 }]), "{team}");
    }
}
