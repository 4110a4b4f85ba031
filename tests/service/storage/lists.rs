//! Object lists v1 and v2 (storage.md §3.8, §3.9): the contract's example, a reference model on random names, and policies.

use std::collections::BTreeSet;

use basalt_testkit::{Basalt, Response};
use http::Method;
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{OWNER, STRANGER, error, make_bucket, make_objects, request, server, service, shown, token};

const EXAMPLE: [&str; 12] = [
    "a.txt",
    "B.txt",
    "c_1.txt",
    "cx1.txt",
    "folder/a.txt",
    "folder/sub/b.txt",
    "Folder2/c.txt",
    "pub/d.txt",
    "zed.txt",
    "Folder2/.emptyFolderPlaceholder",
    "folder/sub/deep/e.txt",
    "pub/e.txt",
];

async fn example() -> Basalt {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    make_objects(&server, "b", &EXAMPLE).await;
    server
}

async fn v1(server: &Basalt, body: Value) -> Response {
    service(server, Method::POST, "/object/list/b").json(&body).send().await
}

async fn v2(server: &Basalt, body: Value) -> Response {
    service(server, Method::POST, "/object/list-v2/b").json(&body).send().await
}

/// The names in a list response, folders marked with a star; or its error.
fn names(response: &Response) -> String {
    let body = response.json();
    if body.get("code").is_some() {
        return error(response);
    }
    let part = |name: &str| body[name].as_array().into_iter().flatten();
    let entries: Vec<&Value> =
        body.as_array().into_iter().flatten().chain(part("folders")).chain(part("objects")).collect();
    let name = |entry: &&Value| {
        let star = if entry["id"].is_null() { "*" } else { "" };
        format!("{}{star}", entry["name"].as_str().unwrap())
    };
    entries.iter().map(name).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn v1_lists_one_level() {
    let server = example().await;
    let one = json!({"prefix": "", "limit": 2, "offset": 3});
    assert_snapshot!(shown(&v1(&server, one).await).replace(&server.sql("select id::text from storage.objects where name = 'cx1.txt'").await[0][0].clone().unwrap(), "ID"), @r#"200 [{"name":"cx1.txt","id":"ID","updated_at":"TIME","created_at":"TIME","last_accessed_at":"TIME","metadata":{"size":1}},{"name":"folder","id":null,"updated_at":null,"created_at":null,"last_accessed_at":null,"metadata":null}]"#);
    let sorted =
        |column: &str, order: &str| json!({"prefix": "", "sortBy": {"column": column, "order": order}});
    // Creation times increase with the name; the trigger sets one `updated_at` for all rows.
    server
        .sql(
            "update storage.objects o set created_at = at, last_accessed_at = at
             from (select id, now() + row_number() over (order by lower(name)) * interval '1 second' as at
                   from storage.objects) as s where s.id = o.id",
        )
        .await;
    for (body, expected) in [
        (json!({"prefix": null}), "a.txt B.txt c_1.txt cx1.txt folder* Folder2* pub* zed.txt"),
        (sorted("name", "desc"), "zed.txt pub* Folder2* folder* cx1.txt c_1.txt B.txt a.txt"),
        (json!({"prefix": "", "limit": 3, "offset": 2}), "c_1.txt cx1.txt folder*"),
        (
            json!({"prefix": "", "limit": 3, "offset": 2, "sortBy": {"column": "name", "order": "desc"}}),
            "Folder2* folder* cx1.txt",
        ),
        (json!({"prefix": "", "offset": 99}), ""),
        (json!({"prefix": "folder"}), "a.txt sub*"),
        (json!({"prefix": "FOLDER/"}), "a.txt sub*"),
        (json!({"prefix": "folder/sub"}), "b.txt deep*"),
        (json!({"prefix": "Folder2"}), ".emptyFolderPlaceholder c.txt"),
        (json!({"prefix": "a.txt"}), ""),
        (json!({"prefix": "/"}), ""),
        (json!({"prefix": "/folder"}), ""),
        (json!({"prefix": "", "search": "FOL"}), "folder* Folder2*"),
        (json!({"prefix": "", "search": "ed"}), ""),
        (json!({"prefix": "", "search": "folder/s"}), "folder/sub*"),
        (json!({"prefix": "", "search": "c_"}), "c_1.txt"),
        (json!({"prefix": "", "search": "%"}), ""),
        (json!({"prefix": "folder", "search": "SUB/d"}), "sub/deep*"),
        (json!({"prefix": "", "search": "' or true --"}), ""),
        (json!({"prefix": "\u{0}"}), ""),
        (json!({"prefix": "x\u{10ffff}"}), ""),
        (sorted("created_at", "asc"), "Folder2* folder* pub* a.txt B.txt c_1.txt cx1.txt zed.txt"),
        (sorted("updated_at", "desc"), "pub* folder* Folder2* zed.txt cx1.txt c_1.txt a.txt B.txt"),
        (json!({"prefix": "FOLDER", "sortBy": {"column": "last_accessed_at"}}), "sub* a.txt"),
        (
            json!({"prefix": "", "limit": 3, "offset": 2, "sortBy": {"column": "created_at"}}),
            "pub* a.txt B.txt",
        ),
    ] {
        assert_eq!(names(&v1(&server, body.clone()).await), expected, "{body}");
    }
}

#[tokio::test]
async fn invalid_list_requests_get_specific_errors() {
    let server = example().await;
    let sort =
        |column: &str, order: &str| json!({"prefix": "", "sortBy": {"column": column, "order": order}});
    let word = "must be equal to one of the allowed values";
    for (body, expected) in [
        (json!({}), "body must have required property 'prefix'".to_owned()),
        (json!({"prefix": []}), "body/prefix must be string".to_owned()),
        (json!({"prefix": "", "limit": 0}), "body/limit must be >= 1".to_owned()),
        (json!({"prefix": "", "limit": "many"}), "body/limit must be integer".to_owned()),
        (json!({"prefix": "", "offset": -1}), "body/offset must be >= 0".to_owned()),
        (json!({"prefix": "", "sortBy": {}}), "body/sortBy must have required property 'column'".to_owned()),
        (json!({"prefix": "", "sortBy": "name"}), "body/sortBy must be object".to_owned()),
        (sort("size", "asc"), format!("body/sortBy/column {word}")),
        (sort("name; drop table x", "asc"), format!("body/sortBy/column {word}")),
        (sort("name", "up"), format!("body/sortBy/order {word}")),
    ] {
        let expected = format!("400 400 | Error | {expected} | InvalidRequest");
        assert_eq!(error(&v1(&server, body.clone()).await), expected, "{body}");
    }
    for (body, expected) in [
        (json!({"limit": 0}), "400 400 | Error | body/limit must be >= 1 | InvalidRequest"),
        (
            json!({"with_delimiter": "maybe"}),
            "400 400 | Error | body/with_delimiter must be boolean | InvalidRequest",
        ),
        (
            json!({"sortBy": {"column": "last_accessed_at"}}),
            "400 400 | Error | body/sortBy/column must be equal to one of the allowed values | InvalidRequest",
        ),
        (
            json!({"cursor": "nonsense"}),
            "400 400 | InvalidParameter | Invalid Parameter continuation token | InvalidParameter",
        ),
    ] {
        assert_eq!(error(&v2(&server, body.clone()).await), expected, "{body}");
    }
    let bad_name = "400 400 | Invalid Input | Bucket name invalid | InvalidBucketName";
    for path in ["/object/list/b%23", "/object/list-v2/b%23"] {
        let response = service(&server, Method::POST, path).json(&json!({"prefix": ""})).send().await;
        assert_eq!(error(&response), bad_name, "{path}");
    }
    let without = |path: &str| request(&server, Method::POST, path).json(&json!({"prefix": ""})).send();
    assert_eq!(
        error(&without("/object/list/b").await),
        "400 400 | Error | headers must have required property 'authorization' | InvalidRequest"
    );
    assert_eq!(
        error(&without("/object/list-v2/b").await),
        "400 403 | Unauthorized | Invalid Compact JWS | AccessDenied"
    );
}

#[tokio::test]
async fn v2_lists_objects_and_folders_under_a_prefix() {
    let server = example().await;
    let first = v2(&server, json!({"with_delimiter": true, "limit": 2})).await.expect(200).json();
    assert_eq!(first["hasNext"], true);
    assert_eq!(
        (&first["nextCursor"], &first["nextCursorKey"]),
        (&json!("bDpGb2xkZXIyLw=="), &json!("Folder2"))
    );
    assert_eq!(
        first["folders"],
        json!([{"key": "Folder2", "name": "Folder2/", "id": null, "updated_at": null, "created_at": null,
                "last_accessed_at": null, "metadata": null}])
    );
    assert_eq!(
        (&first["objects"][0]["key"], &first["objects"][0]["name"]),
        (&json!("B.txt"), &json!("B.txt"))
    );
    let flat = v2(&server, json!({"limit": 1})).await.expect(200).json();
    assert_eq!((&flat["nextCursor"], &flat["nextCursorKey"]), (&json!("bDpCLnR4dA=="), &json!("B.txt")));
    assert_eq!((flat["objects"][0].get("key"), &flat["objects"][0]["metadata"]), (None, &json!({"size": 1})));
    for (body, expected) in [
        (json!({"with_delimiter": true}), "Folder2/* folder/* pub/* B.txt a.txt c_1.txt cx1.txt zed.txt"),
        (json!({"with_delimiter": "true", "prefix": "fol"}), "folder/*"),
        (json!({"with_delimiter": true, "prefix": "folder/"}), "folder/sub/* folder/a.txt"),
        (json!({"prefix": "fol"}), "folder/a.txt folder/sub/b.txt folder/sub/deep/e.txt"),
        (json!({"prefix": "FOL"}), ""),
        (json!({"prefix": "p", "sortBy": {"column": "name", "order": "desc"}}), "pub/e.txt pub/d.txt"),
        (json!({"prefix": "'--"}), ""),
        (json!({"prefix": "\u{0}"}), ""),
    ] {
        assert_eq!(names(&v2(&server, body.clone()).await), expected, "{body}");
    }
    let none = service(&server, Method::POST, "/object/list-v2/none").json(&json!({})).send().await;
    assert_eq!(shown(&none), r#"200 {"hasNext":false,"folders":[],"objects":[]}"#);
    let none = service(&server, Method::POST, "/object/list/none").json(&json!({"prefix": ""})).send().await;
    assert_eq!(shown(&none), "200 []");
}

/// Pseudorandom numbers with a fixed seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn name(&mut self) -> String {
        let letters = ["a", "A", "b", "B", "/", "/", ".", "-", "0", "a/", "Ab/"];
        let length = 1 + self.below(5);
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

/// The first path segment of `rest`, with its slash if it is a folder.
fn entry(rest: &str) -> &str {
    rest.split_inclusive('/').next().unwrap_or(rest)
}

/// Reference model: the entries of one level, computed from all names. Folders end in a slash.
fn model_v1(all: &BTreeSet<String>, prefix: &str, search: &str) -> Vec<String> {
    let folded = format!("{prefix}{search}").to_lowercase();
    let mut found: Vec<&String> =
        all.iter().filter(|name| name.to_lowercase().starts_with(&folded)).collect();
    found.sort_by_key(|name| (name.to_lowercase(), (*name).clone()));
    let mut entries: Vec<String> = Vec::new();
    let mut seen = BTreeSet::new();
    for name in found {
        let (matched, rest) = name.split_at(folded.len());
        let shown = format!("{matched}{}", entry(rest));
        if !entry(rest).ends_with('/') || seen.insert(shown.to_lowercase()) {
            entries.push(shown.split_at(prefix.len()).1.to_owned());
        }
    }
    entries
}

fn model_v2(all: &BTreeSet<String>, prefix: &str, has_folders: bool) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for rest in all.iter().filter_map(|name| name.strip_prefix(prefix)) {
        let entry = format!("{prefix}{}", if has_folders { entry(rest) } else { rest });
        if entries.last() != Some(&entry) {
            entries.push(entry);
        }
    }
    entries
}

#[tokio::test]
async fn random_lists_match_the_reference_model() {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    let mut dice = Dice(20_261_122);
    let all: BTreeSet<String> = (0..400).map(|_| dice.name()).collect();
    make_objects(&server, "b", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let entries = |response: &Response| -> Vec<String> {
        let shown = |entry: &Value| {
            let slash = if entry["id"].is_null() { "/" } else { "" };
            format!("{}{slash}", entry["name"].as_str().unwrap())
        };
        response.json().as_array().unwrap().iter().map(shown).collect()
    };
    for _ in 0..60 {
        let mut prefix = dice.name();
        prefix =
            if dice.below(3) == 0 { String::new() } else { format!("{}/", prefix.trim_end_matches('/')) };
        let search = if dice.below(2) == 0 { String::new() } else { dice.name() };
        let expected = model_v1(&all, &prefix, &search);
        let body = |limit: usize, offset: usize, order: &str| {
            json!({"prefix": prefix, "search": search, "limit": limit, "offset": offset,
                   "sortBy": {"column": "name", "order": order}})
        };
        assert_eq!(entries(&v1(&server, body(1000, 0, "asc")).await), expected, "{prefix:?} {search:?}");
        let mut reversed = entries(&v1(&server, body(1000, 0, "desc")).await);
        reversed.reverse();
        assert_eq!(reversed, expected, "{prefix:?} {search:?} in reverse");
        let (from, size) = (dice.below(expected.len() + 1), 1 + dice.below(5));
        let part: Vec<String> = expected.iter().skip(from).take(size).cloned().collect();
        assert_eq!(
            entries(&v1(&server, body(size, from, "asc")).await),
            part,
            "{prefix:?} {search:?} from {from}"
        );
    }
    // Sorted by a date, folders come first and are case-sensitive.
    let by_date = json!({"prefix": "AB", "limit": 1000, "sortBy": {"column": "created_at"}});
    let found = entries(&v1(&server, by_date).await);
    let below =
        all.iter().filter(|name| name.to_lowercase().starts_with("ab/")).map(|name| name.split_at(3).1);
    let (folders, files): (BTreeSet<&str>, BTreeSet<&str>) =
        below.map(entry).partition(|entry| entry.ends_with('/'));
    assert!(
        folders.len() > 3 && files.len() > 3,
        "too few random names for this test: {folders:?} {files:?}"
    );
    // `ab/` and `AB/` may contain the same name.
    let mut shown_files: Vec<String> = found[folders.len()..].to_vec();
    shown_files.dedup();
    // Folders are sorted by name, without the slash.
    let mut folders: Vec<&str> = folders.into_iter().collect();
    folders.sort_by_key(|folder| folder.trim_end_matches('/'));
    assert_eq!(found[..folders.len()], folders);
    assert_eq!(shown_files, files.into_iter().collect::<Vec<_>>());

    for _ in 0..40 {
        let prefix = if dice.below(3) == 0 { String::new() } else { dice.name() };
        let has_folders = dice.below(2) == 0;
        let mut expected = model_v2(&all, &prefix, has_folders);
        let order = if dice.below(2) == 0 { "asc" } else { "desc" };
        if order == "desc" {
            expected.reverse();
        }
        let limit = 1 + dice.below(20);
        let body = json!({"prefix": prefix, "with_delimiter": has_folders, "limit": limit,
                          "sortBy": {"column": "name", "order": order}});
        let found = pages(&server, body.clone()).await;
        assert_eq!(found.iter().collect::<BTreeSet<_>>(), expected.iter().collect(), "{body}");
        assert_eq!(found.len(), expected.len(), "{body}");
    }
}

/// The names on all pages of v2. Within a page folders come before objects.
async fn pages(server: &Basalt, mut body: Value) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = v2(server, body.clone()).await.expect(200).json();
        let part = |name: &str| page[name].as_array().unwrap().clone();
        let shown = [part("folders"), part("objects")].concat();
        assert!(shown.len() <= usize::try_from(body["limit"].as_u64().unwrap()).unwrap());
        found.extend(shown.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
        if page["hasNext"] == json!(false) {
            assert_eq!(page.get("nextCursor"), None);
            return found;
        }
        body["cursor"] = page["nextCursor"].clone();
        // The order comes from the cursor.
        body["sortBy"] = json!({"column": "name"});
        assert!(found.len() < 5000, "pages do not end");
    }
}

#[tokio::test]
async fn pages_by_date_include_equal_timestamps() {
    let server = server().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    server
        .sql(
            "insert into storage.objects (bucket_id, name, created_at)
             select 'b', (array['', 'x/', 'y/z/'])[1 + n % 3] || n,
               timestamptz '2026-01-01 00:00:00.0001' + (n / 7) * interval '1 microsecond'
             from generate_series(1, 60) n",
        )
        .await;
    let rows = server.sql("select name from storage.objects order by created_at, name collate \"C\"").await;
    let all: Vec<String> = rows.iter().map(|row| row[0].clone().unwrap()).collect();
    for order in ["asc", "desc"] {
        let sort = json!({"column": "created_at", "order": order});
        for limit in [1, 4, 7, 59, 60, 1000] {
            let mut found = pages(&server, json!({"limit": limit, "sortBy": sort})).await;
            if order == "desc" {
                found.reverse();
            }
            assert_eq!(found, all, "{order} by {limit}");
            let found = pages(&server, json!({"limit": limit, "sortBy": sort, "with_delimiter": true})).await;
            let top: BTreeSet<&str> = all.iter().map(|name| entry(name)).collect();
            assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), top, "{order} by {limit}");
            assert_eq!(found.len(), top.len(), "{order} by {limit}");
        }
    }
}

#[tokio::test]
async fn lists_contain_only_visible_objects() {
    let server = example().await;
    server
        .sql(&format!("update storage.objects set owner_id = '{STRANGER}' where name like 'folder/%'"))
        .await;
    let list = async |token: &str, path: &str, body: Value| {
        names(&request(&server, Method::POST, path).bearer(token).json(&body).send().await)
    };
    let (owner, stranger) = (token(&server, OWNER), token(&server, STRANGER));
    for (token, in_v1, in_v2) in [
        (server.anon_key(), "", ""),
        (stranger.as_str(), "folder*", "folder/*"),
        (
            &owner,
            "a.txt B.txt c_1.txt cx1.txt Folder2* pub* zed.txt",
            "Folder2/* pub/* B.txt a.txt c_1.txt cx1.txt zed.txt",
        ),
        (
            server.service_key(),
            "a.txt B.txt c_1.txt cx1.txt folder* Folder2* pub* zed.txt",
            "Folder2/* folder/* pub/* B.txt a.txt c_1.txt cx1.txt zed.txt",
        ),
    ] {
        assert_eq!(list(token, "/object/list/b", json!({"prefix": ""})).await, in_v1);
        assert_eq!(list(token, "/object/list-v2/b", json!({"with_delimiter": true})).await, in_v2);
        for sort in ["created_at", "updated_at"] {
            let count = |text: &str| text.split_whitespace().count();
            let by_date = json!({"prefix": "", "sortBy": {"column": sort}});
            assert_eq!(count(&list(token, "/object/list/b", by_date).await), count(in_v1));
            let by_date = json!({"with_delimiter": true, "sortBy": {"column": sort}});
            assert_eq!(count(&list(token, "/object/list-v2/b", by_date).await), count(in_v2));
        }
    }
}

#[tokio::test]
async fn list_skips_the_contents_of_folders() {
    let server = server().expect_log("PostgreSQL rejected a statement").start().await;
    make_bucket(&server, &json!({"name": "counted"})).await;
    server
        .sql(
            "insert into storage.objects (bucket_id, name)
             select 'counted', 'Folder' || n % 20 || '/' || n % 7 || '/' || n from generate_series(1, 20000) n",
        )
        .await;
    make_objects(&server, "counted", &["a", "z"]).await;
    let user = token(&server, STRANGER);
    let list = async |path: &str, body: &Value| {
        names(&request(&server, Method::POST, path).bearer(&user).json(body).send().await)
    };
    let (v1, v2) = ("/object/list/counted", "/object/list-v2/counted");
    for (path, body) in [
        (v1, json!({"prefix": ""})),
        (v1, json!({"prefix": "", "sortBy": {"column": "name", "order": "desc"}})),
        (v1, json!({"prefix": "", "sortBy": {"column": "created_at"}})),
        (v2, json!({"with_delimiter": true})),
        (v2, json!({"with_delimiter": true, "sortBy": {"column": "name", "order": "desc"}})),
    ] {
        let found = list(path, &body).await;
        assert_eq!(found.split_whitespace().count(), 22, "{path} {body}: {found}");
    }
    // The policy limits the rows that a statement may read; a flat list reads more.
    assert_eq!(
        list(v2, &json!({})).await,
        "500 500 | DatabaseError | database error, code: P0001 | DatabaseError"
    );
}
