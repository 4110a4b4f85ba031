//! The measured requests, and the statements that pgbench sends instead: PostgREST's for the same request (rest.md 3.16 and 3.17).

use std::str::FromStr;

use anyhow::{Context as _, Result};

use crate::token;

/// People in `tests/bench/project`.
pub(crate) const PEOPLE: u64 = 64;
/// Entries of each person.
const ENTRIES: u64 = 200;
/// Different requests of one workload; each person sends the same number of them.
const REQUESTS: u64 = 1024;
/// What is selected of an entry.
const COLUMNS: &str = "id,title,amount,done,created_at";
/// Of statements: the same columns.
const ENTRY: &str = r#""public"."entries"."id", "public"."entries"."title", "public"."entries"."amount", "public"."entries"."done", "public"."entries"."created_at""#;
/// A body to insert.
const NOTE: &str = r#"{"body":"A note of the usual length, as people write them."}"#;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// 20 rows under row-level security, newest first.
    List,
    /// One row by its key.
    Key,
    /// 10 rows, each with a to-one and a to-many embed of 10 rows.
    Embed,
    /// 20 rows and the exact count of all.
    Count,
    /// A function with one argument.
    Rpc,
    /// One row changed by its key.
    Patch,
    /// One row inserted.
    Insert,
}

impl FromStr for Workload {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|workload| workload.name() == name);
        found.with_context(|| {
            format!("no workload is called {name}; there are {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Whether requests accept compressed responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AcceptEncoding {
    /// The header of every browser and of Node's `fetch`: `gzip, deflate, br`.
    Browser,
    /// No header, as curl and most load generators.
    None,
}

impl AcceptEncoding {
    fn header(self) -> &'static str {
        match self {
            Self::Browser => "Accept-Encoding: gzip, deflate, br\r\n",
            Self::None => "",
        }
    }
}

/// What goes over the wire.
struct Wire {
    method: &'static str,
    path: String,
    prefer: Option<&'static str>,
    body: Option<&'static str>,
}

impl Workload {
    pub(crate) const ALL: [Self; 7] =
        [Self::List, Self::Key, Self::Embed, Self::Count, Self::Rpc, Self::Patch, Self::Insert];

    /// As on the command line and in the JSON file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Key => "key",
            Self::Embed => "embed",
            Self::Count => "count",
            Self::Rpc => "rpc",
            Self::Patch => "patch",
            Self::Insert => "insert",
        }
    }

    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::List => "GET of 20 rows of 5 columns under RLS, newest first",
            Self::Key => "GET of one row by its key, under RLS",
            Self::Embed => "GET of 10 rows with a to-one and a to-many embed, under RLS",
            Self::Count => "GET of 20 rows with count=exact, under RLS",
            Self::Rpc => "POST to a stable function with one argument",
            Self::Patch => "PATCH of one row by its key, under RLS",
            Self::Insert => "POST of one row, under RLS",
        }
    }

    /// Of pgbench's rate with PostgREST's statements, what is aimed for at least.
    pub(crate) fn least_ratio(self) -> f64 {
        if self == Self::List { 0.65 } else { 0.5 }
    }

    /// The status of every answer.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::List | Self::Key | Self::Embed | Self::Rpc => 200,
            Self::Insert => 201,
            Self::Patch => 204,
            Self::Count => 206,
        }
    }

    /// Texts that the first answer must hold, and how often.
    pub(crate) fn expected(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::List => &[("\"title\":\"Entry ", 20), (" of person 1\"", 20)],
            Self::Key => &[("\"title\":\"Entry ", 1), (" of person 1\"", 1)],
            Self::Embed => &[("\"Plan ", 10), ("\"Category ", 10), ("\"Task ", 100)],
            Self::Count => &[(" of person 1\"", 20), ("0-19/200", 1)],
            Self::Rpc => &[("\r\n66", 1)],
            Self::Patch | Self::Insert => &[],
        }
    }

    fn wire(self, entry: u64) -> Wire {
        let get = |path: String| Wire { method: "GET", path, prefer: None, body: None };
        match self {
            Self::List => get(format!("/entries?select={COLUMNS}&order=created_at.desc&limit=20")),
            Self::Key => get(format!("/entries?select={COLUMNS}&id=eq.{entry}")),
            Self::Embed => get(
                "/plans?select=id,name,category:categories(id,name),tasks(id,title,done)&order=id&limit=10"
                    .to_owned(),
            ),
            Self::Count => Wire {
                prefer: Some("count=exact"),
                ..get(format!("/entries?select={COLUMNS}&order=created_at.desc&limit=20"))
            },
            Self::Rpc => Wire {
                method: "POST",
                path: "/rpc/count_entries".to_owned(),
                prefer: None,
                body: Some(r#"{"wanted":true}"#),
            },
            Self::Patch => Wire {
                method: "PATCH",
                path: format!("/entries?id=eq.{entry}"),
                prefer: None,
                body: Some(r#"{"amount":12.5}"#),
            },
            Self::Insert => {
                Wire { method: "POST", path: "/notes".to_owned(), prefer: None, body: Some(NOTE) }
            }
        }
    }

    /// Requests ready to send, each person's in turn.
    pub(crate) fn requests(self, prefix: &str, accept: AcceptEncoding) -> Vec<Vec<u8>> {
        let tokens: Vec<String> =
            (1..=PEOPLE).map(|number| token::sign(&token::claims(&token::person_id(number)))).collect();
        let numbered = (0..REQUESTS / PEOPLE)
            .flat_map(|turn| (0..).zip(&tokens).map(move |(person, token)| (turn, person, token)));
        let key = token::anon_key();
        numbered
            .map(|(turn, person, token): (u64, u64, &String)| {
                let wire = self.wire(person * ENTRIES + (person * 37 + turn * 11) % ENTRIES + 1);
                request(prefix, &wire, accept, &key, token)
            })
            .collect()
    }

    /// The statements of one transaction, for pgbench: the settings' values and the main statement.
    pub(crate) fn statements(self) -> Statements {
        let read = |path, count: &str, total: &str, source: &str, rows: Option<&str>| Statements {
            access: "read only",
            method: "GET",
            path,
            main: page(count, total, source),
            rows: rows.map(str::to_owned),
        };
        let newest = format!(
            r#"select {ENTRY} from "public"."entries" order by "public"."entries"."created_at" desc limit 20 offset 0"#
        );
        let write = |method, path, source: &str| Statements {
            access: "read write",
            method,
            path,
            main: format!(
                "with pgrst_source as ({source} returning 1) select '' as total_result_set, count(_postgrest_t) as page_total, \
                 array[]::text[] as header, ''::text as body, {RESPONSE_SETTINGS} from (select * from pgrst_source) _postgrest_t"
            ),
            rows: None,
        };
        match self {
            Self::List => read("/entries", "", NOT_COUNTED, &newest, Some(&newest)),
            Self::Key => {
                let source = |limit: &str| {
                    format!(
                        r#"select {ENTRY} from "public"."entries" where "public"."entries"."id" = :id{limit}"#
                    )
                };
                read(
                    "/entries",
                    "",
                    NOT_COUNTED,
                    &source(" limit 200000 offset 0"),
                    Some(&source(" limit 1001")),
                )
            }
            Self::Embed => read("/plans", "", NOT_COUNTED, EMBED, Some(EMBED)),
            Self::Count => read(
                "/entries",
                r#", pgrst_source_count as (select 1 from "public"."entries")"#,
                "(select count(*) from pgrst_source_count)",
                &newest,
                None,
            ),
            Self::Rpc => Statements {
                access: "read only",
                method: "POST",
                path: "/rpc/count_entries",
                main: RPC.to_owned(),
                rows: None,
            },
            Self::Patch => write(
                "PATCH",
                "/entries",
                r#"update "public"."entries" set "amount" = pgrst_body."amount" from (select '{"amount":' || '12.5}' as json_data) pgrst_payload, lateral (select "amount" from json_to_record(json_data::json) as _("amount" numeric(12,2))) pgrst_body where "public"."entries"."id" = :id"#,
            ),
            Self::Insert => write(
                "POST",
                "/notes",
                &format!(
                    r#"insert into "public"."notes"("body") select pgrst_body."body" from (select '{NOTE}'::json as json_data) pgrst_payload, lateral (select "body" from json_to_record(json_data) as _("body" text)) pgrst_body"#
                ),
            ),
        }
    }
}

/// What pgbench sends for one request.
pub(crate) struct Statements {
    /// `read only` or `read write`
    pub(crate) access: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    /// `:id` is the key of one of the person's entries.
    pub(crate) main: String,
    /// The same result as plain rows, from which a server can build the response.
    pub(crate) rows: Option<String>,
}

/// The row of [`Workload::Insert`] with nothing around it.
pub(crate) const BARE_INSERT: &str = r#"insert into "public"."notes"("owner_id", "body") values ('00000000-0000-4000-8000-000000000001', 'A note of the usual length, as people write them.')"#;

/// What a transaction says about the response.
pub(crate) const RESPONSE_SETTINGS: &str = "nullif(current_setting('response.headers', true), '') as response_headers, \
     nullif(current_setting('response.status', true), '') as response_status";
const NOT_COUNTED: &str = "null::bigint";

/// The statement as PostgREST writes it: one row with everything in it.
fn page(count: &str, total: &str, source: &str) -> String {
    format!(
        "with pgrst_source as ({source}){count} select {total} as total_result_set, count(_postgrest_t) as page_total, \
         coalesce(json_agg(_postgrest_t), '[]') as body, {RESPONSE_SETTINGS} from (select * from pgrst_source) _postgrest_t"
    )
}

const EMBED: &str = r#"select "public"."plans"."id", "public"."plans"."name", row_to_json("plans_category_1".*)::jsonb as "category", coalesce("plans_tasks_1"."plans_tasks_1", '[]') as "tasks" from "public"."plans" left join lateral (select "categories_1"."id", "categories_1"."name" from "public"."categories" as "categories_1" where "categories_1"."id" = "public"."plans"."category_id" limit 200000 offset 0) as "plans_category_1" on true left join lateral (select json_agg("plans_tasks_1")::jsonb as "plans_tasks_1" from (select "tasks_1"."id", "tasks_1"."title", "tasks_1"."done" from "public"."tasks" as "tasks_1" where "tasks_1"."plan_id" = "public"."plans"."id" limit 200000 offset 0) as "plans_tasks_1") as "plans_tasks_1" on true order by "public"."plans"."id" limit 10 offset 0"#;

const RPC: &str = r#"with pgrst_source as (select pgrst_call.pgrst_scalar from (select '{"wanted":' || 'true}' as json_data) pgrst_payload, lateral (select "wanted" from json_to_record(json_data::json) as _("wanted" boolean)) pgrst_body, lateral (select "public"."count_entries"("wanted" := pgrst_body."wanted") pgrst_scalar) pgrst_call) select null::bigint as total_result_set, 1 as page_total, coalesce(json_agg(_postgrest_t.pgrst_scalar)->0, 'null') as body, nullif(current_setting('response.headers', true), '') as response_headers, nullif(current_setting('response.status', true), '') as response_status from (select "count_entries".* from pgrst_source as "count_entries") _postgrest_t"#;

/// One request as bytes.
fn request(prefix: &str, wire: &Wire, accept: AcceptEncoding, key: &str, token: &str) -> Vec<u8> {
    let Wire { method, path, prefer, body } = wire;
    let profile = if *method == "GET" { "Accept-Profile" } else { "Content-Profile" };
    let mut request = format!(
        "{method} {prefix}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\napikey: {key}\r\nAuthorization: Bearer {token}\r\n\
         {profile}: public\r\nAccept: */*\r\nX-Client-Info: supabase-js-node/2.119.1\r\n{}",
        accept.header()
    );
    if let Some(prefer) = prefer {
        request.push_str(&format!("Prefer: {prefer}\r\n"));
    }
    if let Some(body) = body {
        request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    request.push_str(body.unwrap_or_default());
    request.into_bytes()
}

/// The insert of many rows as person 1, with the body given: an array of objects with the key `body`.
pub(crate) fn bulk_insert(prefix: &str, body: &str) -> Vec<u8> {
    let (key, token) = (token::anon_key(), token::sign(&token::claims(&token::person_id(1))));
    let head = format!(
        "POST {prefix}/notes?columns=%22body%22 HTTP/1.1\r\nHost: 127.0.0.1\r\napikey: {key}\r\nAuthorization: Bearer {token}\r\n\
         Content-Profile: public\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// The read of all 100,000 readings as person 1.
pub(crate) fn long_read(prefix: &str) -> Vec<u8> {
    let (key, token) = (token::anon_key(), token::sign(&token::claims(&token::person_id(1))));
    let wire = Wire {
        method: "GET",
        path: "/readings?select=id,place,value,taken_at".to_owned(),
        prefer: None,
        body: None,
    };
    request(prefix, &wire, AcceptEncoding::None, &key, &token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_for_the_persons_own_entries() {
        let requests = Workload::Key.requests("", AcceptEncoding::Browser);
        assert_eq!(u64::try_from(requests.len()).unwrap(), REQUESTS);
        let text = String::from_utf8(requests.into_iter().nth(2).unwrap()).unwrap();
        let id: u64 = text.split("id=eq.").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert_eq!((id - 1) / ENTRIES, 2);
    }

    #[test]
    fn insert_has_the_right_content_length() {
        let request = Workload::Rpc.requests("/rest/v1", AcceptEncoding::None).remove(0);
        let text = String::from_utf8(request).unwrap();
        assert!(text.starts_with("POST /rest/v1/rpc/count_entries HTTP/1.1\r\n"));
        assert!(text.ends_with("Content-Length: 15\r\n\r\n{\"wanted\":true}"));
    }
}
