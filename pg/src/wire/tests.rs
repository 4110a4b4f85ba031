//! What servers may do to a connection, with a server that says what it is told to.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::database::Database;

const READY: &[u8] = b"Z\0\0\0\x05I";

/// A server that accepts every login and then does what `script` says on the connection.
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
        stream.write_all(&[&reset_answer(Extent::Whole)[..], READY].concat()).await.unwrap();
        script(stream).await;
    });
    Database::from_url(&format!("postgresql://a:b@127.0.0.1:{port}/c?sslmode=disable")).unwrap()
}

/// Reads messages up to one of this kind.
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

fn ask(connection: &mut Connection) {
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    connection.execute(key, [].into_iter(), true).unwrap();
    connection.sync();
}

/// What a server says that has nothing to complain of.
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

/// Parsed, described, bound, one row, done, ready.
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
async fn an_answer_in_single_bytes_is_the_same_answer() {
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
    ask(&mut connection);
    let outcome = connection.answers().await.unwrap();
    assert_eq!(outcome.answers[0][0].text(0), Some("seen"));
    assert!(connection.is_clean() && connection.is_alive());
}

#[tokio::test]
async fn a_dropped_wait_is_taken_up_where_it_was() {
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
    ask(&mut connection);
    let outcome = loop {
        if let Ok(outcome) = tokio::time::timeout(Duration::from_millis(1), connection.answers()).await {
            break outcome.unwrap();
        }
        assert!(!connection.is_clean());
    };
    assert_eq!(outcome.answers[0][0].text(0), Some("seen"));
}

#[tokio::test]
async fn a_truncated_answer_is_a_broken_connection() {
    let whole = answer(b"seen");
    for length in (0..whole.len()).step_by(5) {
        let part = whole[..length].to_vec();
        let database = server(|mut stream| async move {
            until_tag(&mut stream, b'S').await;
            stream.write_all(&part).await.unwrap();
        })
        .await;
        let mut connection = open(&database).await;
        ask(&mut connection);
        assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))), "{length}");
        assert!(!connection.is_clean() && !connection.is_alive());
        assert!(connection.answers().await.is_err());
    }
}

#[tokio::test]
async fn nonsense_is_a_broken_connection() {
    let row_of_nothing = message(b'D', &[0, 0]);
    for nonsense in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        &[b'Z', 0, 0, 0, 0],
        &[b'D', 0xff, 0xff, 0xff, 0xff, 0, 0],
        &message(b'C', b"SELECT 1\0").repeat(2),
        &message(b'3', &[]),
        &[message(b'C', b"SELECT 1\0"), row_of_nothing].concat(),
        &message(b'G', &[0, 0, 0]),
        &message(b'?', &[]),
        &message(b'D', &[0, 1, 0, 0, 0, 9, 0]),
    ] {
        let bytes = nonsense.to_vec();
        let database = server(|mut stream| async move {
            until_tag(&mut stream, b'S').await;
            stream.write_all(&bytes).await.unwrap();
            stream.write_all(READY).await.ok();
            stream.read_u8().await.ok();
        })
        .await;
        let mut connection = open(&database).await;
        ask(&mut connection);
        let result = tokio::time::timeout(Duration::from_secs(5), connection.answers()).await.unwrap();
        assert!(result.is_err(), "{nonsense:?}");
        assert!(!connection.is_clean());
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused_before_it_is_read() {
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[b'D', 0x40, 0, 0, 0]).await.unwrap();
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    ask(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else { panic!("refused") };
    assert_eq!(error.code, "54000");
    assert!(!connection.is_clean());
}

#[tokio::test]
async fn a_servers_last_words_are_heard() {
    let database = server(|mut stream| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let words = message(b'E', b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0");
        stream.write_all(&words).await.unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    ask(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else { panic!("last words") };
    assert_eq!((error.code.as_str(), error.is_fatal), ("57P01", true));
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn an_idle_connection_knows_when_its_server_is_gone() {
    let (gone, left) = tokio::sync::oneshot::channel::<()>();
    let database = server(|mut stream| async move {
        // A changed setting may come at any time.
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
async fn a_server_that_writes_before_it_has_read_everything_does_not_block() {
    const BYTES: usize = 8 << 20;
    let database = server(|mut stream| async move {
        // Answers first, more than any socket buffer holds, and reads then.
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

/// One answer after another, each to a batch.
async fn answering(answers: Vec<Vec<u8>>) -> Database {
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
async fn an_end_before_the_answer_is_no_answer() {
    let whole = answer(b"seen");
    // Ready for more without a word; and with one statement fewer than there were.
    for early in [READY.to_vec(), [&message(b'1', &[])[..], READY].concat()] {
        let mut connection = open(&answering(vec![early]).await).await;
        ask(&mut connection);
        assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))));
        assert!(!connection.is_clean());
    }
    // Ready twice: the second would be the answer to whatever comes next.
    let mut connection = open(&answering(vec![[&whole[..], READY].concat()]).await).await;
    ask(&mut connection);
    connection.answers().await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!connection.is_alive());
}

#[tokio::test]
async fn a_commit_without_an_answer_is_none() {
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
async fn a_statement_whose_columns_never_came_is_closed_and_parsed_anew() {
    let failure = error_with(&[(b'S', b"ERROR"), (b'V', b"ERROR"), (b'C', b"57014"), (b'M', b"canceled")]);
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'S').await;
        stream.write_all(&[message(b'1', &[]), failure, READY.to_vec()].concat()).await.unwrap();
        // Close comes first, then it is parsed once more.
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
    ask(&mut connection);
    assert_eq!(connection.answers().await.unwrap().failure.unwrap().code, "57014");
    assert!(connection.is_clean());
    ask(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
}

#[tokio::test]
async fn a_long_notice_counts_as_an_answer_does() {
    let memory = AnswerMemory::new(200_000, metrics::Counter::noop());
    for (length, is_taken) in [(150_000, true), (250_000, false)] {
        let notice = message(b'N', &vec![b'x'; length]);
        let database = answering(vec![[notice, answer(b"seen")].concat()]).await;
        let mut connection = open(&database).await;
        connection.limits.answers = Some(memory.clone());
        ask(&mut connection);
        let answered = connection.answers().await;
        assert_eq!(answered.is_ok(), is_taken, "{length}");
        drop((answered, connection));
        assert_eq!(memory.in_use(), 0);
    }
}

#[tokio::test]
async fn an_error_as_long_as_a_body_is_cut() {
    let value = vec![b'v'; 900_000];
    // As poolers send it: without the severity that is never translated.
    let failure = error_with(&[(b'S', b"FATAL"), (b'C', b"22P02"), (b'M', &value)]);
    let mut connection = open(&answering(vec![failure]).await).await;
    ask(&mut connection);
    let Err(DriverError::Postgres(error)) = connection.answers().await else { panic!("fatal") };
    assert!(error.is_fatal && error.message.ends_with('…'));
    assert!((256_000..263_000).contains(&error.message.len()), "{}", error.message.len());
}

#[tokio::test]
async fn what_the_protocol_has_no_room_for_is_the_requests_fault() {
    let mut connection = open(&answering(Vec::new()).await).await;
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    let refused = connection.execute(key, vec![Value::Null; 65_536].into_iter(), true);
    let Err(DriverError::Postgres(error)) = refused else { panic!("refused") };
    assert_eq!((error.code.as_str(), error.is_fatal), ("54000", false));
    // Half a batch stands in its buffer.
    assert!(!connection.is_clean());
}

#[tokio::test]
async fn a_host_that_says_nothing_does_not_keep_us_from_the_next() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let living = answering(vec![answer(b"seen")]).await;
    let (first, second) = (silent.local_addr().unwrap().port(), living.config().get_ports()[0]);
    let url =
        format!("postgresql://a:b@127.0.0.1:{first},127.0.0.1:{second}/c?sslmode=disable&connect_timeout=1");
    let mut connection = tokio::time::timeout(Duration::from_secs(5), async {
        open(&Database::from_url(&url).unwrap()).await
    })
    .await
    .unwrap();
    ask(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
    let two = Database::from_url("postgresql://a:b@one,two/c").unwrap();
    assert_eq!(two.connect_limit(), Duration::from_secs(5));
}

/// What comes up to the next Sync, by tag.
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
async fn a_statement_that_names_what_is_no_more_is_parsed_anew() {
    let (told, asked) = tokio::sync::oneshot::channel();
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
        told.send(seen).unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    for answers in [1, 0, 0, 1] {
        ask(&mut connection);
        assert_eq!(connection.answers().await.unwrap().answers.len(), answers);
    }
    let seen = asked.await.unwrap();
    assert_eq!(
        (seen[1].as_str(), seen[2].as_str()),
        ("BES", "BES"),
        "an error like any other leaves it prepared"
    );
    assert_eq!(seen[3], format!("C{}", seen[0]));
}

/// The last batch of a read, with the reset at its end.
fn ask_and_reset(connection: &mut Connection) {
    connection.open_batch(false);
    let key = StatementKey { scope: 0, text: "select 1".into() };
    connection.execute(key, [].into_iter(), true).unwrap();
    connection.reset_and_sync();
}

/// [`answer`] without its end.
fn row() -> Vec<u8> {
    let whole = answer(b"seen");
    whole[..whole.len() - READY.len()].to_vec()
}

#[tokio::test]
async fn a_read_is_reset_before_it_ends() {
    let whole = [row(), reset_answer(Extent::Read), READY.to_vec()].concat();
    let database = server(|mut stream| async move {
        assert_eq!(tags(&mut stream).await, format!("PDBE{}S", "BE".repeat(8)));
        for byte in whole {
            stream.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        stream.read_u8().await.ok();
    })
    .await;
    let mut connection = open(&database).await;
    ask_and_reset(&mut connection);
    assert_eq!(connection.answers().await.unwrap().answers[0][0].text(0), Some("seen"));
    // Nothing is left to send or to read.
    connection.reset_if_due();
    assert!(connection.reset == Reset::Done && connection.is_clean() && connection.has_been_reset().await);
}

#[tokio::test]
async fn a_reset_is_no_reset_where_a_command_was_replaced_or_left_out() {
    let all: Vec<&str> = Extent::Read.tags().collect();
    for index in 0..all.len() {
        let mut tags = all.clone();
        tags[index] = "SELECT 1";
        let replaced = tags.clone();
        tags.remove(index);
        for tags in [replaced, tags] {
            let told = tags.iter().map(|tag| message(b'C', &[tag.as_bytes(), b"\0"].concat()));
            let bytes = [row(), told.collect::<Vec<_>>().concat(), READY.to_vec()].concat();
            let mut connection = open(&answering(vec![bytes]).await).await;
            ask_and_reset(&mut connection);
            assert!(matches!(connection.answers().await, Err(DriverError::Connection(_))), "{tags:?}");
            assert!(!connection.is_clean());
        }
    }
}

#[tokio::test]
async fn an_error_before_in_or_behind_the_reset_is_whose_it_is() {
    let error = error_with(&[(b'S', b"ERROR"), (b'V', b"ERROR"), (b'C', b"57014"), (b'M', b"canceled")]);
    let failed = |before: Vec<u8>| [before, error.clone(), READY.to_vec()].concat();
    let whole = [row(), reset_answer(Extent::Read)].concat();
    // The first command is over, and the second bound.
    let partly = [row(), message(b'2', &[]), message(b'C', b"RESET\0"), message(b'2', &[])].concat();
    for (bytes, is_answered) in
        [(failed(message(b'2', &[])), false), (failed(partly), true), (failed(whole), false)]
    {
        let again = [reset_answer(Extent::Whole), READY.to_vec()].concat();
        let mut connection = open(&answering(vec![bytes, again]).await).await;
        ask_and_reset(&mut connection);
        let outcome = connection.answers().await.unwrap();
        assert_eq!(outcome.failure.is_none(), is_answered);
        // The session is reset once more in either case.
        assert!(connection.is_clean() && connection.reset == Reset::Due);
        connection.reset_if_due();
        assert!(connection.has_been_reset().await && connection.reset == Reset::Done);
    }
}

#[tokio::test]
async fn a_write_that_cannot_prepare_is_reset_without_the_look() {
    let (told, asked) = tokio::sync::oneshot::channel();
    let database = server(|mut stream| async move {
        until_tag(&mut stream, b'Q').await;
        stream.write_all(&[&message(b'C', b"COMMIT\0")[..], READY].concat()).await.unwrap();
        tags(&mut stream).await;
        stream.write_all(READY).await.unwrap();
        told.send(tags(&mut stream).await).unwrap();
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
    assert!(connection.has_been_reset().await);
    // The look would be parsed anew, behind the simple query.
    assert_eq!(asked.await.unwrap(), format!("{}S", "BE".repeat(10)));
}

#[tokio::test]
async fn the_look_is_prepared_anew_after_a_simple_query() {
    let (told, asked) = tokio::sync::oneshot::channel();
    let database = server(|mut stream| async move {
        let reset = [reset_answer(Extent::Whole), READY.to_vec()].concat();
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
        told.send(seen).unwrap();
    })
    .await;
    let mut connection = open(&database).await;
    for _ in 0..2 {
        connection.open_batch(false);
        connection.sync_and_reset(true);
        connection.answers().await.unwrap();
        assert!(connection.has_been_reset().await);
    }
    connection.open_simple("COMMIT");
    connection.answers().await.unwrap();
    connection.reset_if_due();
    assert!(connection.has_been_reset().await);
    let prepared = format!("{}S", "BE".repeat(10));
    assert_eq!(asked.await.unwrap(), [prepared.clone(), prepared.clone(), format!("P{prepared}")]);
}
