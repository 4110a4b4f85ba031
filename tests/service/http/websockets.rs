//! Upgraded connections: they count as connections, do not slow requests down, and are notified of a shutdown.

use std::time::{Duration, Instant};

use basalt_testkit::{Message, ProbeLimits, ProbeServer};
use futures_util::future::join_all;
use http::Method;

#[tokio::test(flavor = "multi_thread")]
async fn thousand_sockets_do_not_slow_requests_and_are_drained() {
    const EACH: usize = 500;
    let probe = ProbeServer::start(ProbeLimits::default()).await;
    let mut sockets = Vec::new();
    for _ in 0..2 * EACH {
        sockets.push(probe.websocket().await);
    }
    assert_eq!(probe.connections(), 2 * EACH, "each socket counts as a connection");

    let chatting = sockets.split_off(EACH);
    let chats = chatting.into_iter().enumerate().map(|(number, mut socket)| {
        tokio::spawn(async move {
            for round in 0..20 {
                let text = format!("{number} in round {round}");
                socket.send(text.clone()).await;
                assert_eq!(socket.next().await, Message::Text(text));
            }
            socket
        })
    });
    let chats: Vec<_> = chats.collect();
    let mut slowest = Duration::ZERO;
    while !chats.iter().all(tokio::task::JoinHandle::is_finished) {
        let begun = Instant::now();
        probe.buffered(Method::POST, "/whole").body(vec![b' '; 100_000]).send().await.expect(200);
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    for chat in chats {
        sockets.push(chat.await.unwrap());
    }
    assert!(probe.connections() >= 2 * EACH);

    let begun = Instant::now();
    let drained = probe.stop();
    let received = join_all(sockets.iter_mut().map(|socket| socket.next())).await;
    let restart = Message::Close { code: 1012, reason: String::new() };
    assert_eq!(received.iter().filter(|message| **message == restart).count(), 2 * EACH);
    assert!(!drained.is_finished(), "the drain waits for open sockets");
    drop(sockets);
    drained.await.unwrap();
    assert!(begun.elapsed() < ProbeLimits::default().drain, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn socket_holds_its_connection_slot_until_closed() {
    let probe = ProbeServer::start(ProbeLimits { max_connections: 2, ..ProbeLimits::default() }).await;
    let (first, _second) = (probe.websocket().await, probe.websocket().await);
    let third = tokio::time::timeout(Duration::from_millis(300), probe.websocket()).await;
    assert!(third.is_err(), "the limit is two connections");
    drop(first);
    let mut third = probe.websocket().await;
    third.send("echo").await;
    assert_eq!(third.next().await, Message::Text("echo".to_owned()));
}
