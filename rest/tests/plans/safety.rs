//! No part of a request becomes statement text.

use proptest::prelude::*;
use proptest::sample::select;

use super::{plan, statements};

/// Text with a marker that is easy to find in a statement.
fn marked() -> impl Strategy<Value = String> {
    "[a-z'\"; )(*$\\\\ä-]{0,6}".prop_map(|text| format!("mark{text}er"))
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A quoted value, as in logic trees and lists.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A test `[not.]OP.VALUE` with any operator.
fn test() -> impl Strategy<Value = String> {
    let comparison = select(vec![
        "eq",
        "neq",
        "gt",
        "gte",
        "lt",
        "lte",
        "like",
        "ilike",
        "match",
        "imatch",
        "cs",
        "cd",
        "ov",
        "sl",
        "sr",
        "nxr",
        "nxl",
        "adj",
        "isdistinct",
        "fts",
        "plfts",
        "phfts",
        "wfts",
        "eq(any)",
        "like(all)",
        "imatch(any)",
        "fts(english)",
    ]);
    let compared = (comparison, marked()).prop_map(|(operator, value)| format!("{operator}.{value}"));
    let list = prop::collection::vec(marked(), 1..4).prop_map(|values| {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        format!("in.({})", values.join(","))
    });
    let config = "[a-z]{0,4}".prop_map(|text| format!("wfts(mark{text}er).x"));
    (any::<bool>(), prop_oneof![4 => compared, 1 => list, 1 => config])
        .prop_map(|(negated, test)| if negated { format!("not.{test}") } else { test })
}

/// A logic tree with marked values.
fn tree() -> impl Strategy<Value = String> {
    let column = select(vec!["id", "name", "meta->>a"]);
    let leaf = (column, select(vec!["eq", "like", "cs", "plfts"]), marked())
        .prop_map(|(column, operator, value)| format!("{column}.{operator}.{}", quoted(&value)));
    let node = leaf.prop_recursive(3, 8, 3, |inner| {
        (select(vec!["and", "not.or"]), prop::collection::vec(inner, 1..3))
            .prop_map(|(word, nodes)| format!("{word}({})", nodes.join(",")))
    });
    prop::collection::vec(node, 1..3).prop_map(|nodes| format!("({})", nodes.join(",")))
}

/// Parameters of a read of `projects` with embeds, each with a marked value.
fn parameters() -> impl Strategy<Value = String> {
    let column = select(vec![
        "id",
        "name",
        "tags",
        "meta->>a",
        "meta->n->0",
        "tasks.name",
        "clients.name",
        "tasks.users.name",
    ]);
    let filter =
        (column, test()).prop_map(|(column, test)| format!("{}={}", encoded(column), encoded(&test)));
    let logic = (select(vec!["or", "not.and", "tasks.or", "clients.not.or"]), tree())
        .prop_map(|(key, tree)| format!("{key}={}", encoded(&tree)));
    let window = (select(vec!["limit", "offset", "tasks.limit", "tasks.offset"]), marked())
        .prop_map(|(key, value)| format!("{key}={}", encoded(&value)));
    prop::collection::vec(prop_oneof![filter, logic, window], 1..4).prop_map(|all| all.join("&"))
}

/// Statement text outside quotes.
fn outside_quotes(text: &str) -> String {
    let mut bare = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        bare.push(c);
        if c == '"' || c == '\'' {
            let escapes = c == '\'' && bare.ends_with("E'");
            while let Some(inner) = chars.next() {
                if inner == '\\' && escapes {
                    chars.next();
                } else if inner == c && chars.next_if_eq(&c).is_none() {
                    break;
                }
            }
        }
    }
    bare
}

const EMBEDS: &str = "select=id,name,clients!inner(name),tasks(id,users(name))";

proptest! {
    #[test]
    fn values_in_read_become_parameters(parameters in parameters(), prefer in marked(), range in marked()) {
        let prefer: String = prefer.chars().filter(char::is_ascii).collect();
        let range: String = range.chars().filter(char::is_ascii).collect();
        for method in ["GET", "HEAD", "DELETE"] {
            let request = format!(
                "{method} /projects?{EMBEDS}&id=eq.1&{parameters}\nPrefer: count=exact, timezone={prefer}, return=representation\nRange: {range}"
            );
            let statements = statements(&plan(&request).unwrap());
            prop_assert!(!statements.main.text.contains("mark"), "{request}: {}", statements.main.text);
        }
    }

    #[test]
    fn values_in_body_become_parameters(value in marked(), other in marked()) {
        let json = serde_json::json!([{ "id": value, "name": other, "meta": { value.clone(): [other] }, "tags": [value] }]);
        let row = json[0].to_string();
        let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let (form_value, form_other) = (encoded(&value), encoded(&other));
        for request in [
            format!("POST /projects\nPrefer: return=representation\n\n{json}"),
            format!("POST /projects?columns=id,name\nPrefer: missing=default, resolution=merge-duplicates\n\n{json}"),
            format!("PATCH /projects?id=eq.{form_value}\n\n{row}"),
            format!("PUT /clients?id=eq.{form_value}\n\n{}", serde_json::json!({ "id": value, "name": other })),
            format!("POST /clients\nContent-Type: text/csv\n\nid,name\n{},{}\n", cell(&value), cell(&other)),
            format!("POST /clients\nContent-Type: application/x-www-form-urlencoded\n\nid={form_value}&name={form_other}"),
            format!("POST /rpc/add\n\n{}", serde_json::json!({ "a": value, "b": other })),
            format!("POST /rpc/add\nContent-Type: application/x-www-form-urlencoded\n\na={form_value}&b={form_other}"),
            format!("GET /rpc/concat_all?rest={form_value}&rest={form_other}"),
            format!("POST /rpc/digest\nContent-Type: application/octet-stream\n\n{value}"),
            format!("GET /rpc/projects_below?below={form_value}&name=eq.{form_other}"),
        ] {
            let statements = statements(&plan(&request).unwrap());
            prop_assert!(!statements.main.text.contains("mark"), "{request}: {}", statements.main.text);
        }
    }

    #[test]
    fn names_are_quoted(name in marked()) {
        let in_quotes = encoded(&quoted(&name));
        for request in [
            format!("GET /projects?select={in_quotes}"),
            format!("GET /projects?select=x:meta->{in_quotes}"),
            format!("GET /projects?select={in_quotes}:name"),
            format!("GET /projects?select={in_quotes}:clients(name)"),
            format!("GET /projects?select=...clients({in_quotes}:name)"),
            format!("GET /projects?select=...tasks({in_quotes})"),
            format!("GET /projects?select=id,tasks({in_quotes},users({in_quotes}))"),
            format!("GET /projects?select={in_quotes}.sum()"),
            format!("GET /projects?select=clients(id)&order=clients({in_quotes})"),
            format!("GET /projects?{in_quotes}=eq.1"),
            format!("GET /projects?select=clients(id)&clients.{in_quotes}=eq.1"),
            format!("GET /projects?or=({in_quotes}.eq.1,id.eq.1)"),
            format!("GET /projects?meta->>{in_quotes}=eq.1"),
            format!("GET /projects?order={in_quotes}"),
            format!("GET /projects?order=meta->>{in_quotes}"),
            format!("POST /clients?on_conflict={in_quotes}\nPrefer: resolution=merge-duplicates\n\n{{\"id\":1}}"),
            format!("POST /clients?select={in_quotes}\nPrefer: return=representation\n\n{{\"id\":1}}"),
        ] {
            let text = statements(&plan(&request).unwrap()).main.text.to_string();
            prop_assert!(text.contains("mark"), "{request}: {text}");
            let rest = outside_quotes(&text);
            prop_assert!(!rest.contains("mark"), "{request}: {text}");
        }
    }
}
