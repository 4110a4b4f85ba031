//! Private channels: policies on `realtime.messages`, tokens, stored messages.

use std::time::Duration;

use basalt_testkit::Basalt;
use serde_json::{Value, json};

use super::{FAR, binary_broadcast, binary_push, expect_quiet, join, next, send, socket};

const POLICIES: &str = "
    create policy reads on realtime.messages for select to authenticated
      using (realtime.topic() = 'room' and auth.jwt() ->> 'may' like '%r%' and extension in ('broadcast', 'presence'));
    create policy writes on realtime.messages for insert to authenticated
      with check (realtime.topic() = 'room' and auth.jwt() ->> 'may' like '%w%');
    create policy raises on realtime.messages for select to authenticated
      using (realtime.topic() = 'raises' and 1 / (length(realtime.topic()) - 6) = 1)";

async fn server() -> Basalt {
    let server = Basalt::builder()
        .expect_log("RlsPolicyError")
        .expect_log("no policy allows a private channel to write")
        .start()
        .await;
    server.database().admin_sql(POLICIES).await;
    server
}

fn token(server: &Basalt, may: &str) -> String {
    server.token(&json!({ "role": "authenticated", "sub": "ann", "may": may, "exp": FAR }))
}

fn config(token: &str) -> Value {
    json!({ "config": { "private": true, "broadcast": { "ack": true } }, "access_token": token })
}

#[tokio::test]
async fn policies_control_reading_and_writing() {
    let server = server().await;
    let (mut reader, mut writer) = (socket(&server).await, socket(&server).await);
    for (topic, may) in [("room", ""), ("other", "rw"), ("raises", "rw")] {
        let refused =
            join(&mut reader, "1", &format!("realtime:{topic}"), config(&token(&server, may))).await;
        let reason =
            format!("Unauthorized: You do not have permissions to read from this Channel topic: {topic}");
        assert_eq!(refused, json!({ "status": "error", "response": { "reason": reason } }));
    }
    let anonymous = json!({ "config": { "private": true } });
    assert_eq!(join(&mut reader, "1", "realtime:room", anonymous).await["status"], "error");
    assert_eq!(join(&mut reader, "1", "realtime:room", config(&token(&server, "r"))).await["status"], "ok");
    assert_eq!(join(&mut writer, "1", "realtime:room", config(&token(&server, "rw"))).await["status"], "ok");
    // The order is kept, although the first message waits for the policy check.
    for number in ["2", "3"] {
        writer.send_binary(binary_push("1", number, "realtime:room", number, 1, b"{}")).await;
    }
    for number in ["2", "3"] {
        assert_eq!(reader.next().await, binary_broadcast("realtime:room", number, 1, b"{}"));
        let ok = json!({ "status": "ok", "response": {} });
        assert_eq!(next(&mut writer).await, json!(["1", number, "realtime:room", "phx_reply", ok]));
    }
    // A message without write permission gets no reply and is not delivered.
    reader.send_binary(binary_push("1", "4", "realtime:room", "x", 1, b"{}")).await;
    expect_quiet(&mut reader).await;
    let track = json!({ "type": "presence", "event": "track", "payload": {} });
    send(&mut reader, json!(["1", "5", "realtime:room", "presence", track])).await;
    let response = next(&mut reader).await;
    assert_eq!(
        response,
        json!(["1", "5", "realtime:room", "phx_reply", { "status": "error", "response": {} }])
    );
    expect_quiet(&mut writer).await;
    // The public channel of the same name is separate.
    let mut public = socket(&server).await;
    super::join_plain(&mut public, "1", "realtime:room").await;
    public.send_binary(binary_push("1", "2", "realtime:room", "x", 1, b"{}")).await;
    expect_quiet(&mut public).await;
    expect_quiet(&mut reader).await;
    assert_eq!(server.database().count("realtime.messages").await, 0, "policy checks leave no rows");
}

#[tokio::test]
async fn new_token_replaces_permissions_or_closes_the_channel() {
    let server = server().await;
    let mut socket = socket(&server).await;
    assert_eq!(join(&mut socket, "1", "realtime:room", config(&token(&server, "r"))).await["status"], "ok");
    let push = |token: String| json!(["1", "2", "realtime:room", "access_token", { "access_token": token }]);
    send(&mut socket, push(token(&server, "rw"))).await;
    expect_quiet(&mut socket).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    socket.send_binary(binary_push("1", "3", "realtime:room", "x", 1, b"{}")).await;
    assert_eq!(next(&mut socket).await[4]["status"], "ok");
    send(&mut socket, push(token(&server, ""))).await;
    let system = next(&mut socket).await;
    assert_eq!(system[4]["message"], "You do not have permissions to read from this Channel topic: room");
    assert_eq!(next(&mut socket).await, json!(["1", "1", "realtime:room", "phx_close", {}]));
    // An API key resets the channel to the connection's token.
    super::join_plain(&mut socket, "4", "realtime:a").await;
    send(
        &mut socket,
        json!(["4", "5", "realtime:a", "access_token", { "access_token": server.publishable_key() }]),
    )
    .await;
    expect_quiet(&mut socket).await;
    send(&mut socket, json!(["4", "5", "realtime:a", "access_token", { "access_token": "nonsense" }])).await;
    assert_eq!(next(&mut socket).await[4]["message"], "The token provided is not a valid JWT");
    assert_eq!(next(&mut socket).await[3], "phx_close");
}

/// With heartbeats and without, whatever the channel does.
#[tokio::test]
async fn expired_token_closes_the_channel_at_once() {
    const TABLE: &str = "create table public.news (id int primary key);
        grant select on public.news to authenticated; alter publication supabase_realtime add table public.news";
    let server = server().await;
    server.database().admin_sql(TABLE).await;
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap();
    let token =
        |exp: u64| server.token(&json!({ "role": "authenticated", "sub": "ann", "may": "rw", "exp": exp }));
    let private = json!({ "private": true, "presence": { "key": "ann", "enabled": true } });
    let changes = json!({ "postgres_changes": [{ "event": "*", "schema": "public", "table": "news" }] });
    let mut channels = Vec::new();
    for (topic, config, has_heartbeats) in [
        ("realtime:room", &private, false),
        ("realtime:room", &private, true),
        ("realtime:news", &changes, false),
    ] {
        channels.push((socket(&server).await, topic, config, has_heartbeats));
    }
    let expires_at = now().as_secs() + 4;
    for (socket, topic, config, _) in &mut channels {
        let joined =
            join(socket, "1", topic, json!({ "config": config, "access_token": token(expires_at) })).await;
        assert_eq!(joined["status"], "ok");
    }
    // A fresh token replaces the deadline.
    let mut renewed = socket(&server).await;
    join(&mut renewed, "1", "realtime:news", json!({ "config": changes, "access_token": token(expires_at) }))
        .await;
    let fresh = json!({ "access_token": token(u64::from(FAR)) });
    send(&mut renewed, json!(["1", "2", "realtime:news", "access_token", fresh])).await;
    for (socket, topic, _, has_heartbeats) in &mut channels {
        let text = loop {
            if *has_heartbeats && now().as_secs() < expires_at {
                send(socket, json!([null, "beat", "phoenix", "heartbeat", {}])).await;
            }
            let message = next(socket).await;
            if message[3] == "system" && message[4]["status"] == "error" {
                break message[4]["message"].as_str().unwrap().to_owned();
            }
            if *has_heartbeats {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let seconds =
            text.strip_prefix("Token has expired ").and_then(|text| text.strip_suffix(" seconds ago"));
        assert!(seconds.is_some_and(|seconds| seconds.parse::<u64>().unwrap() <= 1), "{text}");
        let close = next(socket).await;
        assert_eq!((&close[2], &close[3]), (&json!(*topic), &json!("phx_close")));
    }
    let late = now().saturating_sub(Duration::from_secs(expires_at));
    assert!(late < Duration::from_secs(3), "{late:?}");
    server.database().admin_sql("insert into public.news values (1)").await;
    while next(&mut renewed).await[3] != "postgres_changes" {}
    for (socket, ..) in &mut channels {
        expect_quiet(socket).await;
    }
    let expired = server.token(&json!({ "role": "anon", "exp": 5 }));
    let refused = join(&mut renewed, "5", "realtime:b", json!({ "access_token": expired })).await;
    let reason = refused["response"]["reason"].as_str().unwrap().to_owned();
    assert!(
        reason.starts_with("InvalidJWTToken: Token has expired ") && reason.ends_with(" seconds ago"),
        "{reason}"
    );
}

#[tokio::test]
async fn revoked_key_cannot_join_channels() {
    let server = Basalt::start().await;
    let run = |arguments: &[&str]| {
        let output = server.same_settings().arg("keys").args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let key = run(&["create", "secret", "--name", "temporary"]);
    let is_known = server.get("/rest/v1/").apikey(&key);
    server.until(Duration::from_secs(60), &is_known, |response| response.status == 200).await;
    let mut socket = server.websocket(&format!("/realtime/v1/websocket?apikey={key}&vsn=2.0.0")).await;
    super::join_plain(&mut socket, "1", "realtime:a").await;
    run(&["revoke", "temporary", "--yes"]);
    server.until(Duration::from_secs(60), &is_known, |response| response.status == 401).await;
    let refused = join(&mut socket, "2", "realtime:b", json!({ "config": {} })).await;
    assert_eq!(refused["response"]["reason"], "MalformedJWT: The token provided is not a valid JWT");
}

#[tokio::test]
async fn stored_messages_are_replayed() {
    let server = server().await;
    server
        .database()
        .admin_sql(
            "insert into realtime.messages (topic, extension, event, payload, private, inserted_at)
             select 'room', 'broadcast', 'e' || n, jsonb_build_object('n', n), true,
                    (now() at time zone 'utc') - interval '1 minute' + n * interval '1 second'
             from generate_series(1, 4) n;
             insert into realtime.messages (topic, extension, event, payload) values ('room', 'broadcast', 'public', '{}')",
        )
        .await;
    let mut socket = socket(&server).await;
    let replayed = |is_private: bool, replay: Value| {
        let config = json!({ "private": is_private, "broadcast": { "replay": replay } });
        json!({ "config": config, "access_token": token(&server, "r") })
    };
    for (is_private, replay, reason) in [
        (false, json!({ "since": 0 }), "Replay is not allowed for public channels"),
        (true, json!({ "since": "x" }), "Replay params are not valid"),
    ] {
        let refused = join(&mut socket, "1", "realtime:room", replayed(is_private, replay)).await;
        assert_eq!(refused["response"]["reason"], format!("UnableToReplayMessages: {reason}"));
    }
    let joined =
        join(&mut socket, "2", "realtime:room", replayed(true, json!({ "since": 0, "limit": 2 }))).await;
    assert_eq!(joined["status"], "ok");
    for number in [3, 4] {
        let message = next(&mut socket).await;
        let meta = message[4]["meta"].clone();
        assert_eq!(meta["replayed"], true);
        let payload = json!({ "event": format!("e{number}"), "payload": { "n": number }, "type": "broadcast", "meta": meta });
        assert_eq!(message, json!(["2", null, "realtime:room", "broadcast", payload]));
    }
    expect_quiet(&mut socket).await;
}

/// Policies that look members up in a table, as most applications do.
const MEMBERS: &str = "
    create table public.members (topic text, sub text, primary key (topic, sub));
    insert into public.members values ('team', 'ann'), ('team', 'bob'), ('team', 'eve');
    grant select on public.members to authenticated;
    create policy reads on realtime.messages for select to authenticated using (exists (
      select from public.members m where m.topic = realtime.topic() and m.sub = auth.jwt() ->> 'sub'));
    create policy writes on realtime.messages for insert to authenticated with check (exists (
      select from public.members m where m.topic = realtime.topic() and m.sub = auth.jwt() ->> 'sub'))";

/// Joins the private channel `team` as `sub`, with presence key `key`.
async fn join_team(server: &Basalt, sub: &str, key: &str) -> basalt_testkit::WebSocket {
    let mut socket = socket(server).await;
    let token = server.token(&json!({ "role": "authenticated", "sub": sub, "exp": FAR }));
    let presence = json!({ "key": key, "enabled": true });
    let config = json!({ "private": true, "presence": presence, "broadcast": { "ack": true } });
    let joined =
        join(&mut socket, "1", "realtime:team", json!({ "config": config, "access_token": token })).await;
    assert_eq!(joined["status"], "ok", "{joined}");
    assert_eq!(next(&mut socket).await[3], "presence_state");
    socket
}

fn track() -> Value {
    json!(["1", "2", "realtime:team", "presence", { "type": "presence", "event": "track", "payload": {} }])
}

#[tokio::test]
async fn removed_member_loses_the_channel_within_seconds() {
    let server = Basalt::builder().expect_log("no policy allows a private channel to write").start().await;
    server.database().admin_sql(MEMBERS).await;
    let mut ann = join_team(&server, "ann", "ann").await;
    let mut bob = join_team(&server, "bob", "bob").await;
    send(&mut bob, track()).await;
    while next(&mut bob).await[3] != "phx_reply" {}
    while next(&mut ann).await[4]["joins"].get("bob").is_none() {}

    // Eve neither writes nor tracks: her channel only receives.
    let mut eve = join_team(&server, "eve", "eve").await;
    server.database().admin_sql("delete from public.members where sub in ('bob', 'eve')").await;
    let removed_at = std::time::Instant::now();
    let (mut sent, mut left) = (0, false);
    let mut closed = [false, false];
    while !left || closed != [true, true] {
        assert!(removed_at.elapsed() < Duration::from_secs(20), "still joined: bob and eve {closed:?}");
        sent += 1;
        send(&mut ann, json!(["1", sent.to_string(), "realtime:team", "broadcast", { "type": "broadcast", "event": "e", "payload": {} }])).await;
        // Ann's reply arrives after all earlier deliveries.
        loop {
            let message = next(&mut ann).await;
            left |= message[4]["leaves"].get("bob").is_some();
            if message[3] == "phx_reply" {
                assert_eq!(message[4]["status"], "ok");
                break;
            }
        }
        for (socket, is_closed) in [&mut bob, &mut eve].into_iter().zip(&mut closed) {
            if *is_closed {
                expect_quiet(socket).await;
                continue;
            }
            send(socket, json!([null, "beat", "phoenix", "heartbeat", {}])).await;
            loop {
                let message = next(socket).await;
                if message[3] == "system" {
                    let text = "You do not have permissions to read from this Channel topic: team";
                    assert_eq!(message[4]["message"], text);
                    assert_eq!(next(socket).await, json!(["1", "1", "realtime:team", "phx_close", {}]));
                    *is_closed = true;
                }
                if message[1] == "beat" {
                    break;
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // A member that only sends: the next write after the permission cache expires is dropped.
    let mut gus = {
        server.database().admin_sql("insert into public.members values ('team', 'gus')").await;
        join_team(&server, "gus", "gus").await
    };
    server.database().admin_sql("delete from public.members where sub = 'gus'").await;
    let begun = std::time::Instant::now();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "gus still sends");
        gus.send_binary(binary_push("1", "9", "realtime:team", "x", 1, b"{}")).await;
        send(&mut gus, json!([null, "beat", "phoenix", "heartbeat", {}])).await;
        let mut is_closed = false;
        loop {
            let message = next(&mut gus).await;
            is_closed |= message[3] == "phx_close";
            if message[1] == "beat" {
                break;
            }
        }
        if is_closed {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Ways in which a policy can find out whether the caller is a member. The leases of these channels would allow
/// a removed member at least four seconds more.
const LOOKUPS: [(&str, &str); 5] = [
    ("", "exists (select from public.members m where m.topic = realtime.topic() and m.sub = auth.jwt() ->> 'sub')"),
    ("create view public.teams as select topic, sub from public.members; grant select on public.teams to authenticated",
     "auth.jwt() ->> 'sub' in (select t.sub from public.teams t where t.topic = realtime.topic())"),
    ("create function public.my_topics() returns setof text language sql stable security definer
        as $$ select topic from public.members where sub = auth.jwt() ->> 'sub' $$;
      create function public.is_mine(topic text) returns boolean language plpgsql stable
        as $$ begin return topic in (select public.my_topics()); end $$",
     "public.is_mine(realtime.topic())"),
    ("create function public.counted() returns bigint language sql stable security definer
        begin atomic select count(*) from public.members where topic = realtime.topic() and sub = auth.jwt() ->> 'sub'; end",
     "public.counted() = 1"),
    ("create table public.topics (name text primary key); insert into public.topics values ('team');
      grant select on public.topics to authenticated; alter table public.topics enable row level security;
      create policy mine on public.topics for select using (exists (
        select from public.members m where m.topic = name and m.sub = auth.jwt() ->> 'sub'))",
     "exists (select from public.topics t where t.name = realtime.topic())"),
];

#[tokio::test]
async fn removal_from_a_published_table_ends_access_at_once() {
    let server = Basalt::builder().expect_log("no policy allows a private channel to write").start().await;
    let sql = async |text: &str| server.database().admin_sql(text).await;
    sql("create table public.members (topic text, sub text, primary key (topic, sub));
         grant select on public.members to authenticated; alter publication supabase_realtime add table public.members")
        .await;
    for (definitions, lookup) in LOOKUPS {
        sql(definitions).await;
        sql(&format!(
            "insert into public.members select 'team', unnest(array['ann', 'bob', 'eve', 'gus']);
             create policy reads on realtime.messages for select to authenticated using ({lookup});
             create policy writes on realtime.messages for insert to authenticated with check ({lookup})"
        ))
        .await;
        let mut ann = join_team(&server, "ann", "ann").await;
        let mut bob = join_team(&server, "bob", "bob").await;
        send(&mut bob, track()).await;
        while next(&mut bob).await[3] != "phx_reply" {}
        while next(&mut ann).await[4]["joins"].get("bob").is_none() {}
        // Eve only receives; gus may already write.
        let mut eve = join_team(&server, "eve", "eve").await;
        let mut gus = join_team(&server, "gus", "gus").await;
        gus.send_binary(binary_push("1", "9", "realtime:team", "before", 1, b"{}")).await;
        for socket in [&mut ann, &mut bob, &mut eve] {
            while socket.next().await != binary_broadcast("realtime:team", "before", 1, b"{}") {}
        }
        while next(&mut gus).await[3] != "phx_reply" {}

        let removed_at = std::time::Instant::now();
        sql("delete from public.members where sub <> 'ann'").await;
        // Bob's presence is visible to others, so his channel closes without any message.
        assert_closed(&mut bob).await;
        while next(&mut ann).await[4]["leaves"].get("bob").is_none() {}
        gus.send_binary(binary_push("1", "10", "realtime:team", "late", 1, b"{}")).await;
        assert_closed(&mut gus).await;
        let message = json!({ "type": "broadcast", "event": "e", "payload": {} });
        send(&mut ann, json!(["1", "3", "realtime:team", "broadcast", message])).await;
        assert_eq!(next(&mut ann).await[3], "phx_reply", "gus sent nothing: {lookup}");
        assert_closed(&mut eve).await;
        assert!(removed_at.elapsed() < Duration::from_secs(4), "{:?}: {lookup}", removed_at.elapsed());
        sql("drop policy reads on realtime.messages; drop policy writes on realtime.messages; delete from public.members")
            .await;
    }
}

#[tokio::test]
async fn truncate_of_a_published_table_ends_access_at_once() {
    let server = Basalt::start().await;
    server.database().admin_sql(MEMBERS).await;
    server.database().admin_sql("alter publication supabase_realtime add table public.members").await;
    let mut bob = join_team(&server, "bob", "bob").await;
    send(&mut bob, track()).await;
    let (mut has_reply, mut is_present) = (false, false);
    while !has_reply || !is_present {
        let message = next(&mut bob).await;
        has_reply |= message[3] == "phx_reply";
        is_present |= message[4]["joins"].get("bob").is_some();
    }
    let removed_at = std::time::Instant::now();
    server.database().admin_sql("truncate public.members").await;
    assert_closed(&mut bob).await;
    // Well before the end of a lease.
    assert!(removed_at.elapsed() < Duration::from_secs(4), "{:?}", removed_at.elapsed());
}

/// Expects that a channel is closed for lack of permission, without any message before.
async fn assert_closed(socket: &mut basalt_testkit::WebSocket) {
    let message = next(socket).await;
    let text = "You do not have permissions to read from this Channel topic: team";
    assert_eq!(message[4]["message"], text, "{message}");
    assert_eq!(next(socket).await, json!(["1", "1", "realtime:team", "phx_close", {}]));
}

#[tokio::test]
async fn policy_ties_the_presence_key_to_the_user() {
    const OWN_KEY: &str =
        "create policy own_key on realtime.messages as restrictive for insert to authenticated with check (
        extension <> 'presence' or current_setting('realtime.presence_key', true) = auth.jwt() ->> 'sub')";
    let server = Basalt::builder().expect_log("no policy allows a private channel to write").start().await;
    server.database().admin_sql(MEMBERS).await;
    server.database().admin_sql(OWN_KEY).await;
    let mut ann = join_team(&server, "ann", "ann").await;
    let mut bob = join_team(&server, "bob", "ann").await;
    send(&mut bob, track()).await;
    let refused = json!({ "status": "error", "response": {} });
    assert_eq!(next(&mut bob).await, json!(["1", "2", "realtime:team", "phx_reply", refused]));
    expect_quiet(&mut ann).await;
    send(&mut ann, track()).await;
    while next(&mut bob).await[4]["joins"].get("ann").is_none() {}
}
