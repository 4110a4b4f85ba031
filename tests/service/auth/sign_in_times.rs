//! Response times do not reveal accounts (decision 0054).

use std::time::{Duration, Instant};

use super::*;

const KINDS: [(&str, &str); 8] = [
    ("argon2", "stays as sign-up made it"),
    ("bcrypt4", "extensions.crypt('secret1', extensions.gen_salt('bf', 4))"),
    ("bcrypt6", "extensions.crypt('secret1', extensions.gen_salt('bf', 6))"),
    ("bcrypt10", "extensions.crypt('secret1', extensions.gen_salt('bf', 10))"),
    (
        "scrypt",
        "'$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ=='",
    ),
    ("nopassword", "null"),
    ("banned", "extensions.crypt('secret1', extensions.gen_salt('bf', 6))"),
    ("unconfirmed", "extensions.crypt('secret1', extensions.gen_salt('bf', 6))"),
];

async fn accounts() -> Basalt {
    let server = Basalt::builder()
        .config("auth.rate_limit_otp", "0")
        .config("auth.rate_limit_token_refresh", "0")
        .config("auth.rate_limit_sign_in_failures", "0")
        .config("auth.rate_limit_email_sent", "0")
        .config("auth.mailer_autoconfirm", "false")
        .config("mail.max_frequency", "0")
        .start()
        .await;
    server.expect_log("");
    for (name, hash) in KINDS {
        let email = format!("{name}@example.org");
        let _id = super::codes::confirmed(&server, &email).await;
        if name != "argon2" {
            let set = format!("update auth.users set encrypted_password = {hash} where email = '{email}'");
            let _rows = server.sql(&set).await;
        }
    }
    let _rows =
        server.sql("update auth.users set banned_until = 'infinity' where email like 'banned@%';").await;
    let _rows =
        server.sql("update auth.users set email_confirmed_at = null where email like 'unconfirmed@%'").await;
    // A kind is measured at its first rejection, or at startup if the table has it.
    for (name, _) in KINDS {
        let _refused = sign_in(&server, &format!("{name}@example.org"), "wrong").await.expect(400);
    }
    server
}

async fn took(request: Request) -> Duration {
    let start = Instant::now();
    let response = request.send().await;
    let took = start.elapsed();
    let is_limited = response.status == 429;
    assert!(!is_limited && !response.status.is_server_error(), "{}", response.status);
    took
}

/// The probability that a response of `a` is slower than one of `b`.
fn auc(a: &[Duration], b: &[Duration]) -> f64 {
    let mut wins = 0.0;
    for left in a {
        for right in b {
            wins += match left.cmp(right) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    wins / (a.len() * b.len()) as f64
}

#[expect(clippy::print_stderr, reason = "the test's output is where the figures belong")]
fn report(line: &str) {
    eprintln!("{line}");
}

/// A kind of account, and the request to measure.
type Kind = (String, Box<dyn Fn(usize) -> Request>);

fn same(name: &str, request: Request) -> Kind {
    (name.to_owned(), Box::new(move |_sample| request.clone()))
}

/// Samples per kind: 200, or `BASALT_TEST_TIMING_SAMPLES`.
#[expect(clippy::disallowed_methods, reason = "how long a test runs is no setting of the server")]
fn samples() -> usize {
    std::env::var("BASALT_TEST_TIMING_SAMPLES").map_or(200, |text| text.parse().unwrap())
}

/// Allowed deviation of the AUC from 0.5 for two sets of `samples` equal times: four standard deviations, which one comparison in
/// 16,000 exceeds by chance. With 1,000 it is 0.05.
fn chance(samples: usize) -> f64 {
    let samples = samples as f64;
    4.0 * ((2.0 * samples + 1.0) / (12.0 * samples * samples)).sqrt()
}

async fn assert_alike(name: &str, requests: &[Kind]) {
    assert_samples_alike(samples(), name, requests).await;
}

/// Samples all requests in rotation, so that a slow moment affects all of them equally.
async fn assert_samples_alike(samples: usize, name: &str, requests: &[Kind]) {
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); requests.len()];
    for sample in 0..samples {
        for place in 0..requests.len() {
            let turn = (sample / 2 + place) % requests.len();
            let index = if sample % 2 == 0 { turn } else { requests.len() - 1 - turn };
            times[index].push(took(requests[index].1(sample)).await);
        }
    }
    let mut misjudged = Vec::new();
    for (index, (kind, _)) in requests.iter().enumerate() {
        let mut sorted = times[index].clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let auc = auc(&times[index], &times[0]);
        let line = format!("{name}: {kind}: median {median:?}, AUC against {} {auc:.3}", requests[0].0);
        report(&line);
        if (auc - 0.5).abs() > chance(samples) {
            misjudged.push(line);
        }
    }
    assert!(misjudged.is_empty(), "{misjudged:?}");
}

fn sign_ins(server: &Basalt) -> Vec<Kind> {
    let request = |email: &str, password: &str| {
        let body = json!({ "email": email, "password": password });
        client(server, Method::POST, "/token?grant_type=password").json(&body)
    };
    let mut requests = vec![same("unknown", request("nobody@example.org", "wrong"))];
    for (name, _) in KINDS {
        requests.push(same(name, request(&format!("{name}@example.org"), "wrong")));
    }
    for name in ["banned", "unconfirmed"] {
        requests.push(same(&format!("{name}, right"), request(&format!("{name}@example.org"), "secret1")));
    }
    requests
}

#[tokio::test]
async fn rejection_takes_as_long_as_slowest_hash() {
    let server = accounts().await;
    let mut seen = Vec::new();
    // A busy machine may slow one request in a round, hardly in each. Without padding the fastest took a tenth of the slowest
    // in every round.
    for _ in 0..5 {
        let mut fastest = Duration::MAX;
        let mut slowest = Duration::ZERO;
        for (_, request) in sign_ins(&server) {
            let took = took(request(0)).await;
            (fastest, slowest) = (fastest.min(took), slowest.max(took));
        }
        if slowest < fastest * 4 {
            return;
        }
        seen.push((fastest, slowest));
    }
    panic!("fastest and slowest of each round: {seen:?}");
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 samples of each kind take minutes"]
async fn rejection_times_are_equal() {
    let server = accounts().await;
    assert_alike("sign-in, idle", &sign_ins(&server)).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 samples of each kind take minutes"]
async fn rejection_times_are_equal_during_sign_ins() {
    let server = accounts().await;
    let request = client(&server, Method::POST, "/token?grant_type=password")
        .json(&json!({ "email": "load@example.org", "password": "wrong" }));
    beside(3, request, assert_alike("sign-in, beside others", &sign_ins(&server))).await;
}

/// Under full load times vary most: five times as many samples, of an unknown account and of the
/// one with the slowest hash.
#[tokio::test]
#[ignore = "cargo xtask nightly: 1,000 samples of two kinds take half an hour"]
async fn rejection_times_are_equal_during_reads() {
    let server = accounts().await;
    let read = server.get("/rest/v1/").apikey(server.secret_key());
    let mut kinds = sign_ins(&server);
    kinds.retain(|(name, _)| ["unknown", "bcrypt10"].contains(&name.as_str()));
    beside(8, read, assert_samples_alike(5 * samples(), "sign-in, beside reads", &kinds)).await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 samples of each kind take minutes"]
async fn address_response_times_are_equal() {
    let server = accounts().await;
    assert_answers_alike(&server, "idle").await;
}

#[tokio::test]
#[ignore = "cargo xtask nightly: 200 samples of each kind take minutes"]
async fn address_response_times_are_equal_during_reads() {
    let server = accounts().await;
    let read = server.get("/rest/v1/").apikey(server.secret_key());
    beside(8, read, assert_answers_alike(&server, "beside reads")).await;
}

/// Requests about an address, and about the caller's own nonce.
async fn assert_answers_alike(server: &Basalt, load: &str) {
    for path in ["/recover", "/otp", "/signup"] {
        let post = {
            let request = client(server, Method::POST, path);
            move |email: &str| request.clone().json(&json!({ "email": email, "password": "secret1" }))
        };
        let mut requests = vec![same("known", post("bcrypt10@example.org"))];
        for name in ["argon2", "bcrypt4", "nopassword"] {
            requests.push(same(name, post(&format!("{name}@example.org"))));
        }
        // If the request creates an account, each sample uses another address.
        let is_new = path != "/recover";
        let address =
            move |sample| format!("new{}of{}@example.org", if is_new { sample } else { 0 }, path.len());
        requests.push(("unknown".to_owned(), Box::new(move |sample| post(&address(sample)))));
        assert_alike(&format!("{path}, {load}"), &requests).await;
    }
    let mut requests = Vec::new();
    for (name, _) in &KINDS[..6] {
        let id = server
            .database()
            .value(&format!("select id from auth.users where email = '{name}@example.org'"))
            .await;
        let token = server.token(&json!({ "sub": id, "exp": 4_102_444_800_u32 }));
        requests.push(same(name, client(server, Method::GET, "/reauthenticate").bearer(&token)));
    }
    assert_alike(&format!("/reauthenticate, {load}"), &requests).await;
}

/// Runs `measured` while `connections` repeat `request`.
async fn beside(connections: usize, request: Request, measured: impl Future<Output = ()>) {
    let repeat = async || {
        loop {
            let _answer = request.clone().send().await;
        }
    };
    let load = futures_util::future::join_all((0..connections).map(|_| repeat()));
    tokio::select! {
        () = measured => {}
        _never = load => {}
    }
}
