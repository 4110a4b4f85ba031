//! Clients that know the expected content of each response.

use std::sync::Arc;
use std::time::{Duration, Instant};

use basalt_testkit::{Basalt, Request, Response};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::tally::{Tally, Verdict};

/// The rows of one bulk insert.
pub(super) const BATCH_ROWS: i64 = 50;
/// The rows owned by the updaters, with ids from 1.
pub(super) const UPDATED: [i64; 6] = [1, 2, 3, 4, 5, 6];

/// One client.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) tally: Arc<Tally>,
    pub(super) number: i64,
    base: String,
    key: String,
    port: u16,
}

impl Worker {
    pub(super) fn new(tally: &Arc<Tally>, server: &Basalt, number: i64) -> Self {
        let (base, key) = (server.url("/rest/v1"), server.service_key().to_owned());
        Self { tally: Arc::clone(tally), number, base, key, port: server.port() }
    }

    fn get(&self, path: &str) -> Request {
        Request::new(Method::GET, format!("{}{path}", self.base)).apikey(&self.key)
    }

    fn send(&self, method: Method, path: &str, body: &Value) -> Request {
        Request::new(method, format!("{}{path}", self.base)).apikey(&self.key).json(body)
    }

    async fn judge(
        &self,
        kind: &'static str,
        request: Request,
        status: u16,
        check: impl FnOnce(&Value) -> bool,
    ) -> Verdict {
        let begun = Instant::now();
        let response = request.try_send().await;
        self.tally.judge(kind, begun, response, status, check).await
    }

    /// Reads lists, rows whose columns change concurrently, a page with its count, and a view that is replaced.
    pub(super) async fn read(self) {
        for turn in self.number.. {
            if self.tally.is_over() {
                return;
            }
            match turn % 4 {
                0 => {
                    let list = self.get("/entries?select=id,twice&order=id.desc&limit=20");
                    self.judge("list", list, 200, is_list).await;
                }
                1 => {
                    let id = turn % 100 + 1;
                    let row = self.get(&format!("/entries?id=eq.{id}"));
                    self.judge("row", row, 200, |rows| is_row(rows, id)).await;
                }
                2 => {
                    let page = self
                        .get("/owners?select=name&order=id&limit=5&offset=5")
                        .header("prefer", "count=exact");
                    let begun = Instant::now();
                    let response = page.try_send().await;
                    let ranges = |response: &Response| response.header("content-range") == "5-9/20";
                    let is_counted = response.as_ref().is_ok_and(ranges);
                    let expected: Vec<_> =
                        (6..=10).map(|n| json!({ "name": format!("owner {n}") })).collect();
                    let check = |rows: &Value| is_counted && *rows == json!(expected);
                    self.tally.judge("counted page", begun, response, 206, check).await;
                }
                _ => {
                    let view = self.get("/current_pets?order=id");
                    let expected: Vec<_> =
                        (1..=60).map(|n| json!({ "id": n, "name": format!("pet {n}") })).collect();
                    self.judge("replaced view", view, 200, |rows| *rows == json!(expected)).await;
                }
            }
        }
    }

    /// Embeds in both directions while the foreign key and a column type change.
    pub(super) async fn embed(self) {
        for turn in self.number.. {
            if self.tally.is_over() {
                return;
            }
            if turn % 2 == 0 {
                let first = turn % 18 + 1;
                let path = "/owners?select=id,name,pets(id,note)&pets.order=id&order=id";
                let owners = self.get(&format!("{path}&id=in.({first},{})", first + 1));
                let expected = json!([owner(first), owner(first + 1)]);
                self.judge("embedded list", owners, 200, |rows| *rows == expected).await;
            } else {
                let id = turn % 60 + 1;
                let pet = self.get(&format!("/pets?select=name,owners!inner(name)&id=eq.{id}"));
                let pet = pet.header("accept", "application/vnd.pgrst.object+json");
                let owner = format!("owner {}", (id - 1) % 20 + 1);
                let expected = json!({ "name": format!("pet {id}"), "owners": { "name": owner } });
                self.judge("embedded row", pet, 200, |row| *row == expected).await;
            }
        }
    }

    /// Calls a function that is replaced repeatedly but always exists, and one that is dropped and recreated.
    pub(super) async fn call(self) {
        for turn in self.number.. {
            if self.tally.is_over() {
                return;
            }
            if turn % 3 > 0 {
                let call = self.send(Method::POST, "/rpc/steady", &json!({ "n": turn }));
                self.judge("replaced function", call, 200, |response| *response == turn * 2).await;
                continue;
            }
            let begun = Instant::now();
            let response = self.send(Method::POST, "/rpc/answer", &json!({})).try_send().await;
            // The function does not exist now, according to the cache or to PostgreSQL.
            let is_gone = |body: &Value| body["code"] == "PGRST202" || body["code"] == "42883";
            let kind = "dropped and recreated function";
            if matches!(&response, Ok(response) if response.status == 404) {
                self.tally.judge(kind, begun, response, 404, is_gone).await;
            } else {
                self.tally.judge(kind, begun, response, 200, |response| *response == 42).await;
            }
        }
    }

    /// Updates its own row and checks the returned representation.
    pub(super) async fn update(self) {
        let id = self.number;
        for change in 1.. {
            if self.tally.is_over() {
                return;
            }
            self.tally.acknowledge(|all| all.changes.entry(id).or_default().1 = change);
            let path = format!("/entries?id=eq.{id}&select=id,changes");
            let update = self.send(Method::PATCH, &path, &json!({ "changes": change }));
            let update = update.header("prefer", "return=representation");
            let expected = json!([{ "id": id, "changes": change }]);
            if self.judge("update", update, 200, |rows| *rows == expected).await == Verdict::Right {
                self.tally.acknowledge(|all| all.changes.entry(id).or_default().0 = change);
            }
        }
    }

    /// Increments a counter: exactly once per acknowledgement, whatever is retried internally.
    pub(super) async fn bump(self) {
        let id = self.number;
        let mut last = 0;
        while !self.tally.is_over() {
            let call = self.send(Method::POST, "/rpc/bump", &json!({ "counter": id }));
            let mut total = 0;
            let verdict = self.judge("count", call, 200, |response| {
                total = response.as_i64().unwrap_or_default();
                total > last
            });
            let verdict = verdict.await;
            self.tally.acknowledge(|all| {
                let (certain, possible) = all.bumps.entry(id).or_default();
                *(if verdict == Verdict::Right { certain } else { possible }) += 1;
            });
            last = last.max(total);
        }
    }

    /// Inserts many rows at once; afterwards all of them or none exist.
    pub(super) async fn bulk(self) {
        for turn in 0.. {
            if self.tally.is_over() {
                return;
            }
            // Never send a batch twice: a failed write may have been committed.
            let batch = self.number * 1_000_000 + turn;
            let rows: Vec<_> = (0..BATCH_ROWS).map(|n| json!({ "batch": batch, "n": n })).collect();
            let rows = json!(rows);
            let (path, prefer, expected) = match turn % 2 {
                0 => ("/batches?select=batch,n", "return=representation", &rows),
                _ => ("/batches?columns=batch,n", "return=minimal", &Value::Null),
            };
            let write = self.send(Method::POST, path, &rows).header("prefer", prefer);
            if self.judge("bulk insert", write, 201, |response| response == expected).await == Verdict::Right
            {
                self.tally.acknowledge(|all| assert!(all.batches.insert(batch)));
            }
        }
    }

    /// Disconnects within the request head, the body, the execution, or the response.
    pub(super) async fn leave(self) {
        let key = &self.key;
        let head = format!("Host: 127.0.0.1\r\napikey: {key}\r\nContent-Type: application/json\r\n");
        let requests = [
            (
                "disconnected: before the response",
                format!("GET /rest/v1/entries?select=id&limit=1000 HTTP/1.1\r\n{head}\r\n"),
            ),
            (
                "disconnected: during a write",
                format!("POST /rest/v1/rpc/doze HTTP/1.1\r\n{head}Content-Length: 2\r\n\r\n{{}}"),
            ),
            (
                "disconnected: within the body",
                format!("POST /rest/v1/entries HTTP/1.1\r\n{head}Content-Length: 1000\r\n\r\n[{{"),
            ),
            (
                "disconnected: within the response",
                format!("GET /rest/v1/entries?limit=1000&order=id HTTP/1.1\r\n{head}\r\n"),
            ),
            ("disconnected: within the request head", "GET /rest/v1/entr".to_owned()),
        ];
        for (turn, (what, request)) in requests.iter().enumerate().cycle() {
            if self.tally.is_over() {
                return;
            }
            if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)).await {
                drop(stream.write_all(request.as_bytes()).await);
                if turn == 3 {
                    // Read only the start; closing with unread data resets the connection.
                    let mut some = [0; 512];
                    drop(tokio::time::timeout(Duration::from_secs(2), stream.read(&mut some)).await);
                } else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                self.tally.harm(what);
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

fn owner(id: i64) -> Value {
    let pets: Vec<_> =
        [id, id + 20, id + 40].map(|pet| json!({ "id": pet, "note": format!("note {pet}") })).into();
    json!({ "id": id, "name": format!("owner {id}"), "pets": pets })
}

fn is_list(rows: &Value) -> bool {
    let Some(rows) = rows.as_array() else { return false };
    let ids: Vec<i64> = rows.iter().filter_map(|row| row["id"].as_i64()).collect();
    ids.len() == 20
        && rows.len() == 20
        && ids.is_sorted_by(|a, b| a > b)
        && rows.iter().zip(&ids).all(|(row, id)| *row == json!({ "id": id, "twice": id * 2 }))
}

/// The columns change concurrently: the row has either the old or the new columns, complete.
fn is_row(rows: &Value, id: i64) -> bool {
    let changes = &rows[0]["changes"];
    let is_change = if UPDATED.contains(&id) { changes.is_i64() } else { *changes == 0 };
    let before = json!([{ "id": id, "twice": id * 2, "changes": changes }]);
    let after = json!([{ "id": id, "twice": id * 2, "changes": changes, "extra": "x" }]);
    is_change && (*rows == before || *rows == after)
}
