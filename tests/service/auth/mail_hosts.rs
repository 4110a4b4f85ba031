//! Addresses whose host takes no mail (auth.md §3.21, extended validation): asked of a name server of our own here.

use std::sync::atomic::AtomicUsize;

use tokio::net::UdpSocket;

use super::asking::{as_admin, token_of};
use super::*;

/// A name server, and how often it was asked.
struct Names {
    address: String,
    asked: Arc<AtomicUsize>,
}

/// What the zone has of a host: the answer's code, and the data of its records of the kind that was asked for.
fn zone(host: &str, kind: u8) -> (u8, Vec<Vec<u8>>) {
    let exchange = |name: &str| {
        let mut data = vec![0, 10];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            data.push(u8::try_from(label.len()).unwrap());
            data.extend_from_slice(label.as_bytes());
        }
        data.push(0);
        data
    };
    match (host, kind) {
        ("good.example", 15) => (0, vec![exchange("mx.good.example")]),
        ("null.example", 15) => (0, vec![exchange("")]),
        ("rented.example", 15) => (0, vec![exchange("mx7.throwaway.example")]),
        ("plain.example", 1) | ("six.example", 28) => (0, vec![vec![192, 0, 2, 1]]),
        ("broken.example", _) => (2, vec![]),
        ("gone.example", _) => (3, vec![]),
        _ => (0, vec![]),
    }
}

impl Names {
    async fn start() -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question).await {
                count.fetch_add(1, Ordering::Relaxed);
                let mut answer = question[..length].to_vec();
                let (mut labels, mut at) = (Vec::new(), 12);
                while answer[at] > 0 {
                    let next = at + 1 + usize::from(answer[at]);
                    labels.push(String::from_utf8_lossy(&answer[at + 1..next]).into_owned());
                    at = next;
                }
                let (code, records) = zone(&labels.join("."), answer[at + 2]);
                let kind = [answer[at + 1], answer[at + 2]];
                answer[2] = 0x81;
                answer[3] = code;
                answer[7] = u8::try_from(records.len()).unwrap();
                for data in records {
                    answer.extend_from_slice(&[0xc0, 12, kind[0], kind[1], 0, 1, 0, 0, 0, 60, 0]);
                    answer.push(u8::try_from(data.len()).unwrap());
                    answer.extend_from_slice(&data);
                }
                // Somebody else's answer, who guessed the port and not the id.
                let mut forged = answer.clone();
                (forged[0], forged[3]) = (!forged[0], 3);
                for answer in [&forged, &answer] {
                    let _sent = socket.send_to(answer, from).await.unwrap();
                }
            }
        });
        Self { address, asked }
    }
}

async fn asked_for(server: &Basalt, path: &str, email: &str) -> Response {
    let body = json!({ "email": email, "password": "secret1", "type": "signup" });
    client(server, Method::POST, path).json(&body).send().await
}

fn assert_invalid(answer: &Response, email: &str) {
    assert_error(answer, 400, "email_address_invalid", &format!("Email address \"{email}\" is invalid"));
}

fn asking(names: &str) -> Builder {
    quick()
        .config("auth.mailer_autoconfirm", "false")
        .config("auth.mailer_email_validation_extended", "true")
        .config("auth.mailer_email_validation_nameserver", names)
}

#[tokio::test]
async fn who_takes_no_mail_gets_none() {
    let names = Names::start().await;
    let server = asking(&names.address)
        .config("auth.mailer_email_validation_blocked_mx", "throwaway.example, Blocked.example")
        .start()
        .await;
    for host in ["gone.example", "empty.example", "null.example", "rented.example", "sub.blocked.example"] {
        let email = format!("ada@{host}");
        for path in ["/signup", "/otp", "/recover", "/resend"] {
            assert_invalid(&asked_for(&server, path, &email).await, &email);
        }
        let invited = as_admin(&server, Method::POST, "/invite").json(&json!({ "email": email }));
        assert_invalid(&invited.send().await, &email);
    }
    for host in ["good.example", "plain.example", "six.example", "broken.example"] {
        let _user = asked_for(&server, "/signup", &format!("ada@{host}")).await.expect(200);
    }
    assert_eq!(server.sql("select count(*) from auth.users").await, [[Some("4".to_owned())]]);
    // A verdict is kept; that a server failed is none.
    let before = names.asked.load(Ordering::Relaxed);
    let _user = asked_for(&server, "/signup", "eve@GOOD.example").await.expect(200);
    assert_eq!(names.asked.load(Ordering::Relaxed), before);

    let link = server.mailbox().wait_for("ada@good.example").await.link_path();
    let _signed_in = server.get(&link).send().await.expect(303);
    let token = token_of(&server, "ada@good.example").await;
    let changed = put_user(&server, &token, &json!({ "email": "ada@gone.example" })).await;
    assert_invalid(&changed, "ada@gone.example");
}

#[tokio::test]
async fn a_name_server_that_is_away_refuses_nobody() {
    // Bound, and deaf.
    let deaf = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let server = asking(&deaf.local_addr().unwrap().to_string()).start().await;
    let _user = asked_for(&server, "/signup", "ada@good.example").await.expect(200);
}
