//! Which policies each operation needs (storage.md §4.6), and what policies and triggers are shown (§4.7).

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

/// One policy for each command that is in `subset`.
async fn install(server: &Basalt, subset: [bool; 4]) {
    let clauses = [
        ("select", format!("using ({OWNS})")),
        ("insert", format!("with check ({OWNS})")),
        ("update", format!("using ({OWNS}) with check ({OWNS})")),
        ("delete", format!("using ({OWNS})")),
    ];
    for (is_given, (command, clause)) in subset.into_iter().zip(clauses) {
        server.sql(&format!("drop policy if exists may_{command} on storage.objects")).await;
        if is_given {
            let create = format!(
                "create policy may_{command} on storage.objects for {command} to authenticated {clause}"
            );
            server.sql(&create).await;
        }
    }
}

/// The objects `own` and `other`, with the bytes of the object `seed`.
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

/// `done`, or the error's code and message.
fn outcome(response: &Response) -> String {
    if response.status == 200 {
        return if response.text() == "[]" { "nothing".to_owned() } else { "done".to_owned() };
    }
    let body = response.json();
    format!("{} {}", body["code"].as_str().unwrap(), body["message"].as_str().unwrap())
}

#[tokio::test]
async fn each_operation_needs_its_policies() {
    let server = Basalt::builder().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    service(&server, Method::POST, "/object/b/seed").body("seed").send().await.expect(200);
    let owner = token(&server, OWNER);
    let send = async |method: Method, path: &str, upsert: bool, body: Option<serde_json::Value>| {
        let request: Request = request(&server, method, path).bearer(&owner);
        let request = if upsert { request.header("x-upsert", "true") } else { request };
        let request = match body {
            Some(body) => request.json(&body),
            None => request.body("content"),
        };
        outcome(&request.send().await)
    };
    let two = |from: &str, to: &str| Some(json!({"bucketId": "b", "sourceKey": from, "destinationKey": to}));
    for number in 0..16_u8 {
        let [select, insert, update, delete] = [1, 2, 4, 8].map(|bit| number & bit != 0);
        install(&server, [select, insert, update, delete]).await;
        let given = format!("select {select}, insert {insert}, update {update}, delete {delete}");
        let upsert_is_allowed = select && insert && update;
        let choose = |is_allowed: bool, refusal: &'static str| if is_allowed { "done" } else { refusal };
        let own = [
            ("upload", Method::POST, "/object/b/new", false, None, choose(insert, DENIED)),
            (
                "upload existing",
                Method::POST,
                "/object/b/own",
                false,
                None,
                if insert { EXISTS } else { DENIED },
            ),
            ("upsert new", Method::POST, "/object/b/new", true, None, choose(select && insert, DENIED)),
            ("put new", Method::PUT, "/object/b/new", false, None, choose(select && insert, DENIED)),
            ("upsert existing", Method::POST, "/object/b/own", true, None, choose(upsert_is_allowed, DENIED)),
            ("put existing", Method::PUT, "/object/b/own", false, None, choose(upsert_is_allowed, DENIED)),
            (
                "sign",
                Method::POST,
                "/object/upload/sign/b/new",
                false,
                Some(json!({})),
                choose(insert, DENIED),
            ),
            (
                "sign upsert",
                Method::POST,
                "/object/upload/sign/b/own",
                true,
                Some(json!({})),
                choose(upsert_is_allowed, DENIED),
            ),
            (
                "move",
                Method::POST,
                "/object/move",
                false,
                two("own", "new"),
                choose(select && update, NO_KEY),
            ),
            ("copy", Method::POST, "/object/copy", false, two("own", "new"), choose(insert, DENIED)),
            (
                "copy upsert",
                Method::POST,
                "/object/copy",
                true,
                two("own", "own"),
                choose(upsert_is_allowed, DENIED),
            ),
            ("delete", Method::DELETE, "/object/b/own", false, None, choose(select && delete, HIDDEN)),
            (
                "delete many",
                Method::DELETE,
                "/object/b",
                false,
                Some(json!({"prefixes": ["own"]})),
                choose(select && delete, "nothing"),
            ),
        ];
        let is_copy = |what: &str| what.starts_with("copy");
        for (what, method, path, upsert, body, expected) in own {
            make_objects(&server).await;
            let expected = if is_copy(what) && !select { NO_KEY } else { expected };
            assert_eq!(send(method, path, upsert, body).await, expected, "{what} with {given}");
        }
        let others = [
            (
                "upload existing",
                Method::POST,
                "/object/b/other",
                false,
                None,
                if insert { EXISTS } else { DENIED },
            ),
            ("upsert existing", Method::POST, "/object/b/other", true, None, DENIED),
            ("sign upsert", Method::POST, "/object/upload/sign/b/other", true, Some(json!({})), DENIED),
            ("move", Method::POST, "/object/move", false, two("other", "new"), NO_KEY),
            ("copy", Method::POST, "/object/copy", false, two("other", "new"), NO_KEY),
            (
                "copy upsert",
                Method::POST,
                "/object/copy",
                true,
                two("own", "other"),
                if select { DENIED } else { NO_KEY },
            ),
            ("delete", Method::DELETE, "/object/b/other", false, None, HIDDEN),
            (
                "delete many",
                Method::DELETE,
                "/object/b",
                false,
                Some(json!({"prefixes": ["other"]})),
                "nothing",
            ),
        ];
        for (what, method, path, upsert, body, expected) in others {
            make_objects(&server).await;
            assert_eq!(send(method, path, upsert, body).await, expected, "other's: {what} with {given}");
        }
    }
}

/// Policies that hold for one request only: what they compare is what they are shown.
#[tokio::test]
async fn policies_see_the_probe_and_the_request() {
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
        // Each by itself, so that a failure has a name; the object goes again.
        let answer = upload().send().await;
        assert_eq!(answer.status, 200, "{check}: {}", answer.text());
        service(&server, Method::DELETE, "/object/b/dir/a%20b").send().await.expect(200);
        let negated = policy.replace("with check (", "with check (not (") + ")";
        server.sql(&negated).await;
        assert!(error(&upload().send().await).contains("row-level security"), "not: {check}");
    }
}

#[tokio::test]
async fn triggers_fire_in_the_probe_as_the_caller_and_in_the_end_as_the_service() {
    let server = Basalt::builder().start().await;
    make_bucket(&server, &json!({"name": "b"})).await;
    // What the probe writes is undone: a sequence is not.
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
    let send = async |method: Method, path: &str, body: Option<serde_json::Value>| {
        let request = request(&server, method, path).bearer(&owner);
        let request = if let Some(body) = body { request.json(&body) } else { request.body("x") };
        request.send().await.expect(200);
        fired().await
    };
    let two = |from: &str, to: &str| Some(json!({"bucketId": "b", "sourceKey": from, "destinationKey": to}));
    assert_eq!(
        send(Method::POST, "/object/b/k", None).await,
        "2: INSERT service_role t t storage.object.upload"
    );
    assert_eq!(
        send(Method::PUT, "/object/b/k", None).await,
        "2: UPDATE service_role t t storage.object.upload_update"
    );
    assert_eq!(
        send(Method::POST, "/object/copy", two("k", "l")).await,
        "2: INSERT service_role t t storage.object.copy"
    );
    assert_eq!(
        send(Method::POST, "/object/move", two("k", "m")).await,
        "2: UPDATE service_role t t storage.object.move"
    );
    assert_eq!(
        send(Method::DELETE, "/object/b/m", None).await,
        "1: DELETE authenticated f - storage.object.delete"
    );
    let names = Some(json!({"prefixes": ["l", "absent"]}));
    assert_eq!(
        send(Method::DELETE, "/object/b", names).await,
        "1: DELETE authenticated f - storage.object.delete_many"
    );
    // Its text is for the log.
    server
        .sql("create or replace function watch.note() returns trigger language plpgsql as $$ begin raise 'no more'; end $$")
        .await;
    server.expect_log("PostgreSQL refused a statement");
    let refused = request(&server, Method::POST, "/object/b/k").bearer(&owner).body("x").send().await;
    assert_eq!(error(&refused), "500 500 | DatabaseError | database error, code: P0001 | DatabaseError");
}
