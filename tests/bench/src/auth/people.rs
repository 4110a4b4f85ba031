//! Users that sign up, sign in and refresh, as prepared requests.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::{JoinSet, LocalSet};

use crate::http::{self, Connection, Load};
use crate::token;

const PASSWORD: &str = "correct horse 7";

/// A user with a session.
pub(super) struct Person {
    email: String,
    refresh_token: String,
}

fn post(key: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /auth/v1{path} HTTP/1.1\r\nHost: 127.0.0.1\r\napikey: {key}\r\nContent-Type: application/json\r\n\
         X-Supabase-Api-Version: 2024-01-01\r\nUser-Agent: supabase-js-node/2.119.1\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Signs `count` people up, one after the other.
pub(super) async fn sign_up(port: u16, count: u16) -> Result<Vec<Person>> {
    let (key, mut people) = (token::anon_key(), Vec::new());
    for number in 0..count {
        let email = format!("bench{number}@example.org");
        let body =
            format!(r#"{{"email":"{email}","password":"{PASSWORD}","data":{{"organization_name":"Acme"}}}}"#);
        let (status, response) = http::once(port, &post(&key, "/signup", &body)).await?;
        if status != 200 {
            bail!("sign-up: {response}");
        }
        let refresh_token = refresh_token(&response).context("no refresh token after sign-up")?.to_owned();
        people.push(Person { email, refresh_token });
    }
    Ok(people)
}

/// One sign-in of each.
pub(super) fn sign_in_requests(people: &[Person]) -> Rc<Vec<Vec<u8>>> {
    let key = token::anon_key();
    let requests = people.iter().map(|person| {
        let body = format!(r#"{{"email":"{}","password":"{PASSWORD}"}}"#, person.email);
        post(&key, "/token?grant_type=password", &body)
    });
    Rc::new(requests.collect())
}

/// Each of `connections` users refreshes continuously with its latest token.
pub(super) async fn refresh(
    port: u16,
    people: &mut [Person],
    connections: u16,
    time: Duration,
) -> Result<Load> {
    let people = people.iter_mut().take(connections.into());
    let tokens: Vec<_> =
        people.map(|person| (Rc::new(RefCell::new(person.refresh_token.clone())), person)).collect();
    let local = LocalSet::new();
    let load = local
        .run_until(async {
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for (token, _) in &tokens {
                tasks.spawn_local(refresh_until(port, Rc::clone(token), start + time));
            }
            let mut times = http::histogram()?;
            while let Some(result) = tasks.join_next().await {
                times.add(result??).context("histograms differ")?;
            }
            anyhow::Ok(Load { times, elapsed: start.elapsed() })
        })
        .await?;
    for (token, person) in tokens {
        person.refresh_token = token.take();
    }
    Ok(load)
}

async fn refresh_until(
    port: u16,
    token: Rc<RefCell<String>>,
    end: Instant,
) -> Result<hdrhistogram::Histogram<u64>> {
    let key = token::anon_key();
    let mut connection = Connection::open(port).await?;
    let mut times = http::histogram()?;
    loop {
        let body = format!(r#"{{"refresh_token":"{}"}}"#, token.borrow());
        let request = post(&key, "/token?grant_type=refresh_token", &body);
        let start = Instant::now();
        if start >= end {
            return Ok(times);
        }
        let status = connection.exchange(&request).await?;
        let response = connection.response();
        if status != 200 {
            bail!("refresh: {response}");
        }
        times.record(u64::try_from(start.elapsed().as_nanos())?)?;
        let next = refresh_token(&response).context("no refresh token")?;
        // A session that does not rotate would be cheaper.
        if next == token.borrow().as_str() {
            bail!("the refresh token did not change");
        }
        next.clone_into(&mut token.borrow_mut());
    }
}

fn refresh_token(response: &str) -> Option<&str> {
    response.split_once(r#""refresh_token":""#)?.1.split('"').next()
}
