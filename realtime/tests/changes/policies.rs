//! Policies evaluated on the streamed row give PostgreSQL's results.

use std::sync::Arc;

use basalt_core::claims::Claims;
use basalt_core::random;
use basalt_pg::database::Database;
use basalt_pg::pool::{PoolConfig, ServicePool};
use basalt_realtime::changes::decoder::{Relation, RelationColumn};
use basalt_realtime::changes::policies::{
    BoundPolicies, QUERY, RolePolicies, Row, SubselectResults, Visibility,
};
use basalt_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::visibility::{Dice, numbers};

const UUIDS: [&str; 3] = [
    "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "0b0a5d7e-1111-4222-8333-444455556666",
    "ffffffff-ffff-4fff-bfff-ffffffffffff",
];

/// The functions as this server creates them.
const AUTH: &str = include_str!("../../../auth/migrations/0001_schema.sql");

/// `seen` returns, for each of the claims, the ids that a SELECT shows and those for which it fails. It returns nothing where PostgreSQL
/// cannot plan the policies: `auth.uid() = auth.uid()` can fail with "cannot cope with variable-free clause" (XX000).
const SCHEMA: &str = "
    create collation nd (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    create domain label as text;
    create type mood as enum ('good', 'bad');
    create table members (team int, who uuid);
    create table open_members (team int, who uuid);
    alter table members enable row level security;
    create policy own on members using (who = (select auth.uid()));
    create table t (id int primary key, owner uuid, team int, big bigint, small smallint, title text,
      code varchar(8), ok boolean, price numeric, day date, fixed char(4), folded text collate nd, name label,
      feeling mood, real float8);
    alter table t enable row level security;
    grant select on t, members, open_members to authenticated;
    create function seen(claims text[]) returns table (ids text, failed text) language plpgsql as $$
      declare c text; one int;
      begin
        foreach c in array claims loop
          perform set_config('request.jwt.claims', c, true);
          failed := '';
          begin
            set local role authenticated;
            execute 'select coalesce(string_agg(id::text, '',''), '''') from t' into ids;
            reset role;
          exception when internal_error then
            return;
          when others then
            ids := '';
            foreach one in array (select array_agg(id) from t) loop
              begin
                set local role authenticated;
                execute 'select $2 || coalesce((select '','' || id from t where id = $1), '''')' using one, ids into ids;
                reset role;
              exception when others then failed := failed || ',' || one;
              end;
            end loop;
          end;
          return next;
        end loop;
      end $$;";

impl Dice {
    fn uuid(&mut self) -> String {
        let constant = format!("'{}'::uuid", self.pick(&UUIDS));
        self.pick(&[
            "owner",
            "owner",
            "auth.uid()",
            "(select auth.uid())",
            "(auth.jwt() ->> 'org')::uuid",
            "null::uuid",
            &constant,
        ])
        .to_owned()
    }

    fn int(&mut self) -> String {
        let constant = self.below(4).to_string();
        self.pick(&[
            "team",
            "big",
            "small",
            "id",
            &constant,
            &constant,
            "'3'::bigint",
            "(auth.jwt() ->> 'team')::int",
            "((select auth.jwt()) -> 'app' ->> 'level')::bigint",
        ])
        .to_owned()
    }

    fn text(&mut self) -> String {
        self.pick(&[
            "title",
            "code",
            "'a'",
            "'é'",
            "''",
            "(auth.jwt() ->> 'name')",
            "(select auth.jwt() ->> 'name')",
            "auth.role()",
            "owner::text",
            "team::text",
            "auth.uid()::text",
            "title collate \"C\"",
        ])
        .to_owned()
    }

    fn boolean(&mut self) -> String {
        self.pick(&["ok", "ok", "true", "false", "null::boolean", "(auth.jwt() ->> 'admin')::boolean"])
            .to_owned()
    }

    /// Conditions that only PostgreSQL evaluates.
    fn other(&mut self) -> String {
        self.pick(&[
            "price > 1.0",
            "price = team",
            "fixed = 'a'",
            "folded = 'A'",
            "name = 'a'",
            "feeling = 'good'",
            "real = 0",
            "day = '2024-02-03'",
            "lower(title) = 'a'",
            "title like 'a%'",
            "title > 'a'",
            "code = 'a' collate nd",
            "not (team in (select m.team from members m))",
            "exists (select from members m where lower(m.who::text) = t.title)",
            "(select count(*) from members) > 1",
            "coalesce(ok, false)",
            "team = any ('{1,2}')",
            "current_setting('request.jwt.claims')::jsonb ->> 'team' = team::text",
            "t is not null",
        ])
        .to_owned()
    }

    /// Sub-selects that run once for all subscribers.
    fn subselect(&mut self) -> String {
        let user = self.uuid().replace("owner", "t.owner");
        let team =
            self.int().replace("id", "t.id").replace("team", "t.team").replace("->> 't.team'", "->> 'team'");
        let exists = format!("exists (select from open_members m where m.team = t.team and m.who = {user})");
        let joined = format!(
            "exists (select 1 from members m, open_members o where m.team = o.team and (o.team = t.big or m.who is distinct from {user}))"
        );
        let by_team = format!("owner in (select m.who from open_members m where m.team = {team})");
        self.pick(&[
            "exists (select from members m where m.team = t.team and m.who = auth.uid())",
            "exists (select from members m where m.team = t.team)",
            "team in (select m.team from members m where m.who = (select auth.uid()))",
            "(select auth.uid()) in (select m.who from open_members m where m.team = t.team)",
            "not exists (select from open_members m where m.who = auth.uid())",
            &exists,
            &joined,
            &by_team,
        ])
        .to_owned()
    }

    fn operands(&mut self) -> (String, String) {
        match self.below(6) {
            0 | 1 => (self.uuid(), self.uuid()),
            2 | 3 => (self.int(), self.int()),
            4 => (self.text(), self.text()),
            _ => (self.boolean(), self.boolean()),
        }
    }

    fn atom(&mut self) -> String {
        let (left, right) = self.operands();
        match self.below(12) {
            0 if left != "null::boolean" => format!("({left}) is {}null", self.pick(&["", "not "])),
            1 => format!("{left} is {}distinct from {right}", self.pick(&["", "not "])),
            2 => {
                let items = [self.int(), self.int(), self.int()].join(", ");
                format!("{} {}in ({items})", self.int(), self.pick(&["", "not "]))
            }
            3 => format!("{} = any (array[{}, {}])", self.uuid(), self.uuid(), self.uuid()),
            4 => format!("{} in ('a', 'b', {})", self.text(), self.text()),
            5 => {
                let test = self.pick(&["true", "not true", "false", "not false", "unknown", "not unknown"]);
                format!("({}) is {test}", self.boolean())
            }
            6 => self.boolean(),
            7 => format!("{} {} {}", self.int(), self.pick(&["<", "<=", ">", ">="]), self.int()),
            8 => format!("{} {} {}", self.uuid(), self.pick(&["<", "<=", ">", ">="]), self.uuid()),
            _ => format!("{left} {} {right}", self.pick(&["=", "=", "<>"])),
        }
    }

    fn condition(&mut self, depth: u32) -> String {
        if self.below(25) == 0 {
            return self.other();
        }
        if self.below(6) == 0 {
            return self.subselect();
        }
        match self.below(4) {
            0 | 1 if depth > 0 => {
                let (left, right) = (self.condition(depth - 1), self.condition(depth - 1));
                format!("(({left}) {} ({right}))", self.pick(&["and", "or"]))
            }
            2 if depth > 0 => format!("(not {})", self.condition(depth - 1)),
            _ => format!("({})", self.atom()),
        }
    }

    fn value(&mut self, values: &[&str]) -> String {
        self.pick(values).to_owned()
    }

    fn row(&mut self, id: usize) -> String {
        let uuid = format!("'{}'", self.pick(&UUIDS));
        let values = [
            id.to_string(),
            self.value(&[&uuid, &uuid, "null"]),
            self.value(&["0", "1", "2", "3", "null"]),
            self.value(&["0", "3", "9007199254740993", "null"]),
            self.value(&["-1", "2", "3", "null"]),
            self.value(&["'a'", "'b'", "'é'", "''", "'A'", "null", &uuid, "'1'"]),
            self.value(&["'a'", "'b '", "'authenti'", "null"]),
            self.value(&["true", "false", "null"]),
            self.value(&["1.0", "1", "'NaN'", "null"]),
            self.value(&["'2024-02-03'", "null"]),
            self.value(&["'a'", "'A'", "null"]),
            self.value(&["'a'", "'A'", "null"]),
            self.value(&["'a'", "'A'", "null"]),
            self.value(&["'good'", "'bad'", "null"]),
            self.value(&["0", "'-0'", "'NaN'", "null"]),
        ];
        format!("({})", values.join(", "))
    }

    fn claims(&mut self) -> Value {
        let sub = UUIDS[usize::try_from(self.below(3)).unwrap()];
        let (upper, bare) = (sub.to_uppercase(), sub.replace('-', ""));
        let choose = |dice: &mut Self, values: &[Value]| {
            values[usize::try_from(dice.below(values.len().try_into().unwrap())).unwrap()].clone()
        };
        let sub = choose(
            self,
            &[
                json!(sub),
                json!(sub),
                json!(sub),
                json!(upper),
                json!(bare),
                json!(null),
                json!("x"),
                json!(""),
            ],
        );
        let mut claims = json!({
            "role": "authenticated",
            "sub": sub,
            "org": choose(self, &[json!(UUIDS[0]), json!(UUIDS[1]), json!(null)]),
            "team": choose(self, &[json!("1"), json!(2), json!("3"), json!(null), json!("x"), json!(1.5), json!(" 1")]),
            "name": choose(self, &[json!("a"), json!("é"), json!(""), json!(5), json!(true), json!(null), json!({"a": 1})]),
            "app": choose(self, &[json!({"level": 3}), json!({"level": "0"}), json!({}), json!([1]), json!("x"), json!(null)]),
            "admin": choose(self, &[json!(true), json!("false"), json!("t"), json!(null)]),
            "exp": 1_900_000_000,
        });
        if self.below(12) == 0 {
            claims["big"] = json!(1e300);
        }
        claims
    }
}

/// A database with the schema, the roles and the functions of this server.
async fn database() -> TestDatabase {
    let database = TestDatabase::create().await;
    crate::harness::prepare(&Database::new(database.config())).await;
    let start = AUTH.find("create or replace function auth.uid()").unwrap();
    let end = AUTH.find("comment on function auth.uid()").unwrap();
    let functions = AUTH.get(start..end).unwrap();
    let schema = format!(
        "create schema if not exists auth; grant usage on schema auth to public; {functions} {SCHEMA}"
    );
    let _rows = database.admin_sql(&schema).await;
    database
}

async fn compiled(database: &TestDatabase, role: &str) -> RolePolicies {
    let oid: u32 = database.value("select 'public.t'::regclass::oid").await.parse().unwrap();
    let query = QUERY.replace("$1::pg_catalog.oid", &format!("{oid}::pg_catalog.oid"));
    RolePolicies::compile(oid, database.value(&format!("set role {role}; {query}")).await)
}

/// The table as the stream describes it.
async fn relation(database: &TestDatabase) -> Relation {
    let columns = database
        .admin_sql(
            "select attname, atttypid::int8 from pg_attribute
             where attrelid = 't'::regclass and attnum > 0 and not attisdropped order by attnum",
        )
        .await;
    let column = |row: &Vec<Option<String>>| RelationColumn {
        name: row[0].clone().unwrap(),
        type_oid: row[1].as_ref().unwrap().parse().unwrap(),
        is_key: false,
    };
    Relation {
        oid: 1,
        schema: "public".to_owned(),
        name: "t".to_owned(),
        identity: b'd',
        columns: columns.iter().map(column).collect(),
    }
}

/// The rows, as types print their values.
async fn printed_rows(database: &TestDatabase, relation: &Relation) -> Vec<Vec<Option<String>>> {
    let values = relation
        .columns
        .iter()
        .map(|column| format!("case when num_nulls({0}) = 0 then format('%s', {0}) end", column.name));
    let values = values.collect::<Vec<_>>().join(", ");
    database.admin_sql(&format!("select {values} from t")).await
}

fn parsed(claims: &Value) -> Claims {
    Claims::parse(claims.to_string().into_bytes()).unwrap()
}

fn judge(policies: &RolePolicies, claims: &Value, relation: &Relation, row: &[Option<String>]) -> Visibility {
    let row = policies.row(relation, |position| row.get(position).map(Option::as_deref));
    policies.bind_claims(&parsed(claims)).judge(0, &row, &SubselectResults::default())
}

#[tokio::test]
async fn evaluates_policies_as_postgres_does() {
    compare_with_postgres(30).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: compares 100,000 decisions"]
async fn evaluates_many_policies_as_postgres_does() {
    compare_with_postgres(500).await;
}

async fn compare_with_postgres(rounds: u32) {
    let database = database().await;
    let seed = u64::from_be_bytes(random::bytes::<8>());
    let mut dice = Dice(seed);
    let (mut triples, mut decided, mut visible, mut failed) = (0, 0, 0, 0);
    let relation = relation(&database).await;
    let admin = Database::new(database.config());
    let pool = ServicePool::new(admin, PoolConfig::new("system", 2), TaskTracker::new());
    for round in 0..rounds {
        let mut policies = Vec::new();
        let mut create = "drop policy if exists p0 on t; drop policy if exists p1 on t; drop policy if exists p2 on t; truncate t, members, open_members;".to_owned();
        for number in 0..1 + dice.below(3) {
            let condition = dice.condition(2);
            let kind = dice.pick(&["permissive", "permissive", "restrictive"]);
            let role = dice.pick(&["authenticated", "public", "authenticated", "service_role"]);
            let verb = dice.pick(&["select", "all", "select", "update"]);
            create +=
                &format!("create policy p{number} on t as {kind} for {verb} to {role} using ({condition});");
            policies.push(format!("{kind} {verb} {role} {condition}"));
        }
        let rows = (1..=20).map(|id| dice.row(id)).collect::<Vec<_>>().join(", ");
        create += &format!(
            "insert into t values {rows};
             insert into open_members select n, u::uuid from generate_series(0, 4, 2) n, unnest('{{{0}}}'::text[]) u;
             insert into members table open_members; insert into members values (1, '{1}'), (null, '{1}'), (3, null)",
            UUIDS[..2].join(","),
            UUIDS[2]
        );
        let context = || format!("seed {seed}, round {round}: {policies:?}");
        let _rows = database.admin_sql(&create).await;
        let compiled = compiled(&database, "authenticated").await;
        let rows = printed_rows(&database, &relation).await;
        let users: Vec<Value> = (0..10).map(|_| dice.claims()).collect();
        let literal = users.iter().map(|claims| format!("'{claims}'")).collect::<Vec<_>>().join(", ");
        let seen = database.admin_sql(&format!("select ids, failed from seen(array[{literal}])")).await;
        let applies = compiled.applies_to(&relation);
        let values: Vec<Row<'_>> = rows
            .iter()
            .map(|row| compiled.row(&relation, |position| row.get(position).map(Option::as_deref)))
            .collect();
        let bound: Vec<Arc<BoundPolicies>> =
            users.iter().map(|claims| Arc::new(compiled.bind_claims(&parsed(claims)))).collect();
        let results = compiled.find(&pool, &values, bound.iter()).await;
        for ((claims, bound), seen) in users.iter().zip(&bound).zip(&seen) {
            let [ids, errors] = [0, 1].map(|column| numbers(seen[column].as_deref().unwrap_or_default()));
            for (number, row) in rows.iter().enumerate() {
                triples += 1;
                let id: i64 = row[0].as_ref().unwrap().parse().unwrap();
                visible += usize::from(ids.contains(&id));
                failed += usize::from(errors.contains(&id));
                if !applies {
                    continue;
                }
                let expected = match bound.judge(number, &values[number], &results) {
                    Visibility::Unknown => continue,
                    Visibility::Visible => (true, false),
                    Visibility::Hidden => (false, false),
                };
                decided += 1;
                assert_eq!(
                    (ids.contains(&id), errors.contains(&id)),
                    expected,
                    "{} {claims} {row:?}",
                    context()
                );
            }
        }
    }
    // About a third. One round's triples share their policies, so that thirty rounds vary widely.
    assert!(
        decided * 10 > triples,
        "{decided} of {triples} triples decided here ({visible} visible, {failed} failed), seed {seed}"
    );
}

/// Everything besides the policies on which visibility depends.
#[tokio::test]
async fn leaves_doubtful_definitions_to_postgres() {
    let database = database().await;
    let relation = relation(&database).await;
    // Roles belong to the cluster, which other tests use meanwhile.
    let suffix = u32::from_be_bytes(random::bytes::<4>());
    let (role, group) = (format!("judged_{suffix}"), format!("judges_{suffix}"));
    let own_roles = |sql: &str| sql.replace("authenticated", &role).replace("anon", &group);
    let roles = "create role authenticated; create role anon; grant select on t to authenticated";
    let _rows = database.admin_sql(&own_roles(roles)).await;
    let claims = json!({"role": "authenticated", "sub": UUIDS[0], "team": "1"});
    let row: Vec<Option<String>> = relation
        .columns
        .iter()
        .map(|column| match column.name.as_str() {
            "id" | "team" => Some("1".to_owned()),
            "owner" => Some(UUIDS[0].to_owned()),
            _ => None,
        })
        .collect();
    let outcome = async |sql: &str| {
        let _rows = database.admin_sql(&own_roles(sql)).await;
        let policies = compiled(&database, &role).await;
        if policies.applies_to(&relation) {
            judge(&policies, &claims, &relation, &row)
        } else {
            Visibility::Unknown
        }
    };
    let own = "create policy own on t using (owner = auth.uid())";
    assert_eq!(outcome("").await, Visibility::Hidden, "no policy");
    assert_eq!(outcome(own).await, Visibility::Visible);
    let body = "language sql stable as $$ select null::uuid $$";
    for (change, back) in [
        ("revoke select on t from authenticated", "grant select on t to authenticated"),
        (
            "revoke select on t from authenticated; grant select (owner) on t to authenticated",
            "grant select on t to authenticated",
        ),
        ("revoke usage on schema public from public, authenticated", "grant usage on schema public to public"),
        (
            "revoke execute on function auth.uid() from public, authenticated",
            "grant execute on function auth.uid() to public",
        ),
        ("alter function auth.uid() security definer", "alter function auth.uid() security invoker"),
        ("alter function auth.uid() set search_path = ''", "alter function auth.uid() reset all"),
        ("alter function auth.uid() volatile", "alter function auth.uid() stable"),
        (
            "alter table t rename owner to x; alter table t rename team to owner; alter table t rename x to team",
            "alter table t rename owner to x; alter table t rename team to owner; alter table t rename x to team",
        ),
        ("alter table t add more int", "alter table t drop more"),
        (
            "create schema shadow; create function shadow.same(uuid, uuid) returns boolean language sql immutable as 'select true';
             create operator shadow.= (leftarg = uuid, rightarg = uuid, function = shadow.same);
             drop policy own on t; create policy own on t using (owner operator(shadow.=) auth.uid())",
            "drop policy own on t; create policy own on t using (owner = auth.uid()); drop schema shadow cascade",
        ),
        (
            "create function public.uid() returns uuid language sql stable as 'select auth.uid()';
             drop policy own on t; create policy own on t using (owner = public.uid())",
            "drop policy own on t; drop function public.uid(); create policy own on t using (owner = auth.uid())",
        ),
    ] {
        assert_eq!(outcome(change).await, Visibility::Unknown, "{change}");
        assert_eq!(outcome(back).await, Visibility::Visible, "{back}");
    }
    // A row value that was not streamed.
    let policies = compiled(&database, &role).await;
    let unstreamed = policies.row(&relation, |position| (position != 1).then_some(None));
    let bound = policies.bind_claims(&parsed(&claims));
    assert_eq!(bound.judge(0, &unstreamed, &SubselectResults::default()), Visibility::Unknown);
    // Roles, owners and policies for other roles.
    assert_eq!(
        outcome("drop policy own on t; create policy own on t to anon using (owner = auth.uid())").await,
        Visibility::Hidden
    );
    assert_eq!(
        outcome("grant anon to authenticated").await,
        Visibility::Visible,
        "member of the policy's role"
    );
    assert_eq!(outcome("revoke anon from authenticated").await, Visibility::Hidden);
    assert_eq!(outcome("alter table t owner to authenticated").await, Visibility::Visible, "owner");
    assert_eq!(
        outcome("alter table t force row level security").await,
        Visibility::Hidden,
        "owner under force"
    );
    assert_eq!(outcome("alter role authenticated bypassrls").await, Visibility::Visible, "bypasses");
    let back = "alter role authenticated nobypassrls; alter table t owner to postgres; grant select on t to authenticated";
    let _rows = database.admin_sql(&own_roles(back)).await;
    let redefined = format!("create or replace function auth.uid() returns uuid {body}");
    assert_eq!(
        outcome("drop policy own on t; create policy own on t using (owner = auth.uid())").await,
        Visibility::Visible
    );
    assert_eq!(outcome(&redefined).await, Visibility::Unknown, "redefined");
}

/// Sub-selects that are evaluated once for all subscribers, as applications write them.
#[tokio::test]
async fn memberships_are_decided_for_all_subscribers_at_once() {
    let database = database().await;
    let relation = relation(&database).await;
    let pool =
        ServicePool::new(Database::new(database.config()), PoolConfig::new("system", 2), TaskTracker::new());
    let users: Vec<Value> =
        UUIDS.iter().map(|sub| json!({"role": "authenticated", "sub": sub, "team": "1"})).collect();
    let literal = users.iter().map(|claims| format!("'{claims}'")).collect::<Vec<_>>().join(", ");
    let fill = format!(
        "insert into t (id, owner, team) select n, (array['{0}', '{1}', null])[n]::uuid, n from generate_series(1, 3) n;
         insert into open_members values (1, '{0}'), (2, '{1}'), (3, null); insert into members table open_members",
        UUIDS[0], UUIDS[1]
    );
    let _rows = database.admin_sql(&fill).await;
    for condition in [
        "exists (select from members m where m.team = t.team and m.who = (select auth.uid()))",
        "exists (select 1 from open_members m where m.team = t.team and m.who = auth.uid())",
        "team in (select m.team from members m where m.who = (select auth.uid()))",
        "owner = auth.uid() or team in (select m.team from open_members m where m.who = auth.uid())",
        "exists (select from open_members m where m.who = auth.uid())",
        "exists (select from open_members m where m.team = t.team)",
        "exists (select from open_members m)",
    ] {
        let create = format!("drop policy if exists own on t; create policy own on t using ({condition})");
        let _rows = database.admin_sql(&create).await;
        let compiled = compiled(&database, "authenticated").await;
        assert!(compiled.applies_to(&relation), "{condition}");
        let rows = printed_rows(&database, &relation).await;
        let values: Vec<Row<'_>> = rows
            .iter()
            .map(|row| compiled.row(&relation, |position| row.get(position).map(Option::as_deref)))
            .collect();
        let bound: Vec<Arc<BoundPolicies>> =
            users.iter().map(|claims| Arc::new(compiled.bind_claims(&parsed(claims)))).collect();
        let results = compiled.find(&pool, &values, bound.iter()).await;
        let seen = database.admin_sql(&format!("select ids, failed from seen(array[{literal}])")).await;
        for (bound, seen) in bound.iter().zip(&seen) {
            let ids = numbers(seen[0].as_deref().unwrap_or_default());
            for (number, row) in rows.iter().enumerate() {
                let id: i64 = row[0].as_ref().unwrap().parse().unwrap();
                let expected = if ids.contains(&id) { Visibility::Visible } else { Visibility::Hidden };
                assert_eq!(bound.judge(number, &values[number], &results), expected, "{condition} {row:?}");
            }
        }
    }
}
