//! The policies that each operation requires (storage.md §4.6), and what policies and triggers see (§4.7).

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use serde_json::json;

use super::{error, make_bucket, request, service, token};

const OWNER: &str = "0a0a0a0a-0000-4000-8000-000000000001";
const OTHER: &str = "0b0b0b0b-0000-4000-8000-000000000002";
const OWNS: &str = "owner_id = (select auth.jwt() ->> 'sub')";

const NO_KEY: &str = "NoSuchKey Object not found";
const DENIED: &str = "AccessDenied new row violates row-level security policy";
const HIDDEN: &str = "AccessDenied Access denied";
const EXISTS: &str = "KeyAlreadyExists The resource already exists";
const OK: &str = "200";
const NOTHING: &str = "200 []";

const COMMANDS: [&str; 4] = ["select", "insert", "update", "delete"];

/// Installs the policies of the chosen commands and drops the others.
async fn install(server: &Basalt, is_installed: [bool; 4]) {
    for (command, is_installed) in COMMANDS.into_iter().zip(is_installed) {
        server.sql(&format!("drop policy if exists may_{command} on storage.objects")).await;
        let clauses = match command {
            "insert" => format!("with check ({OWNS})"),
            "update" => format!("using ({OWNS}) with check ({OWNS})"),
            _ => format!("using ({OWNS})"),
        };
        if is_installed {
            let create = format!(
                "create policy may_{command} on storage.objects for {command} to authenticated {clauses}"
            );
            server.sql(&create).await;
        }
    }
}

/// Resets the objects to `seed`, `own` and `other`, all with the blob of `seed`.
async fn make_objects(server: &Basalt) {
    let sql = format!(
        "begin; set local storage.allow_delete_query = 'true';
         delete from storage.objects where name <> 'seed';
         insert into storage.objects (bucket_id, name, owner_id, version, metadata)
         select 'b', made.name, made.owner, version, metadata from storage.objects,
           (values ('own', '{OWNER}'), ('other', '{OTHER}')) as made (name, owner) where objects.name = 'seed';
         commit"
    );
    server.database().admin_sql(&sql).await;
}

/// Upstream refuses to delete a user who owns objects (auth.md §7). Here the objects stay, with the id of their former owner.
#[tokio::test]
async fn user_with_objects_can_be_deleted() {
    let server = Basalt::start().await;
    let sql = format!(
        "insert into storage.buckets (id, name) values ('own', 'own');
         create policy own on storage.objects to authenticated using ({OWNS}) with check ({OWNS})"
    );
    server.sql(&sql).await;
    let ada = server.sign_up("ada@example.org").await;
    let object = "/storage/v1/object/own/a.txt";
    let as_user = |request: Request, token: &str| request.apikey(server.anon_key()).bearer(token);
    as_user(server.post(object), &ada.access_token).body("hello").send().await.expect(200);
    let user = format!("/auth/v1/admin/users/{}", ada.id);
    server.delete(&user).apikey(server.service_key()).send().await.expect(200);
    let owner = server.sql("select owner_id, owner::text from storage.objects").await;
    assert_eq!(owner, [vec![Some(ada.id.to_string()), Some(ada.id.to_string())]]);
    // A new account with the same address is another owner.
    let again = server.sign_up("ada@example.org").await;
    as_user(server.get(object), &again.access_token).send().await.expect(400);
    let read = server.get(object).apikey(server.service_key()).send().await.expect(200);
    assert_eq!(read.text(), "hello");
    server.delete(object).apikey(server.service_key()).send().await.expect(200);
}

/// The body of a request.
#[derive(Clone, Copy, Debug)]
enum Body {
    Bytes,
    EmptyJson,
    /// Source and destination key of a move or copy in bucket `b`.
    FromTo(&'static str, &'static str),
    Prefixes(&'static [&'static str]),
}
use Body::{Bytes, EmptyJson, FromTo, Prefixes};

/// Sends `METHOD /path`, or `METHOD /path x-upsert`, to the storage service.
async fn send(server: &Basalt, token: &str, call: &str, body: Body) -> Response {
    let mut parts = call.split_whitespace();
    let (method, path) = (parts.next().unwrap(), parts.next().unwrap());
    let mut request: Request = request(server, method.parse().unwrap(), path).bearer(token);
    if parts.next() == Some("x-upsert") {
        request = request.header("x-upsert", "true");
    }
    let request = match body {
        Bytes => request.body("content"),
        EmptyJson => request.json(&json!({})),
        FromTo(from, to) => request.json(&json!({"bucketId": "b", "sourceKey": from, "destinationKey": to})),
        Prefixes(keys) => request.json(&json!({"prefixes": keys})),
    };
    request.send().await
}

/// `200`, `200 []`, or the error's code and message.
fn outcome(response: &Response) -> String {
    if response.status == 200 {
        return if response.text() == "[]" { "200 []".to_owned() } else { OK.to_owned() };
    }
    let body = response.json();
    format!("{} {}", body["code"].as_str().unwrap(), body["message"].as_str().unwrap())
}

/// A call and its body, the error for each missing policy (the first that applies counts), and the response when none is missing.
type Case = (&'static str, Body, &'static [(&'static str, &'static str)], &'static str);

/// Calls by `OWNER`. The object `own` belongs to `OWNER`, `other` to another user, and `new` does not exist. Each policy allows
/// its command on the caller's own objects.
#[rustfmt::skip]
const CASES: [Case; 21] = [
    // call                                  body                     without this policy: error                    otherwise
    ("POST /object/b/new",                   Bytes,                   &[("insert", DENIED)],                        OK),
    ("POST /object/b/own",                   Bytes,                   &[("insert", DENIED)],                        EXISTS),
    ("POST /object/b/other",                 Bytes,                   &[("insert", DENIED)],                        EXISTS),
    ("POST /object/b/new x-upsert",          Bytes,                   &[("select", DENIED), ("insert", DENIED)],    OK),
    ("PUT /object/b/new",                    Bytes,                   &[("select", DENIED), ("insert", DENIED)],    OK),
    ("POST /object/b/own x-upsert",          Bytes,                   UPSERT,                                       OK),
    ("PUT /object/b/own",                    Bytes,                   UPSERT,                                       OK),
    ("POST /object/b/other x-upsert",        Bytes,                   &[],                                          DENIED),
    ("POST /object/upload/sign/b/new",       EmptyJson,               &[("insert", DENIED)],                        OK),
    ("POST /object/upload/sign/b/own x-upsert",   EmptyJson,          UPSERT,                                       OK),
    ("POST /object/upload/sign/b/other x-upsert", EmptyJson,          &[],                                          DENIED),
    ("POST /object/move",                    FromTo("own", "new"),    &[("select", NO_KEY), ("update", NO_KEY)],    OK),
    ("POST /object/move",                    FromTo("other", "new"),  &[],                                          NO_KEY),
    ("POST /object/copy",                    FromTo("own", "new"),    &[("select", NO_KEY), ("insert", DENIED)],    OK),
    ("POST /object/copy",                    FromTo("other", "new"),  &[],                                          NO_KEY),
    ("POST /object/copy x-upsert",           FromTo("own", "own"),    COPY_OVER,                                    OK),
    ("POST /object/copy x-upsert",           FromTo("own", "other"),  &[("select", NO_KEY)],                        DENIED),
    ("DELETE /object/b/own",                 Bytes,                   &[("select", HIDDEN), ("delete", HIDDEN)],    OK),
    ("DELETE /object/b/other",               Bytes,                   &[],                                          HIDDEN),
    ("DELETE /object/b",                     Prefixes(&["own"]),      &[("select", NOTHING), ("delete", NOTHING)],  OK),
    ("DELETE /object/b",                     Prefixes(&["other"]),    &[],                                          NOTHING),
];
const UPSERT: &[(&str, &str)] = &[("select", DENIED), ("insert", DENIED), ("update", DENIED)];
const COPY_OVER: &[(&str, &str)] = &[("select", NO_KEY), ("insert", DENIED), ("update", DENIED)];

/// Every call with every combination of the four policies.
#[tokio::test]
async fn each_operation_requires_its_policies() {
    let server = Basalt::builder().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    service(&server, Method::POST, "/object/b/seed").body("seed").send().await.expect(200);
    let owner = token(&server, OWNER);
    for number in 0..16_u8 {
        let is_installed = [1, 2, 4, 8].map(|bit| number & bit != 0);
        install(&server, is_installed).await;
        let installed: Vec<&str> = COMMANDS
            .into_iter()
            .zip(is_installed)
            .filter(|(_, is)| *is)
            .map(|(command, _)| command)
            .collect();
        for (call, body, required, otherwise) in CASES {
            make_objects(&server).await;
            let missing = required.iter().find(|(command, _)| !installed.contains(command));
            let expected = missing.map_or(otherwise, |(_, error)| error);
            let response = send(&server, &owner, call, body).await;
            assert_eq!(outcome(&response), expected, "{call} {body:?} with policies for {installed:?}");
        }
    }
}

/// Each check compares one value that a policy sees; the upload is allowed only if it matches.
#[tokio::test]
async fn policies_see_the_new_row_and_the_request() {
    let server = Basalt::builder().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    let setting = |name: &str| format!("current_setting('{name}', true)");
    let checks = [
        "version = '1'".to_owned(),
        "metadata = '{\"mimetype\":\"text/x\",\"contentLength\":5}'".to_owned(),
        "user_metadata = '{\"a\":1}'".to_owned(),
        format!("owner = '{OWNER}' and owner_id = '{OWNER}'"),
        "path_tokens = array['dir', 'a b']".to_owned(),
        "storage.operation() = 'storage.object.upload'".to_owned(),
        "storage.allow_only_operation('object.upload')".to_owned(),
        "auth.uid() = owner and auth.jwt() ->> 'mark' = 'here' and auth.role() = 'authenticated'".to_owned(),
        format!("{} = 'authenticated'", setting("request.jwt.claim.role")),
        format!("{} = '{OWNER}'", setting("request.jwt.claim.sub")),
        format!("{} like 'ey%.ey%'", setting("request.jwt")),
        format!("{}::jsonb ->> 'x-mark' = 'seen'", setting("request.headers")),
        format!("{} = 'POST'", setting("request.method")),
        format!("{} = '/object/b/dir/a%20b'", setting("request.path")),
        format!("{} = 'true'", setting("storage.allow_delete_query")),
        "current_user = 'authenticated'".to_owned(),
    ];
    let upload = || {
        let claims = json!({"role": "authenticated", "sub": OWNER, "mark": "here", "exp": 4_102_444_800_u32});
        request(&server, Method::POST, "/object/b/dir/a%20b")
            .bearer(&server.token(&claims))
            .header("content-type", "text/x")
            .header("x-metadata", "eyJhIjoxfQ==")
            .header("x-mark", "seen")
            .body("hello")
    };
    for check in &checks {
        let policy = format!(
            "drop policy if exists p on storage.objects; \
             create policy p on storage.objects for insert with check ({check})"
        );
        server.sql(&policy).await;
        // One check per policy, so that a failure names it.
        let response = upload().send().await;
        assert_eq!(response.status, 200, "{check}: {}", response.text());
        service(&server, Method::DELETE, "/object/b/dir/a%20b").send().await.expect(200);
        let negated = policy.replace("with check (", "with check (not (") + ")";
        server.sql(&negated).await;
        assert!(error(&upload().send().await).contains("row-level security"), "not: {check}");
    }
}

#[tokio::test]
async fn triggers_run_in_the_probe_and_in_the_final_write() {
    let server = Basalt::builder().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    // The probe's inserts are rolled back; its sequence increments are not.
    server
        .sql(
            "create policy p on storage.objects for all using (true) with check (true);
             create schema watch; grant usage on schema watch to public;
             create sequence watch.fired; grant usage on sequence watch.fired to public;
             create table watch.seen (what text, by text, uid uuid, version_is_final boolean, operation text);
             grant insert on watch.seen to public;
             create function watch.note() returns trigger language plpgsql as $$
             begin
               perform nextval('watch.fired');
               insert into watch.seen values (tg_op, current_user, auth.uid(),
                 case when tg_op <> 'DELETE' then length(new.version) = 36 end, storage.operation());
               return coalesce(new, old);
             end $$;
             create trigger note after insert or update or delete on storage.objects
               for each row execute function watch.note()",
        )
        .await;
    let fired = async || {
        let seen =
            server.sql("select what, by, uid is null, version_is_final, operation from watch.seen").await;
        let seen: Vec<String> = seen
            .iter()
            .map(|row| row.iter().map(|cell| cell.as_deref().unwrap_or("-")).collect::<Vec<_>>().join(" "))
            .collect();
        let count = server.database().value("select last_value from watch.fired").await;
        server.sql("truncate watch.seen; select setval('watch.fired', 1, false)").await;
        format!("{count}: {}", seen.join(", "))
    };
    let owner = token(&server, OWNER);
    #[rustfmt::skip]
    let cases = [
        // call                   body                  times fired: command, role, uid is null, version is final, operation
        ("POST /object/b/k",      Bytes,                "2: INSERT service_role t t storage.object.upload"),
        ("PUT /object/b/k",       Bytes,                "2: UPDATE service_role t t storage.object.upload_update"),
        ("POST /object/copy",     FromTo("k", "l"),     "2: INSERT service_role t t storage.object.copy"),
        ("POST /object/move",     FromTo("k", "m"),     "2: UPDATE service_role t t storage.object.move"),
        ("DELETE /object/b/m",    Bytes,                "1: DELETE authenticated f - storage.object.delete"),
        ("DELETE /object/b",      Prefixes(&["l", "absent"]), "1: DELETE authenticated f - storage.object.delete_many"),
    ];
    for (call, body, expected) in cases {
        send(&server, &owner, call, body).await.expect(200);
        assert_eq!(fired().await, expected, "{call} {body:?}");
    }
    // A trigger's error text is logged, not returned.
    server
        .sql("create or replace function watch.note() returns trigger language plpgsql as $$ begin raise 'no more'; end $$")
        .await;
    server.expect_log("PostgreSQL rejected a statement");
    let refused = request(&server, Method::POST, "/object/b/k").bearer(&owner).body("x").send().await;
    assert_eq!(error(&refused), "500 500 | DatabaseError | database error, code: P0001 | DatabaseError");
}
