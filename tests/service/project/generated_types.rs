//! Generated types: the app's file is up to date, and the output matches Supabase's generator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers fail a test as the test itself does"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use basalt_project::typescript;

use super::support::{app_database, database, repository, write};

const SCHEMA: &str = include_str!("typescript_types.sql");

#[tokio::test]
async fn app_types_match_its_schema() {
    let (_database, client) = app_database().await;
    let types = typescript::generate(&client, &["public".to_owned()]).await.unwrap();
    let path = repository().join("app/src/lib/database.types.ts");
    if std::env::vars_os().any(|(name, _)| name == "BASALT_TEST_BLESS") {
        fs::write(&path, &types).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap();
    assert!(known == types, "app/src/lib/database.types.ts is outdated: run `cargo xtask gen-types`");
}

#[tokio::test]
async fn types_match_postgres_meta() {
    let (database, client) = database().await;
    client.batch_execute(SCHEMA).await.unwrap();
    let schemas = ["public".to_owned(), "shop".to_owned()];
    let ours = typescript::generate(&client, &schemas).await.unwrap();
    let theirs = postgres_meta(&database.url(), "public,shop");

    let database_of = |text: &str, end: &str| {
        let from = text.find("export type Database").expect("it declares the database");
        let to = text.find(end).expect("helper types follow");
        tokens(text.get(from..to).unwrap())
    };
    let constants_of = |text: &str| tokens(text.get(text.find("export const Constants").unwrap()..).unwrap());
    assert_same(
        &database_of(&ours, "type Schemas ="),
        &database_of(&theirs, "type DatabaseWithoutInternals"),
    );
    assert_same(&constants_of(&ours), &constants_of(&theirs));

    // The helper types differ in text; TypeScript checks that they are equivalent.
    let dir = tempfile::tempdir_in(repository().join("target")).unwrap();
    write(dir.path(), "ours.ts", &ours);
    write(dir.path(), "theirs.ts", &theirs);
    write(dir.path(), "check.ts", CHECK);
    let compiled = typecheck(dir.path());
    assert!(compiled.is_empty(), "{compiled}");
    write(dir.path(), "check.ts", &CHECK.replace("theirs.Tables<\"orders\">", "theirs.Tables<\"receipts\">"));
    assert!(typecheck(dir.path()).contains("TS2322"), "the comparison must detect a difference");
}

const CHECK: &str = r#"
import type * as ours from "./ours.ts"
import type * as theirs from "./theirs.ts"
import { Constants } from "./ours.ts"

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false

export const all: [
  Same<ours.Tables<"orders">, theirs.Tables<"orders">>,
  Same<ours.Tables<"over_view">, theirs.Tables<"over_view">>,
  Same<ours.Tables<{ schema: "shop" }, "items">, theirs.Tables<{ schema: "shop" }, "items">>,
  Same<ours.TablesInsert<"customers">, theirs.TablesInsert<"customers">>,
  Same<ours.TablesInsert<{ schema: "shop" }, "items">, theirs.TablesInsert<{ schema: "shop" }, "items">>,
  Same<ours.TablesUpdate<"customers">, theirs.TablesUpdate<"customers">>,
  Same<ours.Enums<"size">, theirs.Enums<"size">>,
  Same<ours.Enums<{ schema: "shop" }, "colour">, theirs.Enums<{ schema: "shop" }, "colour">>,
  Same<ours.CompositeTypes<"money_of">, theirs.CompositeTypes<"money_of">>,
  Same<(typeof Constants)["shop"]["Enums"]["colour"][1], "dark green">,
  Same<ours.Tables<"orders">, never>,
] = [true, true, true, true, true, true, true, true, true, true, false]
"#;

/// The output of Supabase's generator.
fn postgres_meta(url: &str, schemas: &str) -> String {
    let server =
        repository().join("target/postgres-meta/node_modules/@supabase/postgres-meta/dist/server/server.js");
    assert!(server.is_file(), "postgres-meta is not installed: `cargo xtask service` installs it");
    let output = Command::new("node")
        .arg(server)
        .env("PG_META_DB_URL", url)
        .env("PG_META_GENERATE_TYPES", "typescript")
        .env("PG_META_GENERATE_TYPES_INCLUDED_SCHEMAS", schemas)
        .env("PG_META_GENERATE_TYPES_DETECT_ONE_TO_ONE_RELATIONSHIPS", "true")
        .env("PG_META_POSTGREST_VERSION", "14.12")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The compiler's errors.
fn typecheck(dir: &Path) -> String {
    let compiler = repository().join("node_modules/typescript/bin/tsc");
    let output = Command::new("node")
        .arg(compiler)
        .args(["--noEmit", "--strict", "--module", "nodenext", "--allowImportingTsExtensions"])
        .arg(dir.join("check.ts"))
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Tokens without whitespace, separators and comments.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => {
                let mut escaped = false;
                let close = rest.char_indices().skip(1).find(|(_, c)| {
                    let found = *c == '"' && !escaped;
                    escaped = *c == '\\' && !escaped;
                    found
                });
                close.expect("a string ends").0 + 1
            }
            c if c.is_alphanumeric() || c == '_' || c == '$' => {
                rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len())
            }
            c => c.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let starts_a_union =
            token == "|" && tokens.last().is_some_and(|before| [":", "=", "("].contains(&before.as_str()));
        if ![";", ","].contains(&token) && !token.starts_with("//") && !starts_a_union {
            tokens.push(token.to_owned());
        }
        rest = after.trim_start();
    }
    tokens
}

fn assert_same(ours: &[String], theirs: &[String]) {
    let difference = ours.iter().zip(theirs).position(|(a, b)| a != b);
    let Some(at) = difference.or((ours.len() != theirs.len()).then_some(ours.len().min(theirs.len()))) else {
        return;
    };
    let around = |tokens: &[String]| {
        tokens.iter().skip(at.saturating_sub(25)).take(45).cloned().collect::<Vec<_>>().join(" ")
    };
    panic!("difference at token {at}:\n  ours:   {}\n  theirs: {}", around(ours), around(theirs));
}
