//! Tests of a connection against a scripted server.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::database::Database;

const READY: &[u8] = b"Z\0\0\0\x05I";

/// Starts a server that accepts any login and then runs `script` on the connection.
async fn server<F>(script: impl FnOnce(TcpStream) -> F + Send + 'static) -> Database
where
    F: Future<Output = ()> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut startup = [0; 4096];
        assert!(stream.read(&mut startup).await.unwrap() > 8);
        stream.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02").await.unwrap();
        stream.write_all(READY).await.unwrap();
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[&reset_answer(Extent::Full)[..], READY].concat()).await.unwrap();
        script(stream).await;
    });
    Database::from_url(&format!("postgresql://a:b@127.0.0.1:{port}/c?sslmode=disable")).unwrap()
}

/// Reads messages until one with this tag.
async fn until_tag(stream: &mut TcpStream, wanted: u8) {
    loop {
        let tag = stream.read_u8().await.unwrap();
        let length = usize::try_from(stream.read_i32().await.unwrap()).unwrap();
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).await.unwrap();
        if tag == wanted {
            return;
        }
    }
}

async fn open(database: &Database) -> Connection {
    let limits = Limits {
        statements: 1,
        statement_metrics: StatementMetrics::new("test"),
        message_bytes: 1 << 20,
        answers: None,
    };
    Connection::open(database, &limits).await.unwrap()
}

fn send_query(connection: &mut Connection) {
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    connection.execute(key, [].into_iter(), true).unwrap();
    connection.sync();
}

/// The messages of a successful reset.
fn reset_answer(extent: Extent) -> Vec<u8> {
    let mut bytes = Vec::new();
    for tag in extent.tags() {
        bytes.extend(message(b'2', &[]));
        bytes.extend(message(b'C', &[tag.as_bytes(), b"\0"].concat()));
    }
    bytes
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// The response to a parsed, described and executed statement: one row, then ReadyForQuery.
fn answer(cell: &[u8]) -> Vec<u8> {
    let mut description = vec![0, 1, b'x', 0];
    description.extend_from_slice(&[0; 6]);
    description.extend_from_slice(&25_u32.to_be_bytes());
    description.extend_from_slice(&[0; 8]);
    let mut row = vec![0, 1];
    row.extend_from_slice(&i32::try_from(cell.len()).unwrap().to_be_bytes());
    row.extend_from_slice(cell);
    let parts = [
        message(b'1', &[]),
        message(b't', &[0, 0]),
        message(b'T', &description),
        message(b'2', &[]),
        message(b'N', b"SNOTICE\0\0"),
        message(b'D', &row),
        message(b'C', b"SELECT 1\0"),
        READY.to_vec(),
    ];
    parts.concat()
}

#[tokio::test]
async fn an_answer_may_arrive_byte_by_byte() {
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        for byte in answer(b"seen") {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    send_query(&mut connection);
    let outcome = connection.answers().await.unwrap();
    assert_eq!(outcome.answers[0][0].text(0), Some("seen"));
    assert!(connection.is_clean() && connection.is_alive());
}

#[tokio::test]
async fn a_dropped_wait_can_be_resumed() {
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        for part in answer(b"seen").chunks(7) {
            stream.write_all(part).await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    send_query(&mut connection);
    let outcome = loop {
        if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(1), connection.answers()).await {
            break outcome.unwrap();
        }
        assert!(!connection.is_clean());
    };
    assert_eq!(outcome.answers[0][0].text(0), Some("seen"));
}

#[tokio::test]
async fn a_truncated_answer_breaks_the_connection() {
    let complete = answer(b"seen");
    for length in (0..complete.len()).step_by(5) {
        let part = complete[..length].to_vec();
        let database = server(|mut stream| async move {
            until_tag(&mut stream, b'S').await;
            stream.write_all(&part).await.unwrap();
        })
        .await;
        let mut connection = open(&database).await;
        send_query(&mut connection);
        assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))), "{length}");
        assert!(!connection.is_clean() && !connection.is_alive());
        assert!(connection.answers().await.is_err());
    }
}

#[tokio::test]
async fn invalid_messages_break_the_connection() {
    let empty_row = message(b'D', &[0, 0]);
    for invalid in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[b'Z', 0, 0, 0, 0],
        &[b'D', 0xff, 0xff, 0xff, 0xff, 0, 0],
        &message(b'C', b"SELECT 1\0").repeat(2),
        &message(b'3', &[]),
        &[message(b'C', b"SELECT 1\0"), empty_row].concat(),
        &message(b'G', &[0, 0, 0]),
        &message(b'?', &[]),
        &message(b'D', &[0, 1, 0, 0, 0, 9, 0]),
    ] {
        let bytes = invalid.to_vec();
        let database = server(|mut stream| async move {
            until_tag(&mut stream, b'S').await;
            stream.write_all(&bytes).await.unwrap();
            stream.write_all(READY).await.ok();
            stream.read_u8().await.ok();
        })
        .await;
        let mut connection = open(&database).await;
        send_query(&mut connection);
        let result = tokio::time::timeout(Duration::from_secs(5), connection.answers()).await.unwrap();
        assert!(result.is_err(), "{invalid:?}");
        assert!(!connection.is_clean());
    }
}

#[tokio::test]
async fn an_oversized_message_is_rejected_before_it_is_read() {
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[b'D', 0x40, 0, 0, 0]).await.unwrap();
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    send_query(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else {
        panic!("the message must be rejected")
    };
    assert_eq!(error.code, "54000");
    assert!(!connection.is_clean());
}

#[tokio::test]
async fn a_fatal_error_sent_before_the_close_is_reported() {
    let database = server(|mut stream| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let error = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
        stream.write_all(&error).await.unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    send_query(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else {
        panic!("the fatal error must be reported")
    };
    assert_eq!((error.code.as_str(), error.is_fatal), ("57P01", true));
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn an_idle_connection_notices_a_closed_server() {
    let (gone, left) = tokio::sync::oneshot::channel::<()>();
    let database = server(|mut stream| async move {
        // The server may report a changed setting at any time.
        stream.write_all(&message(b'S', b"TimeZone\0UTC\0")).await.unwrap();
        drop(left.await);
    })
    .await;
    let mut connection = open(&database).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(connection.is_alive());
    drop(gone);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn a_server_that_writes_before_reading_causes_no_deadlock() {
    const BYTES: usize = 8 << 20;
    let database = server(|mut stream| async move {
        // Sends more than any socket buffer holds before it reads the request.
        stream.write_all(&message(b'N', &vec![b'x'; 1 << 19]).repeat(32)).await.unwrap();
        until_tag(&mut stream, b'S').await;
        stream.write_all(&answer(b"seen")).await.unwrap();
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select $1".into() };
    let body = bytes::Bytes::from(vec![b'x'; BYTES]);
    connection.execute(key, [Value::Shared(&body)].into_iter(), true).unwrap();
    connection.sync();
    let answers = tokio::time::timeout(Duration::from_secs(20), connection.answers()).await.unwrap();
    assert_eq!(answers.unwrap().answers[0][0].text(0), Some("seen"));
}

/// A server that sends one of `answers` per batch.
async fn server_sending(answers: Vec<Vec<u8>>) -> Database {
    server(|mut stream| async move {
        for answer in answers {
            until_tag(&mut stream, b'S').await;
            stream.write_all(&answer).await.unwrap();
        }
        stream.read_u8().await.ok();
    })
    .await
}

#[tokio::test]
async fn an_early_or_extra_ready_breaks_the_connection() {
    let complete = answer(b"seen");
    // ReadyForQuery without an answer, and with one statement too few.
    for early in [READY.to_vec(), [&message(b'1', &[])[..], READY].concat()] {
        let mut connection = open(&server_sending(vec![early]).await).await;
        send_query(&mut connection);
        assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))));
        assert!(!connection.is_clean());
    }
    // ReadyForQuery twice: the second would answer the next batch.
    let mut connection = open(&server_sending(vec![[&complete[..], READY].concat()]).await).await;
    send_query(&mut connection);
    connection.answers().await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn a_commit_without_command_complete_fails() {
    let mut connection = open(
        &server(|mut stream| async move {
            until_tag(&mut stream, b'Q').await;
            stream.write_all(READY).await.unwrap();
            stream.read_u8().await.ok();
        })
        .await,
    )
    .await;
    connection.open_simple("COMMIT");
    assert!(connection.answers().await.is_err());
}

fn error_with(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, text) in fields {
        body.push(*field);
        body.extend_from_slice(text);
        body.push(0);
    }
    body.push(0);
    message(b'E', &body)
}

#[tokio::test]
async fn a_statement_that_failed_before_describe_is_parsed_again() {
    let failure = error_with(&[(b'S', b"ERROR"), (b'V', b"ERROR"), (b'C', b"57014"), (b'M', b"canceled")]);
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[message(b'1', &[]), failure, READY.to_vec()].concat()).await.unwrap();
        // Expects Close, then Parse.
        assert_eq!(stream.read_u8().await.unwrap(), b'C');
        let length = usize::try_from(stream.read_i32().await.unwrap()).unwrap();
        stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'P');
        let length = usize::try_from(stream.read_i32().await.unwrap()).unwrap();
        stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[message(b'3', &[]), answer(b"seen")].concat()).await.unwrap();
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    send_query(&mut connection);
    assert_eq!(connection.answers().await.unwrap().failure.unwrap().code, "57014");
    assert!(connection.is_clean());
    send_query(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
}

#[tokio::test]
async fn a_long_notice_counts_against_the_response_budget() {
    let memory = AnswerMemory::new(200_000, metrics::Counter::noop());
    for (length, is_taken) in [(150_000, true), (250_000, false)] {
        let notice = message(b'N', &vec![b'x'; length]);
        let database = server_sending(vec![[notice, answer(b"seen")].concat()]).await;
        let mut connection = open(&database).await;
        connection.limits.answers = Some(memory.clone());
        send_query(&mut connection);
        let answered = connection.answers().await;
        assert_eq!(answered.is_ok(), is_taken, "{length}");
        drop((answered, connection));
        assert_eq!(memory.budget().in_use(), 0);
    }
}

#[tokio::test]
async fn a_very_long_error_message_is_truncated() {
    let value = vec![b'v'; 900_000];
    // As poolers send it: without the untranslated severity field.
    let failure = error_with(&[(b'S', b"FATAL"), (b'C', b"22P02"), (b'M', &value)]);
    let mut connection = open(&server_sending(vec![failure]).await).await;
    send_query(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else {
        panic!("the error must be reported")
    };
    assert!(error.is_fatal && error.message.ends_with('…'));
    assert!((256_000..263_000).contains(&error.message.len()), "{}", error.message.len());
}

#[tokio::test]
async fn too_many_parameters_is_a_client_error() {
    let mut connection = open(&server_sending(Vec::new()).await).await;
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    let refused = connection.execute(key, vec![Value::Null; 65_536].into_iter(), true);
    let Err(DriverError::Postgres(error)) = refused else { panic!("the statement must be rejected") };
    assert_eq!((error.code.as_str(), error.is_fatal), ("54000", false));
    // Its buffer holds an incomplete batch.
    assert!(!connection.is_clean());
}

#[tokio::test]
async fn a_silent_host_is_skipped() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let living = server_sending(vec![answer(b"seen")]).await;
    let (first, second) = (silent.local_addr().unwrap().port(), living.config().get_ports()[0]);
    let url =
        format!("postgresql://a:b@127.0.0.1:{first},127.0.0.1:{second}/c?sslmode=disable&connect_timeout=1");
    let mut connection = tokio::time::timeout(Duration::from_secs(5), async {
        open(&Database::from_url(&url).unwrap()).await
    })
    .await
    .unwrap();
    send_query(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
    let two = Database::from_url("postgresql://a:b@one,two/c").unwrap();
    assert_eq!(two.connect_limit(), Duration::from_secs(5));
}

/// The tags of all messages up to the next Sync.
async fn tags(stream: &mut TcpStream) -> String {
    let mut tags = String::new();
    while !tags.ends_with('S') {
        tags.push(char::from(stream.read_u8().await.unwrap()));
        let length = usize::try_from(stream.read_i32().await.unwrap()).unwrap();
        stream.read_exact(&mut vec![0; length - 4]).await.unwrap();
    }
    tags
}

#[tokio::test]
async fn a_statement_that_refers_to_a_dropped_object_is_parsed_again() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let database = server(|mut stream| async move {
        let error =
            |code: &str, text: &str| message(b'E', format!("VERROR\0C{code}\0M{text}\0\0").as_bytes());
        let gone = error("XX000", "cache lookup failed for function 16714");
        let mut seen = vec![tags(&mut stream).await];
        stream.write_all(&answer(b"seen")).await.unwrap();
        for failed in [error("22012", "division by zero"), gone] {
            seen.push(tags(&mut stream).await);
            stream.write_all(&[message(b'2', &[]), failed, READY.to_vec()].concat()).await.unwrap();
        }
        seen.push(tags(&mut stream).await);
        stream.write_all(&[message(b'3', &[]), answer(b"anew")].concat()).await.unwrap();
        sender.send(seen).unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    for answers in [1, 0, 0, 1] {
        send_query(&mut connection);
        assert_eq!(connection.answers().await.unwrap().answers.len(), answers);
    }
    let seen = receiver.await.unwrap();
    assert_eq!(
        (seen[1].as_str(), seen[2].as_str()),
        ("BES", "BES"),
        "other errors must leave the statement prepared"
    );
    assert_eq!(seen[3], format!("C{}", seen[0]));
}

/// Sends the last batch of a read, which ends with the reset.
fn send_query_and_reset(connection: &mut Connection) {
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    connection.execute(key, [].into_iter(), true).unwrap();
    connection.reset_and_sync();
}

/// [`answer`] without ReadyForQuery.
fn row() -> Vec<u8> {
    let complete = answer(b"seen");
    complete[..complete.len() - READY.len()].to_vec()
}

#[tokio::test]
async fn a_read_is_reset_within_its_batch() {
    let bytes = [row(), reset_answer(Extent::Read), READY.to_vec()].concat();
    let database = server(|mut stream| async move {
        assert_eq!(tags(&mut stream).await, format!("PDBE{}S", "BE".repeat(8)));
        for byte in bytes {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    send_query_and_reset(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
    // Nothing is left to send or to read.
    connection.reset_if_due();
    assert!(connection.reset == Reset::Done && connection.is_clean() && connection.wait_for_reset().await);
}

#[tokio::test]
async fn an_incomplete_reset_breaks_the_connection() {
    let all: Vec<&str> = Extent::Read.tags().collect();
    for index in 0..all.len() {
        let mut tags = all.clone();
        tags[index] = "SELECT 1";
        let replaced = tags.clone();
        tags.remove(index);
        for tags in [replaced, tags] {
            let messages = tags.iter().map(|tag| message(b'C', &[tag.as_bytes(), b"\0"].concat()));
            let bytes = [row(), messages.collect::<Vec<_>>().concat(), READY.to_vec()].concat();
            let mut connection = open(&server_sending(vec![bytes]).await).await;
            send_query_and_reset(&mut connection);
            assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))), "{tags:?}");
            assert!(!connection.is_clean());
        }
    }
}

#[tokio::test]
async fn an_error_is_attributed_to_the_statement_or_the_reset() {
    let error = error_with(&[(b'S', b"ERROR"), (b'V', b"ERROR"), (b'C', b"57014"), (b'M', b"canceled")]);
    let failed = |before: Vec<u8>| [before, error.clone(), READY.to_vec()].concat();
    let complete = [row(), reset_answer(Extent::Read)].concat();
    // The first command of the reset is complete, the second is bound.
    let partly = [row(), message(b'2', &[]), message(b'C', b"RESET\0"), message(b'2', &[])].concat();
    for (bytes, is_answered) in
        [(failed(message(b'2', &[])), false), (failed(partly), true), (failed(complete), false)]
    {
        let again = [reset_answer(Extent::Full), READY.to_vec()].concat();
        let mut connection = open(&server_sending(vec![bytes, again]).await).await;
        send_query_and_reset(&mut connection);
        let outcome = connection.answers().await.unwrap();
        assert_eq!(outcome.failure.is_none(), is_answered);
        // The session is reset again in either case.
        assert!(connection.is_clean() && connection.reset == Reset::Due);
        connection.reset_if_due();
        assert!(connection.wait_for_reset().await && connection.reset == Reset::Done);
    }
}

#[tokio::test]
async fn reset_after_a_write_without_prepare_skips_the_check() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'Q').await;
        stream.write_all(&[&message(b'C', b"COMMIT\0")[..], READY].concat()).await.unwrap();
        tags(&mut stream).await;
        stream.write_all(READY).await.unwrap();
        sender.send(tags(&mut stream).await).unwrap();
        stream.write_all(&[reset_answer(Extent::Write), READY.to_vec()].concat()).await.unwrap();
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    connection.open_simple("COMMIT");
    connection.answers().await.unwrap();
    connection.open_batch(false);
    connection.sync_and_reset(false);
    connection.answers().await.unwrap();
    assert!(connection.wait_for_reset().await);
    // The check would be parsed again after the simple query.
    assert_eq!(receiver.await.unwrap(), format!("{}S", "BE".repeat(10)));
}

#[tokio::test]
async fn the_check_is_parsed_again_after_a_simple_query() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let database = server(|mut stream| async move {
        let reset = [reset_answer(Extent::Full), READY.to_vec()].concat();
        let mut seen = Vec::new();
        for _ in 0..2 {
            tags(&mut stream).await;
            stream.write_all(READY).await.unwrap();
            seen.push(tags(&mut stream).await);
            stream.write_all(&reset).await.unwrap();
        }
        until_tag(&mut stream, b'Q').await;
        stream.write_all(&[&message(b'C', b"COMMIT\0")[..], READY].concat()).await.unwrap();
        seen.push(tags(&mut stream).await);
        stream.write_all(&reset).await.unwrap();
        sender.send(seen).unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    for _ in 0..2 {
        connection.open_batch(false);
        connection.sync_and_reset(true);
        connection.answers().await.unwrap();
        assert!(connection.wait_for_reset().await);
    }
    connection.open_simple("COMMIT");
    connection.answers().await.unwrap();
    connection.reset_if_due();
    assert!(connection.wait_for_reset().await);
    let prepared = format!("{}S", "BE".repeat(10));
    assert_eq!(receiver.await.unwrap(), [prepared.clone(), prepared.clone(), format!("P{prepared}")]);
}
