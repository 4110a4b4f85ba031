//! Each channel receives its changes in commit order across all tables it watches.

use std::fmt::Write as _;

use basalt_core::random;
use basalt_realtime::changes::Binding;

use crate::harness::{Listener, Server, table, until};
use crate::visibility::Dice;

const TABLES: u64 = 6;
const USERS: [&str; 5] = ["u0", "u1", "u2", "slow", "failing"];

/// Tables with a row number that ascends across all of them. Some have policies that are slow or fail for
/// some users.
fn tables(dice: &mut Dice) -> (String, Vec<bool>) {
    let mut sql = String::from(
        "create function who() returns text language sql stable
           return current_setting('request.jwt.claims', true)::jsonb ->> 'sub';
         create function pause(seconds float8) returns boolean language sql as 'select pg_sleep(seconds) is not null';",
    );
    let mut guarded = Vec::new();
    for number in 0..TABLES {
        let has_policies = number > 0 && dice.below(3) > 0;
        guarded.push(has_policies);
        let _written = write!(
            sql,
            "create table t{number} (n int primary key, owner text); grant select on t{number} to authenticated;
             alter publication supabase_realtime add table t{number};"
        );
        if has_policies {
            let slow = dice.pick(&["0", "0.003", "0.12"]);
            let _written = write!(
                sql,
                "alter table t{number} enable row level security;
                 create policy own on t{number} using (owner = who());
                 create policy slow on t{number} as restrictive using (
                   case who() when 'slow' then owner <> 'slow' or pause({slow}) when 'failing' then 1 / (n - n) = 1 else true end);"
            );
        }
    }
    (sql, guarded)
}

async fn check_order(rounds: usize) {
    let seed = u64::from_be_bytes(random::bytes::<8>());
    let mut dice = Dice(seed);
    let (sql, guarded) = tables(&mut dice);
    let server = Server::start_with(&sql).await;
    let mut listeners: Vec<(&str, Vec<u64>, Listener)> = Vec::new();
    for number in 0..20 {
        let user = USERS[number % USERS.len()];
        let watched: Vec<u64> = (0..TABLES).filter(|_| dice.below(2) == 0).collect();
        let (watched, bindings) = if watched.len() < 2 {
            ((0..TABLES).collect(), vec![Binding { table: None, ..table("") }])
        } else {
            let binding =
                |table_number: &u64| Binding { id: table_number + 1, ..table(&format!("t{table_number}")) };
            let bindings = watched.iter().map(binding).collect();
            (watched, bindings)
        };
        listeners.push((user, watched, server.listen(user, bindings).await));
    }
    let mut rows: Vec<(u64, &str)> = Vec::new();
    for _ in 0..rounds {
        let mut statements = String::new();
        for _ in 0..=dice.below(4) {
            statements += "begin;";
            for _ in 0..=dice.below(5) {
                let (table, owner) = (dice.below(TABLES), dice.pick(&USERS));
                let _written = write!(statements, "insert into t{table} values ({}, '{owner}');", rows.len());
                rows.push((table, owner));
            }
            statements += "commit;";
        }
        server.sql(&statements).await;
    }
    for (user, watched, listener) in &listeners {
        let is_guarded = |table: u64| guarded[usize::try_from(table).unwrap()];
        let is_seen = |(table, owner): &(u64, &str)| {
            watched.contains(table) && (!is_guarded(*table) || (owner == user && *user != "failing"))
        };
        let expected: Vec<usize> = (0..rows.len()).filter(|n| is_seen(&rows[*n])).collect();
        let context = format!("seed {seed}, {user}, tables {watched:?}");
        until(&context, || listener.heard().len() >= expected.len()).await;
        let heard = listener.heard();
        let heard: Vec<usize> = heard
            .iter()
            .map(|change| usize::try_from(change["record"]["n"].as_u64().unwrap()).unwrap())
            .collect();
        assert_eq!(heard, expected, "{context}");
        assert_eq!(listener.gaps(), 0, "{context}");
    }
}

#[tokio::test]
async fn channels_get_changes_in_commit_order_across_tables() {
    check_order(12).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: many transactions over random tables"]
async fn channels_get_many_changes_in_commit_order_across_tables() {
    for _ in 0..20 {
        check_order(25).await;
    }
}

/// The slow table holds back only the channels of the user for whom it is slow.
#[tokio::test]
async fn slow_table_holds_back_the_channels_it_concerns() {
    let server = Server::start_with(
        "create function who() returns text language sql stable
           return current_setting('request.jwt.claims', true)::jsonb ->> 'sub';
         create function pause() returns boolean language sql as 'select pg_sleep(1.5) is not null';
         create table slow (n int primary key); create table quick (n int primary key);
         alter table slow enable row level security;
         create policy pause on slow using (case who() when 'slow' then pause() else true end);
         grant select on slow, quick to authenticated;
         alter publication supabase_realtime add table slow, quick;",
    )
    .await;
    let both = || vec![table("slow"), Binding { id: 2, ..table("quick") }];
    let concerned = server.listen("slow", both()).await;
    let other = server.listen("other", both()).await;
    server.sql("insert into slow values (1); insert into quick values (2)").await;
    let _heard = other.until(2).await;
    assert!(concerned.heard().is_empty(), "the others get their changes during the slow policy");
    let heard = concerned.until(2).await;
    let numbers: Vec<_> = heard.iter().map(|change| change["record"]["n"].as_i64().unwrap()).collect();
    assert_eq!(numbers, [1, 2]);
}
